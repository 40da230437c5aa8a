"""Kernels and operators that a type checker reads: # E: an error that it must find, # R: what it must infer."""

from typing import reveal_type

import tile_ops
import tile_ops.cutile as ct
import tile_ops.language as tl
import torch


@tl.kernel
def scaled(x: tl.Array, out: tl.Array, scale: float, N: tl.Constant[int]) -> None:
    i = tl.bid(0)
    t = tl.load(x, i, N, padding_mode=tl.PaddingMode.ZERO).astype(tl.float32)
    reveal_type(t)  # R: tile_ops.language.Tile
    reveal_type(N)  # R: int
    reveal_type(x.shape[0])  # R: tile_ops.language.Scalar
    if tl.max(t) > 3:
        t = t - tl.sum(t * scale, axis=0, keepdims=True) / x.shape[0]
    for k in range(tl.num_tiles(x, 0, N)):
        t += 1 - tl.load(x, (k,), (N,))
    view = x.tiled_view((16,))
    view.store(0, view.load((i,)))
    x.get_raw_memory().store_offset(tl.arange(8, dtype=tl.int32), 0)
    tl.store(out, i, -t[None, :].reshape((N,)))
    tl.exp("one")  # E: Argument 1 to "exp" has incompatible type "str"
    tl.load(x)  # E: Missing positional arguments "index", "shape" in call to "load"
    tl.store(out, i, t, padding=0)  # E: Unexpected keyword argument "padding" for "store"
    x.shapes  # E: "Array" has no attribute "shapes"


x = torch.randn(5)
scaled[1](x, x, 1.0, 8)
scaled.launch((1, 1), x, x, 1.0, 8)
reveal_type(scaled.tune([{"N": 8}], key=["x"]))  # R: tile_ops.language.tuning.tuned.Tuned
ct.launch(0, (1,), scaled, (x, x, 1.0, 8))
reveal_type(ct.sum)  # R: axis: int | tuple[int, ...] | None


@tl.kernel(num_ctas=2)
def hinted(x: tl.Array) -> None: ...


reveal_type(hinted)  # R: tile_ops.language.kernel


@tile_ops.elementwise("typed::double(Tensor x) -> Tensor")
def double(x: tl.Tile) -> tl.Tile:
    return x * 2


reveal_type(double)  # R: TorchOp
reveal_type(tile_ops.matmul(x, x, activation="gelu"))  # R: Tensor
tile_ops.softmax(x)  # E: Missing positional argument "dim" in call to "softmax"
