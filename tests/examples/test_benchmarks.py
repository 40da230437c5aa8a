"""The scripts of benchmarks/: cases compute what their peers do, bars are judged, logs are read, pictures drawn."""

import os
import time

import pytest
import torch
from numerics import DRAWS, FEW, check, check_with


@pytest.fixture
def cases(device, monkeypatch):
    """gpu_cases on the device of the run."""
    import gpu_cases
    import gpu_work

    monkeypatch.setattr(gpu_work, "device", device.type)
    return gpu_cases


def work_of(cases, name, backward):
    import gpu_attention_cases as attention
    import gpu_document_cases as documents
    import gpu_loss_cases as losses
    import gpu_user_cases as users

    return {
        "softmax": lambda: cases.softmax_work("softmax", 33, 70, backward),
        "log_softmax": lambda: cases.softmax_work("log_softmax", 33, 70, backward),
        "cross_entropy": lambda: losses.cross_entropy_work(33, 70, backward),
        "linear_cross_entropy": lambda: losses.linear_cross_entropy_work(33, 24, 70, backward),
        "embedding": lambda: losses.embedding_work(30, 24, 70, backward),
        "rms_norm": lambda: cases.rms_norm_work(33, 70, backward),
        "add_rms_norm": lambda: cases.add_rms_norm_work(33, 70, backward),
        "layer_norm": lambda: cases.layer_norm_work(33, 70, backward),
        "swiglu": lambda: cases.gated_work("swiglu", 33, 70, backward),
        "swiglu of halves": lambda: cases.gated_work("swiglu", 33, 70, backward, True),
        "geglu": lambda: cases.gated_work("geglu", 33, 70, backward),
        "rope BHSD": lambda: cases.rope_work("BHSD", backward, 1, 10),
        "rope BSHD": lambda: cases.rope_work("BSHD", backward, 1, 10),
        "group_norm": lambda: cases.group_norm_work(2, 64, 5, False, backward),
        "group_norm channels_last": lambda: cases.group_norm_work(2, 64, 5, True, backward),
        "attention": lambda: attention.attention_work(1, 16, 40, 64, False, backward),
        "attention causal": lambda: attention.attention_work(1, 16, 40, 64, True, backward),
        "attention with shared keys": lambda: attention.attention_work(1, 4, 40, 64, True, backward, key_heads=2),
        "attention of a U-Net": lambda: attention.attention_work(
            1, 2, 90, 40, False, backward, keys=17, dtype=torch.float16, peers=attention.BACKENDS
        ),
        "attention of documents": lambda: documents.document_work(False, backward, (3, 90, 17), 2, 16),
        "attention of documents by a mask": lambda: documents.document_work(True, backward, (3, 90, 17), 2, 16),
        "a user's attention": lambda: users.python_work(backward, 1, 2, 90, 32),
        "attention with a mask": lambda: attention.mask_work("causal", backward, False, 1, 2, 300, 64),
        "attention with an added mask": lambda: attention.mask_work("causal", backward, True, 1, 2, 300, 64),
    }[name]()


def check_against_float64(make, gradient=False):
    """Asserts the numerics rule for a case's results, of which its first peer is the measure."""

    def parts(result):
        return result if isinstance(result, (tuple, list)) else (result,)

    def triples():
        work = make()
        assert work.bytes > 0 and work.flops > 0
        peer = next(iter(work.peers.values()))()
        return list(zip(parts(work.ours()), parts(peer()), parts(work.exact()), strict=True))

    def more(_, i, theirs):
        """Further draws, where the numbers are few."""
        return [triples()[i] for _ in range(DRAWS)] if theirs.numel() < FEW else ()

    for i, triple in enumerate(triples()):
        check_with(more, None, i, triple, gradient=gradient, what=f"result {i}")


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize(
    "name",
    [
        "softmax",
        "log_softmax",
        "cross_entropy",
        "linear_cross_entropy",
        "embedding",
        "rms_norm",
        "add_rms_norm",
        "layer_norm",
        "swiglu",
        "swiglu of halves",
        "geglu",
        "rope BHSD",
        "rope BSHD",
        "group_norm",
        "group_norm channels_last",
        "attention",
        "attention causal",
        "attention with shared keys",
        "attention of a U-Net",
        "attention of documents",
        "attention of documents by a mask",
        "a user's attention",
        "attention with a mask",
        "attention with an added mask",
    ],
)
def test_a_case_computes_what_its_peer_does(cases, name, backward):
    check_against_float64(lambda: work_of(cases, name, backward), backward)


# Windows leave out something of lengths above 1024.
CHANGED = {
    "softcap 30": (1, 2, 90, 32),
    "ALiBi": (1, 4, 90, 32),
    "window 1024": (1, 1, 1100, 16),
    "an added bias with its gradient": (1, 2, 90, 32),
    "a user's change": (1, 2, 90, 32),
}


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("name", CHANGED)
def test_changed_scores_are_those_of_the_peer(cases, name, backward):
    import gpu_score_cases

    assert CHANGED.keys() == gpu_score_cases.CHANGES.keys()
    check_against_float64(lambda: gpu_score_cases.change_work(name, backward, *CHANGED[name]), backward)


@pytest.mark.parametrize("name", CHANGED)
def test_flex_attention_gets_the_same_change(cases, name):
    import gpu_score_cases

    work = gpu_score_cases.change_work(name, False, *CHANGED[name])
    with torch.compiler.set_stance("force_eager"):
        found = work.peers["FlexAttention"]()()
    torch.testing.assert_close(found.double(), work.exact(), rtol=2**-7, atol=2**-6)


@pytest.mark.slow  # builds a library
def test_a_user_s_attention_in_cpp_computes_what_its_peer_does(cases):
    import gpu_user_cases

    check_against_float64(lambda: gpu_user_cases.cpp_work(1, 2, 90, 64))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("layout", ["NN", "NT", "TN"])
def test_matmul_computes_what_its_peer_does(cases, layout, dtype):
    import gpu_product_cases

    check_against_float64(lambda: gpu_product_cases.matmul_work(60, 40, 70, layout, dtype))


@pytest.mark.parametrize("by_blocks", [False, True])
def test_scaled_matmul_computes_the_product_of_the_scaled_matrices(cases, by_blocks):
    import gpu_product_cases

    work = gpu_product_cases.scaled_work(60, 48, 272, by_blocks)
    torch.testing.assert_close(work.ours().double(), work.exact(), rtol=2**-8, atol=2**-6)


@pytest.mark.parametrize("tile", [(64, 128), (192, 32)])
def test_a_product_in_tiles_is_the_product(tile, device):
    from product_tiles import in_tiles

    x, w, out = torch.randn(200, 70, device=device), torch.randn(70, 136, device=device), torch.empty(200, 136, device=device)
    in_tiles(x, w, out, *tile)()
    torch.testing.assert_close(out, x @ w, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("name", ["linear+bias+gelu_tanh", "linear+residual", "linear, epilogue of five operations"])
def test_a_product_with_an_epilogue_computes_what_its_peer_does(cases, name):
    import gpu_product_cases

    check_against_float64(lambda: gpu_product_cases.epilogue_work(*gpu_product_cases.EPILOGUES[name], 33, 60, 70))


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
def test_gated_matmul_computes_what_its_peer_does(cases, backward):
    import gpu_product_cases

    check_against_float64(lambda: gpu_product_cases.gated_matmul_work(33, 60, 70, backward), backward)


def test_rope_in_place_computes_what_its_peer_does(cases):
    check_against_float64(lambda: cases.rope_in_place_work(1, 10))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_adamw_computes_what_its_peer_does(cases, dtype):
    import gpu_optimizer_cases
    import torch

    check_against_float64(lambda: gpu_optimizer_cases.adamw_work(3, 700, getattr(torch, dtype)))


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
def test_dropout_computes_the_formula(cases, backward):
    work = cases.dropout_work(33, 70, backward)
    exact = work.exact()
    check(work.ours(), exact.bfloat16(), exact)


def test_every_case_has_a_colour_and_a_name_of_its_own(cases):
    import roofline

    names = [case.name for case in cases.all_cases()]
    assert len(set(names)) == len(names) > 40
    assert {roofline.family(name) for name in names} == set(roofline.COLOURS)


def test_bars():
    import gpu
    import gpu_cases

    case = gpu_cases.Case("x", None, fraction=0.8, ratios={"torch.compile": 1.8}, microseconds=8, launches=1)
    assert gpu.bars(case, 7.0, 6.0, {"torch.compile": 14.0}, 1) == "0.8 of copy; 1.8x torch.compile; 8 us; 1 launch"
    missed = "0.8 of copy, missed; 1.8x torch.compile, missed; 8 us, missed; 1 launch wanted, 2 seen, missed"
    assert gpu.bars(case, 9.0, 6.0, {"torch.compile": 14.0}, 2) == missed
    assert gpu.bars(case, 7.0, 6.0, {}, None) == "0.8 of copy; 1.8x torch.compile not measured; 8 us; 1 launch not counted"
    assert gpu.bars(gpu_cases.Case("x", None), 7.0, 6.0, {}, None) == ""


def test_a_peer_that_fails_is_left_out():
    import gpu
    import gpu_cases

    def broken():
        raise RuntimeError("no compiler\nand more")

    said = []
    work = gpu_cases.Work(None, 1, 1, {"torch.compile": broken})
    assert gpu.made_peers(gpu_cases.Case("x", None), work, said.append) == {}
    assert said == ["x: torch.compile is left out: no compiler"]


def test_the_log_of_a_compile_is_read():
    import compile_times

    log = """== forward
tile: softmax: traced in 2.0 ms
tile: softmax: compiled for sm_90 and loaded on device 0 in 81.5 ms, NVRTC 78.0 ms of it
==
tile: other: traced in 9.0 ms
== backward
tile: sum: traced in 1.5 ms
tile: sum: compiled for sm_90 and loaded on device 0 in clusters of 8 blocks in 3.5 ms, from the cache 1.0 ms of it
"""
    assert compile_times.read_log(log) == {
        "forward": [{"trace": 2.0, "load": 81.5, "nvrtc": 78.0, "cached": False}],
        "backward": [{"trace": 1.5, "load": 3.5, "nvrtc": 1.0, "cached": True}],
    }


def test_a_row_of_compile_times():
    import compile_times

    def side(first, load, cached):
        log = [{"trace": 2.0, "load": load, "nvrtc": load - 1, "cached": cached}]
        return {"forward": {"first": first, "again": 0.5, "kernels": 0, "log": log}}

    pairs = [(side(90.5, 80.0, False), side(4.5, 1.0, True))]
    assert compile_times.cells_of("softmax", "forward", pairs) == [
        "softmax, forward",
        "1",
        "90.0",
        "82.0",
        "79.0",
        "4.00",
        "3.00",
        "softmax 150; 5 cached",
    ]
    pairs = [(side(990.5, 980.0, False), side(90.5, 80.0, False))]
    assert (
        compile_times.cells_of("softmax", "forward", pairs)[-1]
        == "softmax 150, missed; 5 cached, missed; compiled again, missed"
    )


@pytest.mark.slow  # starts processes
def test_compile_times_without_a_gpu(tmp_path):
    import compile_times

    core = min(os.sched_getaffinity(0))
    found = compile_times.process("softmax", "meta", core, str(tmp_path), False)
    again = compile_times.process("softmax", "meta", core, str(tmp_path), True)
    assert found["forward"]["kernels"] == found["backward"]["kernels"] == 1 and found["nvrtc"] > 0
    assert again["forward"]["first"] < found["forward"]["first"]


def test_rows_of_the_host_s_times():
    import host

    def call(name, milliseconds, **more):
        return host.Call(name, 3, lambda *_: lambda count: milliseconds * 1e6, **more)

    def broken(*_):
        raise ImportError("No module named 'triton'")

    calls = [
        call("torch.add", 1e-3),
        call("good", 1.4e-3, allowed=0.5),
        call("bad", 1.6e-3, allowed=0.5),
        host.Call("gone", 3, broken),
    ]
    assert list(host.rows("Python", calls, "cpu")) == [
        ["Python: torch.add", "3", "1.00", "", "1.00", "", ""],
        ["Python: good", "3", "1.40", "+0.40", "1.40", "+0.40", "the first + 0.5 us"],
        ["Python: bad", "3", "1.60", "+0.60", "1.60", "+0.60", "the first + 0.5 us, missed"],
    ]
    half = [call("theirs", 8e-3), call("ours", 3e-3, fraction=0.5)]
    assert list(host.rows("raw", half, "cpu", (False,)))[1] == ["raw: ours", "3", "3.00", "-5.00", "", "", "0.5 of the first"]


def test_the_host_s_time_of_patched_modules(monkeypatch, capsys):
    import patch_host

    threads = torch.get_num_threads()
    monkeypatch.setattr(patch_host, "WARM", 1)
    for more in ([], ["--launches"]):
        monkeypatch.setattr(
            "sys.argv", ["patch_host.py", "--rounds", "2", "--only", "^(Linear|LayerNorm|Dropout, eval)$", *more]
        )
        try:
            patch_host.main()
        finally:
            torch.set_num_threads(threads)
        text = capsys.readouterr().out
        assert ("with our kernels" if more else "without our kernels, which a GPU would run") in text
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| ")][1:]
        assert [row[0] for row in rows] == ["Linear", "LayerNorm", "Dropout, eval"]
        for row in rows:
            assert all(float(cell) for cell in row[1:3]) and float(row[3]) == pytest.approx(
                float(row[2]) - float(row[1]), abs=0.02
            )
            assert bool(row[4]) == (row[0] != "Dropout, eval") and row[7].startswith("torch's + 1 us")


def test_bars_of_patched_modules():
    import patch_host
    import patch_host_cases

    module, model = patch_host_cases.Case("a", None, ()), patch_host_cases.Case("b", None, (), is_model=True)
    assert patch_host.row(module, [5.0, 5.9, 20.0, 21.0]) == [
        "a",
        "5.00",
        "5.90",
        "+0.90",
        "20.00",
        "21.00",
        "+1.00",
        "torch's + 1 us",
    ]
    assert patch_host.row(module, [5.0, 6.1, None, None]) == [
        "a",
        "5.00",
        "6.10",
        "+1.10",
        "",
        "",
        "",
        "torch's + 1 us, missed",
    ]
    assert patch_host.row(model, [5.0, 5.1, 20.0, 19.0])[-1] == "torch's, missed"


def test_the_picture(tmp_path):
    import report
    import roofline
    from PIL import Image

    table = report.Table(
        "NVIDIA X", ["Roofs: a copy moves 4.20 TB/s, cuBLAS reaches 770 TF/s."], ["case", "MB", "GF", "ours us"], {"case"}
    )
    table.add("softmax, forward", "268", "0.335", "67.3")
    table.add("matmul 8192³", "403", "1100", "2557")
    table.add("rope: failed, no memory")
    path = tmp_path / "gpu-x.md"
    path.write_text("\n".join(table.lines))
    lines, rows = report.read(path)
    points = list(roofline.points(rows))
    assert [name for name, *_ in points] == ["softmax, forward", "matmul 8192³"]
    assert points[1][1:] == pytest.approx((2729.5, 430.2), rel=1e-3)
    assert Image.open(roofline.draw(path)).size == (roofline.WIDTH, roofline.HEIGHT)
    with pytest.raises(ValueError, match="the table does not name its roofs; make it again with benchmarks/gpu.py --write"):
        roofline.roofs(["# NVIDIA X"])


def test_ratios_of_the_cpu_table_are_judged():
    import cases
    import run

    def sleeping(seconds):
        return lambda: lambda: time.sleep(seconds)

    def no_compiler():
        raise RuntimeError("InvalidCxxCompiler: No working C++ compiler found in config\nand more")

    def broken():
        raise RuntimeError("no")

    said = []
    case = cases.Case(
        "x", sleeping(2e-3), {"eager": sleeping(1e-3), "torch.compile": no_compiler}, 1e6, 1e6, cases.bars(1.3, 1.5), 5
    )
    row = dict(zip(run.HEAD, run.row(case, 0.01, said.append), strict=True))
    assert said == ["x: torch.compile is left out: InvalidCxxCompiler: No working C++ compiler found in config"]
    assert row["torch.compile ms"] == "no C++ compiler" and row["ratio to compile"] == ""
    assert row["wanted"] == "1.3x eager, missed; 1.5x torch.compile not measured; 5 us, missed"
    case.peers = {"eager": sleeping(20e-3), "torch.compile": broken}
    row = dict(zip(run.HEAD, run.row(case, 0.01, said.append), strict=True))
    assert row["torch.compile ms"] == "failed" and float(row["ratio"]) > 1.3
    assert row["wanted"].startswith("1.3x eager; 1.5x")
    # Nothing to compare with, as first calls: no peers, no bars of ratio.
    row = dict(zip(run.HEAD, run.row(cases.Case("x", sleeping(0), microseconds=1e6), 0.01, said.append), strict=True))
    assert row["eager ms"] == row["torch.compile ms"] == row["ratio"] == "" and row["wanted"] == "1e+06 us"


def test_options_of_the_cpu_table():
    import run

    assert run.options_of([]).isa is None
    options = run.options_of(["--isa", "baseline", "--only", "add", "--seconds", "0.5"])
    assert (options.isa, options.only, options.seconds, options.fresh) == ("baseline", "add", 0.5, False)
    with pytest.raises(SystemExit):
        run.options_of(["--isa", "sse2"])


def test_the_bars_of_the_cpu(tmp_path):
    import bar_chart
    import report
    import run
    from PIL import Image

    table = report.Table("CPU, x", ["How."], run.HEAD, {"case", "wanted"})

    def add(name, ratio, compiled, wanted):
        table.add(name, "1", "1", "1", "1", "1", ratio, compiled, "1", "1", wanted)

    add("softmax", "1.40", "0.700", "1.3x eager; 1.5x torch.compile, missed")
    add("swiglu", "20.0", "", "")
    add("first call", "", "", "2000 us")
    path = tmp_path / "cpu-x.md"
    path.write_text("\n".join(table.lines))
    found = dict(bar_chart.bars(report.read(path)[1]))
    assert found == {
        "softmax": [("eager", 1.4, 1.3), ("torch.compile", 0.7, 1.5)],
        "swiglu": [("eager", 20.0, None), ("torch.compile", None, None)],
    }
    picture = Image.open(bar_chart.draw(path)).convert("RGB")
    assert picture.size == (bar_chart.WIDTH, bar_chart.TOP + 2 * bar_chart.ROW + bar_chart.BOTTOM)
    axis = bar_chart.Axis([1.4, 0.7, 20.0])
    y = bar_chart.TOP + (bar_chart.ROW - 2 * bar_chart.BAR) // 2 + bar_chart.BAR // 2
    assert picture.getpixel((int(axis.pixel(1.15)), y)) == bar_chart.PEERS["ratio"][1]  # reaches from 1 to 1.4
    assert picture.getpixel((int(axis.pixel(0.8)), y + bar_chart.BAR)) == bar_chart.PEERS["ratio to compile"][1]
    assert picture.getpixel((int(axis.pixel(1.8)), y)) == (255, 255, 255)


@pytest.mark.long  # builds a library
def test_the_chains_of_the_cpu_table_compute_what_torch_does():
    import cases
    import run

    run.load_operators()
    for dtype in cases.DTYPES:
        x, y = torch.randn(5, 333, dtype=dtype), torch.randn(5, 333, dtype=dtype)
        for ours, theirs, inputs in ((cases.own_chain, cases.chain, (x, y)), (cases.own_gelu_chain, cases.gelu_chain, (x,))):
            for size in (cases.BLOCK, 48):
                check(ours(*inputs, size), theirs(*inputs), theirs(*(t.double() for t in inputs)))


@pytest.mark.slow  # makes the inputs of every case
def test_every_case_of_the_cpu_has_a_name_of_its_own(examples, monkeypatch):
    import cases

    torch.ops.load_library(str(examples / "libtile_examples.so"))
    monkeypatch.setattr(torch, "randn", lambda *shape, dtype=None: torch.empty(*shape, dtype=dtype))
    names = [case.name for case in cases.all_cases()]
    assert len(set(names)) == len(names) > 80
    fresh = list(cases.fresh_cases())
    assert {"softmax 4096x4096 float32, fresh output"} < {case.name for case in fresh}
    assert all(case.ratios == {"eager": 2.5, "torch.compile": 2.5} for case in fresh)
