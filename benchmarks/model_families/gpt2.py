"""GPT-2 of 124 million parameters."""

from transformers import GPT2Config, GPT2LMHeadModel

from .transformers_models import language_model

SIZES = {
    "tiny": dict(layers=1, width=64, heads=4, words=97, batch=2, length=12),
    "small": dict(layers=2, width=384, heads=6, words=4096, batch=1, length=256),
    "full": dict(layers=6, width=768, heads=12, words=50257, batch=8, length=1024),
}


def gpt2(scale):
    no_dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    made = language_model(GPT2LMHeadModel, GPT2Config, SIZES[scale], bos_token_id=0, eos_token_id=0, **no_dropout)
    made.module.loss_type = "ForCausalLM"  # transformers knows none for this class, and its warning breaks a compiled graph
    return made
