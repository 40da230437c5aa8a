"""tile::swiglu and tile::geglu: numerics over dtypes, shapes and strides, what they owe torch, errors."""

import functools

import pytest
import tile_ops
import torch
import torch.nn.functional as F
from memory import allocated
from numerics import check, check_call
from opinfo import DTYPES
from tile_ops import _C

ops = torch.ops.tile


def swiglu(gate, up):
    return F.silu(gate) * up


def geglu(gate, up, *, approximate="none"):
    return F.gelu(gate, approximate=approximate) * up


# Name: operator, torch's, keyword arguments.
KINDS = {
    "swiglu": (ops.swiglu, swiglu, {}),
    "geglu": (ops.geglu, geglu, {}),
    "geglu_tanh": (ops.geglu, geglu, {"approximate": "tanh"}),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


def check_kind(kind, gate, up, **options):
    ours, theirs, kwargs = KINDS[kind]
    check_call(ours, theirs, (gate, up), kwargs, what=kind, **options)


def make(*shape, dtype=torch.float32):
    return torch.randn(shape).mul(2).to(dtype).requires_grad_()


SHAPES = [(), (1,), (7,), (0,), (5, 0), (0, 5), (1, 1), (300, 3), (3, 1000), (2, 16385), (40001,), (2, 3, 4, 5, 6)]


@every_kind
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(kind, shape, dtype):
    check_kind(kind, make(*shape, dtype=dtype), make(*shape, dtype=dtype))


@every_kind
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape, dim", [((4, 30), -1), ((2, 3, 2 * 1000), -1), ((3, 6, 65, 5), 1), ((2, 40000), -1)])
def test_halves_of_one_tensor(kind, shape, dim, dtype):
    def of_halves(function):
        return lambda x, **kwargs: function(*x.chunk(2, dim), **kwargs)

    ours, theirs, kwargs = KINDS[kind]
    x = make(*shape, dtype=dtype)
    check_call(of_halves(ours), of_halves(theirs), (x,), kwargs)
    gate, up = x.chunk(2, dim)
    assert ours(gate, up, **kwargs).is_contiguous()


ORDERS = [(3, 2, 1, 0), (0, 2, 3, 1), (2, 0, 3, 1), (1, 0, 2, 3), (0, 1, 2, 3)]


@every_kind
@pytest.mark.parametrize("up_order", ORDERS)
@pytest.mark.parametrize("gate_order", ORDERS)
def test_orders_of_axes(kind, gate_order, up_order):
    def ordered(order):
        return (
            torch.randn(5, 6, 8, 70)
            .contiguous()
            .as_strided(
                (5, 6, 8, 70),
                torch.empty([(5, 6, 8, 70)[i] for i in order]).permute([order.index(i) for i in range(4)]).stride(),
            )
            .requires_grad_()
        )

    gate, up = ordered(gate_order), ordered(up_order)
    check_kind(kind, gate, up)
    ours, _, kwargs = KINDS[kind]
    out = ours(gate, up, **kwargs)
    assert out.stride() == gate.stride()
    grads = torch.autograd.grad(out, (gate, up), torch.ones_like(out))
    assert [g.stride() for g in grads] == [gate.stride(), up.stride()]


def test_gaps_and_many_slices():
    # No two axes collapse into one, so the launch loops over the leading ones.
    gate, up = (torch.randn(4, 6, 8, 10, 12)[1:3, ::2, 1:6, ::3, 2:9].requires_grad_() for _ in range(2))
    check_kind("swiglu", gate, up)


def test_expanded():
    gate, up = torch.randn(4, 1, 5).expand(4, 6, 5).requires_grad_(), torch.randn(1, 1, 5).expand(4, 6, 5)
    check_kind("geglu", gate, up.requires_grad_())
    check_kind("swiglu", torch.randn(1).expand(4, 6, 5).requires_grad_(), torch.randn(4, 6, 5).requires_grad_())


@every_kind
@pytest.mark.parametrize("dtype", DTYPES)
def test_infinities_nan_and_large_values(kind, dtype):
    values = torch.tensor([0.0, -0.0, 1e4, -1e4, 80.0, -80.0, torch.inf, -torch.inf, torch.nan, 3.0]).to(dtype)
    ours, theirs, kwargs = KINDS[kind]
    gate, up = torch.broadcast_tensors(values[:, None], values[None])
    got, expected = (
        [
            out := function(g := gate.clone().requires_grad_(), u := up.clone().requires_grad_(), **kwargs),
            *torch.autograd.grad(out, (g, u), torch.ones_like(out)),
        ]
        for function in (ours, theirs)
    )
    # Torch rounds the activation, of which 0 is left here and there, to be multiplied by an infinity.
    exact = theirs(gate.double(), up.double(), **kwargs)
    check(got[0], exact.to(dtype), exact)
    for a, b in zip(got[1:], expected[1:]):
        assert torch.isfinite(a)[torch.isfinite(b)].all()


@every_kind
@pytest.mark.parametrize("wanted", [(True, False), (False, True)])
def test_gradient_of_one_argument(kind, wanted):
    check_kind(kind, *(torch.randn(5, 40).requires_grad_(each) for each in wanted))


@pytest.mark.parametrize("shape, launches", [((8192, 11008), 1), ((3, 2**31), 6), ((2**32 + 8,), 4)])
def test_more_elements_than_an_extent_counts_take_several_launches(shape, launches):
    x = torch.empty(shape, dtype=torch.bfloat16, device="meta")
    assert [row["kernel"] for row in _C.inspect("usual", 90, 0, lambda: ops.swiglu(x, x))] == ["gated"] * launches


double = functools.partial(torch.randn, dtype=torch.double)


@pytest.mark.parametrize("mask", [[True, True], [True, False], [False, True]])
def test_backward_is_an_operator(mask):
    tensors = (double(3, 5), double(3, 5), double(3, 5))
    torch.library.opcheck(ops.swiglu_backward, (*tensors, mask))
    torch.library.opcheck(ops.geglu_backward, (*tensors, "tanh", mask))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_autocast_keeps_the_dtype(dtype, device):
    x = torch.randn(3, 5, dtype=dtype)
    with torch.autocast(device.type, torch.bfloat16):
        assert ops.swiglu(x, x).dtype == ops.geglu(x, x).dtype == dtype


x, wide, other = torch.ones(2, 3), torch.ones(2, 4), torch.ones(2, 3, dtype=torch.float64)


@pytest.mark.parametrize(
    "call, kind, text",
    [
        (
            lambda: ops.swiglu(x, wide),
            ValueError,
            "tile::swiglu: gate is [2, 3] and up is [2, 4]; give them one shape, neither is broadcast",
        ),
        (lambda: ops.geglu(x, other), TypeError, "tile::geglu: gate is float32 and up is float64; convert one with .to()"),
        (
            lambda: ops.swiglu(x.long(), x.long()),
            TypeError,
            "tile::swiglu: gate is int64; it must be float16, bfloat16, float32 or float64",
        ),
        (
            lambda: ops.geglu(x, x, approximate="fast"),
            ValueError,
            "tile::geglu: unknown approximate 'fast'; it is none or tanh",
        ),
        (
            lambda: ops.swiglu_backward(wide, x, x, [True, True]),
            ValueError,
            "tile::swiglu_backward: grad_out is float32[2, 4], but gate is float32[2, 3]; they must agree",
        ),
        (
            lambda: ops.geglu_backward(x, x, x, "fast", [True, True]),
            ValueError,
            "tile::geglu_backward: unknown approximate 'fast'; it is none or tanh",
        ),
        (
            lambda: ops.geglu_backward(other, x, x, "none", [True, True]),
            ValueError,
            "tile::geglu_backward: grad_out is float64[2, 3], but gate is float32[2, 3]; they must agree",
        ),
    ],
)
def test_errors(call, kind, text):
    with pytest.raises(kind) as error:
        call()
    assert str(error.value).splitlines()[0] == text


def test_package_forwards_the_names():
    assert tile_ops.swiglu is ops.swiglu and tile_ops.geglu is ops.geglu


OVER = {
    "swiglu": (ops._swiglu_backward_, ops.swiglu_backward, ()),
    "geglu": (ops._geglu_backward_, ops.geglu_backward, ("none",)),
    "geglu_tanh": (ops._geglu_backward_, ops.geglu_backward, ("tanh",)),
}


@every_kind
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_gradient_written_over_the_incoming_one(kind, shape, dtype):
    over, apart, options = OVER[kind]
    grad, gate, up = (torch.randn(shape).to(dtype) for _ in range(3))
    expected = apart(grad, gate, up, *options, [True, True])
    of_up = torch.empty_like(up)
    version = grad._version
    assert over(grad, of_up, gate, up, *options) is None
    assert torch.equal(grad, expected[0]) and torch.equal(of_up, expected[1]) and grad._version > version


@every_kind
def test_strides_of_a_gradient_written_over_the_incoming_one(kind):
    over, apart, options = OVER[kind]
    grad, gate, up = torch.randn(30, 20).t(), torch.randn(20, 60)[:, ::2], torch.randn(20, 30)
    expected, of_up = apart(grad, gate, up, *options, [True, True]), torch.empty(30, 20).t()
    over(grad, of_up, gate, up, *options)
    assert torch.equal(grad, expected[0]) and torch.equal(of_up, expected[1])


@every_kind
def test_backward_needs_no_memory_for_the_gradient_of_gate(kind, device):
    """The gradient has the memory of the incoming one, if nobody else sees that."""
    ours, _, kwargs = KINDS[kind]
    leaves = [torch.randn(1 << 14, 64, device=device).requires_grad_() for _ in range(2)]
    each, found = 4 << 20, []
    for is_seen in (False, True):
        out, seen = ours(*leaves, **kwargs), []
        if is_seen:
            out.register_hook(seen.append)
        scaled, ones = out * 1, torch.ones_like(out)
        most, _, gradients = allocated(
            lambda: torch.autograd.grad(scaled, leaves, ones),  # noqa: B023
            device,
        )
        found.append(gradients)
        assert (
            (1 + is_seen) * each < most < (3 + is_seen) * each - each // 2
        )  # the incoming one, that of up, and that of gate if there is one
    assert all(torch.equal(a, b) for a, b in zip(*found))


@every_kind
def test_an_incoming_gradient_that_others_see_is_left(kind):
    ours, _, kwargs = KINDS[kind]
    gate, up = (torch.randn(6, 5).requires_grad_() for _ in range(2))
    grad = torch.randn(6, 5)
    before, seen = grad.clone(), []
    torch.autograd.grad(ours(gate, up, **kwargs), (gate, up), grad)
    assert torch.equal(grad, before)
    out = ours(gate, up, **kwargs)
    middle = out * 2
    out.register_hook(seen.append)
    first = torch.autograd.grad(middle, (gate, up, out), grad, retain_graph=True)
    assert torch.equal(first[2], grad * 2) and torch.equal(seen[0], grad * 2)
    second = torch.autograd.grad(out + out.detach(), (gate, up), grad.expand(6, 5), retain_graph=True)
    assert torch.equal(second[0] * 2, first[0])
    shared = torch.autograd.grad((out * 2).view(30)[:15].sum(), (gate, up), retain_graph=True)
    assert all(each[3:].abs().max() == 0 for each in shared)
    (alone,) = torch.autograd.grad(middle, gate, grad)
    assert torch.equal(alone, first[0])


X, Y = torch.ones(3, 4), torch.ones(4)
OVER_ERRORS = [
    (lambda: ops._swiglu_backward_(X * 1, Y, X, X), "grad_up has shape [4]; it must be [3, 4], that of up"),
    (
        lambda: ops._swiglu_backward_(X, X * 1, X, X),
        "grad_out and another argument overlap in memory, which is written; clone() one of them",
    ),
    (lambda: ops._swiglu_backward_(Y, X * 1, X, X), "grad_out is float32[4], but gate is float32[3, 4]; they must agree"),
]


@pytest.mark.parametrize("call, text", OVER_ERRORS)
def test_errors_of_a_gradient_written_over_the_incoming_one(call, text):
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value).splitlines()[0] == f"tile::_swiglu_backward_: {text}"
