"""Under autocast on a GPU results have the dtype of torch's own operators. Fake tensors show it without one."""

import pytest
import tile_ops
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode


def indices(x, *shape, dtype=torch.int64):
    return FakeTensor(x.fake_mode, torch.empty(shape, dtype=dtype, device="meta"), x.device)


def weight(x):
    return indices(x, 5, 8, dtype=x.dtype)


CALLS = {
    "softmax": (lambda x: tile_ops.softmax(x, -1), lambda x: torch.softmax(x, -1)),
    "log_softmax": (lambda x: tile_ops.log_softmax(x, -1), lambda x: torch.log_softmax(x, -1)),
    "rms_norm": (lambda x: tile_ops.rms_norm(x, [8]), lambda x: F.rms_norm(x, [8])),
    "add_rms_norm": (lambda x: tile_ops.add_rms_norm(x, x, [8])[0], lambda x: F.rms_norm(x + x, [8])),
    "layer_norm": (lambda x: tile_ops.layer_norm(x, [8]), lambda x: F.layer_norm(x, [8])),
    "swiglu": (lambda x: tile_ops.swiglu(x, x), lambda x: F.silu(x) * x),
    "geglu": (lambda x: tile_ops.geglu(x, x), lambda x: F.gelu(x) * x),
    "group_norm": (lambda x: tile_ops.group_norm(x, 2), lambda x: F.group_norm(x, 2)),
    "cross_entropy": (
        lambda x: tile_ops.cross_entropy(x, indices(x, 2, 8, 8)),
        lambda x: F.cross_entropy(x, indices(x, 2, 8, 8)),
    ),
    "linear_cross_entropy": (
        lambda x: tile_ops.linear_cross_entropy(x, weight(x), indices(x, 2, 4, 8)),
        lambda x: F.cross_entropy(F.linear(x, weight(x)).flatten(0, -2), indices(x, 64)),
    ),
    "embedding": (lambda x: tile_ops.embedding(weight(x), indices(x, 3)), lambda x: F.embedding(indices(x, 3), weight(x))),
    "dropout": (lambda x: tile_ops.dropout(x), lambda x: F.dropout(x)),
    "matmul": (lambda x: tile_ops.matmul(x, x.mT), lambda x: torch.matmul(x, x.mT)),
    "gated_matmul": (
        lambda x: tile_ops.gated_matmul(x, *[x.select(0, 0).select(0, 0)] * 2),
        lambda x: torch.matmul(x, x.select(0, 0).select(0, 0)) * 2,
    ),
    "attention": (lambda x: tile_ops.attention(x, x, x)[0], lambda x: F.scaled_dot_product_attention(x, x, x)),
}


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
