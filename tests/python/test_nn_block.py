"""tile_ops.nn's transformer block and its parts against plain torch; every module is copied and pickled."""

import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from rope_reference import rotate
from tile_ops import nn

DIM, HEADS, KV_HEADS, HIDDEN, LENGTH = 32, 4, 2, 48, 7


def mlp(state, x, activation=F.silu):
    gate, up, down = (state.get(f"{name}_proj.bias") for name in ("gate", "up", "down"))
    hidden = activation(F.linear(x, state["gate_proj.weight"], gate)) * F.linear(x, state["up_proj.weight"], up)
    return F.linear(hidden, state["down_proj.weight"], down)


def attention(state, x, causal, base, position_ids):
    def heads(name, count):
        return F.linear(x, state[f"{name}.weight"], state.get(f"{name}.bias")).unflatten(-1, (count, -1)).transpose(1, 2)

    positions = torch.arange(x.shape[1]) if position_ids is None else position_ids
    width = DIM // HEADS
    angle = positions[..., None].double() * base ** (-torch.arange(0, width, 2).double() / width)
    cos, sin = ((t if t.dim() == 3 else t[None])[:, None].to(x.dtype) for t in (angle.cos(), angle.sin()))
    query, key = (rotate(heads(*each), cos, sin) for each in (("q_proj", HEADS), ("k_proj", KV_HEADS)))
    out = F.scaled_dot_product_attention(query, key, heads("v_proj", KV_HEADS), is_causal=causal, enable_gqa=True)
    return F.linear(out.transpose(1, 2).flatten(2), state["o_proj.weight"], state.get("o_proj.bias"))


def block(state, x, causal=True, base=10000.0, position_ids=None):
    def part(name):
        return {key.removeprefix(f"{name}."): value for key, value in state.items() if key.startswith(f"{name}.")}

    def norm(name, x):
        return F.rms_norm(x, [DIM], state[f"{name}.weight"], 1e-5)

    x = x + attention(part("self_attn"), norm("input_layernorm", x), causal, base, position_ids)
    return x + mlp(part("mlp"), norm("post_attention_layernorm", x))


def drawn(module):
    for name, parameter in module.named_parameters():
        torch.nn.init.normal_(parameter, 1.0 if "norm" in name else 0.0, 0.3)
    return module


def make_block(**kwargs):
    return drawn(nn.TransformerBlock(DIM, HEADS, KV_HEADS, HIDDEN, max_positions=16, **kwargs))


def compare(ours, theirs, inputs, tolerance):
    """Results and gradients; theirs: a function of parameters and inputs."""
    state = {name: parameter.detach().clone().requires_grad_() for name, parameter in ours.named_parameters()}
    given = [[x.detach().clone().requires_grad_() for x in inputs] for _ in range(2)]
    out, expected = ours(*given[0]), theirs(state, *given[1])
    torch.testing.assert_close(out, expected, rtol=tolerance, atol=tolerance)
    grad = torch.randn_like(out)
    gradients = torch.autograd.grad(out, [*given[0], *ours.parameters()], grad)
    for mine, other in zip(gradients, torch.autograd.grad(expected, [*given[1], *state.values()], grad), strict=True):
        torch.testing.assert_close(mine, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-9), (torch.float32, 2e-4)])
@pytest.mark.parametrize("kwargs", [{}, {"bias": True, "causal": False, "base": 500.0}], ids=["plain", "other"])
def test_block(dtype, tolerance, kwargs):
    module = make_block(**kwargs).to(dtype)
    options = {name: kwargs[name] for name in ("causal", "base") if name in kwargs}
    compare(module, lambda state, x: block(state, x, **options), [torch.randn(2, LENGTH, DIM, dtype=dtype)], tolerance)


def test_block_of_other_positions():
    module, x, ids = make_block().double(), torch.randn(2, LENGTH, DIM, dtype=torch.float64), torch.randint(0, 16, (2, LENGTH))
    torch.testing.assert_close(module(x, ids), block(dict(module.named_parameters()), x, position_ids=ids))
    torch.testing.assert_close(module(x, torch.arange(LENGTH)), module(x))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("activation", ["silu", "relu"])
def test_gated_mlp(bias, activation):
    module = drawn(nn.GatedMLP(DIM, HIDDEN, bias, activation, dtype=torch.float64))
    compare(
        module, lambda state, x: mlp(state, x, getattr(F, activation)), [torch.randn(2, 5, DIM, dtype=torch.float64)], 1e-10
    )


def test_names_are_llama_s():
    assert sorted(make_block().state_dict()) == sorted(
        [
            "input_layernorm.weight",
            "post_attention_layernorm.weight",
            *(f"self_attn.{name}_proj.weight" for name in "qkvo"),
            *(f"mlp.{name}_proj.weight" for name in ("gate", "up", "down")),
        ]
    )
    assert nn.TransformerBlock(DIM, HEADS).mlp.gate_proj.out_features == 128


def test_blocks_share_a_rotary_embedding():
    rotary = nn.RotaryEmbedding(DIM // HEADS, 16)
    model = torch.nn.Sequential(*(nn.TransformerBlock(DIM, HEADS, rotary=rotary) for _ in range(2)))
    assert all(each.self_attn.rotary is rotary for each in model)
    assert model(torch.randn(1, LENGTH, DIM)).shape == (1, LENGTH, DIM)


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compile(backend):
    torch._dynamo.reset()
    module, x = make_block(), torch.randn(2, LENGTH, DIM, requires_grad=True)
    compiled = torch.compile(module, fullgraph=True, backend=backend)
    out, expected = compiled(x), module(x)
    torch.testing.assert_close(out, expected)
    grad = torch.randn_like(out)
    torch.testing.assert_close(*(torch.autograd.grad(each, [x, *module.parameters()], grad) for each in (out, expected)))


MODULES = {
    "AddRMSNorm": (lambda: nn.AddRMSNorm(8), (3, 8)),
    "Dropout": (lambda: nn.Dropout(0.25), (3, 4)),
    "GatedMLP": (lambda: nn.GatedMLP(8, 12), (3, 8)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 6), (3, 6, 4)),
    "LayerNorm": (lambda: nn.LayerNorm(8), (3, 8)),
    "Linear": (lambda: nn.Linear(8, 6), (3, 8)),
    "MultiheadAttention": (lambda: nn.MultiheadAttention(8, 2), (3, 2, 8)),
    "RMSNorm": (lambda: nn.RMSNorm(8), (3, 8)),
    "RotaryEmbedding": (lambda: nn.RotaryEmbedding(8, 16), (2, 3, 5, 8)),
    "SelfAttention": (lambda: nn.SelfAttention(DIM, HEADS, nn.RotaryEmbedding(8, 16)), (2, 5, DIM)),
    "TransformerBlock": (make_block, (2, 5, DIM)),
}


def call(module, x):
    torch.manual_seed(1)
    arguments = {nn.MultiheadAttention: 3, nn.RotaryEmbedding: 2, nn.AddRMSNorm: 2}.get(type(module), 1)
    return module(*[x] * arguments)


@pytest.mark.parametrize("name", nn.__all__)
def test_copies(name):
    """deepcopy, pickle, and a state_dict loaded by another module."""
    make, shape = MODULES[name]
    module, x = make(), torch.randn(shape)
    other = make()
    other.load_state_dict(module.state_dict())
    for each in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), other):
        assert repr(each) == repr(module)
        torch.testing.assert_close(call(each, x), call(module, x), rtol=0, atol=0)


def test_errors():
    for dim, heads, kv_heads in ((30, 4, 4), (32, 4, 3)):
        with pytest.raises(ValueError) as error:
            nn.SelfAttention(dim, heads, nn.RotaryEmbedding(8, 16), kv_heads)
        assert str(error.value) == (
            f"SelfAttention: dim is {dim}, heads {heads} and kv_heads {kv_heads}; dim must be a multiple of heads, and "
            "heads of kv_heads"
        )
