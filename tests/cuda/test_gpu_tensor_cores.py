"""Products on a GPU of operands that are computed in registers; tests/prims has those of arrays."""

import on_device
import pytest
import test_wgmma_tf32
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


def test_copies_round_float32_to_tf32(device):
    """To nearest even, as registers do: on warpgroup instructions, where the chip has them."""
    text, grid, arrays, *expected = test_wgmma_tf32.problem((200, 136, 32), (128, 64, 32))
    on_device.run_ir(device, text, grid, arrays)
    test_wgmma_tf32.check_values(arrays[2], *expected)


@pytest.mark.parametrize("order", ["NN", "NT", "TN"])
def test_operators_round_float32_where_torch_allows_it(device, order):
    """Also where operands are copied in parts first."""
    x, y = (t.to(device) for t in test_wgmma_tf32.operands(4096, 4096, 4096))
    with test_wgmma_tf32.precision("high"):
        out = torch.ops.tile.matmul(*test_wgmma_tf32.in_order(x, y, order))
    a, b = test_wgmma_tf32.to_tf32(x), test_wgmma_tf32.to_tf32(y)
    # Tensor cores cut off low bits of the sums, one way.
    assert ((out.double() - a.double() @ b.double()).abs() <= 4 * test_wgmma_tf32.bound(x, y)).all()


@pytest.mark.parametrize("columns", [1, 67, 130, 1031, 4099])
def test_products_with_any_number_of_columns(device, columns):
    """Also of rows that lie amid other elements, which stay."""
    for dtype in (torch.bfloat16, torch.float16):
        x, w = (torch.randn(rows, 264, device=device, dtype=dtype) for rows in (1030, columns))
        memory = torch.full((1032, columns + 3), 7.0, device=device, dtype=dtype)
        out = memory[1:-1, 1:-2]
        torch.ops.tile._matmul_into(x, w.t(), [], [out], epilogue="acc")
        expected = x.double() @ w.double().t()
        torch.testing.assert_close(out.double(), expected, rtol=2**-8, atol=2**-8 * expected.abs().max().item() / 8)
        torch.testing.assert_close(torch.ops.tile.matmul(x, w.t()), out, rtol=0, atol=0)
        out.fill_(7.0)
        assert bool((memory == 7).all())
