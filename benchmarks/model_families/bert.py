"""BERT base, which predicts masked words; the sentences of a batch differ in length."""

import torch
from transformers import BertConfig, BertForMaskedLM

from . import Made
from .text import logits

SIZES = {
    "tiny": (1, 64, 4, 112, 97, 2, 12),
    "small": (2, 384, 6, 1536, 4096, 2, 128),
    "full": (6, 768, 12, 3072, 30522, 32, 512),
}


def bert(scale):
    layers, width, heads, inner, words, batch, length = SIZES[scale]
    config = BertConfig(
        vocab_size=words,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        max_position_embeddings=length,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    tokens = torch.randint(0, words, (batch, length))
    lengths = torch.randint(length // 2, length + 1, (batch, 1))
    mask = (torch.arange(length) < lengths).long()
    asked = torch.rand(batch, length) < 0.15
    asked[:, 0] = True
    labels = torch.where(asked & (mask > 0), tokens, -100).flatten()

    def loss(scores):
        return torch.nn.functional.cross_entropy(scores.flatten(0, 1).float(), labels)

    return Made(BertForMaskedLM(config), {"input_ids": tokens, "attention_mask": mask}, logits, loss)
