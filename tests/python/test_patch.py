"""tile_ops.patch and unpatch: what is swapped, what is left and why, and that a model stays the object it was."""

import copy
import io
import pickle

import pytest
import tile_ops
import torch
import torch.nn.functional as F
from patch_calls import names_of_calls, patch
from patch_cases import MLP, Attention, Doubled, Model, OwnNorm, WideNorm
from torch import nn
from torch.nn.utils import parametrize

REPORT = """\
Model: 24 modules swapped
     1 Embedding: embedding
     1 OwnNorm: rms_norm
     1 OneNorm: rms_norm, 1 + weight
     1 WideNorm: rms_norm
     1 LayerNorm: layer_norm
     1 RMSNorm: rms_norm
     1 MLP: gated_matmul, silu
    14 Linear: matmul
     1 MLP: gated_matmul, gelu
     1 Attention: attention
     1 Dropout: dropout
products, with torch's time / ours
     2 MLP: torch's, as ours was not faster in float32 and these sizes on this cpu
    14 Linear: torch's, as ours was not faster in float32 and these sizes on this cpu
8 modules left
     1 OtherNorm (norms.3): not known to be an RMSNorm
     2 SiLU (mlps.0.act_fn, mlps.3.act_fn): no operator for it
     1 GELU (mlps.1.act_fn): no operator for it
     1 MLP (mlps.2): not known to be down_proj(activation(gate_proj(x)) * up_proj(x)) of silu, gelu or relu
     1 Tanh (mlps.2.act_fn): no operator for it
     1 OtherMLP (mlps.3): not known to be down_proj(activation(gate_proj(x)) * up_proj(x)) of silu, gelu or relu
     1 Doubled (doubled): a subclass with a forward of its own"""


def ids():
    return torch.randint(1, 11, (3, 5))


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=5e-4 * max(1.0, theirs.abs().max().item()))


def gradients(model, *args):
    model.zero_grad()
    out = model(*args)
    out.square().sum().backward()
    return out.detach(), {name: parameter.grad for name, parameter in model.named_parameters()}


def test_the_report(device):
    report = tile_ops.patch(Model())
    assert str(report) == REPORT.replace("this cpu", f"this {device.type}")
    assert len(report.swapped) == 24 and ("embed", "Embedding", "embedding") in report.swapped
    assert ("doubled", "Doubled", "a subclass with a forward of its own") in report.left


def test_results_and_gradients():
    model = Model().eval()
    x = ids()
    expected, grads = gradients(model, x)
    patch(model)
    out, ours = gradients(model, x)
    close(out, expected)
    assert ours.keys() == grads.keys()
    for name in grads:
        close(ours[name], grads[name])


def test_our_operators_are_called():
    model, x = Model(), ids()
    assert not any("tile::" in name for name in names_of_calls(model, x))
    patch(model)
    assert {name for name in names_of_calls(model, x) if "tile::" in name} == {
        "tile::embedding",
        "tile::rms_norm",
        "tile::layer_norm",
        "tile::matmul",
        "tile::gated_matmul",
        "tile::attention",
        "tile::dropout",
    }


def state(model):
    return {name: (type(module), dict(module.__dict__)) for name, module in model.named_modules()}


def test_unpatch_restores_classes_and_attributes():
    model = Model()
    before, parameters = state(model), dict(model.named_parameters())
    tile_ops.patch(model)
    assert all(model.get_parameter(name) is value for name, value in parameters.items())
    assert model.head.weight is model.embed.weight
    assert isinstance(model.head, nn.Linear) and isinstance(model.norms[0], OwnNorm)
    assert all(module.__dict__ == before[name][1] for name, module in model.named_modules())  # no attribute more
    assert tile_ops.unpatch(model) is model
    assert state(model) == before
    assert state(tile_ops.unpatch(model)) == before


def test_patch_twice():
    model = Model()
    first = tile_ops.patch(model)
    classes = [type(module) for module in model.modules()]
    second = tile_ops.patch(model)
    assert classes == [type(module) for module in model.modules()]
    assert second.swapped == [] and second.left.count(("head", "Linear", "patched already")) == 1
    assert len(second.left) == len(first.swapped) + len(first.left)


def test_state_dict_and_optimizer():
    model, x = Model().eval(), ids()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    saved = copy.deepcopy(model.state_dict())
    patch(model)
    assert list(model.state_dict()) == list(saved)
    before = model(x)
    before.square().sum().backward()
    optimizer.step()
    assert not torch.equal(model(x), before)
    model.load_state_dict(saved)
    assert torch.equal(model(x), before)


def test_pickle_and_deepcopy():
    model, x = Model().eval(), ids()
    patch(model)
    expected = model(x)
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), torch.load(buffer, weights_only=False)):
        assert torch.equal(other(x), expected)
        assert [type(module) for module in other.modules()] == [type(module) for module in model.modules()]
        assert other.head.weight is other.embed.weight
        tile_ops.unpatch(other)
        assert type(other.head) is nn.Linear


def test_to_another_dtype():
    model, x = Model().eval(), ids()
    patch(model)
    ours = model.double()(x)
    close(ours, tile_ops.unpatch(model)(x))
    assert ours.dtype == torch.float64


def test_float64_of_a_norm_that_sums_in_float32():
    norms, x = nn.Sequential(OwnNorm(8), WideNorm(8)).double(), torch.randn(3, 8, dtype=torch.float64)
    expected = [norm(x) for norm in norms]
    tile_ops.patch(norms)
    assert torch.equal(norms[0](x), expected[0])  # the original's numbers, not better ones
    torch.testing.assert_close(norms[1](x), expected[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compile(backend):
    model, x = Model().eval(), ids()
    expected, grads = gradients(model, x)
    patch(model)
    torch._dynamo.reset()
    out, ours = gradients(torch.compile(model, backend=backend, fullgraph=True), x)
    close(out, expected)
    for name, value in grads.items():
        close(ours[f"_orig_mod.{name}"], value)


def test_export():
    model, x = Model().eval(), ids()
    patch(model)
    program = torch.export.export(model, (x,))
    assert "tile.attention" in str(program.graph) and "tile.gated_matmul" in str(program.graph)
    close(program.module()(x), model(x))


def test_hooks():
    model, seen = Model(), []
    model.head.register_forward_hook(lambda *_: seen.append("head"))
    patch(model)
    model.mlps[0].gate_proj.register_forward_pre_hook(lambda *_: seen.append("gate"))  # no longer fused
    model(ids())
    assert seen == ["gate", "head"]


def test_replaced_parts_of_a_gated_mlp():
    model, x = nn.Sequential(MLP(nn.SiLU())), torch.randn(3, 8)
    patch(model)
    model[0].act_fn = nn.ReLU()
    close(model(x), tile_ops.unpatch(model)(x))
    patch(model)
    model[0].gate_proj = Doubled(8, 24, bias=False)
    close(model(x), tile_ops.unpatch(model)(x))


def test_parametrized_modules_are_left():
    model = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 4)))
    report = tile_ops.patch(model)
    assert report.swapped == [] and report.left[0] == ("0", "ParametrizedLinear", "parametrized")
    model(torch.randn(2, 4))


class Half(nn.Module):
    def forward(self, x):
        return x / 2


def test_parametrization_after_patch():
    model, x = nn.Sequential(nn.Linear(4, 4)), torch.randn(2, 4)
    patch(model)
    product = model(x) - model[0].bias
    parametrize.register_parametrization(model[0], "weight", Half())
    close(model(x) - model[0].bias, product / 2)
    with pytest.raises(ValueError) as error:
        tile_ops.unpatch(model)
    assert str(error.value) == (
        "unpatch: the class of 0 was changed after patch(), to ParametrizedLinear; take that "
        "back first (parametrizations: remove_parametrizations)"
    )
    parametrize.remove_parametrizations(model[0], "weight", leave_parametrized=False)
    tile_ops.unpatch(model)
    assert type(model[0]) is nn.Linear


def test_forward_of_the_object_is_left():
    model = nn.Linear(4, 4)
    model.forward = lambda x: x
    assert tile_ops.patch(model).left == [("", "Linear", "its forward was replaced on the object")]


def test_the_rest_of_the_reasons():
    model = nn.ModuleDict(
        {
            "embedding": nn.Embedding(3, 4, max_norm=1.0),
            "lazy": nn.LazyLinear(3),
            "conv": nn.Conv1d(2, 2, 1),
            "script": torch.jit.script(nn.Linear(2, 2)),
        }
    )
    report = tile_ops.patch(model)
    assert report.swapped == []
    assert report.left == [
        ("embedding", "Embedding", "max_norm, scale_grad_by_freq and sparse are not implemented"),
        ("lazy", "LazyLinear", "not initialized yet"),
        ("conv", "Conv1d", "no operator for it"),
        ("script", "RecursiveScriptModule", "a compiled script"),
    ]


def test_leave():
    model = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3))
    report = tile_ops.patch(model, leave="linear")
    assert report.swapped == [("1", "LayerNorm", "layer_norm")] and report.left == [("0", "Linear", "as asked")]
    assert tile_ops.patch(model, leave=["layer_norm"]).swapped == [("0", "Linear", "matmul")]


def test_errors():
    with pytest.raises(TypeError) as error:
        tile_ops.patch(3)
    assert str(error.value) == (
        "patch: model is int; it must be a torch.nn.Module (of a diffusers pipeline: pipeline.unet, pipeline.vae, …)"
    )
    with pytest.raises(TypeError, match="^unpatch: model is list; it must be"):
        tile_ops.unpatch([])
    with pytest.raises(ValueError) as error:
        tile_ops.patch(torch.compile(nn.Linear(2, 2)))
    assert str(error.value) == "patch: the model is compiled already; patch it before torch.compile"
    with pytest.raises(ValueError) as error:
        tile_ops.patch(nn.Linear(2, 2), leave=["Linear"])
    assert str(error.value) == (
        "patch: leave names 'Linear'; the kinds are 'linear', 'gated_mlp', 'layer_norm', 'rms_norm', 'group_norm', "
        "'embedding', 'dropout', 'softmax', 'cross_entropy', 'attention', 'convolution', 'arithmetic', 'activation'"
    )


def test_inputs_that_our_operators_refuse_are_torch_s(device):
    """The same results, and the same errors."""
    norm, linear, embed = nn.GroupNorm(2, 4), nn.Linear(3, 3), nn.Embedding(3, 2)
    for module, x in (
        (norm, torch.randn(1, 4, 2, 2, 2, 2)),
        (linear, torch.randn(2, 3).to_sparse()),
        (nn.Softmax(dim=None), torch.randn(2, 3)),
    ):
        expected = module(x)
        patch(module)
        assert torch.equal(module(x), expected)
    wrong = [(linear, torch.randn(2, 4)), (linear, torch.randn(2, 3).double()), (embed, torch.tensor([4]))]
    for module, x in wrong[: 3 if device.type == "cpu" else 2]:  # on a GPU an index is an assertion of the device
        messages = []
        for change in (tile_ops.unpatch, patch):
            change(module)
            with pytest.raises((RuntimeError, IndexError)) as error:
                module(x)
            messages.append(str(error.value))
        assert messages[0] == messages[1]


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_multihead_attention(need_weights, masked):
    module = nn.MultiheadAttention(8, 2, batch_first=True)
    x, mask = torch.randn(2, 5, 8), torch.zeros(2, 5, dtype=torch.bool)
    mask[0, 3:] = True
    expected = module(x, x, x, key_padding_mask=mask if masked else None, need_weights=need_weights)
    patch(module)
    ours = module(x, x, x, key_padding_mask=mask if masked else None, need_weights=need_weights)
    close(ours[0], expected[0])
    assert (ours[1] is None) == (expected[1] is None)


@pytest.mark.parametrize("training", [False, True])
def test_transformer_encoder(training):
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    model, x = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).train(training), torch.randn(2, 5, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    expected = model(x, mask=mask, is_causal=True)
    patch(model)
    close(model(x, mask=mask, is_causal=True), expected)


def test_masks_of_attention():
    """A row that sees nothing is torch's."""
    model, x = Attention(), torch.randn(2, 5, 8)
    mask = torch.rand(2, 1, 5, 5) > 0.5
    mask[0, 0, 2] = False
    added = torch.zeros(mask.shape).masked_fill(~mask, -torch.inf)
    expected = [model(x, each) for each in (None, mask, added, added.double())[:3]]
    tile_ops.patch(model)
    for each, value in zip((None, mask, added), expected):
        close(model(x, each), value)


def test_functions_in_a_forward():
    class Head(nn.Module):
        def forward(self, x, target):
            return F.cross_entropy(x, target) + x.softmax(-1)[0, 0] + torch.log_softmax(x, 1)[0, 0]

    model, args = Head(), (torch.randn(3, 5), torch.tensor([0, 4, 2]))
    expected = model(*args)
    assert tile_ops.patch(model).swapped == [("", "Head", "cross_entropy, log_softmax, softmax")]
    close(model(*args), expected)
    assert names_of_calls(model, *args) >= {"tile::cross_entropy", "tile::softmax", "tile::log_softmax"}
    probabilities = F.softmax(torch.randn(3, 5), -1)  # as a target our operator does not take them
    ours = model(args[0], probabilities)
    close(ours, tile_ops.unpatch(model)(args[0], probabilities))


def test_autocast():
    model, x = Model().eval(), ids()
    patch(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        ours, theirs = model(x), tile_ops.unpatch(model)(x)
    assert ours.dtype == theirs.dtype
    assert (ours - theirs).abs().max() < 0.05 * theirs.abs().max()


def test_random_numbers_of_the_program_stay():
    model = Model()
    before = torch.get_rng_state()
    tile_ops.patch(model)
    assert torch.equal(torch.get_rng_state(), before)
