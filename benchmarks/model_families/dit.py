"""DiT-XL/2, a transformer that removes noise from latents; a time and a class scale and shift its norms."""

import math

import torch
from torch import nn
from torch.nn import functional

from . import Made, squares

# layers, width, heads, side of a latent, batch
SIZES = {"tiny": (1, 64, 4, 8, 2), "small": (2, 384, 6, 32, 1), "full": (8, 1152, 16, 32, 32)}
CLASSES, CHANNELS, PATCH, WAVES = 1000, 4, 2, 256


def waves(position, width):
    """Returns cosines and sines of positions, at `width` frequencies in all."""
    frequencies = torch.exp(-math.log(10000) / (width // 2) * torch.arange(width // 2, device=position.device))
    angles = position.float()[:, None] * frequencies
    return torch.cat([angles.cos(), angles.sin()], -1)


def changed(x, shift, scale):
    return x * (1 + scale[:, None]) + shift[:, None]


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = (nn.LayerNorm(width, eps=1e-6, elementwise_affine=False) for _ in range(2))
        self.joined, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.modulation = nn.Linear(width, 6 * width)

    def attention(self, x):
        q, k, v = self.joined(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        return self.out(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    def forward(self, x, condition):
        shift, scale, gate, shift2, scale2, gate2 = self.modulation(functional.silu(condition)).chunk(6, -1)
        x = x + gate[:, None] * self.attention(changed(self.first(x), shift, scale))
        inner = functional.gelu(self.up(changed(self.second(x), shift2, scale2)), approximate="tanh")
        return x + gate2[:, None] * self.down(inner)


class DiT(nn.Module):
    def __init__(self, layers, width, heads, side):
        super().__init__()
        self.patches = nn.Conv2d(CHANNELS, width, PATCH, PATCH)
        self.time = nn.Sequential(nn.Linear(WAVES, width), nn.SiLU(), nn.Linear(width, width))
        self.label = nn.Embedding(CLASSES + 1, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width, eps=1e-6, elementwise_affine=False)
        self.modulation = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, PATCH * PATCH * 2 * CHANNELS)
        place = waves(torch.arange(side // PATCH), width // 2)
        rows, columns = place[:, None].expand(-1, len(place), -1), place.expand(len(place), -1, -1)
        self.register_buffer("place", torch.cat([rows, columns], -1).flatten(0, 1))

    def forward(self, latents, time, label):
        x = self.patches(latents).flatten(2).transpose(1, 2) + self.place
        condition = self.time(waves(time, WAVES).to(x.dtype)) + self.label(label)
        for block in self.blocks:
            x = block(x, condition)
        shift, scale = self.modulation(functional.silu(condition)).chunk(2, -1)
        x = self.out(changed(self.norm(x), shift, scale))
        side = latents.shape[-1] // PATCH
        x = x.unflatten(1, (side, side)).unflatten(-1, (PATCH, PATCH, 2 * CHANNELS))
        return x.permute(0, 5, 1, 3, 2, 4).flatten(4).flatten(2, 3)


def dit(scale):
    layers, width, heads, side, batch = SIZES[scale]
    inputs = {
        "latents": torch.randn(batch, CHANNELS, side, side),
        "time": torch.randint(0, 1000, (batch,)),
        "label": torch.randint(0, CLASSES, (batch,)),
    }
    loss = squares(torch.randn(batch, 2 * CHANNELS, side, side))
    return Made(DiT(layers, width, heads, side), inputs, lambda result: result, loss)
