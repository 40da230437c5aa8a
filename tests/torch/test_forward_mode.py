"""Forward mode of every operator: tangents against torch's, under functorch, vmap and torch.compile."""

import operators
import pytest
import torch
import torch.autograd.forward_ad as fwAD
from forward_mode import reference_of, tangents_of, with_tangents
from numerics import DRAWS, FEW, check, largest, other_signs, widen
from torch.utils._pytree import tree_flatten, tree_map

tile = torch.ops.tile

CALLS = {name: (row, make) for row in operators.TABLE.values() if row.functional is None for name, make in row.emulated.items()}
# Not in float64, and on a GPU by a rule of their own.
QUANTISED = {name for name, (row, _) in CALLS.items() if row.name == "scaled_matmul"}


def check_sums(name, args, kwargs):
    """Asserts that tangents lack at most 2^-12 of the sums of what is added: tensor cores keep about 14 bits of sums of 8-bit
    floats, and torch's float32 reference keeps all of them."""
    row, _ = CALLS[name]
    tangents = tangents_of(args, kwargs)
    positive = tree_map(lambda x: x.double().abs() if isinstance(x, torch.Tensor) else x, (args, kwargs))
    sums = reference_of(row.reference, *widen(positive), [t if t is None else t.abs() for t in tangents])
    exact = reference_of(row.reference, widen(args), widen(kwargs), tangents)
    ours = with_tangents(getattr(tile, row.name), args, kwargs, tangents)
    for (_, one), (_, its), (_, most) in zip(ours, exact, sums, strict=True):
        bound = (2**-12 if one.dtype == torch.float32 else 2**-7) * most
        assert ((one.double() - its).abs() <= bound).all(), f"error {largest(one.double() - its):.3g}, sum {largest(most):.3g}"


@pytest.mark.parametrize("name", sorted(CALLS.keys() - QUANTISED))
def test_tangents_in_float64(name):
    row, make = CALLS[name]
    torch.manual_seed(0)
    args, kwargs = make(torch.float64)
    args, kwargs = widen(args), widen(kwargs)
    tangents = tangents_of(args, kwargs)
    ours = with_tangents(getattr(tile, row.name), args, kwargs, tangents)
    expected = reference_of(row.reference, args, kwargs, tangents)
    assert len(ours) >= len(expected) > 0
    for (value, tangent), (its_value, its_tangent) in zip(ours, expected):
        torch.testing.assert_close(value, its_value, rtol=1e-9, atol=1e-9 * largest(its_value))
        torch.testing.assert_close(tangent, its_tangent, rtol=1e-9, atol=1e-9 * largest(its_tangent))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("name", sorted(CALLS))
def test_tangents_by_the_numerics_rule(name, dtype):
    row, make = CALLS[name]
    torch.manual_seed(0)
    args, kwargs = make(dtype)
    if name in QUANTISED and torch.get_default_device().type == "cuda":
        return check_sums(name, args, kwargs)

    def triples(args, kwargs):
        """The tangents of our results, of torch's and of those in float64, and the largest incoming tangent."""
        tangents = tangents_of(args, kwargs)
        calls = (
            with_tangents(getattr(tile, row.name), args, kwargs, tangents),
            reference_of(row.reference, args, kwargs, tangents),
            reference_of(row.reference, widen(args), widen(kwargs), tangents),
        )
        incoming = max(largest(t) for t in tangents if t is not None)
        return list(zip(*([tangent for _, tangent in call] for call in calls))), incoming

    found, incoming = triples(args, kwargs)
    draws = []
    for k, triple in enumerate(found):
        options = {"gradient": True, "incoming": incoming, "what": f"{name}: tangent {k}"}
        try:
            check(*triple, **options)
        except AssertionError:
            if triple[1].numel() >= FEW:
                raise
            while len(draws) < DRAWS:
                draws.append(triples(other_signs(args), other_signs(kwargs))[0])
            check(*triple, **options, draws=[draw[k] for draw in draws])


def pair(*shape):
    return torch.randn(shape, dtype=torch.float64), torch.randn(shape, dtype=torch.float64)


def close(ours, expected):
    for a, b in zip(tree_flatten(ours)[0], tree_flatten(expected)[0], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)


def softmax(x):
    return tile.softmax(x, -1)


def layer_norm(x):
    return tile.layer_norm(x, [x.shape[-1]], None, None, 1e-5)


def swiglu(x):
    return tile.swiglu(x, x * x)


def attention(x):
    return tile.attention(x, x.sin(), x.cos(), is_causal=True)[0]


def causal_attention_in_torch(q, k, v):
    scores = q @ k.mT / q.shape[-1] ** 0.5
    hidden = ~torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    return scores.masked_fill(hidden, -float("inf")).softmax(-1) @ v


# Ours, the same in torch, and a shape.
FUNCTIONS = {
    "softmax": (softmax, lambda x: torch.softmax(x, -1), (3, 5)),
    "layer_norm": (layer_norm, lambda x: torch.nn.functional.layer_norm(x, [x.shape[-1]]), (3, 5)),
    "swiglu": (swiglu, lambda x: torch.nn.functional.silu(x) * (x * x), (3, 5)),
    "attention": (attention, lambda x: causal_attention_in_torch(x, x.sin(), x.cos()), (1, 2, 4, 3)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jvp_and_linearize(name):
    ours, theirs, shape = FUNCTIONS[name]
    x, t = pair(*shape)
    close(torch.func.jvp(ours, (x,), (t,)), torch.func.jvp(theirs, (x,), (t,)))
    close(torch.func.jacfwd(ours)(x), torch.func.jacfwd(theirs)(x))
    value, linear = torch.func.linearize(ours, x)
    close((value, linear(t)), torch.func.jvp(theirs, (x,), (t,)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vmap_of_jvp_and_jvp_of_vmap(name):
    ours, theirs, shape = FUNCTIONS[name]
    xs, ts = pair(3, *shape)
    expected = torch.vmap(lambda x, t: torch.func.jvp(theirs, (x,), (t,)))(xs, ts)
    close(torch.vmap(lambda x, t: torch.func.jvp(ours, (x,), (t,)))(xs, ts), expected)
    close(torch.func.jvp(torch.vmap(ours), (xs,), (ts,)), expected)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_second_derivatives(name):
    ours, theirs, shape = FUNCTIONS[name]
    x, _ = pair(*shape)

    def loss(function):
        return lambda x: function(x).sin().sum()

    close(torch.func.hessian(loss(ours))(x), torch.func.hessian(loss(theirs))(x))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_forward_over_reverse_without_functorch(name):
    ours, theirs, shape = FUNCTIONS[name]
    x, t = pair(*shape)

    def gradient(function):
        with fwAD.dual_level():
            leaf = x.clone().requires_grad_()
            dual = fwAD.make_dual(leaf, t)
            result = function(dual)
            (grad,) = torch.autograd.grad(result.sin().sum(), leaf, create_graph=True)
            return [each.detach() for each in (*fwAD.unpack_dual(result), *fwAD.unpack_dual(grad))]

    close(gradient(ours), gradient(theirs))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_compile(name):
    ours, theirs, shape = FUNCTIONS[name]
    x, t = pair(*shape)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, t: torch.func.jvp(ours, (x,), (t,)), fullgraph=True, backend="aot_eager")
    close(compiled(x, t), torch.func.jvp(theirs, (x,), (t,)))


def test_one_tensor_with_two_tangents():
    x, t = pair(3, 5)
    u = torch.randn_like(t)
    ours = torch.func.jvp(tile.swiglu, (x, x), (t, u))
    close(ours, torch.func.jvp(lambda a, b: torch.nn.functional.silu(a) * b, (x, x), (t, u)))


def test_layouts_and_sizes():
    """Tensors and tangents that lie differently, expanded tensors, and no elements."""
    theirs = FUNCTIONS["softmax"][1]
    x, t = pair(5, 3)
    for primal, tangent in ((x.mT, t.reshape(3, 5)), (x[:, ::2], t[:, :2]), (x[:0], t[:0]), (x[:1], t[:1])):
        close(torch.func.jvp(softmax, (primal,), (tangent,)), torch.func.jvp(theirs, (primal,), (tangent,)))

    def expanded(function):
        return lambda x: function(x[:, :1].expand(5, 4))

    close(torch.func.jvp(expanded(softmax), (x,), (t,)), torch.func.jvp(expanded(theirs), (x,), (t,)))
    w, u = pair(4)

    def scaled(function):
        return lambda x, w: function(x[:, :1].expand(5, 4), w.expand(5, 4))

    plain = torch.func.jvp(scaled(lambda a, b: torch.nn.functional.silu(a) * b), (x, w), (t, u))
    close(torch.func.jvp(scaled(tile.swiglu), (x, w), (t, u)), plain)


def test_parts_of_one_projection():
    """Views of one storage have tangents of their own."""
    packed, tangent = pair(1, 2, 5, 9)
    other = torch.randn_like(tangent)

    def call(function):
        def run(q, k):
            return function(q[..., :3], k[..., 3:6], q[..., 6:])

        return torch.func.jvp(run, (packed, packed), (tangent, other))

    close(call(lambda q, k, v: tile.attention(q, k, v, is_causal=True)[0]), call(causal_attention_in_torch))


def test_errors():
    x, t = pair(2, 3)
    with pytest.raises(NotImplementedError, match="tile::softmax: forward mode twice is not implemented"):
        torch.func.jvp(lambda x: torch.func.jvp(softmax, (x,), (t,))[1], (x,), (t,))
    with fwAD.dual_level():
        leaf = x.clone().requires_grad_()
        tangent = fwAD.unpack_dual(softmax(fwAD.make_dual(leaf, t))).tangent
        with pytest.raises(NotImplementedError, match="reverse mode through its forward-mode derivative is not implemented"):
            torch.autograd.grad(tangent.sum(), leaf)


def test_memory_grows_with_the_length_of_attention():
    """Forward mode of attention makes no matrix of scores."""
    length, depth = 4096, 8
    q, t = (torch.randn(1, 1, length, depth) for _ in range(2))
    with torch.profiler.profile(profile_memory=True) as profile:
        torch.func.jvp(lambda q: tile.attention(q, q, q)[0], (q,), (t,))
    assert max(abs(event.self_cpu_memory_usage) for event in profile.events()) <= 8 * length * depth * 4


def test_opcheck():
    """The hidden operators are what torch asks of an operator."""
    x, t = torch.randn(2, 3, 4, 8).unbind(0)
    x = x.unsqueeze(0)
    torch.library.opcheck(tile._softmax_forward_mode.default, (x, -1), {"tangent_input": t.unsqueeze(0)})
    torch.library.opcheck(tile._attention_forward_mode.default, (x, x, x), {"tangent_key": t.unsqueeze(0)})


def test_dropout_of_attention():
    """The tangents have the mask of the seed."""
    q, t = pair(1, 2, 5, 4)
    options = {"dropout_p": 0.4, "seed": torch.tensor([1, 2])}
    step = 1e-6

    def call(q):
        return tile.attention(q, q, q, **options)[0]

    _, tangent = torch.func.jvp(call, (q,), (t,))
    torch.testing.assert_close(tangent, (call(q + step * t) - call(q - step * t)) / (2 * step), rtol=1e-6, atol=1e-8)
