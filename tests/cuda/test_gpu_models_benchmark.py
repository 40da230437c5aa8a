"""The benchmark of models on a GPU: captured steps decode the same tokens, and kernels, host time and memory are seen."""

import pathlib
import sys

import pytest
import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))

import model_families  # noqa: E402
import model_variants  # noqa: E402
import models_child  # noqa: E402

pytest.importorskip("transformers")


@pytest.fixture(autouse=True)
def _stream():
    with torch.cuda.stream(torch.cuda.Stream()):
        yield


def made(name, dtype=torch.float32):
    return model_families.make(name, "cuda", dtype, "tiny")


def call_of(variant, model, way, optimizers):
    return model_variants.Call(variant, model, way, "cuda", "tiny", "tile", optimizers)


@pytest.mark.parametrize("name", ["Llama", "GPT-2"])
@pytest.mark.parametrize("variant", ["patched, graph", "torch.compile, graph", "backend=tile, graph"])
def test_captured_steps_decode_the_same_tokens(name, variant):
    model = made(name)
    eager, graph = (call_of(each, model, "decoding", {}) for each in ("eager", variant))
    reference = eager.reference()
    for _ in range(2):
        assert torch.equal(graph.run(), reference[-1])
        assert graph.loss(reference) == pytest.approx(eager.loss(reference), rel=1e-4)


def test_kernels_host_time_and_memory_are_seen():
    model, optimizers = made("DiT", torch.bfloat16), {}
    eager, patched = (call_of(each, model, "training", optimizers) for each in ("eager", "patched"))
    found = {}
    for name, call in (("eager", eager), ("patched", patched)):
        call.run()
        found[name] = models_child.seen_on_gpu(name, call)
        # The parameters, their gradients and two numbers of AdamW are there at the end of a step.
        assert found[name]["peak"] > 4 * sum(each.nbytes for each in call.way.module.parameters())
        assert found[name]["host"] > 0 and found[name]["kernels"] > 0
