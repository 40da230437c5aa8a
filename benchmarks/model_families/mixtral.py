"""Mixtral 8x7B, where a router sends each token to two of eight experts."""

from transformers import MixtralConfig, MixtralForCausalLM

from .transformers_models import language_model

SIZES = {
    "tiny": dict(layers=1, width=64, inner=112, heads=4, key_heads=2, experts=4, words=97, batch=2, length=12),
    "small": dict(layers=2, width=256, inner=896, heads=4, key_heads=2, experts=8, words=4096, batch=1, length=128),
    "full": dict(layers=1, width=4096, inner=14336, heads=32, key_heads=8, experts=8, words=32000, batch=2, length=2048),
}


def one_expert_at_a_time(module):
    """torch.nn.functional.grouped_mm, the default, knows no float64."""
    module.config._experts_implementation = "eager"


def mixtral(scale):
    made = language_model(MixtralForCausalLM, MixtralConfig, SIZES[scale])
    made.prepare_exact = one_expert_at_a_time
    return made
