"""Torch operators from Python: elementwise, reductions and kernels, with gradients and under torch.compile."""

# %%
# An expression of numbers is an operator on tensors of any shapes: broadcast and promoted as torch's are, with the
# expression's derivative as its gradient, each compiled into one kernel.

import tile_ops
import tile_ops.language as tl
import torch

device = "cuda" if torch.cuda.is_available() else "cpu"


@tile_ops.elementwise("tutorial::soft_cap(Tensor x, float cap=30.0) -> Tensor")
def soft_cap(x, cap):
    return cap * tl.tanh(x / cap)


x = torch.randn(5, 7, device=device, requires_grad=True)
torch.testing.assert_close(soft_cap(x, 2.0), 2 * torch.tanh(x / 2))
soft_cap(x, 2.0).sum().backward()
torch.testing.assert_close(x.grad, 1 - torch.tanh(x.detach() / 2) ** 2)

# %%
# A reduction says what becomes of an element, how results combine, and what is made of the total.


@tile_ops.reduction("tutorial::norm(Tensor x) -> Tensor", "sum", finish=lambda total, count: tl.sqrt(total))
def norm(x):
    return x * x


torch.testing.assert_close(norm(x, dim=1), torch.linalg.vector_norm(x, dim=1))

# %%
# A kernel of one's own becomes an operator with `op`: the schema, what it allocates, what it runs, and its gradient. Here
# RMS norm: forward keeps each row's 1 / root mean square, backward is a kernel again. Each part takes what it names.


@tl.kernel
def forward_kernel(x, w, out, rstd, eps: float, N: tl.Constant[int]):
    row = tl.bid(0)
    t = tl.load(x, (row, 0), (1, N), padding_mode=tl.PaddingMode.ZERO).astype(tl.float32)
    r = tl.rsqrt(tl.sum(t * t) / x.shape[1] + eps)
    tl.store(rstd, row, r)
    tl.store(out, (row, 0), (t * r * tl.load(w, 0, N)).astype(out.dtype))


@tl.kernel
def backward_kernel(grad, x, w, rstd, grad_x, N: tl.Constant[int]):
    row = tl.bid(0)
    r = tl.load(rstd, row, ())
    normal = tl.load(x, (row, 0), (1, N), padding_mode=tl.PaddingMode.ZERO).astype(tl.float32) * r
    g = tl.load(grad, (row, 0), (1, N), padding_mode=tl.PaddingMode.ZERO).astype(tl.float32) * tl.load(w, 0, N)
    slope = (g - normal * (tl.sum(g * normal) / x.shape[1])) * r
    tl.store(grad_x, (row, 0), slope.astype(grad_x.dtype))


def matrix(x):
    return x.reshape(-1, x.shape[-1])


def width(x):
    return 1 << (x.shape[-1] - 1).bit_length()


@tile_ops.op("tutorial::rms_norm(Tensor x, Tensor weight, float eps=1e-6) -> Tensor")
class rms_norm:
    saves = "Tensor rstd"

    def outputs(x, weight):
        if x.shape[-1:] != weight.shape:
            raise ValueError(f"rms_norm: weight is {list(weight.shape)}; it must be [{x.shape[-1]}]")
        return x.new_empty(x.shape)

    def saved_outputs(x):
        return x.new_empty(x.shape[:-1].numel(), dtype=torch.float32)

    def run(x, weight, eps, out, rstd):
        rows = matrix(x)
        rstd = rows.new_empty(len(rows), dtype=torch.float32) if rstd is None else rstd  # None: no gradient is wanted
        forward_kernel[len(rows)](rows, weight, matrix(out), rstd, eps, width(x))

    class grad:
        def outputs(x, weight):
            return x.new_empty(x.shape), torch.empty_like(weight)

        def run(grad_out, x, weight, rstd, grad_x, grad_weight):
            rows, grad = matrix(x), matrix(grad_out)
            backward_kernel[len(rows)](grad, rows, weight, rstd, matrix(grad_x), width(x))
            torch.sum(grad * rows * rstd[:, None], 0, out=grad_weight)


# %%
# It is an operator as torch's own are. `opcheck` tries its fake tensors, its gradient's registration, its schema.

x = torch.randn(4, 9, 100, device=device, requires_grad=True)
weight = torch.rand(100, device=device, requires_grad=True)
torch.library.opcheck(rms_norm.overload, (x, weight))


def gradients(function):
    return torch.autograd.grad(function(x, weight).sin().sum(), (x, weight))


wanted = gradients(lambda x, weight: torch.nn.functional.rms_norm(x, (100,), weight, 1e-6))
torch.testing.assert_close(gradients(rms_norm), wanted)
torch.testing.assert_close(torch.ops.tutorial.rms_norm(x, weight), rms_norm(x, weight))

# %%
# torch.compile takes it whole, with sizes that change, and torch.export keeps it by name.


@torch.compile(fullgraph=True, dynamic=True)
def block(x, weight):
    return soft_cap(rms_norm(x * 2, weight), 5.0)


torch.testing.assert_close(block(x, weight), soft_cap(rms_norm(x * 2, weight), 5.0))
torch.testing.assert_close(block(x[:3], weight), soft_cap(rms_norm(x[:3] * 2, weight), 5.0))
print(rms_norm.overload._schema)
