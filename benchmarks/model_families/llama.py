"""Llama 3.2 1B, with the vocabulary of Llama 2: the larger one would make the loss most of a model that is cut in depth."""

from transformers import LlamaConfig, LlamaForCausalLM

from .transformers_models import language_model

SIZES = {
    "tiny": dict(layers=1, width=64, inner=112, heads=4, key_heads=2, words=97, batch=2, length=12),
    "small": dict(layers=2, width=512, inner=1408, heads=8, key_heads=4, words=4096, batch=1, length=256),
    "full": dict(layers=6, width=2048, inner=8192, heads=32, key_heads=8, words=32000, batch=4, length=4096),
}


def llama(scale):
    rope = {"rope_type": "default", "rope_theta": 500000.0}
    return language_model(LlamaForCausalLM, LlamaConfig, SIZES[scale], rms_norm_eps=1e-5, rope_parameters=rope)
