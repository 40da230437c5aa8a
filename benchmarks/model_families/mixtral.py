"""Mixtral 8x7B, where a router sends each token to two of eight experts."""

from transformers import MixtralConfig, MixtralForCausalLM

from .text import language_model

SIZES = {
    "tiny": (1, 64, 112, 4, 2, 4, 97, 2, 12),
    "small": (2, 256, 896, 4, 2, 8, 4096, 1, 128),
    "full": (1, 4096, 14336, 32, 8, 8, 32000, 2, 2048),
}


def one_expert_at_a_time(module):
    """torch.nn.functional.grouped_mm, the default, knows no float64."""
    module.config._experts_implementation = "eager"


def mixtral(scale):
    layers, width, inner, heads, key_heads, experts, words, batch, length = SIZES[scale]
    config = MixtralConfig(
        vocab_size=words,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        num_local_experts=experts,
        max_position_embeddings=length,
    )
    made = language_model(MixtralForCausalLM, config, batch, length)
    made.prepare_exact = one_expert_at_a_time
    return made
