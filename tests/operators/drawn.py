"""Random sizes, orders of axes and strides, by which tests/tile_ops/test_kernel_count.py calls every operator."""

import math
import random

import torch


def whole_vectors(extent):
    """On a GPU a kernel is made for rows of whole vectors or for others: the sizes drawn there are all of the first kind."""
    return extent if torch.get_default_device().type == "cpu" else -(-extent // 16) * 16


def extent(most=40):
    """Mostly small, sometimes at the edge of a tile or far above."""
    return whole_vectors(
        random.choice([1, 2, 3, random.randint(1, most), random.randint(1, most), random.choice([63, 64, 65, 128, 129])])
    )


def shape(rank, elements=20000):
    while math.prod(sizes := [extent() for _ in range(rank)]) > elements * whole_vectors(1) ** 2:
        pass
    return sizes


def tensor(sizes, dtype, grad=True):
    """Random strides: axes in any order in memory, sometimes with gaps. On a GPU the order is a part of the key."""
    if torch.get_default_device().type != "cpu":
        return torch.randn(sizes).to(dtype).requires_grad_(grad)
    order = random.sample(range(len(sizes)), len(sizes)) if random.random() < 0.5 else range(len(sizes))
    gap = random.choice([1, 1, 1, 2])
    wide = torch.randn([sizes[i] * (gap if k == len(sizes) - 1 else 1) for k, i in enumerate(order)])
    wide = wide[..., ::gap] if sizes else wide
    plain = wide.permute([list(order).index(i) for i in range(len(sizes))]).to(dtype)
    return plain.requires_grad_(grad)


def row_sizes():
    """Sizes for a norm, and how many axes it takes."""
    if random.random() < 0.3:
        return [random.choice([1, 3, 70]), whole_vectors(random.choice([100, 600, 3000, 17000, 20000]))], 1
    rank = random.randint(1, 5)
    return shape(rank), random.randint(1, rank)
