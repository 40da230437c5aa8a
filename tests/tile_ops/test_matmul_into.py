"""tile::_matmul_into against torch: texts with several results, dtypes, shapes, strides, operands in place, and errors."""

import epilogues
import pytest
import random_texts
import tile_ops
import torch
from numerics import check
from opinfo import DTYPES

pytestmark = pytest.mark.usefixtures("deterministic")

into = torch.ops.tile._matmul_into
ALL = (*DTYPES, torch.bool, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


def draw(*shape, dtype=torch.float32):
    """Random numbers of a dtype: small whole ones of integers."""
    if dtype == torch.bool:
        return torch.rand(shape) < 0.5
    return torch.randn(shape).to(dtype) if dtype.is_floating_point else torch.randint(0, 9, shape).to(dtype)


def expected(text, input, other, operands, outs, second=None, names="", wide=None):
    """The results by torch, in the dtypes of outs; wide: what they are computed in, otherwise that of the product."""
    compute = wide or (torch.float64 if input.dtype == torch.float64 else torch.float32)
    named = dict(zip(names.split(",") if names else (f"x{k}" for k in range(len(operands))), operands))
    named = {name: each.clone() if each.dtype == torch.bool else each.to(compute, copy=True) for name, each in named.items()}
    if second is not None:
        named["acc2"] = input.to(compute) @ second.to(compute)
    found = epilogues.results(text, input.to(compute) @ other.to(compute), named)
    return [each.to(compute if wide and out.is_floating_point() else out.dtype) for each, out in zip(found, outs)]


def compare(text, input, other, operands, outs, **options):
    """Runs the operator, and compares what it wrote with torch."""
    before = [each.clone() for each in (input, other, *operands)]
    theirs = expected(text, input, other, operands, outs, **options)
    reference = expected(text, input, other, operands, outs, wide=torch.float64, **options)
    for out in outs:
        out.fill_(1) if out.dtype == torch.bool else out.fill_(-77 if out.dtype.is_signed else 77)
    # Operands that are results have their values again.
    for each, value in zip((input, other, *operands), before):
        each.copy_(value) if any(each is out for out in outs) else None
    assert into(input, other, operands, outs, epilogue=text, **options) is None
    for k, (out, one, exact) in enumerate(zip(outs, theirs, reference)):
        if out.dtype == torch.float64 and input.dtype != torch.float64:
            out, one = out.float(), one.float()  # they hold numbers of float32
        check(out, one, exact, what=f"{text}, result {k}")
    for each, value in zip((input, other, *operands), before):
        if not any(each is out for out in outs):
            assert torch.equal(each, value)


TEXTS = [
    "acc",
    "acc; acc * 2 + x0",
    "h = acc + x0; silu(h); h",
    "h = gelu(acc * 0.5 + x0); h * x1; h; h - x1; acc",
    "exp(-acc * acc); x0 * 2; x1",
    "maximum_nan(acc, x0); minimum_nan(acc, x1)",
    "t = tanh(acc); unused = t * x0; (1 - t * t) * x0",
    "rsqrt(abs(acc) + 1) + floor(x0) - trunc(x1) + ceil(acc * 0); round(x0)",
    "where((acc > 100) | ~(x0 < 0) & (x1 < 1), x0, x1)",
    "2; acc + 1",
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("text", TEXTS)
def test_texts(text, dtype):
    input, other = draw(37, 20, dtype=dtype) * 0.25, draw(20, 45, dtype=dtype)
    operands = [draw(45, dtype=dtype), draw(37, 1, dtype=dtype)]
    one = torch.ones(1)
    outs = [torch.empty(37, 45, dtype=dtype) for _ in epilogues.results(text, one, {"x0": one, "x1": one})]
    compare(text, input, other, operands, outs)


@pytest.mark.parametrize("out", ALL, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_results_of_every_dtype(dtype, out):
    """Whole numbers, so that conditions and numbers without fraction are those of torch."""
    input, other, x0 = (torch.randint(-2, 3, shape).to(dtype) for shape in ((19, 5), (5, 23), (23,)))
    text = "acc + x0; acc > x0" if out == torch.bool else "acc * acc + x0 * 0.5; acc * 2"
    outs = [torch.empty(19, 23, dtype=torch.float32), torch.empty(19, 23, dtype=out)]
    if not out.is_signed:
        input, other, x0 = input.abs(), other.abs(), x0.abs()
    compare(text, input, other, [x0], outs)
    compare("; ".join(text.split("; ")[::-1]), input, other, [x0], outs[::-1])


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_operands_of_every_dtype(dtype):
    text = "where(x0, acc, -acc); x0 & (acc > x1)" if dtype == torch.bool else "acc + x0; x1 * x0 > 0"
    outs = [torch.empty(19, 23), torch.empty(19, 23, dtype=torch.bool)]
    for shape in ((19, 23), (23,), (19, 1), ()):
        compare(text, draw(19, 5), draw(5, 23), [draw(*shape, dtype=dtype), draw(23)], outs)


SHAPES = [
    ((5, 7), (7, 3)),
    ((1, 1), (1, 1)),
    ((1, 64), (64, 1)),
    ((7,), (7,)),
    ((7,), (7, 3)),
    ((5, 7), (7,)),
    ((2, 5, 7), (7, 3)),
    ((5, 7), (2, 7, 3)),
    ((2, 5, 7), (2, 7, 3)),
    ((3, 1, 5, 7), (1, 4, 7, 3)),
    ((2, 1, 3, 1, 5, 7), (1, 4, 1, 2, 7, 3)),
    ((65, 130), (130, 70)),
    ((17, 300), (300, 257)),
    ((0, 7), (7, 3)),
    ((5, 0), (0, 3)),
    ((5, 7), (7, 0)),
    ((0, 5, 7), (7, 3)),
    ((2, 1, 7), (7, 3)),
]


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_shapes(shapes, second):
    input, other = (draw(*shape) for shape in shapes)
    options = {"second": draw(*shapes[1])} if second else {}
    shape = (input @ other).shape
    text = "h = silu(acc) * acc2 + x0; h; h * x1 - x2" if second else "h = silu(acc) + x0; h; h * x1 - x2"
    sides = [shape[-1:], (*shape[-2:-1], 1) if len(shape) > 1 else (), shape]
    operands = [draw(*side) for side in sides]
    compare(text, input, other, operands, [torch.empty(shape), torch.empty(shape, dtype=torch.float64)], **options)


def lying(shape, order, dtype=torch.float32, step=1):
    """A tensor whose axes lie in memory in an order, the first outermost, with `step` elements between neighbours."""
    sizes = [shape[axis] for axis in order]
    dense = torch.zeros(*sizes[:-1], sizes[-1] * step, dtype=dtype)[..., ::step]
    return dense.permute([order.index(axis) for axis in range(len(shape))])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("second", [False, True])
def test_strides(dtype, second):
    """Results, operands and factors that lie in any order, with gaps, and expanded operands."""
    text = "h = acc * acc2 + x0; h; h - x1" if second else "h = acc + x0; h; h - x1"
    orders = [(0, 1), (1, 0)]
    for one in orders:
        for two in orders:
            for step in (1, 3):
                outs = [lying((33, 45), one, dtype, step), lying((33, 45), two, torch.float32)]
                input, other = lying((33, 20), two, dtype), lying((20, 45), one, dtype, step)
                input.copy_(draw(33, 20, dtype=dtype)), other.copy_(draw(20, 45, dtype=dtype))
                operands = [draw(45, 33, dtype=dtype).t(), draw(33, 1).expand(33, 45)]
                compare(text, input, other, operands, outs, **({"second": draw(45, 20, dtype=dtype).t()} if second else {}))


@pytest.mark.parametrize("second", [False, True])
def test_strides_of_batches(second):
    orders = [(0, 1, 2), (1, 0, 2), (2, 0, 1), (2, 1, 0), (0, 2, 1), (1, 2, 0)]
    for one in orders:
        for two in orders[:3]:
            shape = (3, 17, 18)
            outs = [lying(shape, one), lying(shape, two, torch.bfloat16)]
            for batched in ((True, False), (False, True), (True, True)):
                input, other, factor = draw(*(3,) * batched[0], 17, 8), draw(8, 18), draw(8, 18)
                if batched[1]:
                    other, factor = draw(3, 8, 18), draw(8, 3, 18).transpose(0, 1)
                operands = [lying(shape, one[::-1]).copy_(draw(*shape)), draw(3, 1, 18)]
                text = "acc + x0; acc2 * acc - x1" if second else "acc + x0; acc - x1"
                compare(text, input, other, operands, outs, **({"second": factor} if second else {}))


def test_a_factor_that_alone_has_batches_of_its_own():
    """One matrix for all batches of `other`, expanded, and another one for each of `second`."""
    input, other, factor = draw(3, 5, 7), draw(7, 4).expand(3, 7, 4), draw(3, 7, 4)
    compare("silu(acc) * acc2", input, other, [], [torch.empty(3, 5, 4)], second=factor)
    compare("silu(acc) * acc2", input, factor, [], [torch.empty(3, 5, 4)], second=other)
    compare("silu(acc) * acc2", draw(5, 7), factor, [], [torch.empty(3, 5, 4)], second=other)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shapes", [((65, 70), (70, 33)), ((3, 40, 64), (64, 300)), ((257, 96), (96, 512))], ids=str)
@pytest.mark.parametrize("activation", ["none", "relu", "gelu", "gelu_tanh", "silu"])
def test_the_bits_are_those_of_matmul(dtype, shapes, activation):
    x, y = draw(*shapes[0], dtype=dtype), draw(*shapes[1], dtype=dtype)
    out = torch.empty((x @ y).shape, dtype=dtype)
    bias, residual = draw(out.shape[-1], dtype=dtype), draw(*out.shape, dtype=dtype)
    called = activation + "({})" if activation != "none" else "{}"
    for text, options in {
        called.format("acc"): {},
        called.format("acc + x0") + " + x1": {"bias": bias, "residual": residual},
        called.format("acc * 0.5"): {"alpha": 0.5},
    }.items():
        into(x, y, [bias, residual], [out], epilogue=text)
        theirs = torch.ops.tile.matmul(x, y, activation=activation, **options)
        assert torch.equal(out, theirs), text


def test_the_bits_are_those_of_gated_matmul():
    x, gate, up, out = draw(70, 96), draw(96, 130), draw(96, 130), torch.empty(70, 130)
    into(x, gate, [], [out], epilogue="silu(acc) * acc2", second=up)
    assert torch.equal(out, torch.ops.tile.gated_matmul(x, gate, up))


def test_many_operands_and_results():
    shapes = [(33, 21), (21,), (33, 1), ()]
    operands = [draw(*shapes[k % 4]) for k in range(16)]
    text = "h = acc + " + " + ".join(f"x{k} * {k + 1}" for k in range(16)) + "; " + "; ".join(f"h * {k + 1}" for k in range(8))
    compare(text, draw(33, 9), draw(9, 21), operands, [torch.empty(33, 21, dtype=DTYPES[k % 4]) for k in range(8)])


def test_operands_by_names():
    names = "bias,gate,c"
    compare(
        "exp(acc * gate) + bias - c",
        draw(5, 7),
        draw(7, 3),
        [draw(3), draw(5, 1), draw(5, 3)],
        [torch.empty(5, 3)],
        names=names,
    )


def test_roundings():
    """Each rounding is to nearest, and none is left out."""
    one, x = (
        torch.ones(1, 1),
        torch.cat([torch.randn(3000) * 1000, torch.tensor([0.0, 1 + 2**-9, 70000.0, 1e-9, torch.inf, torch.nan])]),
    )
    outs = [torch.empty(1, len(x)) for _ in range(5)]
    text = "bfloat16(acc); float16(acc); float32(acc); bfloat16(acc) * bfloat16(acc + 1); float32(acc > 1) + bfloat16(acc < 1)"
    into(one, x[None], [], outs, epilogue=text)
    for out, value in zip(outs, epilogues.results(text, x[None], {})):
        torch.testing.assert_close(out, value, rtol=0, atol=0, equal_nan=True)
    wide = torch.randn(1, 500, dtype=torch.float64)
    out = torch.empty(1, 500, dtype=torch.float64)
    into(one.double(), wide, [], [out], epilogue="float32(acc)")
    assert torch.equal(out, wide.float().double())


def test_special_values():
    values = torch.tensor([torch.nan, torch.inf, -torch.inf, 0.0, -0.0, 1.0, -2.0])
    x, y, one = values[:, None].contiguous(), values, torch.ones(1, 1)
    shape = (len(values), len(values))
    texts = "maximum_nan(acc, x0); minimum_nan(acc, x0); isnan(acc) | isinf(x0); bool(acc); where(x0 == inf, nan, acc)"
    outs = [torch.empty(shape, dtype=dtype) for dtype in (torch.float32, torch.float32, torch.bool, torch.bool, torch.float32)]
    into(x, one.expand(1, len(values)), [y], outs, epilogue=texts)
    theirs = epilogues.results(texts, x.expand(shape), {"x0": y})
    for out, right in zip(outs, theirs):
        torch.testing.assert_close(out, right, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "shapes", [((5, 7), (7, 3)), ((2, 70, 33), (33, 300)), ((3, 20, 6), (3, 6, 9)), ((7,), (7, 9))], ids=str
)
def test_operands_in_the_place_of_results(dtype, shapes):
    x, y = draw(*shapes[0], dtype=dtype), draw(*shapes[1], dtype=dtype)
    shape = (x @ y).shape
    for k in range(2):
        outs = [draw(*shape, dtype=dtype), draw(*shape)]
        compare("acc + x0; x0 * x1 - acc", x, y, [outs[k], draw(shape[-1])], outs)
    first, two = draw(*shape, dtype=dtype), draw(*shape, dtype=dtype)
    compare("x1; x0 + acc", x, y, [first, two], [first, two])  # they change places
    if len(shape) > 1:
        turned = lying(shape, list(range(len(shape)))[::-1], dtype).copy_(draw(*shape, dtype=dtype))
        compare("acc * 2 + x0", x, y, [turned], [turned])


def test_another_text_names_dtype_or_place_is_another_kernel():
    x, y, a, b, out = draw(5, 7), draw(7, 3), draw(5, 3), draw(5, 3), torch.empty(5, 3)
    for text in ("acc + x0 - x1", "acc + x1 - x0", "acc - x0 - x1"):
        compare(text, x, y, [a, b], [out])
    for names in ("a,b", "b,a"):
        compare("acc + a - b", x, y, [a, b], [out], names=names)
    for operands in ([a, b], [out, b], [a, out], [out, out]):
        compare("acc + x0 - x1 * 2", x, y, operands, [out])
    mask = a > 0
    compare("where(bool(x0), acc, x1)", x, y, [a.round(), b], [out])
    compare("where(x0, acc, x1)", x, y, [mask, b], [out])


@pytest.mark.slow  # each text is a kernel
def test_random_texts(long):
    """Values in float64 where errors of torch's own do not change them: elsewhere a comparison may fall differently."""
    compared = elements = 0
    for seed in range(500 if long else 60):
        text, conditions = random_texts.Writer(seed, ("acc", "x0", "x1"), ("x2",)).text()
        torch.manual_seed(seed)
        x, y = torch.randn(12, 1).double(), torch.randn(1, 20).double()
        operands = [torch.randn(20).double(), torch.randn(12, 1).double() * 3, torch.rand(12, 20) < 0.5]
        outs = [torch.empty(12, 20, dtype=torch.bool if each else torch.float64) for each in (*conditions, False)]
        into(x, y, operands, outs, epilogue=text + "; acc")
        exact, stays = random_texts.determined(text, x @ y, {f"x{k}": each for k, each in enumerate(operands)})
        for out, right, where in zip(outs, exact, stays):
            found, right = out[where].double(), right[where].double()
            torch.testing.assert_close(found, right, rtol=1e-7, atol=1e-7, equal_nan=True, msg=lambda m: f"{seed}: {text}: {m}")  # noqa: B023
            compared, elements = compared + int(where.sum()), elements + out.numel()
    assert compared > 0.7 * elements


def test_it_is_one_launch():
    x, y, x0, outs = draw(33, 20), draw(20, 45), draw(45), [torch.empty(33, 45), torch.empty(33, 45, dtype=torch.bool)]
    for options in ({}, {"arch": 90}):  # on a CPU, and on a GPU
        call = lambda x, y, x0, *outs: into(x, y, [x0], list(outs), epilogue="h = acc + x0; silu(h); h > 0")  # noqa: E731
        text = tile_ops.inspect(call, x, y, x0, *outs, what="cuda" if options else "ir", **options)
        assert text.count("matmul, grid") == text.count(", grid") == 1, text


def test_fake_tensors_and_functionalisation():
    x, y, x0 = draw(5, 7), draw(7, 3), draw(3)

    def function(x, y, x0):
        outs = [torch.empty(x.shape[0], y.shape[1]), torch.empty(x.shape[0], y.shape[1], dtype=torch.bool)]
        into(x, y, [x0], outs, epilogue="h = acc + x0; silu(h); h > 0")
        return outs[0] * 2, outs[1]

    for dynamic in (False, True):
        torch._dynamo.reset()
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager", dynamic=dynamic)
        for found, right in zip(compiled(x, y, x0), function(x, y, x0)):
            assert torch.equal(found, right)
    with torch._subclasses.FakeTensorMode() as mode:
        fake = [mode.from_tensor(each) for each in (x, y, x0)]
        assert into(*fake[:2], fake[2:], [torch.empty(5, 3)], epilogue="acc + x0") is None
        with pytest.raises(ValueError):
            into(*fake[:2], fake[2:], [torch.empty(5, 4)], epilogue="acc + x0")


@pytest.mark.slow  # inductor takes seconds
def test_compiled_by_inductor():
    x, y, x0 = draw(5, 7), draw(7, 3), draw(3)

    def function(x, y, x0):
        out = torch.empty(x.shape[0], y.shape[1])
        into(x.sin(), y, [x0], [out], epilogue="silu(acc + x0)")
        return out * 2

    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(function, fullgraph=True)(x, y, x0), function(x, y, x0))


def test_opcheck():
    outs = [torch.empty(2, 3, 5, dtype=torch.float64), torch.empty(2, 3, 5)]
    arguments = torch.randn(2, 3, 4).double(), torch.randn(4, 5).double(), [torch.randn(5)], outs
    options = {"epilogue": "h = acc * acc2; h + x0; h", "second": torch.randn(4, 5).double()}
    torch.library.opcheck(into, arguments, options)


def test_what_requires_grad():
    """It has no gradient; without grad mode, as in compiled graphs, tensors may require grad."""
    x, y, out = draw(5, 7).requires_grad_(), draw(7, 3), torch.empty(5, 3)
    with torch.no_grad():
        into(x, y, [], [out], epilogue="acc")
    torch.testing.assert_close(out, (x @ y).detach())
    with pytest.raises(RuntimeError) as error:
        into(x, y, [], [out], epilogue="acc")
    assert str(error.value).splitlines()[0] == (
        "tile::_matmul_into: writes into its arguments and has no gradient, but 'input' requires grad; call it under "
        "torch.no_grad()"
    )


X, Y, B = torch.ones(2, 3), torch.ones(3, 4), torch.ones(4)
REFUSED = [
    ([X, Y, [], [torch.empty(2, 5)]], {}, ValueError, "outs[0] has shape [2, 5] and the product [2, 4]; they must be alike"),
    ([X, Y, [], [torch.empty(4)]], {}, ValueError, "outs[0] has shape [4] and the product [2, 4]; they must be alike"),
    ([X, Y, [], [torch.empty(1, 2, 4)]], {}, ValueError, "outs[0] has shape [1, 2, 4] and the product [2, 4]; they must be alike"),
    ([X, Y, [], []], {}, ValueError, "epilogue 'acc' has 1 result and outs 0 tensors; pass one for each result"),
    ([X, Y, [], [torch.empty(2, 4)]], {"epilogue": "acc; acc * 2"}, ValueError,
     "epilogue 'acc; acc * 2' has 2 results and outs 1 tensor; pass one for each result"),
    ([X, Y, [], [torch.empty(2, 4) for _ in range(9)]], {}, ValueError,
     "outs has 9 tensors; the most is 8, so compute some of the text elsewhere"),
    ([X, Y, [B] * 17, [torch.empty(2, 4)]], {}, ValueError,
     "operands has 17 tensors; the most is 16, so compute some of the text elsewhere"),
    ([X, Y, [], [torch.empty(2, 4, dtype=torch.bool)]], {}, TypeError,
     "outs[0] is bool, and its text gives numbers; write x != 0 for a bool"),
    ([X, Y, [], [torch.empty(2, 4)]], {"epilogue": "acc > 0"}, TypeError,
     "outs[0] is float32, and its text gives conditions; write float32(c) for 1 and 0"),
    ([X, Y, [], [torch.empty(2, 4, dtype=torch.complex64)]], {}, TypeError,
     "outs[0] is complex64; it must be bool, an integer, float16, bfloat16, float32 or float64"),
    ([X, Y, [B.to(torch.complex64)], [torch.empty(2, 4)]], {"epilogue": "acc + x0"}, TypeError,
     "x0 is complex64; it must be bool, an integer, float16, bfloat16, float32 or float64"),
    ([X, Y, [torch.ones(3)], [torch.empty(2, 4)]], {"epilogue": "acc + x0"}, ValueError,
     "x0 [3] does not broadcast to the product [2, 4]; its extents must be 1 or equal, counted from the last"),
    ([X, Y, [torch.ones(1, 2, 4)], [torch.empty(2, 4)]], {"epilogue": "acc + b", "names": "b"}, ValueError,
     "b [1, 2, 4] does not broadcast to the product [2, 4]; its extents must be 1 or equal, counted from the last"),
    ([X, Y, [B], [torch.empty(2, 4)]], {"epilogue": "acc + a", "names": "a,b"}, ValueError,
     "names has 2 names, but operands 1 tensor; name each of them"),
    ([X, Y, [B], [torch.empty(2, 4)]], {"epilogue": "acc", "names": "acc"}, ValueError,
     "an operand is named 'acc', which is the product; give it another name"),
    ([X, Y, [B], [torch.empty(2, 4)]], {"epilogue": "acc * acc2", "names": "acc2", "second": Y}, ValueError,
     "an operand is named 'acc2', which is the second product; give it another name"),
    ([X, Y, [B, B], [torch.empty(2, 4)]], {"names": "b,b"}, ValueError, "two operands are named 'b'; give each its own name"),
    ([X, Y, [B], [torch.empty(2, 4)]], {"epilogue": "x0"}, ValueError,
     "epilogue 'x0' does not use acc, the product; without it no product is needed"),
    ([X, Y, [], [torch.empty(2, 4)]], {"second": Y}, ValueError,
     "epilogue 'acc' does not use acc2, the second product; use it, or do not give 'second'"),
    ([X, Y, [], [torch.empty(2, 4)]], {"epilogue": "acc * acc2"}, ValueError,
     "epilogue 'acc * acc2', column 7: there is no 'acc2'; the names are acc"),
    ([X, Y, [], [torch.empty(2, 4)]], {"epilogue": "acc * x0"}, ValueError,
     "epilogue 'acc * x0', column 7: there is no 'x0'; the names are acc"),
    ([X, Y, [B > 0], [torch.empty(2, 4)]], {"epilogue": "acc * x0"}, ValueError,
     "epilogue 'acc * x0', column 5: '*' takes (number, number), and is given (number, condition); a comparison gives a "
     "condition, where(c, x, y) chooses by one"),
    ([X, Y, [], [torch.empty(2, 4)]], {"epilogue": "acc * acc2", "second": torch.ones(3, 5)}, ValueError,
     "second has shape [3, 5] and other [3, 4]; they must have one shape"),
    ([X, Y, [], [torch.empty(2, 4)]], {"epilogue": "acc * acc2", "second": Y.double()}, TypeError,
     "other is float32 and second is float64; convert one with .to()"),
    ([X, torch.ones(4, 4), [], [torch.empty(2, 4)]], {}, ValueError,
     "cannot multiply input [2, 3] by other [4, 4]; the inner extents 3 and 4 differ"),
    ([X, Y.double(), [], [torch.empty(2, 4)]], {}, TypeError, "input is float32 and other is float64; convert one with .to()"),
    ([X, Y, [], [torch.empty(1, 4).expand(2, 4)]], {}, ValueError, "outs[0] overlaps itself in memory, and is written; clone() it"),
]  # fmt: skip


@pytest.mark.parametrize("arguments, options, kind, text", REFUSED, ids=[text for *_, text in REFUSED])
def test_errors(arguments, options, kind, text):
    with pytest.raises(kind) as error:
        into(*arguments, **{"epilogue": "acc", **options})
    assert str(error.value).splitlines()[0] == f"tile::_matmul_into: {text}"


def test_overlaps_are_errors():
    memory = torch.zeros(100)
    out, shifted = memory[:8].view(2, 4), memory[4:12].view(2, 4)
    turned = memory[:8].view(4, 2).t()
    last = "overlap in memory, which is written; clone() one of them"
    for what, call in {
        "outs[0] and input": lambda: into(memory[6:12].view(2, 3), Y, [], [out], epilogue="acc"),
        "outs[0] and other": lambda: into(X, memory[6:18].view(3, 4), [], [out], epilogue="acc"),
        "outs[1] and second": lambda: into(
            X, Y, [], [torch.empty(2, 4), out], epilogue="acc; acc2", second=memory[6:18].view(3, 4)
        ),
        "outs[0] and operands[1]": lambda: into(X, Y, [B, shifted], [out], epilogue="acc + x0 + x1"),
        "outs[0] and operands[0]": lambda: into(X, Y, [turned], [out], epilogue="acc + x0"),
        "outs[0] and outs[1]": lambda: into(X, Y, [], [out, out], epilogue="acc; acc * 2"),
        "outs[0] and operands[2]": lambda: into(X, Y, [B, B, out[:1]], [out], epilogue="acc + x0 + x1 + x2"),
    }.items():
        with pytest.raises(ValueError) as error:
            call()
        assert str(error.value).splitlines()[0] == f"tile::_matmul_into: {what} {last}"


def test_results_that_are_interleaved():
    """Parts of one tensor, which share no element."""
    both = torch.zeros(5, 8)
    into(draw(5, 7), draw(7, 4), [], [both[:, ::2], both[:, 1::2]], epilogue="acc; acc * 2")
    torch.testing.assert_close(both[:, 1::2], both[:, ::2] * 2)
