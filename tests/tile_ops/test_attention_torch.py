"""Attention inside torch: opcheck, gradcheck, compile, export, autocast, torch.func, error texts."""

import pytest
import tile_ops  # noqa: F401
import torch
from attention_reference import inputs, peer

attention = torch.ops.tile.attention

CALLS = {
    "plain": {},
    "causal": {"is_causal": True},
    "top_left": {"is_causal": True, "causal_align": "top_left", "scale": 0.3},
    "mask": {"attn_bias": torch.rand(9, 11) < 0.8},
    "bias": {"attn_bias": torch.randn(2, 1, 9, 11, dtype=torch.float64)},
}


def call(name, dtype=torch.float64):
    """Arguments that require grad, a bias included."""
    kwargs = dict(CALLS[name])
    bias = kwargs.get("attn_bias")
    if bias is not None and bias.is_floating_point():
        kwargs["attn_bias"] = bias.to(dtype).requires_grad_()
    return inputs(2, 4, 2, 9, 11, 8, 6, dtype=dtype), kwargs


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.slow)])
def test_opcheck(name, dtype):
    args, kwargs = call(name, dtype)
    torch.library.opcheck(attention.default, args, kwargs)
    detached = {k: v.detach() if isinstance(v, torch.Tensor) else v for k, v in kwargs.items()}
    torch.library.opcheck(attention.default, [t.detach() for t in args], detached)
    transposed = [t.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_() for t in args]
    torch.library.opcheck(attention.default, transposed, kwargs)


# The options of a call without options; the gradient operator has no defaults.
NO_OPTIONS = {
    "is_causal": False,
    "causal_align": "bottom_right",
    "scale": None,
    "window": [-1, -1],
    "softcap": 0.0,
    "alibi_slopes": None,
    "sinks": None,
    "dropout_p": 0.0,
    "seed": None,
}


def test_opcheck_of_the_gradient_operator():
    (q, k, v), _ = call("plain", torch.float32)
    q, k, v = q.detach(), k.detach(), v.detach()
    bias, sinks = torch.randn(9, 11), torch.randn(q.shape[1])
    out, lse, *saved = torch.ops.tile._attention_saving(q, k, v, attn_bias=bias, sinks=sinks)
    options = {**NO_OPTIONS, "attn_bias": bias, "sinks": sinks}
    args = torch.randn_like(out), torch.randn_like(lse), q, k, v, out, *saved
    torch.library.opcheck(torch.ops.tile.attention_backward.default, args, {**options, "output_mask": [True] * 5})


@pytest.mark.parametrize("name", CALLS)
def test_gradcheck(name):
    args, kwargs = call(name)
    leaves = [*args] + ([kwargs["attn_bias"]] if name == "bias" else [])

    def function(*tensors):
        options = {**kwargs, "attn_bias": tensors[3]} if name == "bias" else kwargs
        return attention(*tensors[:3], **options)

    assert torch.autograd.gradcheck(function, leaves, fast_mode=True, check_batched_grad=True, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(function, leaves, fast_mode=True, check_fwd_over_rev=True)


def compiled_grads(function, args, kwargs):
    out, lse = function(*args, **kwargs)
    leaves = [t for t in (*args, *kwargs.values()) if isinstance(t, torch.Tensor) and t.requires_grad]
    return out, lse, *torch.autograd.grad(out.sin().sum() + lse.sum(), leaves)


@pytest.mark.parametrize("name", CALLS)
def test_compile(name):
    torch._dynamo.reset()
    compiled = torch.compile(lambda *a, **k: attention(*a, **k), fullgraph=True, dynamic=True, backend="aot_eager")
    for dtype in (torch.float32, torch.bfloat16):
        args, kwargs = call(name, dtype)
        for mine, other in zip(compiled_grads(compiled, args, kwargs), compiled_grads(attention, args, kwargs)):
            assert torch.equal(mine, other) and mine.stride() == other.stride()


def test_one_graph_serves_all_lengths():
    torch._dynamo.reset()
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph

    compiled = torch.compile(lambda *a: attention(*a, is_causal=True), fullgraph=True, dynamic=True, backend=backend)
    for rows in (5, 70, 130):
        args = inputs(2, 4, 2, rows, rows + 6, 8, 6, requires_grad=False)
        assert torch.equal(compiled(*args)[0], attention(*args, is_causal=True)[0])
    assert len(graphs) == 1


@pytest.mark.slow  # inductor compiles it for several seconds
def test_inductor():
    torch._dynamo.reset()
    args, kwargs = call("bias", torch.float32)
    compiled = torch.compile(lambda *a, **k: attention(*a, **k), fullgraph=True, dynamic=True)
    for mine, other in zip(compiled_grads(compiled, args, kwargs), compiled_grads(attention, args, kwargs)):
        torch.testing.assert_close(mine, other)


def test_export():
    class Module(torch.nn.Module):
        def forward(self, q, k, v):
            return attention(q, k, v, is_causal=True)

    args = inputs(2, 4, 2, 9, 11, 8, requires_grad=False)
    rows, keys = torch.export.Dim("rows", min=2, max=4096), torch.export.Dim("keys", min=2, max=4096)
    program = torch.export.export(Module(), args, dynamic_shapes=({2: rows}, {2: keys}, {2: keys}))
    longer = inputs(2, 4, 2, 100, 130, 8, requires_grad=False)
    for mine, other in zip(program.module()(*longer), attention(*longer, is_causal=True)):
        assert torch.equal(mine, other)


def test_autocast(device):
    args = inputs(1, 2, 2, 9, 11, 8)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        out, lse = attention(*args, attn_bias=torch.randn(9, 11))
        theirs = torch.nn.functional.scaled_dot_product_attention(*args)
    assert out.dtype == theirs.dtype == torch.bfloat16 and lse.dtype == torch.float32
    out.sum().backward()
    assert args[0].grad.dtype == torch.float32


def test_func_grad_and_jacrev():
    args = inputs(1, 2, 1, 4, 5, 3, dtype=torch.float64, requires_grad=False)
    for transform in (
        lambda f: torch.func.grad(lambda *a: f(*a, is_causal=True)[0].sin().sum(), argnums=(0, 1, 2)),
        lambda f: torch.func.jacrev(lambda *a: f(*a, is_causal=True)[0], argnums=(0, 1, 2)),
        lambda f: torch.func.jacrev(lambda *a: f(*a, is_causal=True)[1], argnums=0),
    ):
        torch.testing.assert_close(transform(attention)(*args), transform(peer)(*args), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [None, (4, 5), (3, 4, 5), (6, 1, 1, 5), (6, 3, 2, 4, 5)])
@pytest.mark.parametrize("batched_bias", [False, True])
def test_vmap(shape, batched_bias):
    n = 6
    args = [torch.stack([t] * n) + torch.randn(n, *t.shape) for t in inputs(3, 2, 1, 4, 5, 3, requires_grad=False)]
    if shape is None:
        bias, dim = None, None
    else:
        own = {2: (4, 5), 3: (2, 4, 5), 4: (3, 1, 1, 5), 5: (3, 2, 4, 5)}[len(shape)]
        bias, dim = (torch.randn(n, *own), 0) if batched_bias else (torch.randn(own), None)

    def function(q, k, v, b):
        return attention(q, k, v, attn_bias=b)

    def gradient(q, k, v, b):
        return torch.func.grad(lambda *a: function(*a, b)[0].sin().sum(), argnums=(0, 1, 2))(q, k, v)

    def bias_gradient(q, k, v, b):
        return torch.func.grad(lambda b: function(q, k, v, b)[0].sin().sum())(b)

    for f in (function, gradient) if bias is None else (function, gradient, bias_gradient):
        results = torch.vmap(f, in_dims=(0, 0, 0, dim))(*args, bias)
        each = [f(*(t[i] for t in args), bias[i] if dim == 0 else bias) for i in range(n)]
        if isinstance(results, torch.Tensor):
            torch.testing.assert_close(results, torch.stack(each))
        else:
            for k, result in enumerate(results):
                torch.testing.assert_close(result, torch.stack([one[k] for one in each]))


def test_too_many_columns_are_an_error():
    with pytest.raises(NotImplementedError) as raised:
        attention(*(torch.zeros(1, 1, 2, 300),) * 3)
    text = "tile::attention: head_dim is 300 and the most is 256; split it over more heads"
    assert str(raised.value).split("\n")[0] == text
