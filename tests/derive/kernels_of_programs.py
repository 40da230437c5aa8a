"""The kernels of examples/python with derived gradients, in place of those that the programs have by hand. Most compute in
float32."""

import math

import tile_ops
import tile_ops.language as tl
import torch
import torch.nn.functional as F
from python_examples import load

from derive.cases import case, power


def program(arguments, reference, schema, outputs, float32=True):
    """Makes a case of a function `run`; schema: its parameters and results."""

    def add(run):
        operator = tile_ops.op(f"gradients::{run.__name__}{schema}", outputs=outputs, grad="auto")(run)
        return case(arguments, reference, float32)(operator)

    return add


def empty(x, *shape):
    return x.new_empty(shape, dtype=torch.float32)


@program(lambda make: (make(37), make(37)), torch.add, "(Tensor x, Tensor y) -> Tensor", "x", float32=False)
def program_vector_add(x, y, out):
    load("vector_add").add_kernel[tl.cdiv(len(x), 16)](x, y, out, 16)


@program(lambda make: (make(37), make(37)), torch.add, "(Tensor x, Tensor y) -> Tensor", "x", float32=False)
def program_vector_add_gather(x, y, out):
    load("vector_add").gather_kernel[tl.cdiv(len(x), 16)](x, y, out, 16)


def exchanged(x):
    return x.new_empty(x.shape[0], x.shape[2], x.shape[1])


@program(lambda make: (make(2, 7, 5),), lambda x: x.mT.clone(), "(Tensor x) -> Tensor", exchanged, float32=False)
def program_transpose(x, out):
    load("transpose").transpose_kernel[len(x) * tl.cdiv(x.shape[1], 4) * tl.cdiv(x.shape[2], 4)](x, out, 4)


def softmax_program(kernel, N):
    def run(x, out):
        load("softmax").KERNELS[kernel][len(x)](x, out, N)

    run.__name__ = f"program_softmax_{kernel}"
    program(lambda make: (make(5, 21),), lambda x: x.softmax(1), "(Tensor x) -> Tensor", "x")(run)


softmax_program("whole", 32)
softmax_program("chunked", 8)
softmax_program("online", 8)


def rms_norm_reference(x, w):
    r = torch.rsqrt((x * x).mean(1) + 1e-6)
    return x * r[:, None] * w, r


@program(
    lambda make: (make(5, 12), make(12)),
    rms_norm_reference,
    "(Tensor x, Tensor w) -> (Tensor out, Tensor rstd)",
    lambda x: (torch.empty_like(x), empty(x, len(x))),
)
def program_rms_norm(x, w, out, rstd):
    load("rms_norm").forward_kernel[len(x)](x, w, out, rstd, 1e-6, power(x.shape[1]))


def layer_norm_reference(x, w, b):
    mean = x.mean(1)
    return F.layer_norm(x, w.shape, w, b), mean, torch.rsqrt(x.var(1, correction=0) + 1e-5)


@program(
    lambda make: (make(5, 12), make(12), make(12)),
    layer_norm_reference,
    "(Tensor x, Tensor w, Tensor b) -> (Tensor out, Tensor mean, Tensor rstd)",
    lambda x: (torch.empty_like(x), empty(x, len(x)), empty(x, len(x))),
)
def program_layer_norm(x, w, b, out, mean, rstd):
    load("layer_norm").forward_kernel[len(x)](x, w, b, out, mean, rstd, 1e-5, power(x.shape[1]))


def group_norm_reference(x, w, b):
    flat = x.flatten(2)
    out = F.group_norm(x.flatten(1, 2), x.shape[1], w.flatten(), b.flatten())
    return out.view(x.shape), flat.mean(2), torch.rsqrt(flat.var(2, correction=0) + 1e-5)


@program(
    lambda make: (make(2, 3, 2, 11), make(3, 2), make(3, 2)),
    group_norm_reference,
    "(Tensor x, Tensor w, Tensor b) -> (Tensor out, Tensor mean, Tensor rstd)",
    lambda x: (torch.empty_like(x), empty(x, *x.shape[:2]), empty(x, *x.shape[:2])),
)
def program_group_norm(x, w, b, out, mean, rstd):
    load("group_norm").forward_kernel[x.shape[1], x.shape[0]](x, w, b, out, mean, rstd, 1e-5, 8)


def cross_entropy_reference(x, target):
    return F.cross_entropy(x, target, ignore_index=-7, reduction="none"), x.logsumexp(1)


@program(
    lambda make: (make(5, 21), torch.tensor([4, 20, -7, 0, 11])),
    cross_entropy_reference,
    "(Tensor x, Tensor target) -> (Tensor loss, Tensor lse)",
    lambda x: (empty(x, len(x)), empty(x, len(x))),
)
def program_cross_entropy(x, target, loss, lse):
    load("cross_entropy").forward_kernel[len(x)](x, target, loss, lse, -7, 8)


@program(lambda make: (make(5, 11), make(5, 11)), lambda g, u: F.silu(g) * u, "(Tensor gate, Tensor up) -> Tensor", "gate")
def program_swiglu(gate, up, out):
    load("swiglu").forward_kernel[tl.cdiv(gate.shape[0], 2), tl.cdiv(gate.shape[1], 8)](gate, up, out, 2, 8)


def launch_dropout(x, seed, out):
    load("dropout").dropout_kernel[tl.cdiv(len(x), 16)](x, seed, out, 0.25, 4 / 3, 16)


def dropout_reference(x, seed):
    ones = torch.ones(len(x), device=x.device)
    kept = torch.empty_like(ones)
    launch_dropout(ones, seed, kept)
    return torch.where(kept > 0, x * 4 / 3, 0)


@program(lambda make: (make(37), torch.tensor([7])), dropout_reference, "(Tensor x, Tensor seed) -> Tensor", "x")
def program_dropout(x, seed, out):
    launch_dropout(x, seed, out)


def rope_reference(x, cos, sin):
    first, second = x.unbind(3)
    return torch.stack((first * cos - second * sin, second * cos + first * sin), 3)


@program(
    lambda make: (make(2, 3, 5, 2, 4), make(5, 4), make(5, 4)),
    rope_reference,
    "(Tensor x, Tensor cos, Tensor sin) -> Tensor",
    "x",
)
def program_rope(x, cos, sin, out):
    load("rope").rope_kernel[tl.cdiv(x.shape[2], 2), x.shape[1], x.shape[0]](x, cos, sin, out, 1.0, 2, 4)


def attention_reference(q, k, v, causal, change):
    k, v = (each.repeat_interleave(q.shape[1] // k.shape[1], 1) for each in (k, v))
    scores = change(q @ k.mT * 0.5)
    if causal:
        later = torch.arange(k.shape[2]) > torch.arange(q.shape[2])[:, None]
        scores = scores.masked_fill(later, -math.inf)
    return scores.softmax(-1) @ v, scores.logsumexp(-1) / math.log(2)


def capped(scores, rows, columns):
    return 1.5 * tl.tanh(scores / 1.5)


def attention_program(name, causal, change=None, torchs=lambda scores: scores):
    def run(q, k, v, causal, out, lse):
        kernel, grid = load("attention").forward_kernel, (tl.cdiv(q.shape[2], 4), q.shape[1], q.shape[0])
        kernel[grid](q, k, v, out, lse, 0.5, causal, False, 4, 4, q.shape[3], change)

    run.__name__ = name
    program(
        lambda make: (make(1, 4, 7, 4), make(1, 2, 7, 4), make(1, 2, 7, 4), causal),
        lambda *given: attention_reference(*given, torchs),
        "(Tensor q, Tensor k, Tensor v, bool causal) -> (Tensor out, Tensor lse)",
        lambda q: (torch.empty_like(q), empty(q, *q.shape[:3])),
    )(run)


attention_program("program_attention", False)
attention_program("program_causal_attention", True)
attention_program("program_capped_attention", True, capped, lambda scores: 1.5 * torch.tanh(scores / 1.5))


def product_outputs(a, b):
    return a.new_empty(*a.shape[:-1], b.shape[-1])


def product_program(arguments=lambda make: (make(9, 11), make(11, 10))):
    return program(arguments, torch.matmul, "(Tensor a, Tensor b) -> Tensor", product_outputs)


@product_program()
def program_matmul(a, b, out):
    load("matmul").matmul_kernel[tl.cdiv(out.shape[0], 4) * tl.cdiv(out.shape[1], 4)](a, b, out, 4, 4, 8)


@product_program()
def program_matmul_persistent(a, b, out):
    load("matmul_persistent").matmul_kernel[3](a, b, out, 4, 4, 8)


@product_program(lambda make: (make(6, 29), make(29, 5)))
def program_matmul_split_k(a, b, out):
    kernels, grid = load("matmul_split_k"), (tl.cdiv(out.shape[0], 4), tl.cdiv(out.shape[1], 4))
    parts = empty(a, 3, *out.shape)
    kernels.matmul_kernel[(3, *grid)](a, b, parts, 4, 4, 4)
    kernels.sum_kernel[grid](parts, out, 4, 4)


def experts_reference(x, weights, chosen, routing):
    return torch.einsum("rk,rtkn,rt->rtn", x, weights[chosen], routing)


@program(
    lambda make: (make(5, 6), make(3, 6, 7), torch.tensor([[0, 2], [2, 1], [0, 1], [2, 0], [2, 1]]), make(5, 2)),
    experts_reference,
    "(Tensor x, Tensor weights, Tensor chosen, Tensor routing) -> Tensor",
    lambda x, weights, chosen: empty(x, *chosen.shape, weights.shape[2]),
)
def program_moe(x, weights, chosen, routing, out):
    moe, (top, n) = load("moe"), out.shape[1:]
    slots, _, expert_of = moe.by_expert(chosen, len(weights), 4)
    grid = len(expert_of), tl.cdiv(n, 4)
    moe.product_kernel[grid](x, weights, slots, expert_of, routing.view(-1), out.view(-1, n), top, 4, 4, 4)


def heat_reference(u, source):
    t = u[:, 1:-1, 1:-1]
    around = u[:, :-2, 1:-1] + u[:, 2:, 1:-1] + u[:, 1:-1, :-2] + u[:, 1:-1, 2:]
    return F.pad(t + 0.125 * (around - 4 * t) + source[:, 1:-1, 1:-1], (1, 1, 1, 1))


@program(
    lambda make: (make(3, 6, 9, dtype=torch.float32), make(3, 6, 9, dtype=torch.float32)),
    heat_reference,
    "(Tensor u, Tensor source) -> Tensor",
    "u",
)
def program_heat(u, source, out):
    out.zero_()
    grid = tl.cdiv(u.shape[2] - 2, 4), tl.cdiv(u.shape[1] - 2, 2), 2
    load("heat").heat_kernel[grid](u, source, out, 0.125, 2, 4)


@program(lambda make: (make(3, 21),), lambda x: x.cumsum(1), "(Tensor x) -> Tensor", "x", float32=False)
def program_prefix_sum(x, out):
    kernels, blocks = load("prefix_sum"), tl.cdiv(len(x), 2) * 3
    sums, ends = x.new_empty(2, len(x), 3, dtype=torch.float64)
    kernels.sums_kernel[blocks](x, sums, 2, 8)
    kernels.scan_kernel[tl.cdiv(len(x), 2)](sums, x.new_zeros(len(x), 1, dtype=torch.float64), ends, False, 2, 4)
    kernels.scan_kernel[blocks](x, ends, out, False, 2, 8)


def fft_reference(re, im):
    return torch.view_as_real(torch.fft.fft(torch.complex(re, im))).unbind(-1)


@program(
    lambda make: (make(3, 8, dtype=torch.float32), make(3, 8, dtype=torch.float32)),
    fft_reference,
    "(Tensor re, Tensor im) -> (Tensor out_re, Tensor out_im)",
    lambda re: (torch.empty_like(re), torch.empty_like(re)),
)
def program_fft(re, im, out_re, out_im):
    load("fft").fft_kernel[2](re, im, out_re, out_im, -2 * math.pi, 1.0, (2, 4), 2, 8)
