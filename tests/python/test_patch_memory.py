"""The memory of a training step of a patched model: kept between forward and backward, and at most."""

import copy
import gc

import pytest
import tile_ops
import torch
from memory import allocated
from patch_models import transformers
from tile_ops import _products
from tile_ops._patching import recomputed

TOKENS, WIDTH, INNER, HEADS, KEY_HEADS, HEAD, WORDS = 64, 64, 176, 4, 2, 16, 512
SIZES = dict(
    vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=INNER, num_attention_heads=HEADS, num_key_value_heads=KEY_HEADS,
    head_dim=HEAD, max_position_embeddings=TOKENS, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)  # fmt: skip
MODELS = {
    "llama": (transformers.LlamaForCausalLM, transformers.LlamaConfig),
    "qwen3": (transformers.Qwen3ForCausalLM, transformers.Qwen3Config),
    "phi3": (transformers.Phi3ForCausalLM, transformers.Phi3Config),
}
FLOAT = 4  # bytes
# Per token: the two norms' inputs and results, query, key and value, the attention's result and what its rounding left, gate and up.
QUERY, KEY = HEADS * HEAD, KEY_HEADS * HEAD
ATTENTION = 2 * QUERY + 2 * KEY + QUERY
KEPT = {
    "llama": 4 * WIDTH + ATTENTION + 2 * INNER,
    "qwen3": 4 * WIDTH + ATTENTION + QUERY + KEY + 2 * INNER,  # and query and key before their norms
    "phi3": 4 * WIDTH + ATTENTION + QUERY + KEY + 2 * INNER,  # value is a part of all three
}
# In float32: two numbers of each head's row, and one of each row of a norm.
NUMBERS = {"llama": 2 * HEADS + 2, "qwen3": 2 * HEADS + 2 + HEADS + KEY_HEADS, "phi3": 2 * HEADS + 2}


@pytest.fixture(autouse=True)
def as_on_a_gpu(monkeypatch):
    """Products are torch's, and the loss is ours."""
    monkeypatch.setattr(_products, "limits", lambda *_: ())
    monkeypatch.setattr(_products, "loss_is_ours", lambda *_: True)


def make(name, layers, dtype=torch.bfloat16):
    kind, config = MODELS[name]
    model = kind(config(**SIZES, num_hidden_layers=layers)).to(dtype).train()
    tile_ops.patch(model)
    return model


def tokens():
    return torch.randint(3, WORDS, (1, TOKENS))


def kept(model, device):
    """Returns the bytes that are left of a forward, whose result is its loss alone."""
    ids = tokens().to(device)
    model.to(device)(input_ids=ids, labels=ids, use_cache=False).loss.backward()  # what first calls keep
    model.zero_grad(set_to_none=True)
    _, left, loss = allocated(lambda: model(input_ids=ids, labels=ids, use_cache=False).loss, device)
    del loss
    gc.collect()
    return left


@pytest.mark.parametrize("name", MODELS)
def test_what_a_layer_keeps(name, device):
    one, three = (kept(make(name, count), device) for count in (1, 3))
    expected = TOKENS * (2 * KEPT[name] + FLOAT * NUMBERS[name])
    # Allocations are rounded up: a layer has about 16.
    assert abs((three - one) / 2 - expected) <= 16 * 512
    if device.type == "cpu":
        assert (three - one) / 2 <= expected + 1024


def test_the_product_of_a_gate_is_computed_again(device):
    """The memory of the gate's product is not kept; without gated MLPs it is."""
    ours = kept(make("llama", 2), device)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, num_hidden_layers=2)).bfloat16().train()
    tile_ops.patch(model, leave="gated_mlp")
    theirs = kept(model, device)
    assert theirs - ours >= 2 * TOKENS * INNER * 2


def mlp(dtype=torch.float64, products="torch"):
    config = transformers.LlamaConfig(**SIZES, num_hidden_layers=1)
    model = transformers.models.llama.modeling_llama.LlamaMLP(config).to(dtype)
    patched = copy.deepcopy(model)
    tile_ops.patch(patched, products=products)
    return model, patched


def test_gradients_of_what_is_computed_again_are_the_same():
    model, patched = mlp()
    x = torch.randn(2, 5, WIDTH, dtype=torch.float64)
    found = []
    for each in (model, patched):
        of = x.clone().requires_grad_()
        first = torch.autograd.grad(each(of).square().sum(), [of, *each.parameters()], create_graph=True)
        second = torch.autograd.grad(sum(one.square().sum() for one in first), [of, *each.parameters()])
        found.append([*first, *second])
    torch.testing.assert_close(found[1], found[0], rtol=1e-9, atol=1e-9)


def test_a_graph_that_is_kept_computes_again_each_time():
    _, patched = mlp()
    x = torch.randn(3, WIDTH, dtype=torch.float64).requires_grad_()
    loss = patched(x).square().sum()
    first, second = (torch.autograd.grad(loss, x, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_of_a_gated_mlp(reentrant):
    model, patched = mlp()
    x = torch.randn(3, WIDTH, dtype=torch.float64).requires_grad_()
    torch.utils.checkpoint.checkpoint(patched, x, use_reentrant=reentrant).square().sum().backward()
    torch.testing.assert_close(x.grad, torch.autograd.grad(model(x).square().sum(), x)[0])


def test_hooks_of_saved_tensors_see_the_product():
    _, patched = mlp()
    seen = []
    with torch.autograd.graph.saved_tensors_hooks(lambda each: seen.append(each) or each, lambda each: each):
        patched(torch.randn(3, WIDTH, dtype=torch.float64))
    assert sum(each.shape == (3, INNER) for each in seen) == 3  # gate, up and their product


def test_a_gate_that_is_written_to():
    gate, up = (torch.randn(3, INNER).requires_grad_() * 1 for _ in range(2))
    out = recomputed.then(torch.nn.Linear(INNER, WIDTH), torch.ops.tile.swiglu, gate, up)
    gate.detach().add_(1)
    with pytest.raises(RuntimeError) as error:
        out.sum().backward()
    assert str(error.value).splitlines()[0] == (
        "tile_ops.patch: the gate projection of a gated MLP was written to after the forward, and backward needs it as it "
        "was; write to a copy, or patch(model, leave='gated_mlp')"
    )


@pytest.mark.parametrize("shape", [(0, INNER), (1, INNER), (2, 3, INNER)])
def test_shapes_of_what_is_computed_again(shape):
    layer, leaves = torch.nn.Linear(INNER, WIDTH), [torch.randn(shape).requires_grad_() for _ in range(2)]
    ours = torch.autograd.grad(recomputed.then(layer, torch.ops.tile.swiglu, *leaves).square().sum(), [*leaves, layer.weight])
    theirs = torch.autograd.grad(layer(torch.ops.tile.swiglu(*leaves)).square().sum(), [*leaves, layer.weight])
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs))
