"""The number of compiled kernels does not grow with sizes: each operator over many random shapes, orders and strides."""

import collections
import json
import math
import os
import random
import subprocess
import sys

import pytest
import torch
from tile_ops import _C

SHAPES, MORE_SHAPES = 60, 300  # of each operator; more under --long
# On a GPU tiles are narrower, for rows of more widths, and a key holds facts of each array (the axis of stride 1,
# whether vectors fit): kernels grow with the layouts and tile sizes drawn, and not with the number of shapes. On meta
# tensors the texts for one are counted.
MOST = {"cpu": 12, "cuda": 40, "meta": 40}
ARCH = 90
tile = torch.ops.tile


def whole(extent):
    """On a GPU a kernel is made for whole vectors or for parts of them: the sizes drawn there are all of the first
    kind."""
    return extent if torch.get_default_device().type == "cpu" else -(-extent // 16) * 16


def extent(most=40):
    """Mostly small, sometimes at the edge of a tile or far above."""
    return whole(
        random.choice([1, 2, 3, random.randint(1, most), random.randint(1, most), random.choice([63, 64, 65, 128, 129])])
    )


def shape(rank, elements=20000):
    while math.prod(sizes := [extent() for _ in range(rank)]) > elements * whole(1) ** 2:
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


def softmax(dtype):
    sizes = random.choice([shape(random.randint(0, 5)), [extent(5), whole(random.choice([500, 1000, 3000, 17000]))]])
    if random.random() < 0.05:
        sizes = [2, whole(random.choice([40000, 140000]))]
    random.shuffle(sizes)
    return tile.softmax, (tensor(sizes, dtype), random.randrange(max(len(sizes), 1))), {}


def log_softmax(dtype):
    _, args, kwargs = softmax(dtype)
    return tile.log_softmax, args, kwargs


def rows():
    """Sizes for a norm, and how many axes it takes."""
    if random.random() < 0.3:
        return [random.choice([1, 3, 70]), whole(random.choice([100, 600, 3000, 17000, 20000]))], 1
    rank = random.randint(1, 5)
    return shape(rank), random.randint(1, rank)


def rms_norm(dtype):
    sizes, axes = rows()
    size = sizes[len(sizes) - axes :]
    return tile.rms_norm, (tensor(sizes, dtype), size, tensor(size, dtype)), {}


def add_rms_norm(dtype):
    sizes, axes = rows()
    size = sizes[len(sizes) - axes :]
    return tile.add_rms_norm, (tensor(sizes, dtype), tensor(sizes, dtype), size, tensor(size, dtype)), {}


def layer_norm(dtype):
    sizes, axes = rows()
    size = sizes[len(sizes) - axes :]
    return tile.layer_norm, (tensor(sizes, dtype), size, tensor(size, dtype), tensor(size, dtype)), {}


def swiglu(dtype):
    sizes = shape(random.randint(0, 5))
    if sizes and sizes[-1] % 2 == 0 and random.random() < 0.3:
        return lambda x: tile.swiglu(*x.chunk(2, -1)), (tensor(sizes, dtype),), {}
    return tile.swiglu, (tensor(sizes, dtype), tensor(sizes, dtype)), {}


def group_norm(dtype):
    groups, rank = random.choice([1, 2, 3, 32]), random.randint(0, 3)
    sizes = [random.randint(1, 3), groups * whole(random.choice([1, 2, 5, 20])), *shape(rank, 800)]
    if random.random() < 0.2:
        sizes = [1, 4 * groups * whole(1), *(whole(random.choice([40, 100])) for _ in range(2))]
    channels = sizes[1]
    return (
        tile.group_norm,
        (tensor(sizes, dtype), groups, tensor([channels], dtype), tensor([channels], dtype)),
        {"activation": "silu"},
    )


def rope(dtype):
    batch, length, width = random.randint(1, 3), extent(), whole(2 * random.choice([1, 4, 16, 32, 33, 64, 65, 100]))
    rotary = whole(2 * random.randint(0, width // 2))
    tables = [batch] if random.random() < 0.5 else []
    cos, sin = (torch.randn(*tables, length, random.choice([rotary, rotary // 2]) if i else rotary) for i in (0, 0))
    query, key = (tensor([batch, random.choice([1, 2, 4, 17]), length, width], dtype) for _ in range(2))
    positions = torch.randint(0, length, random.choice([[length], [batch, length]]))
    return (
        tile.rope,
        (query, key, cos, sin),
        {"rotary_dim": rotary, "position_ids": positions, "interleaved": random.random() < 0.5},
    )


def rope_(dtype):
    _, args, kwargs = rope(dtype)
    return tile.rope_, [tensor.detach() for tensor in args], kwargs


def adamw_(dtype):
    sizes = [shape(random.randint(0, 3), 2000) for _ in range(random.randint(1, 40))]
    lists = [[tensor(size, dtype, grad=False) for size in sizes] for _ in range(4)]
    return tile.adamw_, (*lists, [torch.ones(()) for _ in sizes]), {}


def dropout(dtype):
    return tile.dropout, (tensor(shape(random.randint(0, 5)), dtype), random.choice([0.1, 0.5]), torch.randint(9, (2,))), {}


def matmul(dtype):
    m, n, k = (
        (extent() for _ in range(3)) if random.random() < 0.8 else (whole(random.choice([1, 17, 300, 600])) for _ in range(3))
    )
    batch = random.choice([[], [2], [3, 2], [2, 1, 2], [2, 3, 1, 2]])
    left, right = ([*random.choice([[], batch, [1] * len(batch)]), *own] for own in ([m, k], [k, n]))
    left, right = random.choice([(left, right), (left, right), (left, right), ([k], right), (left, [k])])
    return tile.matmul, (tensor(left, dtype), tensor(right, dtype)), {"bias": tensor([1], dtype), "activation": "gelu"}


def gated_matmul(dtype):
    *rows, k, n = [*shape(random.randint(1, 3)), extent(), whole(random.choice([1, 17, 40, 300, 600]))]
    return tile.gated_matmul, (tensor([*rows, k], dtype), tensor([k, n], dtype), tensor([k, n], dtype)), {}


def attention(dtype):
    batch, key_heads, group = random.randint(1, 3), random.choice([1, 2, 8]), random.choice([1, 1, 2, 3])
    rows, keys = (whole(random.choice([1, 5, 33, 64, 130])) for _ in range(2))
    depth, width = (whole(random.choice([1, 8, 64, 65, 96, 128, 160])) for _ in range(2))
    query = tensor([batch, key_heads * group, rows, depth], dtype)
    key, value = tensor([batch, key_heads, keys, depth], dtype), tensor([batch, key_heads, keys, width], dtype)
    return tile.attention, (query, key, value), {"is_causal": random.random() < 0.5}


def cross_entropy(dtype):
    sizes = random.choice([shape(random.randint(1, 4)), [extent(5), whole(random.choice([500, 3000, 17000, 40000]))]])
    axis = 0 if len(sizes) == 1 else 1
    target = torch.randint(0, sizes[axis], [*sizes[:axis], *sizes[axis + 1 :]])
    return tile.cross_entropy, (tensor(sizes, dtype), target), {"z_loss": random.random()}


def linear_cross_entropy(dtype):
    rows, depth, classes = (extent() for _ in range(3))
    args = tensor([rows, depth], dtype), tensor([classes, depth], dtype), torch.randint(0, classes, [rows])
    return tile.linear_cross_entropy, args, {"bias": tensor([classes], dtype)}


def embedding(dtype):
    rows, columns = extent(3000), whole(random.choice([1, 30, 64, 200, 300, 1100]))
    return tile.embedding, (tensor([rows, columns], dtype), torch.randint(0, rows, shape(random.randint(0, 2), 500))), {}


seen_texts = set()
OPERATORS = [
    softmax,
    log_softmax,
    rms_norm,
    add_rms_norm,
    layer_norm,
    swiglu,
    group_norm,
    rope,
    rope_,
    adamw_,
    dropout,
    matmul,
    gated_matmul,
    attention,
    cross_entropy,
    linear_cross_entropy,
    embedding,
]


def texts_of(call):
    """Returns the result of a call with meta tensors, and its kernels' texts that no earlier call had."""
    results = []
    rows = _C.inspect("usual", ARCH, 0, lambda: results.append(call()))
    new = {row["text"]: row["kernel"] for row in rows if row["text"] not in seen_texts}
    seen_texts.update(new)
    return results[0], collections.Counter(new.values())


def compiled_by(call):
    """Returns the result of the call and the number of kernels that it compiled."""
    if torch.get_default_device().type == "meta":
        return texts_of(call)
    before = collections.Counter(_C.compiled_kernels())
    return call(), collections.Counter(_C.compiled_kernels()) - before


def count(make, dtype, seed, shapes):
    """Kernels of the operator and of its gradient, each an operator with a schema, by the name of the kernel."""
    random.seed(seed)
    torch.manual_seed(seed)
    forward, backward = collections.Counter(), collections.Counter()
    for _ in range(shapes):
        op, args, kwargs = make(dtype)
        tensors = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor) and each.requires_grad]
        results, compiled = compiled_by(lambda: op(*args, **kwargs))
        forward += compiled
        if not tensors:
            continue
        results = results if isinstance(results, tuple) else (results,)
        incoming = [torch.randn_like(each) for each in results]
        _, compiled = compiled_by(lambda: torch.autograd.grad(results, tensors, incoming))
        backward += compiled
    return {"forward": forward, "backward": backward}


def count_apart(make, dtype, seed, shapes):
    """The same in a child of a process that has compiled nothing: operators share some kernels."""
    read, write = os.pipe()
    if os.fork():
        os.close(write)
        text = os.fdopen(read).read()
        os.wait()
        return json.loads(text)
    try:
        os.write(write, json.dumps(count(make, dtype, seed, shapes)).encode())
    finally:
        os._exit(0)


def pytest_generate_tests(metafunc):
    every = ["bfloat16", "float32", "float16", "float64"]
    metafunc.parametrize("dtype", every if metafunc.config.getoption("long") else every[:1])


@pytest.mark.slow
def test_number_of_kernels(dtype, seed, device, long):
    check(dtype, seed, device.type, MORE_SHAPES if long else SHAPES)


@pytest.mark.slow
def test_number_of_kernels_for_a_gpu(dtype, seed, long):
    check(dtype, seed, "meta", MORE_SHAPES if long else SHAPES)


def check(dtype, seed, device, shapes):
    command = [sys.executable, __file__, dtype, str(seed), device, str(shapes)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)
    for name, each in counts.items():
        for part, kernels in each.items():
            assert sum(kernels.values()) <= MOST[device], (name, part, kernels)
        assert each["forward"], name


if __name__ == "__main__":
    assert not _C.compiled_kernels()
    torch.set_default_device(sys.argv[3])
    dtype, seed, shapes = getattr(torch, sys.argv[1]), int(sys.argv[2]), int(sys.argv[4])
    found = {make.__name__: count_apart(make, dtype, seed, shapes) for make in OPERATORS}
    print(json.dumps(found))
