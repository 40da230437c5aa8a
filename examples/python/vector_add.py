"""Sum of two vectors with its gradients: the shortest program.

A block takes a tile of elements; what lies outside is neither read nor written."""

import tile_ops
import tile_ops.language as tl
import torch


@tl.kernel
def add_kernel(x, y, out, N: tl.Constant[int]):
    i = tl.bid(0)
    tl.store(out, i, tl.load(x, i, N) + tl.load(y, i, N))


@tile_ops.op("programs::vector_add(Tensor x, Tensor y) -> Tensor")
class vector_add:
    """x + y. x, y: [n] of one dtype that has +. Error: ValueError where shapes or dtypes differ."""

    def outputs(x, y):
        if x.dim() != 1 or x.shape != y.shape or x.dtype != y.dtype:
            raise ValueError(
                f"vector_add: x is {list(x.shape)} of {x.dtype}, y {list(y.shape)} of {y.dtype}; pass two [n] of one dtype"
            )
        return x.new_empty(x.shape)

    def run(x, y, out):
        add_kernel[tl.cdiv(len(x), 2048)](x, y, out, 2048)

    def grad(grad_out):
        return grad_out, grad_out


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, y = (torch.randn(1_000_003, device=device, requires_grad=True) for _ in range(2))
    torch.testing.assert_close(vector_add(x, y), x + y)
    vector_add(x, y).sum().backward()
    print("sum of", len(x), "elements and its gradients are there:", x.grad.mean().item())
