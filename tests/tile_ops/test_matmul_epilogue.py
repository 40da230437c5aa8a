"""tile::matmul_epilogue against torch: texts, shapes, strides, gradients and errors."""

import epilogues
import pytest
import tile_ops
import torch
from combinations import long
from numerics import check, check_call
from opinfo import DTYPES

pytestmark = pytest.mark.usefixtures("deterministic")

TEXT = "silu(acc * s + bias) * gate"


def call(text, *names, numbers=()):
    """Returns our function and torch's, of input, other and tensors by these names; numbers: the rest."""
    numbers = dict(numbers)

    def ours(x, y, *tensors):
        return tile_ops.matmul(x, y, epilogue=text, operands={**dict(zip(names, tensors)), **numbers})

    def theirs(x, y, *tensors):
        return epilogues.value(text, x @ y, {**dict(zip(names, tensors)), **numbers}).to(x.dtype)

    return ours, theirs


TEXTS = [
    "acc",
    "-acc + 2",
    "acc * 0.5 - b / 3",
    "(acc + b) * (acc - b) / (1 + b * b)",
    "acc ** 2 + acc ** 3 - 2 ** acc",
    "abs(acc) ** 1.5",
    "acc ** 4 + (2 + acc * acc) ** -1",
    "floor(acc) * b + b",
    "-acc ** 2",
    "exp(-acc * acc) + log1p(abs(b))",
    "tanh(acc) * sigmoid(b)",
    "sqrt(abs(acc) + 1) * rsqrt(b * b + 1)",
    "where(acc > b, acc, 0.1 * acc)",
    "where(bitwise_and(acc > -1, acc <= 1), acc, b)",
    "where(acc != b, max(acc, b), min(acc, 0))",
    "maximum(acc, 0) + minimum(b, 1)",
    "relu(acc + b)",
    "gelu(acc) * b",
    "gelu_tanh(acc) - b",
    "silu(b) + sin(acc) * cos(acc)",
    "fma(acc, b, 1) + erf(acc) + atan2(acc, 2)",
    "where(isnan(acc), 0, acc)",
    "30 * tanh(acc / 30) + +b",
    "1e-2*acc+.5*(b)-1.",
    "h = acc + b; silu(h) * h",
    "h=acc*acc;g = tanh(b) ; h - g * acc",
    "where((acc > -1) & (acc <= 1) | ~(b < 0), acc, b)",
    "where((acc > b) ^ (acc > 0), acc * acc, b)",
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_texts(make, dtype, text):
    names = ("b",) if "b" in text.replace("abs", "").replace("bitwise", "") else ()
    ours, theirs = call(text, *names)
    tensors = [make(37, 20, dtype=dtype) * 0.25, make(20, 45, dtype=dtype), *(make(45, dtype=dtype) for _ in names)]
    check_call(ours, theirs, [each.detach().requires_grad_() for each in tensors], what=text)


SHAPES = [
    ((5, 7), (7, 3), (3,), (5, 3)),
    ((1, 1), (1, 1), (1,), ()),
    ((1, 64), (64, 1), (1, 1), (1,)),
    ((7,), (7,), (), ()),
    ((7,), (7, 3), (3,), (1,)),
    ((5, 7), (7,), (5,), ()),
    ((2, 5, 7), (7,), (2, 1), (5,)),
    ((2, 5, 7), (7, 3), (2, 1, 3), (5, 1)),
    ((5, 7), (2, 7, 3), (1, 5, 1), (2, 5, 3)),
    ((3, 1, 5, 7), (1, 4, 7, 3), (4, 1, 3), (3, 1, 1, 1)),
    ((2, 1, 3, 1, 5, 7), (1, 4, 1, 2, 7, 3), (4, 1, 1, 1, 3), (2, 1, 1, 2, 5, 1)),
    ((65, 130), (130, 70), (65, 1), (65, 70)),
    ((17, 300), (300, 257), (257,), (17, 257)),
    ((0, 7), (7, 3), (3,), (0, 3)),
    ((5, 0), (0, 3), (5, 1), (5, 3)),
    ((5, 7), (7, 0), (), (5, 1)),
    ((0, 5, 7), (7, 3), (3,), (0, 1, 1)),
    ((0,), (0,), (), ()),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_shapes(dtype, shapes):
    ours, theirs = call(TEXT, "bias", "gate", numbers={"s": 0.25})
    tensors = [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]
    check_call(ours, theirs, tensors, what=str(shapes))


@pytest.mark.parametrize("dtype", DTYPES)
def test_strides(make, dtype):
    """Transposed, sliced, expanded and reversed operands, and a result that lies column by column."""
    ours, theirs = call(TEXT, "bias", "gate", numbers={"s": 0.25})
    x, y = make(20, 33, dtype=dtype), make(45, 20, dtype=dtype)
    gates = [make(45, 33, dtype=dtype).t(), make(66, 45, dtype=dtype)[::2], make(33, 1, dtype=dtype).expand(33, 45)]
    for gate in gates:
        check_call(ours, theirs, [x.t(), y.t(), make(90, dtype=dtype)[::2], gate])
    samples = [make(33, 3, 20, dtype=dtype).transpose(0, 1), y.t(), make(45, 3, dtype=dtype).t()[:, None], gates[0]]
    check_call(ours, theirs, samples)


def test_operands_of_another_dtype(make):
    x, y, b = make(33, 20, dtype=torch.bfloat16), make(20, 45, dtype=torch.bfloat16), make(45, dtype=torch.float32)
    check_call(*call("tanh(acc) * b", "b"), [x, y, b])
    wide = [make(5, 7, dtype=torch.float64), make(7, 3, dtype=torch.float64), make(3, dtype=torch.float16)]
    check_call(*call("tanh(acc) * b", "b"), wide)


def test_one_tensor_by_two_names(make):
    check_call(*call("acc * a + b", "a", "b"), [make(5, 7), make(7, 3), *[make(3)] * 2])


def test_six_tensors_and_six_numbers(make):
    names, numbers = "abcdef", {f"n{i}": 0.5 + i for i in range(6)}
    text = " + ".join(["acc"] + [f"{name} * n{i}" for i, name in enumerate(names)])
    check_call(
        *call(text, *names, numbers=numbers),
        [make(5, 7), make(7, 3), *(make(5, 1) for _ in range(3)), *(make(3) for _ in range(3))],
    )


def test_whole_numbers_and_an_operand_named_as_a_function(make):
    x, y, exp = make(5, 7), make(7, 3), make(3)
    out = tile_ops.matmul(x, y, epilogue="exp(acc * two) + exp", operands={"two": 2, "exp": exp})
    torch.testing.assert_close(out, torch.exp(x @ y * 2) + exp)


def test_infinity(make):
    x, y, mask = make(5, 7).detach(), make(7, 3).detach(), (make(5, 3) > 0).float()
    out = tile_ops.matmul(x, y, epilogue="where(mask > 0, acc, -inf)", operands={"mask": mask})
    torch.testing.assert_close(out, (x @ y).masked_fill(mask == 0, -torch.inf))


def test_numbers_share_a_kernel_and_texts_do_not(make):
    x, y = make(5, 7).detach(), make(7, 3).detach()
    for scale in (0.5, 2.0, -1.0):
        torch.testing.assert_close(tile_ops.matmul(x, y, epilogue="acc * s", operands={"s": scale}), (x @ y) * scale)
    a, b = make(3).detach(), make(3).detach()
    for text, expected in {"acc + a - b": x @ y + a - b, "acc + b - a": x @ y + b - a, "acc - a - b": x @ y - a - b}.items():
        torch.testing.assert_close(tile_ops.matmul(x, y, epilogue=text, operands={"a": a, "b": b}), expected)
    # The same text, where the names are of other tensors.
    torch.testing.assert_close(tile_ops.matmul(x, y, epilogue="acc + a - b", operands={"b": b, "a": a}), x @ y + a - b)


def test_it_is_one_launch(make):
    def function(x, y, bias, gate):
        return tile_ops.matmul(x, y, epilogue=TEXT, operands={"bias": bias, "gate": gate, "s": 2.0})

    tensors = [make(*shape, grad=False) for shape in ((33, 20), (20, 45), (45,), (33, 45))]
    for options in ({}, {"arch": 90}):  # on a CPU, and on a GPU
        text = tile_ops.inspect(function, *tensors, what="cuda" if options else "ir", **options)
        assert text.count("\n// matmul, grid") + text.startswith("// matmul, grid") == 1, text
        assert text.count(", grid") == 1


def test_an_epilogue_gives_what_the_arguments_do(make):
    x, y, b, r = (make(*shape).detach() for shape in ((65, 70), (70, 33), (33,), (65, 33)))
    for name in ("relu", "gelu", "gelu_tanh", "silu"):
        ours = tile_ops.matmul(x, y, epilogue=f"{name}(acc * 0.5 + b) + r", operands={"b": b, "r": r})
        theirs = tile_ops.matmul(x, y, bias=b, activation=name, residual=r, alpha=0.5)
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)
    assert torch.equal(tile_ops.matmul(x, y, epilogue="acc"), tile_ops.matmul(x, y))


def test_gradcheck():
    shapes = [(2, 3, 4), (4, 5), (5,), (3, 1), ()]
    tensors = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    for text in ("tanh(acc + a) * b ** 2 + c * acc", "where(acc > a, gelu(acc) * b, c * acc)", "acc + a * b * c"):
        ours, _ = call(text, "a", "b", "c")
        assert torch.autograd.gradcheck(ours, tensors, check_batched_grad=True)


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (3,), (2, 3), (0, 3), (0, 1, 2, 3)], ids=str)
def test_only_wanted_gradients(make, wanted):
    ours, theirs = call(TEXT, "bias", "gate", numbers={"s": 0.25})
    tensors = [make(5, 7).detach(), make(7, 3).detach(), make(3).detach(), make(5, 3).detach()]
    for i in wanted:
        tensors[i].requires_grad_()
    out, expected = ours(*tensors), theirs(*tensors)
    incoming = torch.randn_like(out)
    of = [tensors[i] for i in wanted]
    for a, b in zip(torch.autograd.grad(out, of, incoming), torch.autograd.grad(expected, of, incoming)):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def saved_by(text, *names):
    """Returns how many tensors of the result's shape autograd keeps."""
    kept = []

    def pack(tensor):
        kept.append(tuple(tensor.shape))
        return tensor

    x, y = torch.randn(5, 7, requires_grad=True), torch.randn(7, 3, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        tile_ops.matmul(x, y, epilogue=text, operands={name: torch.randn(3, requires_grad=True) for name in names})
    return kept.count((5, 3))


def test_the_product_is_saved_only_where_a_derivative_reads_it():
    assert saved_by("acc + b", "b") == saved_by("acc * 2 - b * c", "b", "c") == 0
    assert saved_by("acc * b", "b") == saved_by("silu(acc) + b", "b") == 1
    x, y, b = (torch.randn(shape, requires_grad=True) for shape in ((5, 7), (7, 3), (3,)))
    for text, names in (("acc * 2 + b", ("b",)), ("3 * (acc - b) / 4", ("b",))):
        ours, theirs = call(text, *names)
        for a, e in zip(
            torch.autograd.grad(ours(x, y, b).sum(), (x, y, b)), torch.autograd.grad(theirs(x, y, b).sum(), (x, y, b))
        ):
            torch.testing.assert_close(a, e)


@pytest.mark.slow  # matrices of more than 43 MiB
@pytest.mark.parametrize(
    "dtype, shapes",
    [
        (torch.float32, ((6000, 16), (16, 2048), (2048,), (6000, 2048))),
        (torch.float32, ((5, 1500, 8), (5, 8, 1600), (5, 1, 1600), (1500, 1))),
        long(torch.bfloat16, ((12000, 16), (16, 2048), (2048,), (12000, 1))),
        (torch.bfloat16, ((2200, 512), (512, 10400), (10400,), ())),
    ],
    ids=str,
)
def test_gradients_in_chunks(dtype, shapes):
    ours, theirs = call(TEXT, "bias", "gate", numbers={"s": 0.25})
    tensors = [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]
    out = ours(*tensors)
    incoming = torch.randn_like(out)
    found = torch.autograd.grad(out, tensors, incoming)
    wide = [each.detach().double().requires_grad_() for each in tensors]
    expected = torch.autograd.grad(theirs(*wide), wide, incoming.double())
    for i, (own, right) in enumerate(zip(found, expected)):
        error, most = (own.double() - right).abs().max().item(), right.abs().max().item()
        allowed = (64 if dtype == torch.float32 else 4) * torch.finfo(dtype).eps * most
        assert error <= allowed, f"gradient {i}: error {error:.3g}, largest {most:.3g}"


def test_double_backward(make):
    x, y, b, g = (make(*shape, dtype=torch.float64) for shape in ((5, 7), (7, 3), (3,), (5, 3)))
    function = lambda x, y, b, g: tile_ops.matmul(x, y, epilogue="tanh(acc * b) * g", operands={"b": b, "g": g})  # noqa: E731
    assert torch.autograd.gradgradcheck(function, (x, y, b, g))


def test_compiled(make):
    tensors = [make(5, 7), make(7, 3), make(3), make(5, 3)]

    def function(x, y, bias, gate, scale):
        return tile_ops.matmul(x, y, epilogue=TEXT, operands={"bias": bias, "gate": gate, "s": scale}) * 2

    for dynamic in (False, True):
        torch._dynamo.reset()
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager", dynamic=dynamic)
        for scale in (0.5, 0.25):
            ours, theirs = compiled(*tensors, scale), function(*tensors, scale)
            torch.testing.assert_close(ours, theirs)
            both = (torch.autograd.grad(each.sum(), tensors) for each in (ours, theirs))
            for a, b in zip(*both):
                torch.testing.assert_close(a, b)


@pytest.mark.slow  # inductor takes seconds
def test_compiled_by_inductor(make):
    tensors = [make(5, 7), make(7, 3), make(3), make(5, 3)]
    ours, _ = call(TEXT, "bias", "gate", numbers={"s": 0.5})
    torch._dynamo.reset()
    compiled = torch.compile(ours, fullgraph=True)
    torch.testing.assert_close(compiled(*tensors), ours(*tensors))
    both = (torch.autograd.grad(each(*tensors).sum(), tensors) for each in (compiled, ours))
    for a, b in zip(*both):
        torch.testing.assert_close(a, b)


def test_opcheck_with_operands_that_require_grad():
    x, y, b, g = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((2, 3, 4), (4, 5), (5,), (3, 1)))
    named = {"operand0": b, "operand1": g, "numbers": [0.5], "names": "bias,gate,s"}
    torch.library.opcheck(torch.ops.tile.matmul_epilogue, (x, y, TEXT), named)


def test_vmap_of_operands(make):
    x, y, b = make(4, 5, 7).detach(), make(7, 3).detach(), make(4, 3).detach()
    ours, theirs = call("tanh(acc) + b", "b")
    for in_dims in ((0, None, 0), (None, None, 0), (0, None, None)):
        given = [t if d == 0 else t[0] if t is not y else t for t, d in zip((x, y, b), in_dims)]
        torch.testing.assert_close(torch.vmap(ours, in_dims)(*given), torch.vmap(theirs, in_dims)(*given))


def test_autocast(make):
    x, y, b = make(5, 7), make(7, 3), make(3)
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        out = tile_ops.matmul(x, y, epilogue="acc + b", operands={"b": b})
    assert out.dtype == torch.bfloat16
    low = [each.bfloat16() for each in (x, y, b)]
    assert torch.equal(out, tile_ops.matmul(low[0], low[1], epilogue="acc + b", operands={"b": low[2]}))
    assert [g.dtype for g in torch.autograd.grad(out.sum(), (x, y, b))] == [torch.float32] * 3


def test_special_values():
    """NaN and infinities go through relu and where as in torch; max and min ignore NaN, as those of the language."""
    x = torch.tensor([[float("nan"), 1.0, -1.0, float("inf"), -float("inf"), 0.0]]).t()
    one = torch.ones(1, 1)
    for text in ("relu(acc)", "where(acc > 0, acc, -acc)", "max(acc, 0)", "exp(acc)", "silu(acc)"):
        ours, theirs = call(text)
        check(ours(x, one), theirs(x, one), theirs(x.double(), one.double()), what=text)


FUNCTIONS = (
    "abs, acos, add, asin, atan, atan2, bfloat16, bitwise_and, bitwise_or, bitwise_xor, bool, ceil, cos, cosh, div, eq, erf, "
    "exp, exp2, expm1, float, float16, float32, floor, floordiv, fma, ge, gelu, gelu_tanh, gt, int32, int64, isfinite, "
    "isinf, isnan, le, log, log1p, log2, logical_not, lt, max, maximum, "
    "maximum_nan, min, minimum, minimum_nan, mod, mul, ne, neg, pow, relu, round, rsqrt, sigmoid, sign, silu, sin, sinh, sqrt, "
    "sub, tan, tanh, trunc, where"
)
VALUE = "is where a value must follow; write a number, a name, a call or '('"
OPERATORS = "is where an operator must follow; the operators are + - * / ** < <= > >= == != & | ^"
CHOOSE = "a comparison gives a condition, where(c, x, y) chooses by one"
MISTAKES = {
    "": (1, f"the end {VALUE}"),
    "acc +": (6, f"the end {VALUE}"),
    "acc + * b": (7, f"'*' {VALUE}"),
    "acc // 2": (6, f"'/' {VALUE}"),
    "acc + $": (7, f"'$' {VALUE}"),
    "acc + ä": (7, f"'ä' {VALUE}"),
    "exp()": (1, "'exp' takes 1 argument, and is given 0; separate arguments by commas"),
    "acc @ 2": (5, f"'@' {OPERATORS}"),
    "acc acc": (5, f"'a' {OPERATORS}"),
    "acc (2)": (1, "'acc' is a value, which cannot be called; write an operator before '('"),
    "acc, 1": (4, "',' is outside of a call; remove it"),
    "acc)": (4, "')' closes no '('; remove it"),
    "acc = h; h": (5, "'=' is no operator; write == to compare"),
    "h = acc": (8, "the text only gives names to values; end with a result: h = x + 1; silu(h) * h"),
    "h = acc; h = h * h; h": (10, "'h' has a value; give this one another name"),
    "acc; acc * 2": (6, "this is a second value, and one is the result; give others names: h = x + 1; silu(h) * h"),
    "h = acc; h;": (12, f"the end {VALUE}"),
    "acc + h; h = 1": (7, "there is no 'h'; the names are acc"),
    "acc > 0 & acc < 1": (
        9,
        "'&' takes (condition, condition), and is given (number, number); put each comparison in parentheses: (x < y) & (y < z)",
    ),
    "~acc": (1, f"'~' takes (condition), and is given (number); {CHOOSE}"),
    "float16 acc": (1, "'float16' is a function; write float16(...)"),
    "acc = 2": (5, "'=' is no operator; write == to compare"),
    "2 * (acc": (9, "the end is where ')' must follow; the '(' is in column 5"),
    "(acc; 2)": (5, "';' is where ')' must follow; the '(' is in column 1"),
    "exp(acc": (8, "the end is where ',' or ')' must follow; the '(' is in column 4"),
    "exp(acc 2)": (9, "'2' is where ',' or ')' must follow; the '(' is in column 4"),
    "exp(acc, 2)": (1, "'exp' takes 1 argument, and is given 2; separate arguments by commas"),
    "2 * max(acc)": (5, "'max' takes 2 arguments, and is given 1; separate arguments by commas"),
    "exp acc": (1, "'exp' is a function; write exp(...)"),
    "1 + gelu": (5, "'gelu' is a function; write gelu(...)"),
    "acc + bais": (7, "there is no 'bais'; the names are acc"),
    "sillu(acc)": (1, f"there is no function 'sillu'; the functions are {FUNCTIONS}"),
    "where(acc, 1, 2)": (
        1,
        "'where' takes (condition, number, number) or (condition, condition, condition), and is given (number, number, "
        f"number); {CHOOSE}",
    ),
    "1 + (acc > 0)": (3, f"'+' takes (number, number), and is given (number, condition); {CHOOSE}"),
    "-(acc > 0)": (1, f"'-' takes (number), and is given (condition); {CHOOSE}"),
    "(acc > 0) ** 2": (11, f"'**' takes (number, number), and is given (condition, condition); {CHOOSE}"),
    "gelu(acc > 1)": (1, "'gelu' takes numbers, and is given a condition; choose by it with where(c, x, y)"),
    "acc > 0": (1, "the value is a condition; write where(c, 1, 0) for numbers"),
    "where(0 < acc < 1, 1, 0)": (15, "this compares a third value; write bitwise_and(a < b, b < c)"),
    "1e999 * acc": (1, "float64 does not hold this number; write inf or 0"),
    "2x * acc": (2, "'x' follows a number; write numbers as 2, 0.5 or 1e-3"),
    "1.2.3 * acc": (4, "'.' follows a number; write numbers as 2, 0.5 or 1e-3"),
    "acc + .": (7, "'.' has no digits; write numbers as 2, 0.5 or 1e-3"),
    "acc" + " + 1" * 500: (2004, "the text has more than 1000 values and operations; compute a part of it before the call"),
    "-" * 101 + "acc": (101, "the text is more than 100 deep; write fewer parentheses, calls and signs"),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_in_a_text(text):
    column, problem = MISTAKES[text]
    with pytest.raises(ValueError) as error:
        tile_ops.matmul(torch.ones(2, 3), torch.ones(3, 4), epilogue=text)
    assert str(error.value).splitlines()[0] == f"tile::matmul_epilogue: epilogue '{text}', column {column}: {problem}"


def test_an_unknown_name_lists_those_that_exist():
    with pytest.raises(ValueError) as error:
        tile_ops.matmul(
            torch.ones(2, 3), torch.ones(3, 4), epilogue="acc * s + bais", operands={"s": 2.0, "bias": torch.ones(4)}
        )
    assert str(error.value).splitlines()[0] == (
        "tile::matmul_epilogue: epilogue 'acc * s + bais', column 11: there is no 'bais'; the names are acc, bias, s"
    )


X, Y, B = torch.ones(2, 3), torch.ones(3, 4), torch.ones(4)
REFUSED = [
    ({"epilogue": "1 + b", "operands": {"b": B}}, ValueError,
     "tile::matmul_epilogue: epilogue '1 + b' does not use acc, the product; without it no product is needed"),
    ({"epilogue": "acc", "operands": {"b": B}}, ValueError,
     "tile::matmul_epilogue: epilogue 'acc' does not use the operand 'b'; use it, or do not give it"),
    ({"epilogue": "acc", "operands": {"s": 2.0}}, ValueError,
     "tile::matmul_epilogue: epilogue 'acc' does not use the operand 's'; use it, or do not give it"),
    ({"epilogue": "acc", "operands": {"acc": B}}, ValueError,
     "tile::matmul_epilogue: an operand is named 'acc', which is the product; give it another name"),
    ({"epilogue": "acc", "operands": {"my b": B}}, ValueError,
     "tile::matmul_epilogue: an operand is named 'my b'; a name is a letter or _, then letters, digits and _"),
    ({"epilogue": "acc", "operands": {"a,b": B}}, ValueError,
     "matmul: an operand is named 'a,b'; a name is a letter or _, then letters, digits and _"),
    ({"epilogue": "acc + b", "operands": {"b": torch.ones(3)}}, ValueError,
     "tile::matmul_epilogue: b [3] does not broadcast to the product [2, 4]; its extents must be 1 or equal, counted from the last"),
    ({"epilogue": "acc + b", "operands": {"b": torch.ones(1, 2, 4)}}, ValueError,
     "tile::matmul_epilogue: b [1, 2, 4] does not broadcast to the product [2, 4]; its extents must be 1 or equal, counted from "
     "the last"),
    ({"epilogue": "acc + b", "operands": {"b": torch.ones(4, dtype=torch.int32)}}, TypeError,
     "tile::matmul_epilogue: b is int32; it must be float16, bfloat16, float32 or float64"),
    ({"epilogue": "acc + b", "operands": {"b": torch.ones(4, dtype=torch.bool)}}, TypeError,
     "tile::matmul_epilogue: b is bool; it must be float16, bfloat16, float32 or float64"),
    ({"epilogue": "acc + b", "operands": {"b": "4"}}, TypeError, "matmul: operand 'b' is a str; pass a tensor or a number"),
    ({"epilogue": "acc + b", "operands": {"b": True}}, TypeError, "matmul: operand 'b' is a bool; pass a tensor or a number"),
    ({"epilogue": "acc + a + b + c + d + e + f + g", "operands": dict.fromkeys("abcdefg", B)}, ValueError,
     "matmul: 7 operands are tensors, and the most is 6; combine some of them before the call"),
    ({"epilogue": "acc + a + b + c + d + e + f + g", "operands": dict.fromkeys("abcdefg", 1.0)}, ValueError,
     "tile::matmul_epilogue: numbers has 7 numbers; the most is 6"),
    ({"operands": {"b": B}}, TypeError,
     'matmul: operands are given without an epilogue; pass epilogue="...", a text that uses them'),
    ({"epilogue": "acc", "bias": B}, TypeError,
     'matmul: bias and an epilogue are given; write it in the epilogue, as "acc + bias"'),
    ({"epilogue": "acc", "activation": "gelu"}, TypeError,
     'matmul: activation and an epilogue are given; write it in the epilogue, as "gelu(acc)"'),
    ({"epilogue": "acc", "residual": B}, TypeError,
     'matmul: residual and an epilogue are given; write it in the epilogue, as "acc + residual"'),
    ({"epilogue": "acc", "alpha": 2.0}, TypeError,
     'matmul: alpha and an epilogue are given; write it in the epilogue, as "acc * 0.5"'),
    ({"epilogue": "acc", "out_dtype": torch.float64}, TypeError,
     "matmul: out_dtype and an epilogue are given; the result has input's dtype, convert it with .to()"),
]  # fmt: skip


@pytest.mark.parametrize("named, kind, text", REFUSED, ids=[text for _, _, text in REFUSED])
def test_refused_calls(named, kind, text):
    with pytest.raises(kind) as error:
        tile_ops.matmul(X, Y, **named)
    assert str(error.value).splitlines()[0] == text


def test_refused_operands():
    for x, y, kind, text in [
        (X.long(), Y.long(), TypeError, "input is int64; it must be float16, bfloat16, float32 or float64"),
        (X, Y.double(), TypeError, "input is float32 and other is float64; convert one with .to()"),
        (X, X, ValueError, "cannot multiply input [2, 3] by other [2, 3]; the inner extents 3 and 2 differ"),
    ]:
        with pytest.raises(kind) as error:
            tile_ops.matmul(x, y, epilogue="acc")
        assert str(error.value).splitlines()[0] == f"tile::matmul_epilogue: {text}"
