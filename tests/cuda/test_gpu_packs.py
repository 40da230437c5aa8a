"""Packs on a GPU: a process without NVRTC and without a cache takes the kernels of its calls and gradients from a pack."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
import torch
from tile_ops import _C, packs

tile = torch.ops.tile


def calls(device):
    """(our function, torch's, tensors that want gradients) by name."""

    def leaf(*sizes):
        return torch.randn(sizes, device=device, dtype=torch.bfloat16).requires_grad_()

    def attended(q, k, v):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    return {
        "softmax": (lambda x: tile.softmax(x, -1), lambda x: torch.softmax(x, -1), [leaf(33, 1024)]),
        "rms_norm": (
            lambda x, w: tile.rms_norm(x, [1024], w, 1e-6),
            lambda x, w: torch.rms_norm(x, [1024], w, 1e-6),
            [leaf(64, 1024), leaf(1024)],
        ),
        "matmul": (tile.matmul, torch.matmul, [leaf(256, 512), leaf(512, 256)]),
        "attention": (
            lambda q, k, v: tile.attention(q, k, v, is_causal=True)[0],
            attended,
            [leaf(2, 4, 256, 64) for _ in range(3)],
        ),
    }


def run(device):
    """Makes every call with its gradient, and returns the largest error of each against torch in float64."""
    errors = {}
    for name, (ours, theirs, tensors) in calls(device).items():
        exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
        result, expected = ours(*tensors), theirs(*exact)
        gradient = torch.ones_like(result)
        got = [result, *torch.autograd.grad(result, tensors, gradient)]
        wanted = [expected, *torch.autograd.grad(expected, exact, gradient.double())]
        scales = [max(1.0, each.abs().max().item()) for each in wanted]
        errors[name] = max((a.double() - b).abs().max().item() / scale for a, b, scale in zip(got, wanted, scales))
    return errors


def main():
    device = torch.device(sys.argv[1])
    first = run(device)
    print(json.dumps({"errors": first, "hits": [pack["hits"] for pack in packs.found()]}))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("packs")


def started(device, **variables):
    path = os.pathsep.join([str(pathlib.Path(__file__).parent), *sys.path])
    environment = os.environ | {"PYTHONPATH": path, "TILE_CACHE_MB": "0", **variables}
    done = subprocess.run([sys.executable, __file__, str(device)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def assert_right(found):
    assert all(error < 0.02 for error in found["errors"].values()), found["errors"]


def test_a_record_makes_a_pack_that_needs_no_nvrtc(device, folder):
    record, path = folder / "kernels.record", folder / "recorded.pack"
    assert_right(started(device, TILE_RECORD=str(record)))
    made = packs.make(path, [record])
    assert made["failures"] == []
    found = started(device, TILE_PACKS=str(path), TILE_NVRTC="no/nvrtc")
    assert_right(found)
    assert found["hits"][0] >= len(_C.recorded_kernels(str(record)))


def test_calls_with_meta_tensors_make_the_same_pack(device, folder):
    path = folder / "traced.pack"
    major, minor = torch.cuda.get_device_capability(device)

    def call():
        for ours, _, tensors in calls("meta").values():
            result = ours(*tensors)
            torch.autograd.grad(result, tensors, torch.ones_like(result))

    packs.make(path, calls=[call], archs=[10 * major + minor])
    assert_right(started(device, TILE_PACKS=str(path), TILE_NVRTC="no/nvrtc"))


if __name__ == "__main__":
    main()
