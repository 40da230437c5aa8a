"""SwiGLU, silu(gate) * up, with its gradients.

A block takes a tile of the rows; backward, one pass over the inputs computes both gradients, and only the inputs are
saved. Halves of one tensor, `x.chunk(2, -1)`, are read without a copy. Formula: Shazeer, "GLU variants improve
Transformer", 2020."""

import tile_ops
import tile_ops.language as tl
import torch


@tl.kernel
def forward_kernel(gate, up, out, R: tl.Constant[int], C: tl.Constant[int]):
    at = tl.bid(0), tl.bid(1)
    g, u = tl.load(gate, at, (R, C)).astype(tl.float32), tl.load(up, at, (R, C)).astype(tl.float32)
    tl.store(out, at, (tl.silu(g) * u).astype(out.dtype))


@tl.kernel
def backward_kernel(grad, gate, up, grad_gate, grad_up, R: tl.Constant[int], C: tl.Constant[int]):
    at = tl.bid(0), tl.bid(1)
    g, u = tl.load(gate, at, (R, C)).astype(tl.float32), tl.load(up, at, (R, C)).astype(tl.float32)
    d, s = tl.load(grad, at, (R, C)).astype(tl.float32), tl.sigmoid(g)
    tl.store(grad_gate, at, (d * u * s * (1 + g * (1 - s))).astype(grad_gate.dtype))
    tl.store(grad_up, at, (d * g * s).astype(grad_up.dtype))


def launch(kernel, *tensors):
    """Launches the kernel over tensors of one shape, as matrices, in tiles of 2048 elements."""
    matrices = [x.reshape(x.shape[:-1].numel(), x.shape[-1]) for x in map(torch.atleast_1d, tensors)]
    rows, columns = matrices[0].shape
    width = min(1 << max(columns - 1, 0).bit_length(), 2048)
    kernel[tl.cdiv(rows, 2048 // width), tl.cdiv(columns, width)](*matrices, 2048 // width, width)


@tile_ops.op("programs::swiglu(Tensor gate, Tensor up) -> Tensor")
class swiglu:
    """silu(gate) * up, where silu(x) is x / (1 + exp(-x)).

    gate, up: of one shape and one dtype, float32, float16 or bfloat16; computed in float32. Error: ValueError if shapes
    or dtypes differ or do not fit."""

    def outputs(gate, up):
        if gate.shape != up.shape:
            raise ValueError(f"swiglu: gate is {list(gate.shape)}, up {list(up.shape)}; pass two of one shape")
        if gate.dtype not in (torch.float32, torch.float16, torch.bfloat16) or up.dtype != gate.dtype:
            raise ValueError(f"swiglu: gate is {gate.dtype}, up {up.dtype}; pass one of float32, float16 and bfloat16")
        return gate.new_empty(gate.shape)

    def run(gate, up, out):
        launch(forward_kernel, gate, up, out)

    class grad:
        def outputs(gate, up):
            return gate.new_empty(gate.shape), up.new_empty(up.shape)

        def run(grad_out, gate, up, grad_gate, grad_up):
            launch(backward_kernel, grad_out, gate, up, grad_gate, grad_up)


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(4, 100, 2000, device=device, requires_grad=True)
    gate, up = x.chunk(2, -1)
    torch.testing.assert_close(swiglu(gate, up), torch.nn.functional.silu(gate) * up)
    swiglu(gate, up).square().sum().backward()
    print("silu(gate) * up of", list(gate.shape), "and its gradients are there:", x.grad.norm().item())
