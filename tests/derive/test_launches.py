"""Launches of a derivative: names and defaults of arguments, arrays in tuples, and graphs of torch.compile."""

import dataclasses

import pytest
import tile_ops
import tile_ops.language as tl
import torch

from derive import kernels


@tl.kernel
def scaled_kernel(x, out, b=None, scale: float = 3.0, N: tl.Constant[int] = 8):
    t = tl.load(x, (tl.bid(0),), (N,)) * scale
    if b is not None:
        t = t * tl.sin(tl.load(b, (tl.bid(0),), (N,)))
    tl.store(out, (tl.bid(0),), t * t)


scaled = tile_ops.derive(scaled_kernel)


def expected_of(x, b, scale, grad):
    x, b = x.clone().requires_grad_(), None if b is None else b.clone().requires_grad_()
    out = (x * scale if b is None else x * scale * b.sin()) ** 2
    return torch.autograd.grad(out, [x] if b is None else [x, b], grad)


@pytest.mark.parametrize("size", [0, 1, 13])
def test_names_and_defaults(size):
    x, b, out, grad = torch.randn(4, size, dtype=torch.float64)
    (without,), both = expected_of(x, None, 3.0, grad), expected_of(x, b, 2.0, grad)
    grid, made, of_b = tl.cdiv(size, 8), torch.empty_like(x), torch.empty_like(x)

    def check(*expected):
        torch.testing.assert_close([made, of_b][: len(expected)], list(expected))
        made.fill_(7), of_b.fill_(7)

    scaled[grid](x, out, grad, made)
    check(without)
    scaled[grid](x, out, None, 3.0, 8, grad, made)
    check(without)
    scaled[grid](x, out, grad, made, N=8)
    check(without)
    scaled[grid](grad, made, N=8, out=out, x=x)
    check(without)
    scaled[lambda x, out, b, scale, N: tl.cdiv(x.numel(), N)](x, out, grad, made)
    check(without)
    scaled[grid](x, out, b, 2.0, grad, made, of_b)
    check(*both)
    scaled[grid](x, out, grad, made, of_b, b=b, scale=2.0)
    check(*both)
    scaled.launch(grid, x, out, b, grad, made, of_b, scale=2.0)
    check(*both)


def test_reports_and_sources_take_names_and_defaults():
    x, out = torch.randn(2, 13)
    assert scaled.report(x, out) == scaled.report(out=out, x=x, N=8) == {"x": "stored"}
    assert scaled.report(x, out, b=x, grid=2) == {"x": "stored", "b": "stored"}
    assert scaled.source(x, out) == scaled.source(x, out, None, 3.0, 8) != scaled.source(x, out, N=16)


def error_of(function, *arguments, **named):
    with pytest.raises(TypeError) as raised:
        function(*arguments, **named)
    return str(raised.value)


def test_arguments_that_do_not_fit():
    x, out, grad = torch.randn(3, 13)
    assert error_of(scaled[2], x, out, grad, grad_x=grad) == (
        "derivative of scaled_kernel: the kernel has no parameter 'grad_x'; it has x, out, b, scale, N; gradients are passed by "
        "position, behind its arguments"
    )
    assert error_of(scaled[2], x, out, grad, scale=2.0) == (
        "derivative of scaled_kernel: takes 5 arguments of the kernel, then the gradient of out, the gradient of x, the gradient "
        "of b; got 4"
    )
    assert error_of(scaled[2], x) == (
        "derivative of scaled_kernel: takes 5 arguments of the kernel, then a gradient of each array of floats that it writes and "
        "of each that it reads; got 1"
    )
    assert error_of(scaled.report, x) == (
        "derivative of scaled_kernel: scaled_kernel() missing 1 required positional argument: 'out'"
    )
    assert error_of(scaled.report, x, out, M=8).startswith(
        "derivative of scaled_kernel: the kernel has no parameter 'M'; it has x,"
    )


@dataclasses.dataclass
class Pair:
    first: torch.Tensor
    number: float
    second: torch.Tensor


@tl.kernel
def products_kernel(pair, arrays, out, N: tl.Constant[int]):
    i = tl.bid(0)
    t = tl.load(pair[0], i, N) * pair[1] * tl.load(pair[2], 0, N)
    tl.store(out, i, t * tl.load(arrays[0], i, N) + tl.load(arrays[1], 0, N))


@tl.kernel
def fields_kernel(pair, out, N: tl.Constant[int]):
    tl.store(out, tl.bid(0), tl.load(pair.first, tl.bid(0), N) * pair.number * tl.load(pair.second, 0, N))


def test_arrays_in_tuples_have_names():
    x, y, out, part = torch.randn(13), torch.randn(8), torch.empty(13), "summed over grid axis 0"
    derivative = tile_ops.derive(products_kernel)
    arguments = (x, 2.0, y), [x.clone(), x.clone()], out, 8
    assert derivative.report(*arguments) == {
        "pair[0]": "stored", "pair[2]": part, "arrays[0]": "stored", "arrays[1]": part
    }  # fmt: skip
    report = tile_ops.derive(fields_kernel).report(Pair(x, 2.0, y), out, 8)
    assert report == {"pair.first": "stored", "pair.second": part}
    assert error_of(derivative[2], *arguments, x) == (
        "derivative of products_kernel: takes 4 arguments of the kernel, then the gradient of out, the gradient of pair[0], the "
        "gradient of pair[2], the gradient of arrays[0], the gradient of arrays[1]; got 5"
    )


rms_norm = tile_ops.derive(kernels.rms_norm_kernel)


def gradients(x, w, grad):
    grad_x, grad_w, out = torch.empty_like(x), torch.empty_like(w), torch.empty_like(x)
    rms_norm[lambda x, *_: x.shape[0]](x, w, out, grad, grad_x, grad_w, N=16, eps=1e-5)
    return grad_x * 2, grad_w


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize("dynamic", [False, True])
def test_graphs(backend, dynamic):
    torch.compiler.reset()
    compiled = torch.compile(gradients, fullgraph=True, dynamic=dynamic, backend=backend)
    for rows in (5, 8):
        x, w, grad = torch.randn(rows, 12), torch.randn(12), torch.randn(rows, 12)
        torch.testing.assert_close(compiled(x, w, grad), gradients(x, w, grad), rtol=0, atol=0)


def test_operators_in_graphs_declare_what_is_written():
    found = []

    def backend(module, _):
        found.extend(str(node.target) for node in module.graph.nodes if node.op == "call_function")
        return module

    torch.compiler.reset()
    x, out, grad, made = torch.randn(4, 13)

    def call(x, out, grad, made):
        scaled[2](x, out, grad, made)
        return made * 2

    result = torch.compile(call, backend=backend, fullgraph=True)(x, out, grad, made)
    torch.testing.assert_close(result, 2 * expected_of(x, None, 3.0, grad)[0])
    (name,) = [each.split(".")[1] for each in found if each.startswith("tile_launch.scaled_kernel_backward")]
    assert str(getattr(torch.ops.tile_launch, name).default._schema).split("(", 1)[1] == (
        "Tensor p0, Tensor p1, Tensor p2, Tensor(a3!) p3, SymInt x, SymInt y, SymInt z) -> ()"
    )


def test_graphs_refuse_arguments_that_do_not_fit():
    torch.compiler.reset()
    x = torch.randn(13)
    with pytest.raises(torch._dynamo.exc.Unsupported) as raised:
        torch.compile(lambda x: scaled[2](x, x, x), fullgraph=True, backend="eager")(x)
    assert "A launch of scaled_kernel_backward cannot be part of a graph: TypeError: derivative of scaled_kernel: takes" in str(
        raised.value
    )
