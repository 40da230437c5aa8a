"""Qwen3 0.6B: heads wider than width / heads, and norms of queries and keys."""

from transformers import Qwen3Config, Qwen3ForCausalLM

from .transformers_models import language_model

SIZES = {
    "tiny": dict(layers=1, width=64, inner=112, heads=4, key_heads=2, head=32, words=97, batch=2, length=12),
    "small": dict(layers=2, width=384, inner=1152, heads=6, key_heads=3, head=128, words=4096, batch=1, length=256),
    "full": dict(layers=6, width=1024, inner=3072, heads=16, key_heads=8, head=128, words=151936, batch=2, length=4096),
}


def qwen3(scale):
    rope = {"rope_type": "default", "rope_theta": 1000000.0}
    return language_model(Qwen3ForCausalLM, Qwen3Config, SIZES[scale], tie_word_embeddings=True, rope_parameters=rope)
