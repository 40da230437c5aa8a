"""Qwen3 0.6B: heads wider than width / heads, and norms of queries and keys."""

from transformers import Qwen3Config, Qwen3ForCausalLM

from .text import language_model

SIZES = {
    "tiny": (1, 64, 112, 4, 2, 32, 97, 2, 12),
    "small": (2, 384, 1152, 6, 3, 128, 4096, 1, 256),
    "full": (6, 1024, 3072, 16, 8, 128, 151936, 2, 4096),
}


def qwen3(scale):
    layers, width, inner, heads, key_heads, head, words, batch, length = SIZES[scale]
    config = Qwen3Config(
        vocab_size=words,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        head_dim=head,
        max_position_embeddings=length,
        tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
    )
    return language_model(Qwen3ForCausalLM, config, batch, length)
