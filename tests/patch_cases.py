"""Modules that tile_ops.patch knows, and others that only look alike."""

import torch
import torch.nn.functional as F
from torch import nn


class OwnNorm(nn.Module):
    """RMSNorm as many models have it, sums in float32."""

    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim))
        self.variance_epsilon = eps

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * wide.to(x.dtype)


class OneNorm(OwnNorm):
    """The form whose weight counts from 1."""

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)
        return (wide * (1 + self.weight.float())).to(x.dtype)


class WideNorm(OwnNorm):
    """Sums in the input's dtype."""

    def forward(self, x):
        return x / (x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon).sqrt() * self.weight


class OtherNorm(OwnNorm):
    """Nearly an RMSNorm: eps is outside of the root."""

    def forward(self, x):
        return x / (x.pow(2).mean(-1, keepdim=True).sqrt() + self.variance_epsilon) * self.weight


class MLP(nn.Module):
    def __init__(self, act, bias=False):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(8, 24, bias=bias), nn.Linear(8, 24, bias=bias)
        self.down_proj = nn.Linear(24, 8, bias=bias)
        self.act_fn = act

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class OtherMLP(MLP):
    def forward(self, x):
        return self.down_proj(self.act_fn(self.up_proj(x)) * self.gate_proj(x))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x, mask=None):
        q, k, v = self.qkv(x).view(*x.shape[:-1], 3, 2, 4).permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)


class Doubled(nn.Linear):
    def forward(self, input):
        return 2 * super().forward(input)


class Model(nn.Module):
    """A bit of everything; the head is tied to the embedding."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 8, padding_idx=0)
        self.norms = nn.Sequential(OwnNorm(8), OneNorm(8), WideNorm(8), OtherNorm(8), nn.LayerNorm(8), nn.RMSNorm(8))
        self.mlps = nn.ModuleList([MLP(nn.SiLU()), MLP(nn.GELU(), bias=True), MLP(nn.Tanh()), OtherMLP(nn.SiLU())])
        self.attention = Attention()
        self.doubled = Doubled(8, 8)
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        x = self.embed(ids)
        for norm in self.norms:
            x = x + norm(x)
        for mlp in self.mlps:
            x = x + mlp(x)
        return self.head(self.drop(self.doubled(x + self.attention(x))))
