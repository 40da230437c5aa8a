"""The number of compiled kernels does not grow with sizes: each operator over many random shapes, orders and strides."""

import collections
import json
import os
import pathlib
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
seen_texts = set()


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


def count(draw, dtype, seed, shapes, gradients=True):
    """Kernels of the operator and of its gradient, each an operator with a schema, by the name of the kernel."""
    random.seed(seed)
    torch.manual_seed(seed)
    torch.set_grad_enabled(gradients)
    forward, backward = collections.Counter(), collections.Counter()
    for _ in range(shapes):
        op, args, kwargs = draw(dtype)
        tensors = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor) and each.requires_grad]
        results, compiled = compiled_by(lambda: op(*args, **kwargs))
        forward += compiled
        if not (tensors and gradients):
            continue
        results = results if isinstance(results, tuple) else (results,)
        incoming = [torch.randn_like(each) for each in results]
        _, compiled = compiled_by(lambda: torch.autograd.grad(results, tensors, incoming))
        backward += compiled
    return {"forward": forward, "backward": backward}


def count_apart(draw, dtype, seed, shapes, gradients=True):
    """The same in a child of a process that has compiled nothing: operators share some kernels."""
    read, write = os.pipe()
    if os.fork():
        os.close(write)
        text = os.fdopen(read).read()
        os.wait()
        return json.loads(text)
    try:
        os.write(write, json.dumps(count(draw, dtype, seed, shapes, gradients)).encode())
    finally:
        os._exit(0)


def count_parts(draw, dtype, seed, shapes):
    """The same, with the gradients' kernels as theirs even if the forward computes the gradients, which the backward then
    scales."""
    counts = count_apart(draw, dtype, seed, shapes)
    if set(counts["backward"]) == {"scale"}:
        alone = collections.Counter(count_apart(draw, dtype, seed, shapes, gradients=False)["forward"])
        early = collections.Counter(counts["forward"]) - alone
        counts = {"forward": alone, "backward": early + collections.Counter(counts["backward"])}
    return counts


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
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
    import operators

    assert not _C.compiled_kernels()

    torch.set_default_device(sys.argv[3])
    dtype, seed, shapes = getattr(torch, sys.argv[1]), int(sys.argv[2]), int(sys.argv[4])
    found = {name: count_parts(draw, dtype, seed, shapes) for name, draw in operators.rows_with("draw").items()}
    print(json.dumps(found))
