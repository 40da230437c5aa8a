"""Blocks of diffusers and MLPs of transformers through tile_ops.patch: which activations are computed with what is
before them, and which are not."""

import os

import pytest
import tile_ops
import torch
from patch_calls import FUSED_BEFORE, activations, check_patched, close, names_of_calls, patch
from torch import nn

os.environ["HF_HUB_OFFLINE"] = "1"
resnet = pytest.importorskip("diffusers.models.resnet")
transformers = pytest.importorskip("transformers")
from diffusers.models import embeddings, unets  # noqa: E402
from transformers.models import bert, gpt2, llama, phi3, vit  # noqa: E402


pytestmark = pytest.mark.usefixtures("no_tf32")


def block(**options):
    return resnet.ResnetBlock2D(**{"in_channels": 8, "temb_channels": 12, "groups": 4, **options})


RESNETS = [  # (options, activations by themselves: of temb, and those that are not right behind a norm)
    ({}, 1),
    ({"out_channels": 16, "groups_out": 8}, 1),
    ({"temb_channels": None}, 0),
    ({"skip_time_act": True}, 0),
    ({"time_embedding_norm": "scale_shift"}, 2),
    ({"up": True}, 1),
    ({"down": True}, 1),
    ({"up": True, "kernel": "fir"}, 1),
    ({"down": True, "kernel": "sde_vp"}, 1),
    ({"output_scale_factor": 2.0}, 1),
    ({"non_linearity": "gelu"}, 3),
]


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("options, alone", RESNETS, ids=[str(options) for options, _ in RESNETS])
def test_resnet_block(options, alone, training):
    module, args = block(**options).train(training), [torch.randn(2, 8, 6, 6)]
    if options.get("temb_channels", 12):
        args.append(torch.randn(2, 8 if options.get("skip_time_act") else 12))
        if options.get("skip_time_act"):
            module.time_emb_proj = nn.Linear(8, 8)
    else:
        module.register_forward_pre_hook(lambda _, args: (*args, None))  # temb has no default
    report = check_patched(module, args)
    by = [by for path, _, by in report.swapped if not path]
    assert by == (["group_norm, silu; arithmetic"] if options.get("non_linearity") is None else ["arithmetic"])
    assert activations(module, *args) == alone


def test_resnet_block_with_dropout():
    """The zeros behind the dropout show which elements it dropped."""
    module, x = block(dropout=0.5, temb_channels=None), torch.randn(2, 8, 6, 6)
    patch(module)
    seen = []
    module.conv2.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    module(x, None)
    module.eval()(x, None)
    kept = seen[0] != 0
    assert 0.3 < kept.double().mean() < 0.7
    torch.testing.assert_close(seen[0][kept], 2 * seen[1][kept], rtol=1e-6, atol=1e-6)


def test_resnet_block_of_a_kind_that_changes():
    """The plan does not hold what the forward asks for at each call."""
    module, args = block(), (torch.randn(2, 8, 6, 6), torch.randn(2, 12))
    patch(module)
    module.time_embedding_norm, module.time_emb_proj = "scale_shift", nn.Linear(12, 16)
    ours = module(*args)
    close(ours, tile_ops.unpatch(module)(*args))


def test_a_time_embedding():
    module, x = embeddings.TimestepEmbedding(8, 16), torch.randn(3, 8)
    assert ("", "TimestepEmbedding", "matmul, silu") in check_patched(module, [x]).swapped
    assert activations(module, x) == 0


def test_the_end_of_a_unet():
    """conv_norm_out and conv_act are called by the model's own forward."""
    model = unets.UNet2DModel(
        sample_size=8,
        block_out_channels=(8, 16),
        layers_per_block=1,
        norm_num_groups=4,
        down_block_types=("DownBlock2D",) * 2,
        up_block_types=("UpBlock2D",) * 2,
    ).eval()
    args = torch.randn(1, 3, 8, 8), torch.tensor([3])
    with torch.no_grad():
        expected = model(*args).sample
        report = patch(model)
        ours = model(*args).sample
    assert ("", "UNet2DModel", "group_norm, silu; arithmetic") in report.swapped
    assert ("conv_act", "SiLU", FUSED_BEFORE) in report.swapped
    close(ours, expected)
    model.conv_norm_out = nn.Identity()
    assert activations(model, *args) == 1 + 8  # of temb in each block


TOKEN = {"pad_token_id": 0}


def mlps():
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2}
    gpt = transformers.GPT2Config(n_embd=16, resid_pdrop=0.0)
    for act in ("silu", "gelu", "gelu_pytorch_tanh", "relu"):
        yield llama.modeling_llama.LlamaMLP(transformers.LlamaConfig(**sizes, hidden_act=act)), "gated_matmul"
        yield phi3.modeling_phi3.Phi3MLP(transformers.Phi3Config(**sizes, **TOKEN, hidden_act=act)), "gated_matmul"
        yield bert.modeling_bert.BertIntermediate(transformers.BertConfig(**sizes, hidden_act=act)), "matmul"
    for act in ("gelu_new", "gelu", "relu"):
        gpt.activation_function = act
        yield gpt2.modeling_gpt2.GPT2MLP(24, gpt), "matmul"
    yield vit.modeling_vit.ViTMLP(transformers.ViTConfig(**sizes)), "matmul"
    plain = bert.modeling_bert.BertIntermediate(transformers.BertConfig(**sizes))
    del plain.intermediate_act_fn
    plain.intermediate_act_fn = torch.nn.functional.gelu
    yield plain, "matmul"


def test_mlps():
    x = torch.randn(2, 5, 16)
    for module, operator in mlps():
        rows = check_patched(module, [x]).swapped
        assert any(path == "" and by.startswith(f"{operator}, ") for path, _, by in rows)
        names = names_of_calls(module, x)
        assert f"tile::{operator}" in names and not {f"aten::{act}" for act in ("silu", "gelu", "relu", "tanh")} & names


def test_mlps_of_unknown_activations_and_layers():
    sizes = {"hidden_size": 16, "intermediate_size": 24}
    phi = phi3.modeling_phi3.Phi3MLP(transformers.Phi3Config(**sizes, hidden_act="quick_gelu", **TOKEN))
    assert patch(phi).left[0] == (
        "",
        "Phi3MLP",
        "not known to be down_proj(activation(gate) * up) of the halves of gate_up_proj(x) of silu, gelu or relu",
    )
    plain = bert.modeling_bert.BertIntermediate(transformers.BertConfig(**sizes, hidden_act="quick_gelu"))
    report = patch(plain)
    assert report.left == [("intermediate_act_fn", "QuickGELUActivation", "no operator for it")]


def test_a_gate_up_proj_that_is_replaced():
    module = phi3.modeling_phi3.Phi3MLP(transformers.Phi3Config(hidden_size=16, intermediate_size=24, **TOKEN))
    x = torch.randn(3, 16)
    patch(module)
    assert "tile::gated_matmul" in names_of_calls(module, x)
    module.gate_up_proj = nn.Sequential(module.gate_up_proj, nn.Identity())
    assert "tile::gated_matmul" not in names_of_calls(module, x)
    ours = module(x)
    close(ours, tile_ops.unpatch(module)(x))


def test_a_hook_of_the_activation_is_called():
    module, _ = next(mlps())
    x, seen = torch.randn(3, 16), []
    patch(module)
    handle = module.act_fn.register_forward_hook(lambda *_: seen.append("act"))
    assert "tile::gated_matmul" not in names_of_calls(module, x) and seen == ["act"]
    handle.remove()
    assert "tile::gated_matmul" in names_of_calls(module, x)
