"""BERT base, which predicts masked words; the sentences of a batch differ in length."""

import torch
from transformers import BertConfig, BertForMaskedLM

from . import Made
from .transformers_models import configured, logits

SIZES = {
    "tiny": dict(layers=1, width=64, heads=4, inner=112, words=97, batch=2, length=12),
    "small": dict(layers=2, width=384, heads=6, inner=1536, words=4096, batch=2, length=128),
    "full": dict(layers=6, width=768, heads=12, inner=3072, words=30522, batch=32, length=512),
}


def bert(scale):
    sizes = SIZES[scale]
    config = configured(BertConfig, sizes, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    batch, length = sizes["batch"], sizes["length"]
    tokens = torch.randint(0, sizes["words"], (batch, length))
    lengths = torch.randint(length // 2, length + 1, (batch, 1))
    mask = (torch.arange(length) < lengths).long()
    asked = torch.rand(batch, length) < 0.15
    asked[:, 0] = True
    labels = torch.where(asked & (mask > 0), tokens, -100)

    def loss(scores):
        return torch.nn.functional.cross_entropy(scores.flatten(0, 1).float(), labels.flatten())

    inputs = {"input_ids": tokens, "attention_mask": mask}
    return Made(BertForMaskedLM(config), inputs, logits, loss, labels={"labels": labels})
