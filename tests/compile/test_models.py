"""The models and the small graphs of benchmarks/ run at tiny sizes, and agree with float64."""

import pathlib
import sys

import pytest
import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))

import compiled_cases  # noqa: E402
import model_families  # noqa: E402

PUBLISHED = {  # millions of parameters of the full models, which are cut in depth
    "Llama": 496,
    "Qwen3": 250,
    "GPT-2": 82,
    "BERT": 67,
    "ViT-L": 103,
    "Mixtral": 1713,
    "SD U-Net": 860,
    "SD VAE": 49,
    "DiT": 197,
}


def needed(name):
    if package := model_families.lacking(name):
        pytest.importorskip(package)


@pytest.mark.parametrize("name", [name for name in compiled_cases.all_names() if ":" in name])
def test_a_small_graph_agrees_with_float64(name, device):
    work = compiled_cases.make(name, device.type, torch.float32, "tiny")
    results, exact = work.results(), work.exact().results()
    assert all(result.dtype == torch.float32 and result.device.type == device.type for result in results)
    assert all(result.dtype == torch.float64 for result in exact)
    assert compiled_cases.difference(results, exact) < 2e-6


@pytest.mark.parametrize("name", model_families.MODELS)
def test_a_model_trains_and_agrees_with_float64(name, device):
    needed(name)
    work = compiled_cases.make(f"{name}, training", device.type, torch.float32, "tiny")
    results, exact = work.results(), work.exact().results()
    assert all(result is not None and result.abs().max() > 0 for result in results)
    assert compiled_cases.difference(results, exact) < 2e-5


@pytest.mark.parametrize("name", model_families.MODELS)
def test_a_model_infers_in_bfloat16_without_a_gradient(name, device):
    needed(name)
    work = compiled_cases.make(f"{name}, inference", device.type, torch.bfloat16, "tiny")
    (result,) = work.results()
    assert result.dtype == torch.bfloat16 and not result.requires_grad
    assert result.isfinite().all()


@pytest.mark.parametrize("name", [name for name in model_families.MODELS if name not in ("SD U-Net", "SD VAE", "DiT")])
def test_a_models_own_loss_is_that_of_its_result(name, device):
    needed(name)
    made = model_families.make(name, device.type, scale="tiny")
    assert made.labels
    expected = made.loss(made.result(made.module(**made.inputs)))
    torch.testing.assert_close(made.own_loss(made.module), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", model_families.MODELS)
def test_equal_arguments_make_equal_models(name, device):
    needed(name)
    one, other = (compiled_cases.make(f"{name}, inference", device.type, torch.float32, "tiny") for _ in range(2))
    assert torch.equal(*(each.results()[0] for each in (one, other)))


@pytest.mark.parametrize("name", model_families.MODELS)
def test_a_full_model_has_the_published_widths(name):
    needed(name)
    module = model_families.make(name, "meta", torch.bfloat16, "full").module
    assert round(sum(each.numel() for each in module.parameters()) / 1e6) == PUBLISHED[name]


def test_a_wrong_scale_or_a_lacking_package_is_an_error(monkeypatch):
    with pytest.raises(ValueError) as error:
        model_families.make("DiT", scale="huge")
    assert str(error.value) == "the scale is 'huge'; the scales are tiny, small, full"
    monkeypatch.setitem(model_families.MODELS, "DiT", ("dit", "dit", "no_such_package"))
    with pytest.raises(ModuleNotFoundError) as error:
        model_families.make("DiT")
    assert str(error.value) == "DiT needs no_such_package; `pip install no_such_package`"
