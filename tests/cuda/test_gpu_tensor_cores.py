"""Products on a GPU of operands that are computed in registers; tests/prims has those of arrays."""

import on_device
import pytest
import torch
from prims.test_products import ORDERS, each_pair
from test_tensor_cores import computed


@each_pair
@pytest.mark.parametrize("transposed", ORDERS)
def test_operands_from_registers(device, pair, transposed):
    for shape in ((128, 64, 64), (16, 16, 32)):
        text, grid, arrays, expected = computed(pair, shape, transposed, False)
        on_device.run_ir(device, text, grid, arrays)
        assert torch.equal(arrays[2].double(), expected)
