"""Elementwise operators of expressions, in C++ (tests/torch/library/expressions.cpp) and Python."""

import warnings

import pytest
import tile_ops
import tile_ops.language as tl
import torch
from torch.library import opcheck

from tile_ops import _C

tt = torch.ops.tt
FLOATS = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


@tile_ops.elementwise("tile_el::swish(Tensor x, float beta=1.0) -> Tensor")
def swish(x, beta):
    """x · sigmoid(beta · x)."""
    return x * tl.sigmoid(beta * x)


@tile_ops.elementwise("tile_el::mixed(Tensor x, Tensor y, Tensor mask, int n=2, str how='add') -> (Tensor, Tensor)")
def mixed(x, y, mask, n, how):
    both = x + y * n if how == "add" else x - y * n
    return tl.where(mask, both, x), both > 0


@tile_ops.elementwise
def signed_power(x, p: float = 0.5, flip: bool = False):
    value = tl.where(x < 0, -((-x) ** p), x**p)
    return -value if flip else value


def reference(x, beta):
    return x * torch.sigmoid(beta * x)


def close(ours, wanted, scale=4):
    eps = torch.finfo(ours.dtype).eps if ours.dtype.is_floating_point else 0
    limit = scale * eps * max(wanted.abs().max().item() if wanted.numel() else 1, 1)
    torch.testing.assert_close(ours.double(), wanted.double(), rtol=0, atol=limit)


def layouts(dtype):
    yield torch.randn(5, 7, dtype=dtype)
    yield torch.randn(7, 5, dtype=dtype).t()
    yield torch.randn(2, 3, 4, 5, dtype=dtype).to(memory_format=torch.channels_last)
    yield torch.randn(40, dtype=dtype)[::3]
    yield torch.randn(6, 1, dtype=dtype).expand(6, 50)
    yield torch.randn((), dtype=dtype)
    yield torch.randn(0, 3, dtype=dtype)
    yield torch.randn(1, dtype=dtype)
    yield torch.randn(3, 1, 65, 33, dtype=dtype).permute(3, 0, 1, 2)
    yield torch.randn(70_001, dtype=dtype)


@pytest.mark.parametrize("operator", [swish, tt.swish], ids=["python", "cpp"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_layouts_and_gradient(operator, dtype):
    for x in layouts(dtype):
        wide = x.detach().double().requires_grad_()
        x.requires_grad_()
        y, wanted = operator(x, 1.5), reference(wide, 1.5)
        close(y, wanted)
        assert y.shape == x.shape and y.dtype == dtype
        if x.numel() and 0 not in x.stride():
            assert y.stride() == torch.empty_like(x).stride()
        g = torch.randn_like(y)
        (ours,) = torch.autograd.grad(y, x, g)
        (theirs,) = torch.autograd.grad(wanted, wide, g.double())
        close(ours, theirs, 8)


SHAPES = [((3, 1, 4), (5, 1)), ((6,), ()), ((1,), (4, 5)), ((0, 1), (1, 3)), ((2, 3), (2, 3)), ((4, 1), (1, 700)),
          ((2, 1, 3, 1), (1, 5, 1, 7)), ((300, 1), (1, 2))]  # fmt: skip


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_broadcasting(shapes):
    x, y = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes)
    length, angle = tt.sides(x, y, 3)
    torch.testing.assert_close(length, torch.hypot(x, y) * 3)
    torch.testing.assert_close(angle, torch.atan2(y, x))
    g, h = torch.randn_like(length), torch.randn_like(angle)
    wanted = torch.autograd.grad([torch.hypot(x, y) * 3, torch.atan2(y, x)], (x, y), [g, h])
    torch.testing.assert_close(torch.autograd.grad([length, angle], (x, y), [g, h]), wanted)
    (ours,), (theirs,) = (torch.autograd.grad(f, y, g) for f in (tt.sides(x, y, 3)[0], torch.hypot(x, y) * 3))
    torch.testing.assert_close(ours, theirs)


def test_constants_of_the_expression():
    x, y = torch.randn(2, 9)
    angle, length = tt.sides(x, y, 1, True, "deg")
    torch.testing.assert_close(angle, torch.rad2deg(torch.atan2(y, x)))
    torch.testing.assert_close(length, torch.hypot(x, y))
    torch.testing.assert_close(signed_power(x, flip=True), -x.sign() * x.abs().sqrt())


PAIRS = [(torch.int32, torch.float32), (torch.float32, torch.float64), (torch.float16, torch.bfloat16),
         (torch.int8, torch.int64), (torch.uint8, torch.int8), (torch.bool, torch.int16), (torch.bool, torch.float16),
         (torch.int64, torch.float16)]  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_promotion(pair):
    x, y = (torch.randint(0, 2, (3, 5)).to(dtype) for dtype in pair)
    mask = torch.rand(3, 5) > 0.5
    result, positive = mixed(x, y, mask)
    if torch.bool not in pair:
        assert result.dtype == torch.result_type(x, y)
    assert positive.dtype == torch.bool
    wanted = torch.where(mask, x.double() + y.double() * 2, x.double())
    torch.testing.assert_close(result.double(), wanted)
    if torch.bool not in pair:
        assert tt.above(x, y).tolist() == (x.double() > y.double()).tolist()
    zero = torch.tensor(1.5, dtype=torch.float64)  # without axes it changes no dtype of its kind
    assert mixed(x.float(), zero, mask)[0].dtype == torch.float32


def test_numbers_promote():
    @tile_ops.elementwise("tile_el::times(Tensor x, Scalar by) -> Tensor")
    def times(x, by):
        return x * by

    x = torch.arange(4)
    assert times(x, 2).dtype == torch.int64 and times(x, 2).tolist() == [0, 2, 4, 6]
    assert times(x, 0.5).dtype == torch.float32 and times(x, 0.5).tolist() == [0, 0.5, 1, 1.5]
    assert times(x.to(torch.int8), 2).dtype == torch.int8


ROWS = {name: row for name, row in _C.primitives().items() if row["elementwise"] and row["reference"]}
# Rows that are not functions from floats to a float, or are step functions.
STEPS = {"astype", "bitcast", "where", "floordiv", "floor", "ceil", "round", "trunc", "sign", "flush_subnormal", "mod"}


def of_floats(name):
    row = ROWS[name]
    return "f64" in row["dtypes"] and name not in STEPS and not name.startswith("astype") and ">" not in row["reference"]


@pytest.mark.parametrize("name", [name for name in ROWS if of_floats(name) and name not in (
    "eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite")])  # fmt: skip
def test_derivatives(name):
    """Every elementwise primitive of floats has the derivative of its reference."""
    row = ROWS[name]
    low, high = max(row["low"], -30), min(row["high"], 30)
    if name in ("asin", "acos"):
        low, high = -0.95, 0.95
    tensors = [(torch.rand(200, dtype=torch.float64) * (high - low) + low).requires_grad_() for _ in range(3)]
    result = tt.primitive(*tensors, name)
    expression = {"torch.fmin(x, y)": "torch.minimum(x, y)", "torch.fmax(x, y)": "torch.maximum(x, y)"}
    formula = expression.get(row["reference"], row["reference"])
    wanted = eval(formula, {"torch": torch}, dict(zip("xyz", tensors)))
    g = torch.randn(200, dtype=torch.float64)
    ours = torch.autograd.grad(result, tensors, g)
    theirs = torch.autograd.grad(wanted, tensors[: row["operands"]], g, allow_unused=True)
    for k, (mine, other) in enumerate(zip(ours, theirs)):
        torch.testing.assert_close(mine, other, rtol=1e-9, atol=1e-9, msg=lambda text: f"{name}, operand {k}: {text}")  # noqa: B023
    assert all(not each.any() for each in ours[row["operands"] :])


def test_derivatives_of_steps():
    x, y, z = (torch.rand(50, dtype=torch.float64).mul(4).add(0.5).requires_grad_() for _ in range(3))
    for name, function in {"floor": torch.floor, "sign": torch.sign, "round": torch.round}.items():
        assert not any(each.any() for each in torch.autograd.grad(tt.primitive(x, y, z, name).sum(), (x, y, z)))
    ours = torch.autograd.grad(tt.primitive(x, y, z, "mod").sum(), (x, y))
    theirs = torch.autograd.grad(torch.remainder(x, y).sum(), (x, y))
    torch.testing.assert_close(ours, theirs)


def test_derivative_at_ties():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = torch.tensor([1.0, 3.0], requires_grad=True)
    for name, function in {"maximum": torch.maximum, "minimum_nan": torch.minimum}.items():
        ours = torch.autograd.grad(tt.primitive(x, y, x.detach(), name).sum(), (x, y))
        assert torch.equal(torch.stack(ours), torch.stack(torch.autograd.grad(function(x, y).sum(), (x, y))))


def test_opcheck_compile_vmap():
    x, y = torch.randn(3, 4, requires_grad=True), torch.randn(4, requires_grad=True)
    mask = torch.rand(3, 4) > 0.5
    opcheck(swish.overload, (x, 2.0))
    opcheck(tt.sides.default, (x, y, 2))
    opcheck(mixed.overload, (x, y, mask))

    def function(x, y):
        return mixed(swish(x, 2.0), y, mask)[0].sum() + tt.sides(x, y, 2)[0].sum()

    wanted = torch.autograd.grad(function(x, y), (x, y))
    compiled = torch.compile(function, fullgraph=True, dynamic=True)
    torch.testing.assert_close(torch.autograd.grad(compiled(x, y), (x, y)), wanted)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batch = torch.vmap(lambda x, y: tt.sides(x, y, 2)[0], in_dims=(0, None))(x[:, :1], y)
        torch.testing.assert_close(batch, torch.hypot(x[:, :1], y) * 2)
        each = torch.vmap(torch.func.grad(lambda x: swish(x, 2.0).sum()))(x.detach())
    torch.testing.assert_close(each, torch.func.grad(lambda x: swish(x, 2.0).sum())(x.detach()))


def raises(kind, message, call, *arguments):
    with pytest.raises(kind) as error:
        call(*arguments)
    assert message in str(error.value), str(error.value)


def test_mistakes():
    x = torch.ones(2, 3)
    raises(ValueError, "tile_el::mixed: 'y' is [4], which does not broadcast with [2, 3]; extents must be equal or 1, "
                       "counted from the last", mixed, x, torch.ones(4), x > 0)  # fmt: skip
    raises(TypeError, "tw::no_expression: 'n' is List[int]; an expression takes Tensor, float, int, Scalar, bool and str",
           torch.ops.tw.no_expression, x, [1])  # fmt: skip
    raises(TypeError, "the expression takes 1 argument, but the schema has 2", torch.ops.tw.wrong_count, x, x)
    raises(NotImplementedError, "is not elementwise, as tw::not_elementwise has to be; write a kernel, and make it an "
                                "operator with op()", torch.ops.tw.not_elementwise, x)  # fmt: skip

    @tile_ops.elementwise("tile_el::summed(Tensor x) -> Tensor")
    def summed(x):
        return x - tl.sum(x)

    raises(NotImplementedError, "is not elementwise, as tile_el::summed has to be", summed, x)

    @tile_ops.elementwise("tile_el::wrong(Tensor x) -> Tensor")
    def wrong(x):
        return x + undefined  # noqa: F821

    raises(tl.TileTypeError if False else Exception, "test_elementwise.py", wrong, x)

    @tile_ops.elementwise("tile_el::two(Tensor x) -> (Tensor, Tensor)")
    def two(x):
        return x

    raises(TypeError, "tile_el::two: the expression gives 1 tiles, but the schema has 2 results", two, x)
    raises(TypeError, "elementwise: 3 is not a function", tile_ops.elementwise("tile_el::no(Tensor x) -> Tensor"), 3)
    raises(TypeError, "parameter 'x' is <class 'list'>; leave a tensor without, or write float, int, bool or str",
           tile_ops.elementwise, _of_a_list)  # fmt: skip
    with pytest.raises(TypeError) as error:
        tile_ops.elementwise("tile_el::written(Tensor(a!) x) -> ()")(lambda x: x)
    assert "'x' is written; an expression gives new tensors" in str(error.value)
    for schema in ("tile_el::numbers(float x) -> Tensor", "tile_el::nothing(Tensor x) -> ()"):
        raises(TypeError, schema.split("(")[0] + ": an expression takes at least one tensor and returns at least one",
               tile_ops.elementwise(schema), lambda x: x)  # fmt: skip
    many = ", ".join(f"Tensor x{i}" for i in range(8))
    raises(NotImplementedError, "tile_el::many: has 8 tensors and 1 results; a result and its gradient take at most 16, "
                                "counting tensors twice", tile_ops.elementwise(f"tile_el::many({many}) -> Tensor"),
           lambda *xs: xs[0])  # fmt: skip


def _of_a_list(x: list):
    return x


def test_no_derivative_is_named():
    @tile_ops.elementwise("tile_el::bits(Tensor x) -> Tensor")
    def bits(x):
        return tl.bitcast(tl.bitcast(x, tl.int32), tl.float32)

    x = torch.randn(3, requires_grad=True)
    assert torch.equal(bits(x), x)
    assert not torch.autograd.grad(bits(x).sum(), x)[0].any()  # an integer is in between
