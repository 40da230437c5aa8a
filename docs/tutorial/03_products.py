"""Products of matrices: `mma`, strided views, choosing sizes of tiles and measuring."""

# %%
# A block computes a tile of the product and loops over the inner extent. `tl.mma(a, b, c)` is a b + c: on tensor cores
# for float16 and bfloat16, with sums in float32. Outside a and b are zeros, which add nothing.

import os
import time

import tile_ops.language as tl
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
ZERO = tl.PaddingMode.ZERO


@tl.kernel
def matmul(a, b, out, TM: tl.Constant[int], TN: tl.Constant[int], TK: tl.Constant[int]):
    i, j = tl.bid(0), tl.bid(1)
    total = tl.zeros((TM, TN), tl.float32)
    for k in range(tl.num_tiles(a, 1, (TM, TK))):
        left = tl.load(a, (i, k), (TM, TK), padding_mode=ZERO)
        total = tl.mma(left, tl.load(b, (k, j), (TK, TN), padding_mode=ZERO), total)
    tl.store(out, (i, j), total.astype(out.dtype))


def grid(a, b, out, TM, TN, TK):
    return tl.cdiv(out.shape[0], TM), tl.cdiv(out.shape[1], TN)


a, b = torch.randn(300, 200, device=device), torch.randn(200, 400, device=device)
out = torch.empty(300, 400, device=device)
matmul[grid](a, b, out, 64, 64, 32)
torch.testing.assert_close(out, a @ b, rtol=1e-4, atol=1e-4)

# %%
# A grid may be a function of the arguments, as above. Transposed matrices are views with other strides: the same kernel
# takes them, without a copy.

left = torch.randn(200, 300, device=device)
matmul[grid](left.mT, b, out, 64, 64, 32)
torch.testing.assert_close(out, left.mT @ b, rtol=1e-4, atol=1e-4)

# %%
# Which tiles are best depends on the device and the sizes. `tune` compiles the configurations in parallel, measures
# each, and keeps the best on disk by its key, so that the next process need not measure. TILE_AUTOTUNE=0 takes the
# first without measuring, TILE_AUTOTUNE_PRINT=1 prints the table.

os.environ["TILE_AUTOTUNE_PRINT"] = "1"
if device == "cuda":
    configurations = [dict(TM=m, TN=n, TK=64) for m in (64, 128) for n in (64, 128, 256)]
else:
    configurations = [dict(TM=m, TN=n, TK=k) for m in (32, 64) for n in (32, 64) for k in (32, 64)]
tuned = matmul.tune(configurations, key=lambda a, b, out: (a.shape, b.shape, a.dtype))

a, b = torch.randn(2, 512, 512, device=device).to(torch.bfloat16 if device == "cuda" else torch.float32)
out = torch.empty_like(a)
tuned[grid](a, b, out)
torch.testing.assert_close(out, a @ b, rtol=2e-2 if device == "cuda" else 1e-4, atol=1e-1 if device == "cuda" else 1e-4)

# %%
# Measure the kernel and its alternative alternately, and look at the ratio: machines change their speed over time.


def seconds(function, rounds=20):
    function()
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(rounds):
        function()
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / rounds


ratios = []
for _ in range(5):
    ratios.append(seconds(lambda: torch.mm(a, b, out=out)) / seconds(lambda: tuned[grid](a, b, out)))
print(f"torch takes {sorted(ratios)[2]:.2f} of our time")
