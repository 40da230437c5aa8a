"""ViT-L/16, which names the contents of images."""

import torch
from transformers import ViTConfig, ViTForImageClassification

from . import Made
from .transformers_models import configured, logits

SIZES = {
    "tiny": dict(layers=1, width=64, heads=4, inner=112, side=32, patch=8, labels=5, batch=2),
    "small": dict(layers=2, width=512, heads=8, inner=2048, side=224, patch=16, labels=100, batch=1),
    "full": dict(layers=8, width=1024, heads=16, inner=4096, side=224, patch=16, labels=1000, batch=64),
}


def vit(scale):
    sizes = SIZES[scale]
    config = configured(ViTConfig, sizes, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    answers = torch.randint(0, sizes["labels"], (sizes["batch"],))

    def loss(scores):
        return torch.nn.functional.cross_entropy(scores.float(), answers)

    model = ViTForImageClassification(config)
    images = torch.randn(sizes["batch"], 3, sizes["side"], sizes["side"])
    return Made(model, {"pixel_values": images}, logits, loss, labels={"labels": answers})
