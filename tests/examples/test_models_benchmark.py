"""benchmarks/models.py: bars and rows of its table, variants that share a model, ways to run it, and Liger's changes."""

import argparse
import pathlib
import subprocess
import sys
import time
import types

import pytest
import torch

BENCHMARKS = pathlib.Path(__file__).parents[2] / "benchmarks"


def options(**more):
    return argparse.Namespace(
        **{"device": "cpu", "dtype": "float32", "scale": "tiny", "variants": "", "backend": "tile"} | more
    )


def of(seconds, loss=2.0, breaks=0, **more):
    return {"seconds": seconds, "loss": loss, "breaks": breaks, **more}


FOUND = {
    "eager": of(4e-3, host=2e-3, peak=3 << 30, kernels=100.0),
    "torch.compile": of(3e-3, host=1e-3, peak=2 << 30, kernels=40.0),
    "patched": of(2e-3, 2.0002, host=1.5e-3, peak=1 << 30, kernels=60.0),
    "patched + compile": of(1.5e-3, breaks=1, host=1e-3, peak=1 << 30, kernels=30.0),
}
FIRST = {
    "eager": {"first": {"seconds": 1.0}, "warm": {"seconds": 1.0}},
    "patched": {"first": {"seconds": 2.5}, "warm": {"seconds": 2.5}},
}


def test_each_variant_has_a_row():
    import models

    rows = models.rows("BERT, training", {"variants": FOUND}, FIRST, options(device="cuda"))
    assert [row[:2] for row in rows] == [["BERT, training", name] for name in FOUND]
    assert dict(zip(models.HEAD, rows[2], strict=True)) == {
        "case": "BERT, training",
        "variant": "patched",
        "ms": "2.00",
        "of peers": "1.50",
        "first s": "2.50",
        "warm s": "2.50",
        "peak GiB": "1.00",
        "kernels": "60",
        "host ms": "1.50",
        "breaks": "",
        "loss difference": "1.0e-04",
        "missed": "warm call: eager + 1 s",
    }
    compiled = dict(zip(models.HEAD, rows[3], strict=True))
    assert (compiled["breaks"], compiled["missed"]) == ("1", "one graph")
    alone = dict(zip(models.HEAD, models.rows("BERT, inference", {"variants": {"eager": of(4e-3)}}, {}, options())[0]))
    assert {name for name, cell in alone.items() if cell} == {"case", "variant", "ms", "of peers"}


@pytest.mark.parametrize(
    "case, name, change, device, expected",
    [
        ("GPT-2, inference", "patched", {"seconds": 3.01e-3}, "cpu", "1x peers"),
        ("GPT-2, inference", "patched", {"seconds": 3.01e-3}, "cuda", "1x peers"),
        ("GPT-2, decoding", "patched", {"seconds": 3.01e-3}, "cuda", ""),
        ("GPT-2, training", "patched", {"host": 2.1e-3}, "cuda", "eager's host time"),
        ("GPT-2, training", "patched", {"peak": 3 << 30}, "cuda", "Liger's memory"),
        ("GPT-2, training", "patched", {"loss": 2.01}, "cpu", "eager's loss"),
        ("GPT-2, training", "patched", {"loss": float("nan")}, "cpu", "eager's loss"),
        ("GPT-2, training", "patched + compile", {"breaks": 0}, "cpu", ""),
        ("GPT-2, training", "patched + compile", {"breaks": 0, "seconds": 2.1e-3}, "cpu", "1x patched or compiled"),
        ("GPT-2, decoding", "patched, graph", {"seconds": 1e-3}, "cuda", "1.2x peers"),
        ("GPT-2, decoding", "patched, graph", {"seconds": 0.9e-3}, "cuda", ""),
        ("GPT-2, inference", "torch.compile", {"loss": 3.0, "breaks": 3}, "cuda", "eager's loss"),
    ],
)
def test_missed_bars_are_named(case, name, change, device, expected):
    import models

    liger = {"Liger": of(3.5e-3, host=1e-3, peak=2 << 30)}
    graphs = {"torch.compile, graph": of(1.1e-3, host=1e-3), "patched, graph": of(1e-3, host=1e-3)}
    found = FOUND | liger | graphs
    found[name] = found[name] | change
    assert models.missed(case, name, found, {}, options(device=device)) == expected


def test_a_peer_with_a_wrong_loss_is_none():
    import models

    found = FOUND | {"torch.compile": of(1e-3, 2.1)}
    assert models.of_peers("patched", found, options()) == 2.0
    assert models.of_peers("patched", found | {"eager": of(4e-3, float("nan"))}, options()) is None


def test_a_summary_has_a_line_for_each_way_and_variant():
    import models

    cells = (
        ("Llama, training", "eager", "0.5", ""),
        ("Llama, training", "patched", "0.50", "1x peers"),
        ("BERT, training", "patched", "2.00", ""),
        ("BERT, decoding", "patched, graph", "", ""),
    )
    rows = [dict(zip(("case", "variant", "of peers", "missed"), row)) for row in cells]
    assert models.summary(rows, options()) == [
        "- training, patched, 2 models, of peers: geomean 1.00 (bar 1.3, missed), least 0.50 (Llama), 1 rows miss a bar."
    ]


def test_the_page_of_results_has_an_outcome_for_each_way_and_variant():
    import results_page

    cells = ("Llama, training", "patched", "0.50"), ("BERT, training", "patched", "2.00"), ("BERT, training", "eager", "0.7")
    rows = [dict(zip(("case", "variant", "of peers"), row)) for row in cells]
    assert list(results_page.KINDS["models"][1](rows)) == [
        "training, patched: 2 models reach 0.50 to 2.00 of the fastest peer's speed; the geometric mean is 1.00"
    ]


def test_variants_belong_to_ways_and_devices(monkeypatch):
    import model_variants
    import models

    monkeypatch.setattr(model_variants, "lacking", lambda variant: None)
    names = {
        (way, device): set(model_variants.variants(way, device)) for way in model_variants.WAYS for device in ("cpu", "cuda")
    }
    assert names["inference", "cuda"] - names["inference", "cpu"] == {"Liger"}
    assert names["training", "cpu"] - names["inference", "cpu"] == {"patched, our AdamW"}
    assert {name for name in names["decoding", "cuda"] if "graph" in name} == {
        "torch.compile, graph",
        "patched, graph",
        "backend=tile, graph",
    }
    assert model_variants.variants("training", "cpu", "AdamW") == ["eager", "patched, our AdamW"]
    assert models.peers("BERT, training", options(variants="Liger")) == {"eager": {"variant": "eager", "backend": "tile"}}


def test_a_variant_without_its_package_is_left_out(monkeypatch):
    import model_variants
    import models

    monkeypatch.setattr(model_variants.importlib.util, "find_spec", lambda name: None)
    assert models.left_out(options(device="cuda")) == {"Liger": "liger_kernel is not installed"}
    assert models.left_out(options()) == {}
    assert "Liger" not in model_variants.variants("training", "cuda")


def test_cases_are_models_in_three_ways():
    import model_cases
    import model_families

    names = model_cases.all_names()
    assert len(names) == len(set(names)) == 2 * len(model_families.MODELS) + 4
    assert {model_cases.section(name) for name in names} == {"inference", "training", "decoding"}
    assert "DiT, training" in names and "Mixtral, decoding" in names and "BERT, decoding" not in names


def made(name="DiT"):
    import model_families

    if package := model_families.lacking(name):
        pytest.importorskip(package)
    return model_families.make(name, scale="tiny")


def call_of(variant, made, way, optimizers=None):
    import model_variants

    return model_variants.Call(variant, made, way, "cpu", "tiny", "eager", {} if optimizers is None else optimizers)


def test_variants_share_tensors_and_not_classes():
    model = made()
    calls = [call_of(name, model, "inference") for name in ("eager", "patched")]
    one, other = (call.way.module for call in calls)
    assert all(a is b for a, b in zip(one.parameters(), other.parameters(), strict=True))
    assert type(one.out) is torch.nn.Linear and type(other.out) is not torch.nn.Linear
    assert type(model.module.out) is torch.nn.Linear
    torch.testing.assert_close(*(call.run() for call in calls), rtol=1e-5, atol=1e-5)
    assert calls[0].loss(None) == pytest.approx(calls[1].loss(None), rel=1e-5)
    own = sum(each.nbytes for each in [*model.module.parameters(), *model.module.buffers(), *model.inputs.values()])
    assert calls[0].bytes() == own


@pytest.mark.parametrize("variant", ["patched", "patched, our AdamW"])
def test_the_loss_of_training_depends_on_gradients_and_not_on_earlier_steps(variant):
    model, optimizers = made(), {}
    eager, other = (call_of(name, model, "training", optimizers) for name in ("eager", variant))
    reference = eager.reference()
    start = model.loss(model.result(model.module(**model.inputs))).item()
    found = eager.loss(reference)
    for call in (eager, other):
        call.run()
        assert call.loss(reference) == pytest.approx(found, rel=1e-5)
    assert found < start * (1 - 1e-5)
    # Calls with the same optimizer share its state.
    assert (other.way.optimizer is eager.way.optimizer) == (variant == "patched")
    assert eager.bytes() >= 12 * sum(each.numel() for each in model.module.parameters())


def test_decoding_finds_the_tokens_of_generate():
    import model_ways

    model = made("Llama")
    call = call_of("eager", model, "decoding")
    tokens = torch.cat(call.reference(), 1)
    generator = torch.Generator().manual_seed(0)
    prompt = torch.randint(0, 97, (1, 5), generator=generator)
    expected = model.module.generate(
        prompt, max_new_tokens=4, min_new_tokens=4, do_sample=False, pad_token_id=0, eos_token_id=None
    )
    assert torch.equal(tokens, expected[:, 5:])
    assert call.results == model_ways.LENGTHS["tiny"][1] == 3
    assert torch.equal(call.run(), tokens[:, -1:]) and torch.equal(call.run(), tokens[:, -1:])


def test_a_static_cache_is_rewound():
    import model_variants
    import model_ways

    model = made("Llama")
    eager = call_of("eager", model, "decoding")
    static = model_ways.Decoding(model, model.module, lambda f: f, model_variants.Setup("tiny", None, None, True, False))
    reference = eager.reference()
    losses = []
    for _ in range(2):
        assert torch.equal(static.run(), reference[-1])
        losses.append(static.loss(reference))
    assert losses[0] == losses[1] == pytest.approx(eager.loss(reference), rel=1e-5)


def test_a_failing_variant_is_named_and_a_failing_eager_ends_the_case():
    import models_child

    model = made()
    peers = {name: {"variant": name, "backend": "no_such_backend"} for name in ("eager", "backend=tile")}
    task = {"device": "cpu", "scale": "tiny", "limit": 60}
    task |= {"peers": {"DiT, inference": peers}, "caches": {"DiT, inference": {name: {} for name in peers}}}
    calls, found, failed = models_child.made_calls(task, "DiT, inference", model, "inference")
    assert list(calls) == list(found) == ["eager"] and found["eager"]["breaks"] == 0
    assert "no_such_backend" in failed["backend=tile"]
    with pytest.raises(TypeError):
        model.inputs = {}
        models_child.made_calls(task, "DiT, inference", model, "inference")


def test_what_liger_changes_for_all_models_is_exchanged(monkeypatch):
    import model_variants

    space = types.ModuleType("a_family")
    exec("def rotated(x):\n    return x\n\ndef forward(self, x):\n    return rotated(x)\n", vars(space))
    family = type("Family", (torch.nn.Module,), {"forward": space.forward, "__module__": "a_family"})

    def apply(model):
        space.rotated = lambda x: -x
        if model.config.broken:
            raise ValueError("no such layer")
        model.patched = True

    package, transformers, patches = (types.ModuleType("liger_kernel" + name) for name in ("", ".t", ".p"))
    transformers._apply_liger_kernel_to_instance, patches.MODEL_TYPE_TO_APPLY_LIGER_FN = apply, {"known": apply}
    names = ("liger_kernel", "liger_kernel.transformers", "liger_kernel.transformers.monkey_patch")
    for name, module in zip((*names, "a_family"), (package, transformers, patches, space)):
        monkeypatch.setitem(sys.modules, name, module)
    module = family()
    with pytest.raises(LookupError, match="^Liger does not patch this model$"):
        model_variants.with_liger(module)
    module.config = types.SimpleNamespace(model_type="known", broken=True)
    with pytest.raises(ValueError, match="^no such layer$"):
        model_variants.with_liger(module)
    assert module(3) == 3
    module.config.broken = False
    context = model_variants.with_liger(module)
    assert module.patched
    for _ in range(2):
        assert module(3) == 3
        with context:
            assert module(3) == -3
    assert module(3) == 3


@pytest.mark.long
def test_the_table_of_models(table_file, capfd):
    import models
    import report

    arguments = "--backend aot_eager --device cpu --scale tiny --seconds 0.01 --only DiT --variants patched$|tile".split()
    models.main([*arguments, "--way", "inference", "--write"])
    models.main([*arguments, "--way", "training", "--add", "--no-first"])
    rows = report.records(table_file)
    assert [(row["case"], row["variant"]) for row in rows] == [
        (f"DiT, {way}", name) for way in ("inference", "training") for name in ("eager", "patched", "backend=tile")
    ]
    assert all(float(row["first s"]) > 0 for row in rows[:3]) and not any(row["first s"] for row in rows[3:])
    assert all(float(row["loss difference"]) < 1e-4 for row in rows if row["variant"] != "eager")
    assert "- left out" not in capfd.readouterr().out


def test_others_stand_still_while_a_case_is_measured(tmp_path):
    def becomes(process, state):
        """Waits for a state of the process, which takes a signal a moment later."""
        path = pathlib.Path(f"/proc/{process.pid}/stat")
        return any(path.read_text().rpartition(")")[2].split()[0] == state or time.sleep(0.05) for _ in range(200))

    text = f"""
import case_tasks, sys
with case_tasks.turn({{"turns": {str(tmp_path / "turns")!r}}}, alone=True):
    print("alone", flush=True)
    sys.stdin.readline()
print("ended", flush=True)
sys.stdin.readline()
"""
    options = {"start_new_session": True, "stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(["sleep", "100"], start_new_session=True) as other:
        with subprocess.Popen([sys.executable, "-c", text], cwd=BENCHMARKS, **options) as own:
            assert own.stdout.readline() == "alone\n" and becomes(other, "T")
            print(file=own.stdin, flush=True)
            assert own.stdout.readline() == "ended\n" and becomes(other, "S")
            print(file=own.stdin, flush=True)
        other.kill()
