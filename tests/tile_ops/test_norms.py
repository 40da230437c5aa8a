"""Tests the norms of rows, layer_norm, rms_norm and add_rms_norm: values, gradients, strides, and autocast."""

import dataclasses

import contract
import numpy
import operators
import pytest
import tile_ops
import torch
import torch.nn.functional as F
from numerics import check_call
from operators.tensors import double
from opinfo import DTYPES, check_samples

tile = torch.ops.tile
# Sizes, and how many of the last of them are normalised.
SHAPES = [
    ((1,), 1),
    ((7,), 1),
    ((0, 5), 1),
    ((5, 0), 1),
    ((2, 0, 3), 1),
    ((1, 1), 2),
    ((3, 63), 1),
    ((3, 64), 1),
    ((300, 65), 1),
    ((70, 513), 1),
    ((5, 4097), 1),
    pytest.param((3, 17000), 1, marks=pytest.mark.slow),
    pytest.param((2, 40000), 1, marks=pytest.mark.slow),
    pytest.param((2, 140000), 1, marks=pytest.mark.slow),
    ((2, 3, 5, 7), 1),
    ((2, 3, 5, 7), 2),
    ((2, 3, 5, 7), 4),
]
ORDERS = [(3, 2, 1, 0), (0, 2, 3, 1), (2, 0, 3, 1), (1, 0, 2, 3)]
LENGTHS = [40, 17000, 140000]


@dataclasses.dataclass
class Norm:
    """Holds a norm, whose arguments are `rows` tensors, the normalised sizes, `parameters` vectors or None, and eps."""

    rows: int
    parameters: str  # w: a weight, b: a bias
    saved: int  # vectors with a number for each row, which the gradient's operator takes

    def call(self, rows, size, parameters=None, *eps):
        """Returns the arguments of a call; `parameters` are None if they are left out."""
        return (*rows, size, *([None] * len(self.parameters) if parameters is None else parameters), *eps)


NORMS = {
    "layer_norm": Norm(rows=1, parameters="wb", saved=2),
    "rms_norm": Norm(rows=1, parameters="w", saved=1),
    "add_rms_norm": Norm(rows=2, parameters="w", saved=1),
}
each_norm = pytest.mark.parametrize("name", NORMS)
root_mean_square = pytest.mark.parametrize("name", ["rms_norm", "add_rms_norm"])
pytestmark = pytest.mark.filterwarnings("ignore:Mismatch dtype")  # torch's rms_norm warns about a weight of another dtype


def check(name, args, **options):
    check_call(getattr(tile, name), operators.TABLE[name].reference, args, **options)


def epsilon(dtype):
    """Returns torch's eps for None: the epsilon of the dtype it computes in."""
    return torch.finfo(dtype if dtype == torch.float64 else torch.float32).eps


def randn(*sizes, dtype=torch.float32, grad=True):
    return torch.randn(sizes).to(dtype).requires_grad_(grad)


def parameters(name, size, dtype=torch.float32, which="wb"):
    return [randn(*size, dtype=dtype) if each in which else None for each in NORMS[name].parameters]


def affine_cases():
    """Returns each norm with all its choices of parameters."""
    return [
        pytest.param(name, which, id=f"{name}-{which or 'alone'}")
        for name, norm in NORMS.items()
        for which in (("", "w", "b", "wb") if "b" in norm.parameters else ("", "w"))
    ]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_opinfo(name, dtype):
    def with_eps(input, normalized_shape, weight=None, eps=None):
        return F.rms_norm(input, normalized_shape, weight, epsilon(dtype) if eps is None else eps)

    check_samples(getattr(tile, name), f"nn.functional.{name}", dtype, reference=with_eps if name == "rms_norm" else None)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name, affine", affine_cases())
@pytest.mark.parametrize("shape, axes", SHAPES)
def test_shapes(shape, axes, name, affine, dtype):
    norm, size = NORMS[name], shape[len(shape) - axes :]
    rows = [randn(*shape, dtype=dtype) for _ in range(norm.rows)]
    check(name, norm.call(rows, size, parameters(name, size, dtype, affine), 1e-5))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name, scale", [("rms_norm", 1.0), ("rms_norm", 1e-4), ("add_rms_norm", 1e-4)])
def test_default_eps(name, scale, dtype):
    def exact(*args):
        return operators.TABLE[name].reference(*args, None, epsilon(dtype))

    rows = [(torch.randn(5, 40) * scale).to(dtype).requires_grad_() for _ in range(NORMS[name].rows)]
    check(name, (*rows, (40,)), reference=exact)


@pytest.mark.parametrize("eps", [0.0, -0.5, 1e3])
@each_norm
def test_any_eps(name, eps):
    # A negative one makes NaN of small rows, as in torch.
    check(name, NORMS[name].call([randn(40, 3) for _ in range(NORMS[name].rows)], (3,), parameters(name, (3,)), eps))


@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("order", ORDERS)
@each_norm
def test_orders_of_axes(name, order, axes):
    x, *more = (torch.randn(4, 5, 6, 70).permute(order).requires_grad_() for _ in range(NORMS[name].rows))
    size = tuple(x.shape[4 - axes :])
    plain = [each.detach().contiguous().requires_grad_() for each in more]
    for rows in [(x, *more), (x, *plain)] if more else [(x,)]:
        check(name, NORMS[name].call(rows, size, parameters(name, size), 1e-5))
        results = getattr(tile, name)(*NORMS[name].call(rows, size))
        assert all(each.stride() == x.stride() for each in contract.outputs(results))


@pytest.mark.parametrize("axes", [1, 2])
@each_norm
def test_gaps(name, axes):
    rows = [torch.randn(4, 6, 8, 10, 12)[1:3, ::2, 1:6, ::3, 2:9].requires_grad_() for _ in range(NORMS[name].rows)]
    size = tuple(rows[0].shape[5 - axes :])
    weight = torch.randn(*size, 2)[..., 0].requires_grad_()
    check(name, NORMS[name].call(rows, size, [weight, None][: len(NORMS[name].parameters)], 1e-5))


@pytest.mark.parametrize("axes", [1, 2])
def test_gaps_without_a_weight(axes):
    rows = [torch.randn(4, 6, 8, 10, 12)[1:3, ::2, 1:6, ::3, 2:9].requires_grad_() for _ in range(2)]
    check("add_rms_norm", NORMS["add_rms_norm"].call(rows, tuple(rows[0].shape[5 - axes :]), [None], 1e-5))


@each_norm
def test_expanded(name):
    norm = NORMS[name]
    rows = [torch.randn(4, 1, 5).expand(4, 6, 5), torch.randn(5).expand(4, 6, 5)][: norm.rows]
    weight = torch.randn(1).expand(5).requires_grad_()
    check(name, norm.call([each.requires_grad_() for each in rows], (5,), [weight] * len(norm.parameters), 1e-5))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_mixed_dtypes_of_layer_norm(dtype):
    x, weight, bias = randn(5, 40, dtype=dtype), randn(40), randn(40)

    # torch takes both dtypes on the CPU alone, and has no kernel for a wide bias alone: a weight of ones is the same.
    def theirs(x, shape, weight, bias):
        weight = torch.ones_like(bias) if weight is None else weight
        if x.is_cpu:
            return F.layer_norm(x, shape, weight, bias)
        return F.layer_norm(x.to(weight.dtype), shape, weight, bias).to(x.dtype)

    check_call(tile.layer_norm, theirs, (x, (40,), weight, bias))
    check_call(tile.layer_norm, theirs, (x, (40,), None, bias))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weight_dtype", DTYPES)
@root_mean_square
def test_mixed_dtypes(name, dtype, weight_dtype):
    # With a float64 weight torch still normalises in float32. This test compares our result with one in float64.
    def theirs(*args):
        *rows, shape, weight, eps = args
        total = sum(rows[1:], start=rows[0])
        wide = total.double() if weight.dtype == torch.float64 else total
        out = F.rms_norm(wide, shape, weight, eps).to(total.dtype)
        return (out, total) if len(rows) > 1 else out

    rows = [randn(5, 40, dtype=dtype) for _ in range(NORMS[name].rows)]
    check_call(getattr(tile, name), theirs, (*rows, (40,), randn(40, dtype=weight_dtype), 1e-5))


@pytest.mark.parametrize("length", [63, 4096, 20000, 140000])
def test_large_mean_small_variance(length):
    # The variance is 1e-8 of the squared mean: a sum of squares less the squared mean has no digit left of it.
    x = (torch.randn(7, length) + 1e4).requires_grad_()
    check("layer_norm", (x, (length,)))


@pytest.mark.parametrize("shape, order", [((3, 140000), (0, 1)), ((1000, 70), (1, 0))])
def test_looped_rows_keep_a_small_variance(shape, order):
    # torch rounds the mean, near which float32 numbers are 1e-3 of a deviation apart.
    x = (torch.randn(shape) + 1e4).permute(order)
    expected = F.layer_norm(x.double(), x.shape[1:])
    assert (tile.layer_norm(x, x.shape[1:]) - expected).abs().max() < 1e-5


@pytest.mark.parametrize("length", [63, 4096, 20000, 140000])
def test_large_mean_small_variance_in_double(length):
    # torch rounds here too, so both are held against extended precision.
    x = double(7, length) + 1e4
    wide = x.cpu().numpy().astype(numpy.longdouble)
    centered = wide - wide.mean(-1, keepdims=True)
    expected = centered / numpy.sqrt((centered**2).mean(-1, keepdims=True) + 1e-5)
    ours, theirs = (abs(f(x, (length,)).cpu().numpy() - expected).max() for f in (tile.layer_norm, F.layer_norm))
    assert ours <= 2 * theirs + numpy.spacing(1e4)  # the mean itself is rounded to double


def wanted_gradients():
    """Returns each norm with the arguments that want a gradient: one letter for a row or a parameter."""
    wanted = {"layer_norm": "x w b", "rms_norm": "x w", "add_rms_norm": "x rw w"}
    return [(name, each) for name, choices in wanted.items() for each in choices.split()]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name, wanted", wanted_gradients())
def test_gradient_of_some_arguments(name, wanted, length):
    norm = NORMS[name]
    rows = [randn(5, length, grad=each in wanted) for each in "xr"[: norm.rows]]
    check(name, norm.call(rows, (length,), [randn(length, grad=each in wanted) for each in norm.parameters], 1e-5))


def masks():
    """Returns each norm with masks of the gradients to compute: all of them, or only one."""
    for name, norm in NORMS.items():
        count = 1 + len(norm.parameters)
        for mask in ([True] * count, *([i == j for j in range(count)] for i in range(count))):
            yield name, mask


@pytest.mark.parametrize("name, mask, missing", [
    (name, mask, missing) for name, mask in masks() for missing in ([(), (0,), (1,)] if name == "add_rms_norm" else [()])
])  # fmt: skip
def test_backward_is_an_operator(name, mask, missing):
    norm = NORMS[name]
    grads = [None if i in missing else double(3, 5) for i in range(norm.rows)]
    vectors, saved = [double(5) for _ in norm.parameters], [double(3, 1) for _ in range(norm.saved)]
    torch.library.opcheck(getattr(tile, f"{name}_backward"), (*grads, double(3, 5), [5], *vectors, *saved, mask))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@each_norm
def test_autocast_gives_the_dtype_of_torch(name, dtype, device):
    x, vectors = torch.randn(3, 5, dtype=dtype), [torch.ones(5) for _ in NORMS[name].parameters]
    theirs = F.layer_norm if name == "layer_norm" else F.rms_norm
    with torch.autocast(device.type, torch.bfloat16):
        ours = contract.outputs(getattr(tile, name)(*[x] * NORMS[name].rows, [5], *vectors))[0]
        assert ours.dtype == theirs(x, [5], *vectors).dtype


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", LENGTHS)
def test_the_sum_is_torchs(length, dtype):
    x, residual = randn(5, length, dtype=dtype), randn(5, length, dtype=dtype)
    assert torch.equal(tile.add_rms_norm(x, residual, (length,))[1], x + residual)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_norm_is_of_the_rounded_sum(dtype):
    out, total = tile.add_rms_norm(randn(5, 40, dtype=dtype), randn(5, 40, dtype=dtype), (40,), None, 1e-5)
    assert torch.equal(out, tile.rms_norm(total, (40,), None, 1e-5))


def test_one_tensor_twice():
    theirs = operators.TABLE["add_rms_norm"].reference
    ours, theirs = (lambda x, f=f: f(x, x, (40,), None, 1e-5) for f in (tile.add_rms_norm, theirs))
    check_call(ours, theirs, (randn(5, 40),))


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("length", LENGTHS)
def test_gradient_of_one_result(length, which):
    theirs = operators.TABLE["add_rms_norm"].reference
    ours, theirs = (lambda *args, f=f: f(*args)[which] for f in (tile.add_rms_norm, theirs))
    check_call(ours, theirs, (randn(5, length), randn(5, length), (length,), randn(length), 1e-5))


def test_a_gradient_of_the_sum_alone_passes_as_it_is():
    x, residual = (torch.full((2, 3), torch.inf).requires_grad_() for _ in range(2))
    grad = torch.randn(2, 3)
    for each in torch.autograd.grad(tile.add_rms_norm(x, residual, (3,))[1], (x, residual), grad):
        assert torch.equal(each, grad)


def test_the_gradient_is_written_once():
    x, residual = randn(5, 40), randn(5, 40)
    out, total = tile.add_rms_norm(x, residual, (40,))
    first, second = torch.autograd.grad((out, total), (x, residual), (torch.ones_like(out), torch.ones_like(out)))
    assert first.data_ptr() == second.data_ptr()


def test_compiled_autograd():
    x, residual = randn(3, 8), randn(3, 8)
    torch._dynamo.reset()

    def grads(function):
        out, total = function(x, residual, (8,), None, 1e-5)
        (out.sin().sum() + total.cos().sum()).backward()
        found = x.grad, residual.grad
        x.grad = residual.grad = None
        return found

    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="aot_eager")):
        got = grads(tile.add_rms_norm)
    torch.testing.assert_close(got, grads(operators.TABLE["add_rms_norm"].reference))


def test_module():
    norm, theirs = tile_ops.nn.AddRMSNorm(40, eps=1e-5), torch.nn.RMSNorm(40, eps=1e-5)
    with torch.no_grad():
        theirs.weight.uniform_()
    norm.load_state_dict(theirs.state_dict())
    x, residual = randn(3, 40), randn(3, 40)
    torch.testing.assert_close(norm(x, residual), (theirs(x + residual), x + residual))
