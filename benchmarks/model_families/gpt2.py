"""GPT-2 of 124 million parameters."""

from transformers import GPT2Config, GPT2LMHeadModel

from .text import language_model

SIZES = {"tiny": (1, 64, 4, 97, 2, 12), "small": (2, 384, 6, 4096, 1, 256), "full": (6, 768, 12, 50257, 8, 1024)}


def gpt2(scale):
    layers, width, heads, words, batch, length = SIZES[scale]
    config = GPT2Config(
        vocab_size=words,
        n_embd=width,
        n_layer=layers,
        n_head=heads,
        n_positions=length,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
    )
    return language_model(GPT2LMHeadModel, config, batch, length)
