"""Packed samples: attention_varlen of them, and attention of each alone."""

import tile_ops  # noqa: F401
import torch
from attention_reference import peer


def starts(lengths, dtype=torch.int32):
    return torch.tensor([0, *lengths]).cumsum(0).to(dtype)


def packed(rows, keys, heads=4, key_heads=2, depth=16, value_depth=24, dtype=torch.float32):
    shapes = (sum(rows), heads, depth), (sum(keys), key_heads, depth), (sum(keys), key_heads, value_depth)
    return tuple(torch.randn(shape).to(dtype).requires_grad_() for shape in shapes)


def ours(rows, keys, operator=None, longer=0, starts_of_keys=torch.int64):
    """attention_varlen, or what stands for it, of these samples. longer: by how much the lengths given for the longest are too
    large. starts_of_keys: their dtype."""

    def call(query, key, value, **options):
        longest = max(rows) + longer, max(keys) + longer
        return (operator or torch.ops.tile.attention_varlen)(
            query, key, value, starts(rows), starts(keys, starts_of_keys), *longest, **options
        )

    return call


def each_alone(rows, keys):
    """torch's attention of every sample."""

    def call(query, key, value, **options):
        results = []
        for q, k, v in zip(query.split(rows), key.split(keys), value.split(keys)):
            out, lse = peer(*(x.transpose(0, 1).unsqueeze(0) for x in (q, k, v)), **options)
            results.append((out[0].transpose(0, 1), lse[0]))
        return torch.cat([out for out, _ in results]), torch.cat([lse for _, lse in results], 1)

    return call
