"""The demo's parts on a few steps: losses like plain torch's, an error where they are not, pictures, the table."""

import pytest
import torch

SMALL = dict(
    language=dict(width=64, layers=1, heads=2, kv_heads=1, hidden=96, length=16),
    texts=2,
    denoiser=dict(channels=32, groups=4, heads=2),
    pictures=2,
    side=8,
)


@pytest.fixture(scope="module")
def runs(pytestconfig):
    import demo

    device = pytestconfig.getoption("device")
    return demo.train_language(4, device)[1], demo.train_denoiser(4, device)


@pytest.mark.slow  # trains
def test_the_models_are_on_the_device(runs, device):
    for each in runs:
        for run in each.values():
            assert {tensor.device.type for tensor in (*run.model.parameters(), *run.model.buffers())} == {device.type}


def test_the_choice_of_device(monkeypatch):
    import demo

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert demo.chosen_device() == demo.chosen_device("cpu") == "cpu"
    with pytest.raises(demo.NoGpu) as error:
        demo.chosen_device("cuda")
    assert str(error.value) == "--device cuda: torch sees no GPU; `python -m tile_ops doctor` says what is missing"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    assert demo.chosen_device() == demo.chosen_device("cuda") == "cuda" and demo.chosen_device("cpu") == "cpu"
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 5))  # kernels do not run there
    assert demo.chosen_device() == "cpu"


def test_the_oldest_arch_is_the_library_s():
    import demo
    from tile_ops import _C

    assert 10 * demo.OLDEST[0] + demo.OLDEST[1] == _C.oldest_arch


@pytest.mark.slow  # trains
def test_times_of_a_step(device):
    import step_times

    table, problems = step_times.measure_models(device.type, seconds=0.0, compiled=False, sizes=SMALL)
    assert [line[0] for line in table] == ["language model", "denoiser"] and not problems
    assert all(float(line[2]) > 0 and line[3] == "-" and float(line[4]) > 0 for line in table)
    assert len({len(line) for line in step_times.text(table, device.type).splitlines()}) == 1


@pytest.mark.slow  # trains
def test_a_way_that_fails_is_named_and_the_others_are_measured(device, monkeypatch):
    import step_times

    def broken(*_, **__):
        raise RuntimeError("no compiler\nand more")

    monkeypatch.setattr(torch, "compile", broken)
    table, problems = step_times.measure_models(device.type, seconds=0.0, compiled=True, sizes=SMALL)
    assert problems[:2] == ["language model, compile: no compiler", "language model, ours in compile: no compiler"]
    assert all(float(line[2]) > 0 and line[3] == line[5] == "-" for line in table)


@pytest.mark.slow  # trains
def test_losses_are_those_of_plain_torch(runs):
    import compare

    for name, each in zip(("language model", "denoiser"), runs):
        compare.check(name, each["torch"].losses, each["tile"].losses)


@pytest.mark.slow  # trains
def test_each_backend_runs_its_own_operators(runs):
    import diffusion
    import language
    from torch.utils._python_dispatch import TorchDispatchMode

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
            called.add(function.name())
            return function(*arguments, **keywords or {})

    for each, loss, names in (
        (runs[0], language.Text().loss, {"rms_norm", "rope", "attention", "matmul"}),
        (runs[1], diffusion.loss, {"group_norm", "attention", "matmul"}),
    ):
        for key, expected in (("tile", names), ("torch", set())):
            called = set()
            with torch.no_grad(), Names():
                loss(each[key].model, 0)
            assert {name.split("::")[1] for name in called if name.startswith("tile::")} == expected


def test_a_difference_is_an_error():
    import compare

    theirs = [3.0 - 0.01 * i for i in range(60)]
    assert compare.check("x", theirs, theirs) == (0, 0)
    early = [value * (1.002 if i == 7 else 1) for i, value in enumerate(theirs)]
    with pytest.raises(compare.LossesDiffer) as error:
        compare.check("x", theirs, early)
    assert str(error.value) == "x: one of the first 20 losses differs from plain torch's by 2.00e-03 relative; allowed is 1e-03"
    late = [value * (1.03 if i > 30 else 1) for i, value in enumerate(theirs)]
    with pytest.raises(compare.LossesDiffer) as error:
        compare.check("x", theirs, late)
    assert str(error.value) == "x: the final smoothed loss differs from plain torch's by 3.00e-02 relative; allowed is 2e-02"
    with pytest.raises(compare.LossesDiffer):
        compare.check("x", theirs, theirs[:30] + [float("nan")] * 30)


@pytest.mark.slow  # trains
def test_text_is_sampled_in_the_text_s_characters(runs):
    import language

    text = language.Text()
    sample = text.sample(runs[0]["tile"].model, "// ", 5)
    assert sample.startswith("// ") and len(sample) == 8 and set(sample) <= set(text.characters)


@pytest.mark.slow  # trains
def test_pictures(runs, tmp_path):
    import charts
    import diffusion
    from PIL import Image

    sampled = diffusion.sample(runs[1]["tile"].model, 3, steps=2).cpu()
    assert torch.isfinite(sampled).all()
    charts.gallery(tmp_path / "pictures.png", [diffusion.draw(4, torch.Generator().manual_seed(0)), sampled], scale=2, gap=1)
    assert Image.open(tmp_path / "pictures.png").size == (4 * (2 * diffusion.SIZE + 1) + 1, 2 * (2 * diffusion.SIZE + 1) + 1)
    charts.curves(tmp_path / "curves.png", "a title", {"a": [3.0, 2.0, 1.5], "b": [3.1, 2.0, 1.4]})
    assert Image.open(tmp_path / "curves.png").size == (charts.WIDTH, charts.HEIGHT)


def test_the_operator_table(device):
    import operator_table

    table, why = operator_table.measure_rows(seconds=0.0, compiled=False, device=device.type)
    assert not why and len(table) == len(list(operator_table.rows()))
    # In bfloat16 a result between 16 and 32, of which there are few, is off by up to 2^-4.
    worst = 1e-4 if device.type == "cpu" else 0.065
    assert all(float(line[5]) < worst and line[3] == "-" for line in table)
    assert len({len(line) for line in operator_table.text(table, device.type).splitlines()}) == 1


def test_the_table_says_why_compile_did_not_run(monkeypatch):
    import operator_table

    def broken(*_, **__):
        raise RuntimeError("no compiler\nand more")

    monkeypatch.setattr(torch, "compile", broken)
    table, why = operator_table.measure_rows(seconds=0.0)
    assert why == "no compiler" and all(line[3] == "-" for line in table)


def test_progress_is_silent_without_a_terminal(capsys):
    import compare

    compare.progress("x", 1, 2)
    assert capsys.readouterr() == ("", "")
