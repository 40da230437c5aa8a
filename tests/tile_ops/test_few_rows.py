"""Few rows on many threads are parted into smaller tiles: that changes no bit of what comes out."""

import pytest
import tile_ops  # noqa: F401
import torch
from threads import with_torch_threads

tile = torch.ops.tile
# Of these rows a tile holds 256, 64, 32, 8 or 1, or an eighth as many.
SHAPES = [(512, 128), (65, 1000), (64, 512), (32, 4096), (9, 30000), (3, 40, 2, 1024), (1030, 100), (40, 1024)]


def with_gradients(function, x, *parameters):
    leaves = [t.detach().requires_grad_() for t in (x, *parameters)]
    out = function(*leaves)
    return [out, *torch.autograd.grad(out, leaves, torch.ones_like(out).cumsum(-1).remainder(7))]


CALLS = {
    "softmax": lambda x, w, b: with_gradients(lambda x: tile.softmax(x, -1), x),
    "log_softmax": lambda x, w, b: with_gradients(lambda x: tile.log_softmax(x, -1), x),
    "layer_norm": lambda x, w, b: with_gradients(lambda *args: tile.layer_norm(args[0], w.shape, *args[1:]), x, w, b),
    "rms_norm": lambda x, w, b: with_gradients(lambda x, w: tile.rms_norm(x, w.shape, w), x, w),
    "add_rms_norm": lambda x, w, b: tile.add_rms_norm(x, x.flip(0), w.shape, w),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)))
@pytest.mark.parametrize("name", CALLS)
def test_same_bits(name, shape, dtype):
    x, w, b = (torch.randn(s).to(dtype) for s in (shape, shape[-1:], shape[-1:]))
    alone, together = with_torch_threads((1, 16), lambda: CALLS[name](x, w, b))
    for ours, expected in zip(together, alone, strict=True):
        assert torch.equal(ours, expected)
