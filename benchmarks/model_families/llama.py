"""Llama 3.2 1B, with the vocabulary of Llama 2: the larger one would make the loss most of a model that is cut in depth."""

from transformers import LlamaConfig, LlamaForCausalLM

from .text import language_model

SIZES = {
    "tiny": (1, 64, 112, 4, 2, 97, 2, 12),
    "small": (2, 512, 1408, 8, 4, 4096, 1, 256),
    "full": (6, 2048, 8192, 32, 8, 32000, 4, 4096),
}


def llama(scale):
    layers, width, inner, heads, key_heads, words, batch, length = SIZES[scale]
    config = LlamaConfig(
        vocab_size=words,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        max_position_embeddings=length,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
    )
    return language_model(LlamaForCausalLM, config, batch, length)
