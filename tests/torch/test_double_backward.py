"""Gradients of gradients of every operator, under functorch and torch.compile too; most are derived by the compiler."""

import operators
import pytest
import torch
from double_backward import second_gradients
from numerics import largest, widen

tile = torch.ops.tile

# The arguments without a gradient.
CONSTANTS = {"rope": ("cos", "sin"), "attention": ("alibi_slopes",)}
# Their double backward is an error.
REFUSED = {"attention_varlen"}
WITHOUT_GRADIENT = {"attention_decode", "scaled_matmul"}
CALLS = {
    name: (row, make)
    for row in operators.TABLE.values()
    if row.functional is None and row.name not in REFUSED | WITHOUT_GRADIENT
    for name, make in row.emulated.items()
}


def call(row, make, dtype, change=lambda values: values):
    torch.manual_seed(0)
    args, kwargs = make(dtype)
    args, kwargs = change(args), change(kwargs)
    names = [argument.name for argument in getattr(tile, row.name).default._schema.arguments]
    values = {**dict(zip(names, args)), **kwargs}
    return args, kwargs, [values[name] for name in CONSTANTS.get(row.name, ()) if name in values]


def math(row, *given, **options):
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        return second_gradients(row.reference, *given, **options)


@pytest.mark.parametrize("name", sorted(CALLS))
def test_in_float64(name):
    row, make = CALLS[name]
    args, kwargs, constants = call(row, make, torch.float64, widen)
    ours = second_gradients(getattr(tile, row.name), args, kwargs, constants=constants)
    expected = math(row, args, kwargs, constants=constants)
    for own, right in zip(ours, expected, strict=True):
        torch.testing.assert_close(own, right, rtol=1e-9, atol=1e-9 * max(1, largest(right)))


@pytest.mark.parametrize("name", sorted(CALLS))
def test_in_float32(name):
    row, make = CALLS[name]
    args, kwargs, constants = call(row, make, torch.float32)
    ours = second_gradients(getattr(tile, row.name), args, kwargs, constants=constants)
    args, kwargs, constants = call(row, make, torch.float32, widen)
    right = math(row, args, kwargs, constants=constants)
    most = max(largest(each) for each in right)
    for own, expected in zip(ours, right, strict=True):
        torch.testing.assert_close(own.double(), expected, rtol=1e-4, atol=1e-5 * max(1, most))


def random(*shape):
    return torch.randn(shape, dtype=torch.float64)


def leaf(*shape):
    return random(*shape).requires_grad_()


TARGET = torch.tensor([1, 0, 4, -100])
INDICES = torch.tensor([[0, 2, 2], [1, 4, 0]])
MASK = torch.tensor([[1, 1, 0, 1, 1], [0, 1, 1, 1, 0], [1, 0, 1, 0, 1], [0, 0, 0, 1, 0]], dtype=torch.bool)
Q, KV = (1, 2, 4, 3), (1, 2, 5, 3)
SMALL = {
    "softmax": (lambda x: tile.softmax(x, -1), [(3, 5)]),
    "softmax of columns": (lambda x: tile.softmax(x, 0), [(3, 5)]),
    "softmax of a scalar": (lambda x: tile.softmax(x, 0), [()]),
    "log_softmax": (lambda x: tile.log_softmax(x, -1), [(3, 5)]),
    "layer_norm": (lambda x, w, b: tile.layer_norm(x, [2, 5], w, b), [(3, 2, 5), (2, 5), (2, 5)]),
    "layer_norm of a transposed input": (lambda x: tile.layer_norm(x.mT, [3]), [(3, 5)]),
    "rms_norm": (lambda x, w: tile.rms_norm(x, [5], w), [(3, 5), (5,)]),
    "add_rms_norm": (lambda x, y, w: tile.add_rms_norm(x, y, [5], w), [(3, 5), (3, 5), (5,)]),
    "group_norm": (lambda x, w, b: tile.group_norm(x, 2, w, b), [(2, 4, 3, 3), (4,), (4,)]),
    "group_norm with silu": (lambda x, w, b: tile.group_norm(x, 2, w, b, activation="silu"), [(2, 4, 3), (4,), (4,)]),
    "group_norm of channels last": (
        lambda x, w, b: tile.group_norm(x.to(memory_format=torch.channels_last), 2, w, b),
        [(2, 4, 3, 3), (4,), (4,)],
    ),
    "swiglu": (lambda x, y: tile.swiglu(x, y), [(3, 5), (3, 5)]),
    "swiglu of one tensor": (lambda x: tile.swiglu(x, x), [(3, 5)]),
    "swiglu of parts": (lambda x: tile.swiglu(x[:, :3], x[:, 3:]), [(3, 6)]),
    "swiglu of an expanded tensor": (lambda x, y: tile.swiglu(x.expand(3, 5), y), [(5,), (3, 5)]),
    "geglu": (lambda x, y: tile.geglu(x, y, approximate="tanh"), [(3, 5), (3, 5)]),
    "dropout": (lambda x: tile.dropout(x, 0.3, torch.tensor([1, 2])), [(4, 5)]),
    "embedding": (lambda w: tile.embedding(w, INDICES), [(5, 3)]),
    "embedding with padding": (lambda w: tile.embedding(w, INDICES, 2), [(5, 3)]),
    "cross_entropy": (lambda x: tile.cross_entropy(x, TARGET), [(4, 5)]),
    "cross_entropy of each": (
        lambda x: tile.cross_entropy(x, TARGET, reduction="none", label_smoothing=0.1, z_loss=0.01),
        [(4, 5)],
    ),
    "linear_cross_entropy": (lambda x, w, b: tile.linear_cross_entropy(x, w, TARGET, bias=b), [(4, 3), (5, 3), (5,)]),
    "matmul": (lambda x, y, b: tile.matmul(x, y, bias=b), [(2, 4, 3), (3, 5), (5,)]),
    "matmul with an activation": (
        lambda x, y, b, r: tile.matmul(x, y, bias=b, activation="gelu", residual=r, alpha=0.5),
        [(2, 4, 3), (3, 5), (5,), (4, 5)],
    ),
    "gated_matmul": (lambda x, g, u: tile.gated_matmul(x, g, u), [(4, 3), (3, 5), (3, 5)]),
    "attention": (lambda q, k, v: tile.attention(q, k, v), [Q, KV, KV]),
    "causal attention of groups": (lambda q, k, v: tile.attention(q, k, v, is_causal=True), [(1, 4, 4, 3), Q, Q]),
    "attention with a bias": (lambda q, k, v, b: tile.attention(q, k, v, attn_bias=b), [Q, KV, KV, (1, 1, 4, 5)]),
    "attention with a mask": (lambda q, k, v: tile.attention(q, k, v, attn_bias=MASK), [Q, KV, KV]),
    "attention with options": (
        lambda q, k, v, s: tile.attention(q, k, v, is_causal=True, window=[2, 0], softcap=2.0, sinks=s),
        [Q, Q, Q, (2,)],
    ),
    "attention with dropout": (lambda q, k, v: tile.attention(q, k, v, dropout_p=0.3, seed=torch.tensor([1, 2])), [Q, Q, Q]),
}


@pytest.mark.parametrize("name", SMALL)
def test_gradgradcheck(name):
    function, shapes = SMALL[name]
    torch.manual_seed(0)
    assert torch.autograd.gradgradcheck(function, [leaf(*shape) for shape in shapes])


def attention_in_torch(q, k, v, causal=False, mask=None):
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores + mask
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -float("inf"))
    return scores.softmax(-1) @ v


functional = torch.nn.functional
# They take several tiles, and extents that no tile divides.
LARGE = {
    "softmax of long rows": (lambda x: tile.softmax(x, -1), lambda x: torch.softmax(x, -1), [(3, 40003)]),
    "layer_norm of many rows": (
        lambda x, w, b: tile.layer_norm(x, [64], w, b),
        lambda x, w, b: functional.layer_norm(x, [64], w, b),
        [(20000, 64), (64,), (64,)],
    ),
    "layer_norm of long rows": (
        lambda x, w, b: tile.layer_norm(x, [40003], w, b),
        lambda x, w, b: functional.layer_norm(x, [40003], w, b),
        [(5, 40003), (40003,), (40003,)],
    ),
    "group_norm of large images": (
        lambda x, w, b: tile.group_norm(x, 4, w, b),
        lambda x, w, b: functional.group_norm(x, 4, w, b),
        [(2, 64, 130, 130), (64,), (64,)],
    ),
    "cross_entropy of many classes": (
        lambda x: tile.cross_entropy(x, torch.arange(33)),
        lambda x: functional.cross_entropy(x, torch.arange(33)),
        [(33, 5003)],
    ),
    "causal attention of groups": (
        lambda q, k, v: tile.attention(q, k, v, is_causal=True)[0],
        lambda q, k, v: attention_in_torch(q, k, v, causal=True),
        [(1, 16, 257, 40), (1, 8, 257, 40), (1, 8, 257, 40)],
    ),
    "attention with a bias": (
        lambda q, k, v, b: tile.attention(q, k, v, attn_bias=b)[0],
        lambda q, k, v, b: attention_in_torch(q, k, v, mask=b),
        [(2, 4, 130, 64), (2, 4, 150, 64), (2, 4, 150, 64), (1, 4, 130, 150)],
    ),
    "attention with a deep head": (
        lambda q, k, v: tile.attention(q, k, v)[0],
        attention_in_torch,
        [(1, 2, 70, 200), (1, 2, 90, 200), (1, 2, 90, 200)],
    ),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("name", LARGE)
def test_large(name, dtype):
    ours, theirs, shapes = LARGE[name]
    torch.manual_seed(0)
    args = [torch.randn(shape, dtype=torch.float64).to(dtype) for shape in shapes]
    found, right = second_gradients(ours, args, {}), second_gradients(theirs, [x.double() for x in args], {})
    most = max(largest(each) for each in right)
    rtol, atol = (1e-9, 1e-11) if dtype == torch.float64 else (1e-4, 1e-5)
    for own, expected in zip(found, right, strict=True):
        torch.testing.assert_close(own.double(), expected, rtol=rtol, atol=atol * max(1, most))


def test_deterministic_algorithms():
    """Sums take copies in place of atomics, in one order."""
    torch.manual_seed(0)
    args = [torch.randn(1, 2, 700, 40) for _ in range(3)]
    function = lambda *x: tile.attention(*x)[0]  # noqa: E731
    torch.use_deterministic_algorithms(True)
    try:
        first, second = second_gradients(function, args, {}), second_gradients(function, args, {})
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(a, b) for a, b in zip(first, second))


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (1, 1)])
def test_without_elements(shape):
    ours = second_gradients(lambda x, y: tile.swiglu(tile.softmax(x, -1), y), [random(*shape), random(*shape)], {})
    expected = second_gradients(lambda x, y: functional.silu(torch.softmax(x, -1)) * y, [random(*shape), random(*shape)], {})
    assert [each.shape for each in ours] == [each.shape for each in expected]


def test_one_argument():
    x, w = leaf(3, 5), random(5)
    (gradient,) = torch.autograd.grad(tile.rms_norm(x, [5], w, 1e-5).sin().sum(), x, create_graph=True)
    (expected,) = torch.autograd.grad(functional.rms_norm(x, [5], w, 1e-5).sin().sum(), x, create_graph=True)
    torch.testing.assert_close(torch.autograd.grad(gradient.sum(), x), torch.autograd.grad(expected.sum(), x))


TRANSFORMED = {
    "softmax": (lambda x: tile.softmax(x, -1), lambda x: torch.softmax(x, -1), (3, 5)),
    "layer_norm": (lambda x: tile.layer_norm(x, [5]), lambda x: functional.layer_norm(x, [5]), (3, 5)),
    "group_norm": (lambda x: tile.group_norm(x, 2), lambda x: functional.group_norm(x, 2), (2, 4, 3)),
    "swiglu": (lambda x: tile.swiglu(x, x * x), lambda x: functional.silu(x) * x * x, (3, 5)),
    "matmul": (lambda x: tile.matmul(x, x.sin().t(), activation="gelu"), lambda x: functional.gelu(x @ x.sin().t()), (3, 5)),
    "attention": (
        lambda x: tile.attention(x, x.sin(), x.cos(), is_causal=True)[0],
        lambda x: attention_in_torch(x, x.sin(), x.cos(), causal=True),
        (1, 2, 4, 3),
    ),
}


def twice(function):
    return torch.func.grad(lambda x: torch.func.grad(lambda x: function(x).sin().sum())(x).cos().sum())


def close(ours, expected):
    torch.testing.assert_close(ours, expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", TRANSFORMED)
def test_functorch(name):
    ours, theirs, shape = TRANSFORMED[name]
    torch.manual_seed(0)
    x, batch = random(*shape), random(4, *shape)
    loss, its_loss = (lambda x: ours(x).sin().sum()), (lambda x: theirs(x).sin().sum())
    expected = torch.func.hessian(its_loss)(x)
    close(torch.func.hessian(loss)(x), expected)  # jacfwd of jacrev
    close(torch.func.jacrev(torch.func.jacrev(loss))(x), expected)
    close(twice(ours)(x), twice(theirs)(x))
    close(torch.vmap(twice(ours))(batch), torch.vmap(twice(theirs))(batch))


@pytest.mark.parametrize("name", TRANSFORMED)
def test_compiled_graphs_hold_one_operator(name):
    ours, theirs, shape = TRANSFORMED[name]
    torch.manual_seed(0)
    x, graphs = random(*shape), []

    def backend(graph, inputs):
        from torch._dynamo.backends.common import aot_autograd

        return aot_autograd(fw_compiler=lambda graph, _: graphs.append(graph) or graph.forward)(graph, inputs)

    torch._dynamo.reset()
    compiled = torch.compile(twice(ours), backend=backend, fullgraph=True, dynamic=True)
    close(compiled(x), twice(theirs)(x))
    names = {str(node.target) for graph in graphs for node in graph.graph.nodes}
    assert any("_reverse_mode" in each or "double_backward" in each for each in names), names


def test_opcheck():
    x = random(3, 5)
    torch.library.opcheck(tile._softmax_backward_reverse_mode.default, (x, x, x, -1, [True, True]))
    torch.library.opcheck(tile._swiglu_backward_reverse_mode.default, (x, None, x, x, x, [True, False, True]))


def error_of(function, *arguments):
    with pytest.raises(NotImplementedError) as raised:
        function(*arguments)
    return str(raised.value).splitlines()[0]


def test_third_derivatives_are_an_error():
    x = leaf(3, 5)
    (first,) = torch.autograd.grad(tile.softmax(x, -1).sin().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sin().sum(), x, create_graph=True)
    assert error_of(second.sum().backward) == (
        "tile::softmax_backward: its gradient is derived by the compiler, and that has no gradient itself; "
        "differentiate it once less"
    )


def test_packed_attention_is_an_error():
    x, starts = leaf(6, 2, 4), torch.tensor([0, 2, 6], dtype=torch.int32)
    out = tile.attention_varlen(x, x, x, starts, starts, 4, 4)[0]
    (gradient,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    assert error_of(gradient.sum().backward) == (
        "tile::attention_varlen_backward: double backward of tile::attention_varlen is not implemented; "
        "differentiate it once only"
    )
