"""Tests named arguments, defaults and None in launches, debug, tuned kernels and operators, with Python's own errors."""

import dataclasses

import pytest
import tile_ops
import tile_ops.cutile as ct
import tile_ops.language as tl
import torch
from raised import error_of


@tl.kernel
def linear(x, out, bias=None, scale: float = 2.0, N: tl.Constant[int] = 4):
    t = tl.load(x, 0, N) * scale
    if bias is not None:
        t = t + tl.load(bias, 0, N)
    tl.store(out, 0, t)


@tl.kernel
def strict(x, /, out, *, N: tl.Constant[int], by: tl.Constant = None):
    tl.store(out, 0, tl.load(x, 0, N) * (1 if by is None else by))


def blocks(x, out, bias, scale, N):
    assert scale in (2.0, 3.0) and isinstance(N, int)
    return (1,)


def vectors(count):
    return [torch.full((4,), float(at + 1)) for at in range(count)]


# (arguments besides x, which is all ones, and out; the expected elements). "bias" is replaced by a tensor of fives.
GIVEN = [
    ({}, 2), ({"scale": 3.0}, 3), ({"bias": None}, 2), ({"bias": "bias"}, 7), ({"bias": "bias", "N": 4, "scale": 3.0}, 8),
    ({"N": 2}, [2, 2, 0, 0]),
]  # fmt: skip


@pytest.mark.parametrize("grid", [1, blocks])
@pytest.mark.parametrize("given, want", GIVEN, ids=range(len(GIVEN)))
def test_names_and_defaults(given, want, grid):
    (x,), bias = vectors(1), torch.full((4,), 5.0)
    given = {name: bias if value == "bias" else value for name, value in given.items()}
    want = want if isinstance(want, list) else [want] * 4
    tuned = linear.tune([{}, {"occupancy": 2}])
    for launch in (
        linear[grid],
        lambda *arguments, **named: linear.launch(grid, *arguments, **named),
        lambda *arguments, **named: linear.launch(grid, *arguments, stream=0, **named),
        lambda *arguments, **named: linear.debug(grid, *arguments, **named),
        tuned[grid],
    ):
        for positional in (0, 1, 2):
            out = torch.zeros(4)
            named = {"x": x, "out": out}
            launch(*[named.pop(name) for name in list(named)[:positional]], **given, **named)
            assert out.tolist() == want


def test_all_by_position_is_the_same_kernel():
    x, out, bias = vectors(3)
    kernel = tl.kernel(linear._pyfunc)
    kernel[1](x, out, None, 2.0, 4)
    kernel[1](x, out)
    kernel[1](out=out, x=x, N=4)
    assert kernel.compiled_count == 1
    kernel[1](x, out, bias)
    kernel[1](x, out, bias=bias, scale=3.0)
    assert kernel.compiled_count == 2 and out.tolist() == [6] * 4
    kernel.check(x, out=out)
    assert "add" in kernel.ir(x, out, bias) and "add" not in kernel.ir(x, out, bias=None, passes=True)


def test_positional_only_and_keyword_only():
    x, out = vectors(2)
    strict[1](x, out, N=4)
    assert out.tolist() == [1] * 4
    strict[1](x, out=out, by=3, N=4)
    assert out.tolist() == [3] * 4
    out = torch.zeros(4)
    strict.debug(1, x, out, N=4, by=5)
    assert out.tolist() == [5] * 4
    x, out = vectors(2)
    strict.tune([{"by": 2}, {"by": 2, "occupancy": 2}])[1](x, out, N=4)
    assert out.tolist() == [2] * 4


X = torch.ones(4, device="cpu")
ERRORS = [
    (linear, (), {}, "linear() missing 2 required positional arguments: 'x' and 'out'"),
    (linear, (X,), {}, "linear() missing 1 required positional argument: 'out'"),
    (linear, (X,), {"N": 4}, "linear() missing 1 required positional argument: 'out'"),
    (linear, (X, X), {"sscale": 1.0}, "linear() got an unexpected keyword argument 'sscale'"),
    (linear, (X, X), {"x": X}, "linear() got multiple values for argument 'x'"),
    (linear, (X,) * 6, {}, "linear() takes from 2 to 5 positional arguments but 6 were given"),
    (strict, (X,), {"N": 4}, "strict() missing 1 required positional argument: 'out'"),
    (strict, (X, X), {}, "strict() missing 1 required keyword-only argument: 'N'"),
    (strict, (), {"x": X, "out": X, "N": 4}, "strict() got some positional-only arguments passed as keyword arguments: 'x'"),
    (strict, (X, X, 4), {}, "strict() takes 2 positional arguments but 3 were given"),
]


@pytest.mark.parametrize("kernel, given, named, text", ERRORS, ids=range(len(ERRORS)))
def test_errors_are_pythons(kernel, given, named, text):
    def plainly(function):
        return error_of(function, *given, **named)

    assert plainly(kernel._pyfunc).rpartition("<locals>.")[2] == f"TypeError: {text}"
    for function in (kernel[1], kernel.ir, kernel.check):
        assert plainly(function) == f"TypeError: {text}"
    assert error_of(kernel.launch, 1, *given, **named) == f"TypeError: {text}"
    assert error_of(kernel.debug, 1, *given, **named) == f"TypeError: {text}"
    assert plainly(kernel.tune([{}])[1]) == f"TypeError: {text}"


def test_errors_of_tuned_kernels_and_of_cutile():
    x, out = vectors(2)
    tuned = linear.tune([{"N": 4}])
    assert error_of(tuned[1], x, out, N=4) == (
        "TypeError: linear() got an unexpected keyword argument 'N'; its configurations set N"
    )
    assert error_of(tuned.best, x) == (
        "TypeError: linear() missing 1 required positional argument: 'out'; its configurations set N"
    )
    tuned[1](out=out, x=x, bias=None)
    assert out.tolist() == [2] * 4 and tuned.best(x, out) == tuned.best(out=out, x=x) == {"N": 4}
    assert tuned.table(x, out=out).best == 0 and tuned.measure(1, x, out, scale=3.0).best == 0
    assert "load" in tuned.ir(x, out=out)
    tuned.check(x=x, out=out)
    kernel = ct.kernel(linear._pyfunc)
    ct.launch(0, (1,), kernel, (x, out))
    kernel[1](x, out=out, scale=4.0)
    assert out.tolist() == [4] * 4
    assert error_of(ct.launch, 0, (1,), kernel, (x,)) == "TypeError: Kernel expects 5 arguments but 1 was given"


@dataclasses.dataclass(frozen=True)
class Weights:
    weight: object
    bias: object = None


def test_none_inside_of_structures():
    @tl.kernel
    def kernel(x, weights, pair, out):
        t = tl.load(x, 0, 4) * tl.load(weights.weight, 0, 4)
        if weights.bias is not None:
            t = t + tl.load(weights.bias, 0, 4)
        if pair[1] is not None:
            t = t + pair[1]
        tl.store(out, 0, t + pair[0])

    x, w, b, out = vectors(4)
    for bias, second, want in ((None, None, 12), (b, None, 15), (None, 7, 19), (b, 7, 22)):
        kernel[1](x, Weights(w, bias), (10, second), out)
        assert out.tolist() == [want] * 4
        kernel.debug(1, x, Weights(w, bias), (10, second), out)
        assert out.tolist() == [want] * 4
    assert kernel.compiled_count == 4


def test_optional_annotations():
    @tl.kernel
    def kernel(x: tl.Array, out: tl.Array, y: tl.IndexedWithInt64[tl.Array] | None = None, n: tl.ScalarInt64 | None = None):
        t = tl.load(x, 0, 4)
        if y is not None:
            t = t + y.shape[0]
            tl.static_assert(y.shape[0].dtype == tl.int64)
        if n is not None:
            tl.static_assert(n.dtype == tl.int64)
            t = t + n
        tl.store(out, 0, t)

    x, out, y = vectors(3)
    for given, want in (({}, 1), ({"y": y}, 5), ({"n": 1}, 2), ({"n": 1, "y": y}, 6)):
        kernel[1](x, out, **given)
        assert out.tolist() == [want] * 4


def test_a_parameter_that_needs_an_array():
    x, out = vectors(2)
    first = linear._pyfunc.__code__.co_firstlineno
    assert error_of(linear[1], None, out) == (
        f'TileTypeError: Invalid argument "array" of load(): Expected an array, got None\n'
        f"  {__file__}:{first + 2}:9, in linear\n"
        f"    t = tl.load(x, 0, N) * scale\n"
        f"        ^^^^^^^^^^^^^^^^"
    )


def test_operators_of_kernels_with_optional_arguments():
    @tile_ops.op("named::linear(Tensor x, Tensor? bias=None, float scale=2.0) -> Tensor", outputs="x")
    def operator(x, bias, scale, out):
        linear[1](x, out=out, bias=bias, scale=scale)

    x, bias = vectors(2)
    assert operator(x).tolist() == [2] * 4
    assert operator(x, bias).tolist() == [4] * 4
    assert operator(x, scale=3.0, bias=None).tolist() == [3] * 4
    torch.library.opcheck(operator.overload, (x, bias), {"scale": 3.0})


def test_keys_of_tuned_kernels_tell_none_apart():
    x, out, bias = vectors(3)
    tuned = linear.tune([{"N": 4}])
    tuned[1](x, out)
    tuned[1](x, out, bias)
    assert out.tolist() == [5] * 4
    assert tuned.table(x, out).key != tuned.table(x, out, bias).key
