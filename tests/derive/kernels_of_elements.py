"""Operators of elements whose gradients are derived: activations, gates, polynomials, loops and branches."""

import math

import tile_ops
import tile_ops.language as tl
import torch
import torch.nn.functional as F

from derive.cases import case, loaded, power, spread, transposed, wide

ROOT_HALF, ROOT_2_PI = math.sqrt(0.5), math.sqrt(2 / math.pi)


def launch(kernel, x, out, *more):
    kernel[tl.cdiv(x.numel(), 16)](x.view(-1), out.view(-1), *more, 16)


@tl.kernel
def gelu_kernel(x, out, N: tl.Constant[int]):
    t = loaded(x, tl.bid(0), N)
    tl.store(out, tl.bid(0), (0.5 * t * (1 + tl.erf(t * ROOT_HALF))).astype(out.dtype))


@case(lambda make: (make(3, 13),), F.gelu)
@tile_ops.op("gradients::gelu(Tensor x) -> Tensor", outputs="x", grad="auto")
def gelu(x, out):
    launch(gelu_kernel, x, out)


@tl.kernel
def tanh_gelu_kernel(x, out, N: tl.Constant[int]):
    t = loaded(x, tl.bid(0), N)
    inner = ROOT_2_PI * tl.fma(0.044715 * t * t, t, t)
    tl.store(out, tl.bid(0), (0.5 * t * (1 + tl.tanh(inner))).astype(out.dtype))


@case(lambda make: (make(3, 13),), lambda x: F.gelu(x, approximate="tanh"))
@tile_ops.op("gradients::tanh_gelu(Tensor x) -> Tensor", outputs="x", grad="auto")
def tanh_gelu(x, out):
    launch(tanh_gelu_kernel, x, out)


def softplus_of(t):
    return tl.maximum(t, 0) + tl.log1p(tl.exp(-tl.abs(t)))


@tl.kernel
def softplus_kernel(x, out, beta: float, N: tl.Constant[int]):
    tl.store(out, tl.bid(0), (softplus_of(loaded(x, tl.bid(0), N) * beta) / beta).astype(out.dtype))


@case(lambda make: (make(37), 2.0), F.softplus)
@tile_ops.op("gradients::softplus(Tensor x, float beta) -> Tensor", outputs="x", grad="auto")
def softplus(x, beta, out):
    launch(softplus_kernel, x, out, beta)


@tl.kernel
def mish_kernel(x, out, N: tl.Constant[int]):
    t = loaded(x, tl.bid(0), N)
    tl.store(out, tl.bid(0), (t * tl.tanh(softplus_of(t))).astype(out.dtype))


@case(lambda make: (make(37),), F.mish)
@tile_ops.op("gradients::mish(Tensor x) -> Tensor", outputs="x", grad="auto")
def mish(x, out):
    launch(mish_kernel, x, out)


@tl.kernel
def elu_kernel(x, out, alpha: float, scale: tl.Constant[float], N: tl.Constant[int]):
    t = loaded(x, tl.bid(0), N)
    tl.store(out, tl.bid(0), (scale * tl.where(t > 0, t, alpha * tl.expm1(tl.minimum(t, 0)))).astype(out.dtype))


@case(lambda make: (make(37), 0.75), F.elu)
@tile_ops.op("gradients::elu(Tensor x, float alpha) -> Tensor", outputs="x", grad="auto")
def elu(x, alpha, out):
    launch(elu_kernel, x, out, alpha, 1.0)


@case(lambda make: (make(37), 1.5), lambda x, alpha: 1.25 * F.elu(x, alpha))
@tile_ops.op("gradients::scaled_elu(Tensor x, float alpha) -> Tensor", outputs="x", grad="auto")
def scaled_elu(x, alpha, out):
    launch(elu_kernel, x, out, alpha, 1.25)


@tl.kernel
def hardswish_kernel(x, out, N: tl.Constant[int]):
    t = loaded(x, tl.bid(0), N)
    tl.store(out, tl.bid(0), (t * tl.minimum(tl.maximum(t + 3, 0), 6) / 6).astype(out.dtype))


# F.hardswish multiplies by a sixth that is rounded to float32 on a GPU.
@case(lambda make: (make(37, change=lambda x: 3 * x),), lambda x: x * F.relu6(x + 3) / 6)
@tile_ops.op("gradients::hardswish(Tensor x) -> Tensor", outputs="x", grad="auto")
def hardswish(x, out):
    launch(hardswish_kernel, x, out)


def gate_of(t, KIND):
    if KIND == "gelu":
        return 0.5 * t * (1 + tl.erf(t * ROOT_HALF))
    if KIND == "relu":
        return tl.maximum(t, 0)
    return tl.sigmoid(t)


@tl.kernel
def gated_kernel(gate, up, out, KIND: tl.Constant[str], R: tl.Constant[int], C: tl.Constant[int]):
    at = tl.bid(0), tl.bid(1)
    tl.store(out, at, (gate_of(loaded(gate, at, (R, C)), KIND) * loaded(up, at, (R, C))).astype(out.dtype))


def gated(kind, gate, up, out):
    gated_kernel[tl.cdiv(out.shape[0], 2), tl.cdiv(out.shape[1], 8)](gate, up, out, kind, 2, 8)


@case(lambda make: (make(5, 11), make(5, 11)), lambda gate, up: F.gelu(gate) * up)
@tile_ops.op("gradients::geglu(Tensor gate, Tensor up) -> Tensor", outputs="gate", grad="auto")
def geglu(gate, up, out):
    gated("gelu", gate, up, out)


def split_outputs(x):
    return x.new_empty(x.shape[0], x.shape[1] // 2)


@case(lambda make: (make(5, 22, change=spread),), lambda x: x.chunk(2, 1)[0].relu() * x.chunk(2, 1)[1])
@tile_ops.op("gradients::reglu(Tensor x) -> Tensor", outputs=split_outputs, grad="auto")
def reglu(x, out):
    gated("relu", x[:, : out.shape[1]], x[:, out.shape[1] :], out)


@case(lambda make: (make(5, 22),), lambda x: F.glu(x, 1))
@tile_ops.op("gradients::glu(Tensor x) -> Tensor", outputs=split_outputs, grad="auto")
def glu(x, out):
    gated("sigmoid", x[:, out.shape[1] :], x[:, : out.shape[1]], out)


@tl.kernel
def horner_kernel(x, coefficients, out, N: tl.Constant[int]):
    t = loaded(x, tl.bid(0), N)
    total = tl.zeros((N,), wide(x))
    for k in range(coefficients.shape[0]):
        total = total * t + tl.load(coefficients, k, ()).astype(total.dtype)
    tl.store(out, tl.bid(0), total.astype(out.dtype))


def horner_reference(x, coefficients):
    return sum(c * x**k for k, c in enumerate(coefficients.flip(0)))


@case(lambda make: (make(21), make(5)), horner_reference)
@tile_ops.op("gradients::horner(Tensor x, Tensor coefficients) -> Tensor", outputs="x", grad="auto")
def horner(x, coefficients, out):
    horner_kernel[tl.cdiv(len(x), 8)](x, coefficients, out, 8)


@tl.kernel
def newton_kernel(x, out, steps: int, N: tl.Constant[int]):
    t = loaded(x, tl.bid(0), N, tl.PaddingMode.ZERO)
    root = t * 0.5 + 0.5
    for _ in range(steps, 0, -1):
        root = 0.5 * (root + t / root)
    tl.store(out, tl.bid(0), root.astype(out.dtype))


@case(lambda make: (make(21, change=torch.exp), 7), lambda x, steps: x.sqrt())
@tile_ops.op("gradients::newton(Tensor x, int steps) -> Tensor", outputs="x", grad="auto")
def newton(x, steps, out):
    newton_kernel[tl.cdiv(len(x), 8)](x, out, steps, 8)


@tl.kernel
def nested_kernel(x, out, outer: int, N: tl.Constant[int]):
    t = loaded(x, tl.bid(0), N)
    y = t
    for i in range(outer):
        inner = t * 0.5
        for j in range(i, outer + 1):
            inner = tl.sin(inner + y * (j * 0.25))
        y = y + inner * inner
    tl.store(out, tl.bid(0), y.astype(out.dtype))


def nested_reference(x, outer):
    y = x
    for i in range(outer):
        inner = x * 0.5
        for j in range(i, outer + 1):
            inner = torch.sin(inner + y * (j * 0.25))
        y = y + inner * inner
    return y


@case(lambda make: (make(21), 3), nested_reference)
@tile_ops.op("gradients::nested(Tensor x, int outer) -> Tensor", outputs="x", grad="auto")
def nested(x, outer, out):
    nested_kernel[tl.cdiv(len(x), 8)](x, out, outer, 8)


@tl.kernel
def chosen_kernel(x, y, out, mode: int, scale: float, N: tl.Constant[int]):
    i = tl.bid(0)
    t = loaded(x, i, N)
    if mode == 0:
        t = t * loaded(y, i, N)
    elif mode == 1:
        t = tl.exp(t) + loaded(y, i, N)
    else:
        t = tl.cos(loaded(y, i, N))
    if scale > 1:
        t *= scale
    tl.store(out, i, t.astype(out.dtype))


def chosen_reference(x, y, mode, scale):
    return (x * y if mode == 0 else x.exp() + y if mode == 1 else y.cos() + 0 * x) * max(scale, 1)


def chosen(name, mode, scale):
    def run(x, y, mode, scale, out):
        chosen_kernel[tl.cdiv(len(x), 8)](x, y, out, mode, scale, 8)

    run.__name__ = name
    schema = f"gradients::{name}(Tensor x, Tensor y, int mode, float scale) -> Tensor"
    case(lambda make: (make(21), make(21), mode, scale), chosen_reference)(tile_ops.op(schema, outputs="x", grad="auto")(run))


chosen("chosen_product", 0, 2.0)
chosen("chosen_exponential", 1, 0.5)
chosen("chosen_cosine", 2, 1.5)


@tl.kernel
def functions_kernel(x, y, out, N: tl.Constant[int]):
    i = tl.bid(0)
    a, b = loaded(x, i, N), loaded(y, i, N)
    t = tl.atan2(a, b) + tl.pow(tl.abs(a) + 1, b) + tl.log1p(a * a) * tl.expm1(0.25 * b) + tl.sinh(0.5 * a) * tl.cosh(0.5 * b)
    t += tl.exp2(a) - tl.log2(b * b + 1) + tl.asin(0.5 * tl.sin(a)) + tl.acos(0.5 * tl.cos(b)) + tl.tan(0.25 * tl.tanh(a))
    t += tl.atan(a) * tl.rsqrt(b * b + 0.5) + tl.sqrt(a * a + 0.5) + tl.mod(a, 4.0) + tl.floor(b) * tl.silu(a)
    tl.store(out, i, t.astype(out.dtype))


def functions_reference(a, b):
    t = (
        torch.atan2(a, b)
        + (a.abs() + 1) ** b
        + torch.log1p(a * a) * torch.expm1(0.25 * b)
        + (0.5 * a).sinh() * (0.5 * b).cosh()
    )
    t = t + torch.exp2(a) - torch.log2(b * b + 1) + (0.5 * a.sin()).asin() + (0.5 * b.cos()).acos() + (0.25 * a.tanh()).tan()
    return t + a.atan() * torch.rsqrt(b * b + 0.5) + (a * a + 0.5).sqrt() + a % 4 + b.floor() * F.silu(a)


@case(lambda make: (make(45), make(45)), functions_reference)
@tile_ops.op("gradients::functions(Tensor x, Tensor y) -> Tensor", outputs="x", grad="auto")
def functions(x, y, out):
    functions_kernel[tl.cdiv(len(x), 16)](x, y, out, 16)


@tl.kernel
def seeded_dropout_kernel(x, out, seed, p: float, N: tl.Constant[int]):
    i = tl.bid(0)
    kept = tl.uniform((N,), tl.load(seed, 0, ()), i.astype(tl.int64) * N) >= p
    tl.store(out, i, tl.where(kept, loaded(x, i, N) / (1 - p), 0).astype(out.dtype))


def seeded_dropout_reference(x, seed, p):
    """The mask is that of a launch over ones: random numbers have no gradient."""
    ones, kept = torch.ones(x.shape, dtype=torch.float64, device=x.device), torch.empty_like(x, dtype=torch.float64)
    launch(seeded_dropout_kernel, ones, kept, seed, p)
    return x * kept


@case(lambda make: (make(37), torch.tensor([5]), 0.25), seeded_dropout_reference)
@tile_ops.op("gradients::seeded_dropout(Tensor x, Tensor seed, float p) -> Tensor", outputs="x", grad="auto")
def seeded_dropout(x, seed, p, out):
    launch(seeded_dropout_kernel, x, out, seed, p)


@tl.kernel
def masked_dropout_kernel(x, kept, residual, out, p: float, N: tl.Constant[int]):
    i = tl.bid(0)
    t = tl.where(tl.load(kept, i, N), loaded(x, i, N) / (1 - p), 0)
    tl.store(out, i, (t + loaded(residual, i, N)).astype(out.dtype))


@case(
    lambda make: (make(37), torch.randn(37) > 0, make(37), 0.5),
    lambda x, kept, residual, p: torch.where(kept, x / (1 - p), 0) + residual,
)
@tile_ops.op("gradients::masked_dropout(Tensor x, Tensor kept, Tensor residual, float p) -> Tensor", outputs="x", grad="auto")
def masked_dropout(x, kept, residual, p, out):
    masked_dropout_kernel[tl.cdiv(len(x), 16)](x, kept, residual, out, p, 16)


@tl.kernel
def interpolated_kernel(x, y, weight, out, R: tl.Constant[int], C: tl.Constant[int]):
    at = tl.bid(0), tl.bid(1)
    a, b = loaded(x, at, (R, C)), loaded(y, at, (R, C))
    w = tl.sigmoid(loaded(weight, tl.bid(1), C))
    tl.store(out, at, tl.fma(w, b - a, a).astype(out.dtype))


@case(
    lambda make: (make(9, 6, change=transposed), make(9, 6, change=spread), make(6)),
    lambda x, y, weight: torch.lerp(x, y, weight.sigmoid().expand_as(x)),
)
@tile_ops.op("gradients::interpolated(Tensor x, Tensor y, Tensor weight) -> Tensor", outputs="x", grad="auto")
def interpolated(x, y, weight, out):
    interpolated_kernel[tl.cdiv(x.shape[0], 4), tl.cdiv(x.shape[1], 4)](x, y, weight, out, 4, 4)


def product_of(x, y):
    (a, b), (c, d) = x, y
    return a * c - b * d, a * d + b * c


@tl.kernel
def mandelbrot_kernel(z, c, out, steps: tl.Constant[int], N: tl.Constant[int]):
    i = tl.bid(0)
    point = loaded(z, (0, i), (1, N)), loaded(z, (1, i), (1, N))
    for _ in tl.static_iter(range(steps)):
        re, im = product_of(point, point)
        point = re + loaded(c, (0, i), (1, N)), im + loaded(c, (1, i), (1, N))
    tl.store(out, (0, i), point[0].astype(out.dtype))
    tl.store(out, (1, i), point[1].astype(out.dtype))


def mandelbrot_reference(z, c):
    point, shift = torch.complex(*z), torch.complex(*c)
    for _ in range(3):
        point = point * point + shift
    return torch.view_as_real(point).T


@case(lambda make: (make(2, 19, change=lambda x: x / 2), make(2, 19, change=lambda x: x / 2)), mandelbrot_reference)
@tile_ops.op("gradients::mandelbrot(Tensor z, Tensor c) -> Tensor", outputs="z", grad="auto")
def mandelbrot(z, c, out):
    mandelbrot_kernel[tl.cdiv(z.shape[1], 8)](z, c, out, 3, 8)


@tl.kernel
def dequantized_kernel(codes, scales, x, out, GROUP: tl.Constant[int], N: tl.Constant[int]):
    row = tl.bid(0)
    code = tl.load(codes, (row, 0), (1, N)).astype(wide(scales)).reshape((N // GROUP, GROUP))
    scale = loaded(scales, (row, 0), (1, N // GROUP)).reshape((N // GROUP, 1))
    t = loaded(x, (row, 0), (1, N))
    tl.store(out, (row, 0), ((code * scale).reshape((1, N)) * t).astype(out.dtype))


def dequantized_reference(codes, scales, x):
    return (codes * scales.repeat_interleave(4, 1)[:, : codes.shape[1]]) * x


def dequantized_arguments(make):
    return torch.randint(-8, 8, (3, 13), dtype=torch.int8), make(3, 4), make(3, 13)


@case(dequantized_arguments, dequantized_reference)
@tile_ops.op("gradients::dequantized(Tensor codes, Tensor scales, Tensor x) -> Tensor", outputs="x", grad="auto")
def dequantized(codes, scales, x, out):
    dequantized_kernel[x.shape[0]](codes, scales, x, out, 4, power(x.shape[1]))
