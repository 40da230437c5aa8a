"""Under autocast on a GPU results have the dtype of torch's own operators. Fake tensors show it without one."""

import operators
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode


CALLS = operators.rows_with("autocast")


@pytest.fixture
def autocast():
    """torch.autocast("cuda") turns itself off where there is no GPU."""
    torch.set_autocast_enabled("cuda", True)
    torch.set_autocast_dtype("cuda", torch.bfloat16)
    yield
    torch.set_autocast_enabled("cuda", False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", CALLS)
def test_the_dtype_is_that_of_torch(name, dtype, autocast):
    with FakeTensorMode() as mode:
        x = FakeTensor(mode, torch.empty(2, 4, 8, 8, dtype=dtype, device="meta"), torch.device("cuda:0"))
        ours, theirs = (call(x) for call in CALLS[name])
    assert ours.dtype == theirs.dtype
