"""A Llama-style language model and a diffusion model, each over a backend: our operators, or plain torch."""

import math

import torch
import torch.nn.functional as F

import tile_ops


class Torch:
    """The operations of the models in plain torch."""

    @staticmethod
    def linear(x, layer, activation="none"):
        y = F.linear(x, layer.weight, layer.bias)
        return F.silu(y) if activation == "silu" else y

    @staticmethod
    def rms_norm(x, norm):
        return F.rms_norm(x, norm.normalized_shape, norm.weight, norm.eps)

    @staticmethod
    def group_norm_silu(x, norm):
        return F.silu(F.group_norm(x, norm.num_groups, norm.weight, norm.bias, norm.eps))

    @staticmethod
    def rope(q, k, cos, sin):
        def rotate(x):
            first, second = x.chunk(2, -1)
            return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)

        return rotate(q), rotate(k)

    @staticmethod
    def attention(q, k, v, is_causal=False):
        return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=q.shape[1] != k.shape[1])


class Tile:
    """The same operations with torch.ops.tile."""

    @staticmethod
    def linear(x, layer, activation="none"):
        return tile_ops.linear(x, layer.weight, layer.bias, activation)

    @staticmethod
    def rms_norm(x, norm):
        return tile_ops.rms_norm(x, norm.normalized_shape, norm.weight, norm.eps)

    @staticmethod
    def group_norm_silu(x, norm):
        return tile_ops.group_norm(x, norm.num_groups, norm.weight, norm.bias, norm.eps, activation="silu")

    rope = staticmethod(torch.ops.tile.rope)

    @staticmethod
    def attention(q, k, v, is_causal=False):
        return tile_ops.attention(q, k, v, is_causal=is_causal)[0]


class LlamaLayer(torch.nn.Module):
    """RMSNorm, grouped-query attention with rotary positions, RMSNorm, gated MLP; each half with a residual."""

    def __init__(self, ops, width, heads, kv_heads, hidden):
        super().__init__()
        self.ops, self.heads, self.kv_heads = ops, heads, kv_heads
        size = width // heads
        linear = torch.nn.Linear
        self.attention_norm, self.mlp_norm = torch.nn.RMSNorm(width, eps=1e-5), torch.nn.RMSNorm(width, eps=1e-5)
        self.query = linear(width, heads * size, bias=False)
        self.key = linear(width, kv_heads * size, bias=False)
        self.value = linear(width, kv_heads * size, bias=False)
        self.out = linear(width, width, bias=False)
        self.gate = linear(width, hidden, bias=False)
        self.up = linear(width, hidden, bias=False)
        self.down = linear(hidden, width, bias=False)

    def forward(self, x, cos, sin):
        ops = self.ops
        h = ops.rms_norm(x, self.attention_norm)

        def heads(layer, count):  # views [batch, length, width] as [batch, heads, length, size]
            return ops.linear(h, layer).unflatten(-1, (count, -1)).transpose(1, 2)

        q, k = ops.rope(heads(self.query, self.heads), heads(self.key, self.kv_heads), cos, sin)
        attended = ops.attention(q, k, heads(self.value, self.kv_heads), is_causal=True)
        x = x + ops.linear(attended.transpose(1, 2).flatten(2), self.out)
        h = ops.rms_norm(x, self.mlp_norm)
        return x + ops.linear(ops.linear(h, self.gate, "silu") * ops.linear(h, self.up), self.down)


class Llama(torch.nn.Module):
    def __init__(self, ops, vocabulary, width=128, layers=3, heads=4, kv_heads=2, hidden=320, length=128):
        super().__init__()
        self.ops, self.length = ops, length
        self.embedding = torch.nn.Embedding(vocabulary, width)
        self.layers = torch.nn.ModuleList(LlamaLayer(ops, width, heads, kv_heads, hidden) for _ in range(layers))
        self.norm = torch.nn.RMSNorm(width, eps=1e-5)
        self.head = torch.nn.Linear(width, vocabulary, bias=False)
        torch.nn.init.normal_(self.embedding.weight, std=0.02)
        angle = torch.outer(torch.arange(length), 10000.0 ** (-torch.arange(0, width // heads, 2) * heads / width))
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    def forward(self, tokens):
        x = self.embedding(tokens)
        cos, sin = self.cos[: tokens.shape[1]], self.sin[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.ops.linear(self.ops.rms_norm(x, self.norm), self.head)


class ResidualBlock(torch.nn.Module):
    """GroupNorm+SiLU and a convolution, twice, with the time embedding added in between. Convolutions are torch's."""

    def __init__(self, ops, channels, groups):
        super().__init__()
        self.ops = ops
        self.norm1, self.norm2 = (torch.nn.GroupNorm(groups, channels) for _ in range(2))
        self.conv1, self.conv2 = (torch.nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.time = torch.nn.Linear(channels, channels)

    def forward(self, x, time):
        h = self.conv1(self.ops.group_norm_silu(x, self.norm1)) + self.ops.linear(time, self.time)[:, :, None, None]
        return x + self.conv2(self.ops.group_norm_silu(h, self.norm2))


class AttentionBlock(torch.nn.Module):
    """Attention between all pixels."""

    def __init__(self, ops, channels, groups, heads):
        super().__init__()
        self.ops, self.heads = ops, heads
        self.norm = torch.nn.GroupNorm(groups, channels)
        self.qkv = torch.nn.Linear(channels, 3 * channels)
        self.out = torch.nn.Linear(channels, channels)

    def forward(self, x):
        h = self.ops.group_norm_silu(x, self.norm).flatten(2).transpose(1, 2)
        q, k, v = self.ops.linear(h, self.qkv).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        h = self.ops.linear(self.ops.attention(q, k, v).transpose(1, 2).flatten(2), self.out)
        return x + h.transpose(1, 2).unflatten(2, x.shape[2:])


class Denoiser(torch.nn.Module):
    """Predicts the noise in a picture [batch, 1, height, width] at a time in [0, 1]."""

    def __init__(self, ops, channels=32, groups=4, heads=2):
        super().__init__()
        self.ops, self.channels = ops, channels
        self.enter = torch.nn.Conv2d(1, channels, 3, padding=1)
        self.time = torch.nn.Linear(channels, channels)
        self.first = ResidualBlock(ops, channels, groups)
        self.attention = AttentionBlock(ops, channels, groups, heads)
        self.second = ResidualBlock(ops, channels, groups)
        self.norm = torch.nn.GroupNorm(groups, channels)
        self.leave = torch.nn.Conv2d(channels, 1, 3, padding=1)

    def forward(self, pictures, time):
        frequency = torch.exp(torch.linspace(0, math.log(1000), self.channels // 2, device=time.device))
        waves = time[:, None] * frequency
        waves = torch.cat((waves.sin(), waves.cos()), 1).to(pictures.dtype)
        time = self.ops.linear(waves, self.time, "silu")
        x = self.second(self.attention(self.first(self.enter(pictures), time)), time)
        return self.leave(self.ops.group_norm_silu(x, self.norm))
