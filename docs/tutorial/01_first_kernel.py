"""A first kernel: adding two vectors, on a CPU or a GPU."""

# %%
# A kernel is a Python function that works on tiles: small arrays, whose shape is known when the kernel is compiled. It
# runs once in each block of a grid. The same kernel runs on CPU tensors and on CUDA tensors; nothing has to be
# installed for it but this package: on a GPU it is compiled in this process, on a CPU it is interpreted with SIMD.

import tile_ops.language as tl
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


@tl.kernel
def add(x, y, out, N: tl.Constant[int]):
    i = tl.bid(0)  # which block this is
    a = tl.load(x, i, N)  # tile number i of x, divided into tiles of N elements
    b = tl.load(y, i, N)
    tl.store(out, i, a + b)


# %%
# `kernel[grid](*arguments)` launches it. 1000 elements in tiles of 256 are 4 blocks, and the last one is not full:
# what lies outside x is not read, and what lies outside `out` is not written.

x, y = torch.randn(2, 1000, device=device)
out = torch.empty_like(x)
add[tl.cdiv(1000, 256)](x, y, out, 256)
assert torch.equal(out, x + y)

# %%
# The kernel was compiled for these dtypes, ranks and constants at its first launch, and is kept. Other sizes need no
# other kernel; another dtype, or another N, is compiled when it comes.

for count, dtype in [(7, torch.float32), (100_000, torch.float32), (1000, torch.bfloat16), (1000, torch.int64)]:
    x = torch.arange(count, device=device).to(dtype)
    out = torch.empty_like(x)
    add[tl.cdiv(count, 256)](x, x, out, 256)
    assert torch.equal(out, x + x)
print("compiled for", add.compiled_count, "kinds of arguments")

# %%
# Tensors may have any strides. An index is an index of tiles, not of elements or bytes; `tl.load` finds the memory.

x = torch.randn(2, 50, 3, device=device)[:, :, 1].mT  # [50, 2], neither extent contiguous


@tl.kernel
def double(x, out, R: tl.Constant[int], C: tl.Constant[int]):
    index = tl.bid(0), tl.bid(1)
    tl.store(out, index, tl.load(x, index, (R, C)) * 2)


out = torch.empty(50, 2, device=device)
double[tl.cdiv(50, 16), 1](x, out, 16, 4)
assert torch.equal(out, x * 2)

# %%
# Numbers are arguments, too. A plain one is passed at each launch; `tl.Constant` is compiled in, and may be a shape, a
# dtype, a string, or what an `if` asks for while the kernel is compiled.


@tl.kernel
def scale(x, out, by: float, negate: tl.Constant[bool], N: tl.Constant[int]):
    i = tl.bid(0)
    t = tl.load(x, i, N) * by
    if negate:
        t = -t
    tl.store(out, i, t)


x = torch.randn(300, device=device)
out = torch.empty_like(x)
scale[tl.cdiv(300, 128)](x, out, 0.5, True, 128)
assert torch.equal(out, x * -0.5)

# %%
# A mistake is an error at the launch that names the line, what was wrong, and what would be right.


@tl.kernel
def mistaken(x, out):
    t = tl.load(x, tl.bid(0), 64)
    tl.store(out, tl.bid(0), t + tl.arange(32, dtype=tl.float32))


try:
    mistaken[1](x, out)
except tl.TileTypeError as error:
    print(f"{type(error).__name__}: {error}")
else:
    raise AssertionError("64 and 32 elements do not fit")
