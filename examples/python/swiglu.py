"""SwiGLU, the gate of many feed-forward layers, with its gradients: silu(gate) * up.

A block takes a stretch of elements; backward computes both gradients from one reading of the inputs.
Formula: Shazeer, "GLU variants improve transformer", 2020."""

import tile_ops
import tile_ops.language as tl
import torch


@tl.kernel
def forward_kernel(gate, up, out, N: tl.Constant[int]):
    i = tl.bid(0)
    g = tl.load(gate, i, N).astype(tl.float32)
    tl.store(out, i, (g * tl.sigmoid(g) * tl.load(up, i, N)).astype(out.dtype))


@tl.kernel
def backward_kernel(grad, gate, up, grad_gate, grad_up, N: tl.Constant[int]):
    i = tl.bid(0)
    d, g = tl.load(grad, i, N).astype(tl.float32), tl.load(gate, i, N).astype(tl.float32)
    s = tl.sigmoid(g)
    tl.store(grad_gate, i, (d * tl.load(up, i, N) * s * (1 + g * (1 - s))).astype(grad_gate.dtype))
    tl.store(grad_up, i, (d * g * s).astype(grad_up.dtype))


@tile_ops.op("programs::swiglu(Tensor gate, Tensor up) -> Tensor")
class swiglu:
    """gate * sigmoid(gate) * up. gate, up: tensors of one shape and dtype, float32, float16 or bfloat16; computed in float32.
    Error: ValueError where shapes or dtypes differ."""

    def outputs(gate, up):
        if gate.shape != up.shape or gate.dtype != up.dtype:
            raise ValueError(
                f"swiglu: gate is {list(gate.shape)} of {gate.dtype}, up {list(up.shape)} of {up.dtype}; "
                "pass two tensors of one shape and dtype"
            )
        return gate.new_empty(gate.shape)

    def run(gate, up, out):
        arrays = (each.reshape(-1) for each in (gate, up, out))
        forward_kernel[tl.cdiv(out.numel(), 2048)](*arrays, 2048)

    class grad:
        def outputs(gate, up):
            return gate.new_empty(gate.shape), up.new_empty(up.shape)

        def run(grad_out, gate, up, grad_gate, grad_up):
            arrays = (each.reshape(-1) for each in (grad_out, gate, up, grad_gate, grad_up))
            backward_kernel[tl.cdiv(gate.numel(), 2048)](*arrays, 2048)


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    gate, up = (torch.randn(50, 1100, device=device, requires_grad=True) for _ in range(2))
    torch.testing.assert_close(swiglu(gate, up), torch.nn.functional.silu(gate) * up)
    swiglu(gate, up).square().sum().backward()
    print("SwiGLU of", list(gate.shape), "and its gradients are there:", gate.grad.norm().item())
