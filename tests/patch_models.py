"""Defines small models of transformers and diffusers with random weights, and their inputs, for tests of patch()."""

import os

import pytest
import torch

os.environ["HF_HUB_OFFLINE"] = "1"
diffusers = pytest.importorskip("diffusers")
transformers = pytest.importorskip("transformers")
transformers.logging.set_verbosity_error()
diffusers.logging.set_verbosity_error()

SMALL = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 112,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, **TOKENS, num_key_value_heads=2))


def mistral():
    config = transformers.MistralConfig(**SMALL, **TOKENS, num_key_value_heads=2, sliding_window=8)
    return transformers.MistralForCausalLM(config)


def gemma():
    config = transformers.GemmaConfig(**SMALL, **TOKENS, num_key_value_heads=1, head_dim=16)
    return transformers.GemmaForCausalLM(config)


def phi3():
    return transformers.Phi3ForCausalLM(transformers.Phi3Config(**SMALL, **TOKENS, num_key_value_heads=2))


def gpt2():
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=97,
            n_embd=64,
            n_layer=2,
            n_head=4,
            n_positions=64,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            **TOKENS,
        )
    )


def bert():
    return transformers.BertForMaskedLM(transformers.BertConfig(**SMALL, **NO_DROPOUT))


def vit():
    return transformers.ViTForImageClassification(
        transformers.ViTConfig(
            hidden_size=64,
            intermediate_size=112,
            num_hidden_layers=2,
            num_attention_heads=4,
            image_size=32,
            patch_size=8,
            num_labels=5,
            **NO_DROPOUT,
        )
    )


def unet():
    return diffusers.UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(32, 64),
        layers_per_block=1,
        cross_attention_dim=16,
        attention_head_dim=8,
        norm_num_groups=8,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    )


def vae():
    return diffusers.AutoencoderKL(
        block_out_channels=(32, 64),
        layers_per_block=1,
        norm_num_groups=8,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=4,
        sample_size=16,
    )


DECODERS = [llama, mistral, gemma, phi3, gpt2]
TEXT = [*DECODERS, bert]


def text(padding=None):
    """Returns three sentences of 12 tokens; with padding the first two are shorter."""
    mask = torch.ones(3, 12, dtype=torch.int64)
    for row, length in ((0, 7), (1, 10)):
        if padding == "right":
            mask[row, length:] = 0
        elif padding == "left":
            mask[row, : 12 - length] = 0
    ids = torch.randint(3, 97, (3, 12)) * mask
    return {"input_ids": ids} if padding is None else {"input_ids": ids, "attention_mask": mask}


def images():
    return {"sample": torch.randn(2, 3, 16, 16)}


def picture():
    return {"pixel_values": torch.randn(2, 3, 32, 32)}


def noise():
    return {"sample": torch.randn(2, 4, 8, 8), "timestep": torch.tensor([3, 7]), "encoder_hidden_states": torch.randn(2, 5, 16)}


def calls(model, inputs, training=True):
    """Returns the model's first result, and by parameter name the gradients of a fixed weighted sum of it."""
    model.train(training).zero_grad()
    dtype = next(model.parameters()).dtype
    inputs = {name: value.to(dtype) if value.is_floating_point() else value for name, value in inputs.items()}
    if hasattr(model, "generate") and "Bert" not in type(model).__name__:
        inputs["use_cache"] = False
    out = next(iter(model(**inputs).values()))
    weights = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).view(out.shape)
    (out.double() * weights).sum().backward()
    return out.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
