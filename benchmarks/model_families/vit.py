"""ViT-L/16, which names the contents of images."""

import torch
from transformers import ViTConfig, ViTForImageClassification

from . import Made
from .text import logits

SIZES = {
    "tiny": (1, 64, 4, 112, 32, 8, 5, 2),
    "small": (2, 512, 8, 2048, 224, 16, 100, 1),
    "full": (8, 1024, 16, 4096, 224, 16, 1000, 64),
}


def vit(scale):
    layers, width, heads, inner, side, patch, labels, batch = SIZES[scale]
    config = ViTConfig(
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=inner,
        image_size=side,
        patch_size=patch,
        num_labels=labels,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    answers = torch.randint(0, labels, (batch,))

    def loss(scores):
        return torch.nn.functional.cross_entropy(scores.float(), answers)

    return Made(ViTForImageClassification(config), {"pixel_values": torch.randn(batch, 3, side, side)}, logits, loss)
