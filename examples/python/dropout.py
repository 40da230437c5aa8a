"""Dropout whose gradient draws the same random numbers again, so that only the seed is saved.

Each element has a number, its index in row-major order. The random number that decides on it is a function of only the
seed and that number, so it is the same on any device and in tiles of any size. Generator: Salmon et al., "Parallel
random numbers: as easy as 1, 2, 3", 2011."""

import tile_ops
import tile_ops.language as tl
import torch


@tl.kernel
def dropout_kernel(x, seed, out, p: float, scale: float, N: tl.Constant[int]):
    i = tl.bid(0)
    kept = tl.uniform((N,), tl.load(seed, 0, ()), i.astype(tl.int64) * N) >= p
    tl.store(out, i, tl.where(kept, tl.load(x, i, N).astype(tl.float32) * scale, 0).astype(out.dtype))


@tile_ops.op("programs::dropout(Tensor x, float p, Tensor seed) -> Tensor")
class dropout:
    """x / (1 - p) where the element's uniform random number in [0, 1) is at least p; 0 elsewhere.

    x: float32, float16 or bfloat16; p: from 0 to 1; seed: one int64, drawn by torch on the device of x, so that
    torch.manual_seed works and each replay of a captured graph draws new numbers. Gradients are differentiable. Error:
    ValueError for an invalid p, dtype or shape of the seed."""

    def outputs(x, p, seed):
        if not 0 <= p <= 1:
            raise ValueError(f"dropout: p is {p}; pass a number from 0 to 1")
        if seed.shape != (1,) or seed.dtype != torch.int64:
            raise ValueError(f"dropout: seed is {list(seed.shape)} of {seed.dtype}; pass [1] of torch.int64")
        if x.dtype not in (torch.float32, torch.float16, torch.bfloat16):
            raise ValueError(f"dropout: x is {x.dtype}; pass float32, float16 or bfloat16")
        return x.new_empty(x.shape)

    def run(x, p, seed, out):
        scale = 1 / (1 - p) if p < 1 else 0.0
        dropout_kernel[tl.cdiv(x.numel(), 2048)](x.reshape(-1), seed, out.view(-1), p, scale, 2048)

    def grad(grad_out, p, seed):
        return dropout(grad_out, p, seed), None


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, seed = torch.ones(1000, 1000, device=device, requires_grad=True), torch.randint(2**63 - 1, (1,), device=device)
    out = dropout(x, 0.25, seed)
    torch.testing.assert_close(out.mean(), torch.tensor(1.0, device=device), rtol=0, atol=0.01)
    out.sum().backward()
    torch.testing.assert_close(x.grad, out.detach())
    print("dropout of", list(x.shape), "and its gradient are there, the share of zeros:", (out == 0).double().mean().item())
