"""Dropout with its gradient: nothing is saved but the seed.

Element i's number is number i of the Philox generator with that seed, so backward draws the same numbers again and a result
does not depend on the grid. Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011."""

import tile_ops
import tile_ops.language as tl
import torch


@tl.kernel
def dropout_kernel(x, out, p: float, seed: int, N: tl.Constant[int]):
    i = tl.bid(0)
    kept = tl.uniform((N,), seed, i * N) >= p
    tl.store(out, i, tl.where(kept, tl.load(x, i, N).astype(tl.float32) / (1 - p), 0).astype(out.dtype))


def fill(x, p, seed, out):
    dropout_kernel[tl.cdiv(x.numel(), 2048)](x.reshape(-1), out.view(-1), p, seed, 2048)


@tile_ops.op("programs::dropout(Tensor x, float p, int seed) -> Tensor")
class dropout:
    """x / (1 - p) where a uniform number of the seed is at least p, else 0.

    x: any shape of float32, float16 or bfloat16; 0 <= p < 1; the same seed gives the same zeros.
    Error: ValueError of another p."""

    def outputs(x, p):
        if not 0 <= p < 1:
            raise ValueError(f"dropout: p is {p}; pass a number from 0 up to, not including, 1")
        return x.new_empty(x.shape)

    def run(x, p, seed, out):
        fill(x, p, seed, out)

    class grad:
        def outputs(x):
            return x.new_empty(x.shape)

        def run(grad_out, p, seed, grad_x):
            fill(grad_out, p, seed, grad_x)


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.ones(1000, 1000, device=device, requires_grad=True)
    out = dropout(x, 0.25, 7)
    assert abs((out == 0).float().mean().item() - 0.25) < 0.01
    out.sum().backward()
    torch.testing.assert_close(x.grad, out.detach())
    print("dropout of", list(x.shape), "keeps", (out != 0).float().mean().item())
