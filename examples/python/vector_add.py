"""Sum of two vectors, by tiles and element by element.

A block adds one tile. `gather` and `scatter` take an index for each element instead, so they support any pattern."""

import tile_ops
import tile_ops.language as tl
import torch


@tl.kernel
def add_kernel(x, y, out, N: tl.Constant[int]):
    i = tl.bid(0)
    tl.store(out, i, (tl.load(x, i, N) + tl.load(y, i, N)).astype(out.dtype))


@tl.kernel
def gather_kernel(x, y, out, N: tl.Constant[int]):
    at = tl.bid(0) * N + tl.arange(N, dtype=tl.int64)
    tl.scatter(out, at, (tl.gather(x, at) + tl.gather(y, at)).astype(out.dtype))


def check(name, x, y):
    if x.shape != y.shape or x.dtype != y.dtype or x.dtype == torch.bool or x.is_complex():
        raise ValueError(f"{name}: x is {x.dtype} {list(x.shape)}, y {y.dtype} {list(y.shape)}; "
                         "pass two tensors of one shape and dtype, float or integer")  # fmt: skip
    return x.new_empty(x.shape)


def launch(kernel, x, y, out):
    n = 8192 if x.is_cpu else 1024
    kernel[tl.cdiv(x.numel(), n)](x.reshape(-1), y.reshape(-1), out.view(-1), n)


@tile_ops.op("programs::vector_add(Tensor x, Tensor y) -> Tensor")
class vector_add:
    """x + y.

    x, y: of one shape, and of one dtype, float or integer. Error: ValueError if they differ."""

    def outputs(x, y):
        return check("vector_add", x, y)

    def run(x, y, out):
        launch(add_kernel, x, y, out)

    def grad(grad_out):
        return grad_out, grad_out


@tile_ops.op("programs::vector_add_gather(Tensor x, Tensor y) -> Tensor")
class vector_add_gather:
    """x + y, with an index for each element; otherwise like vector_add."""

    def outputs(x, y):
        return check("vector_add_gather", x, y)

    def run(x, y, out):
        launch(gather_kernel, x, y, out)

    def grad(grad_out):
        return grad_out, grad_out


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, y = torch.randn(2, 1_000_003, device=device, requires_grad=True)
    torch.testing.assert_close(vector_add(x, y), x + y, rtol=0, atol=0)
    torch.testing.assert_close(vector_add_gather(x, y), x + y, rtol=0, atol=0)
    print(len(x), "sums are those of torch")
