"""Models of transformers make masks in their graphs: attention is causal without them, and results agree with float64."""

import pathlib
import sys

import pytest
import torch
from combinations import long
from test_index_masks import ALL, CAUSAL, options_in
from torch._inductor.utils import run_and_get_code

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))

import compiled_cases  # noqa: E402
import model_families  # noqa: E402

pytest.importorskip("transformers")
SIZES = dict(layers=2, width=64, inner=112, heads=4, key_heads=2, words=97, batch=2, length=21)
WINDOW = (False, True, "top_left", (4, -1))


def mistral(scale):
    from model_families import transformers_models
    from transformers import MistralConfig, MistralForCausalLM

    return transformers_models.language_model(MistralForCausalLM, MistralConfig, SIZES, sliding_window=5)


def padded(made):
    """Adds a mask of sequences whose lengths differ; they begin at the right end, so that queries see nothing at the left."""
    shape = made.inputs["input_ids"].shape
    made.inputs["attention_mask"] = (torch.arange(shape[1]) >= torch.tensor([[0], [5]])).long()
    return made


def made(name):
    torch.manual_seed(0)
    if name.startswith("Mistral"):
        found = mistral("tiny")
    else:
        found = model_families.make(name.removesuffix(", padded"), scale="tiny")
    return padded(found) if name.endswith("padded") else found


MODELS = {
    "Llama": CAUSAL,
    "Llama, padded": (True, *CAUSAL[1:]),
    "Qwen3": CAUSAL,
    "GPT-2": CAUSAL,
    "GPT-2, padded": (True, *CAUSAL[1:]),
    "Mistral": WINDOW,
    "Mistral, padded": (True, *WINDOW[1:]),
    "BERT": (True, *ALL[1:]),
    "ViT-L": ALL,
}


# Each model and each of its masks is either trained or not; the models differ in how they make the masks.
TRAINED = ("Llama", "Mistral", "ViT-L")
CASES = [
    (pytest.param if training == (name in TRAINED) else long)(name, training, id=f"{name}-{way}")
    for name in MODELS
    for way, training in (("inference", False), ("training", True))
]


@pytest.mark.parametrize("name, training", CASES)
def test_a_model_needs_no_mask_of_places(name, training, monkeypatch):
    model = made(name)
    monkeypatch.setattr(model_families, "make", lambda *_: model)
    work = compiled_cases.model_work(name, training, "cpu", torch.float32, "tiny")
    torch._dynamo.reset()
    options = {"attention": "tile", "fallback": "error"}
    fast = torch.compile(work.function, backend="tile", fullgraph=True, options=options)
    with torch._inductor.config.patch(force_disable_caches=True):
        results, codes = run_and_get_code(work.results, fast)
    code = "".join(codes)
    found = options_in(code)
    assert found and set(found) == {MODELS[name]}
    assert "aten._scaled_dot_product" not in "".join(line for line in code.splitlines() if "= torch.ops" in line)
    assert "cumsum" not in code and "bitwise_and" not in code  # no kernel of the mask is left
    assert compiled_cases.difference(results, work.exact().results()) < 2e-5
