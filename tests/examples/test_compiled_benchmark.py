"""benchmarks/compiled.py: bars, rows of tables, differences, counted kernels, and the processes that make first calls."""

import argparse
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time
import types

import pytest
import torch


def options(**more):
    return argparse.Namespace(
        **{"device": "cpu", "dtype": "float32", "backends": {"inductor": "inductor", "ours": "tile"}, "options": {}} | more
    )


FOUND = {"times": {"eager": 4e-3, "inductor": 3e-3, "ours": 2e-3}, "errors": {"eager": 1e-7, "inductor": 2e-5, "ours": 3e-5}}
FIRST = {
    "inductor": {"first": {"seconds": 60.0, "programs": ["g++"], "kernels": 4}, "warm": {"seconds": 9.0, "programs": []}},
    "ours": {"first": {"seconds": 10.0, "programs": [], "kernels": 2}, "warm": {"seconds": 3.0, "programs": []}},
}


def test_a_row_has_a_cell_for_each_column():
    import compiled

    cells = compiled.cells_of("Llama, training", FOUND, FIRST, options())
    assert dict(zip(compiled.HEAD, cells, strict=True)) == {
        "case": "Llama, training",
        "eager ms": "4.00",
        "inductor ms": "3.00",
        "ours ms": "2.00",
        "inductor / ours": "1.50",
        "eager / ours": "2.00",
        "first inductor s": "60.0",
        "first ours s": "10.0",
        "warm inductor s": "9.00",
        "warm ours s": "3.00",
        "kernels inductor": "4",
        "kernels ours": "2",
        "error eager": "1.0e-07",
        "error inductor": "2.0e-05",
        "error ours": "3.0e-05",
        "our programs": "none",
        "missed": "",
    }


def test_a_row_without_some_measurements_has_empty_cells():
    import compiled

    one = {"times": {"eager": 4e-3, "ours": 2e-3}, "errors": {"eager": 1e-7, "ours": 1e-7}}
    cells = dict(zip(compiled.HEAD, compiled.cells_of("graph: cat", one, {}, options()), strict=True))
    assert {name for name, cell in cells.items() if cell} == {
        "case",
        "eager ms",
        "ours ms",
        "eager / ours",
        "error eager",
        "error ours",
    }
    none = {"times": {"eager": 4e-3}, "errors": {"eager": 1e-7}}
    assert compiled.cells_of("graph: cat", none, {}, options())[-1] == "ours failed"


@pytest.mark.parametrize(
    "case, ours, error, expected",
    [
        ("graph: cat", 3.7e-3, 1e-7, ""),
        ("graph: cat", 3.8e-3, 1e-7, "0.8x inductor"),
        ("overhead: [8,8] softmax", 3.001e-3, 1e-7, ""),
        ("overhead: [8,8] softmax", 3.003e-3, 1e-7, "inductor + 2 us"),
        ("GPT-2, inference", 3.5e-3, 1e-7, "1x inductor"),
        ("GPT-2, inference", 4.5e-3, 5e-5, "1x inductor; 1x eager; 2x the error"),
        ("GPT-2, inference", 2e-3, math.nan, "2x the error"),
    ],
)
def test_missed_bars_are_named(case, ours, error, expected):
    import compiled

    found = {"times": FOUND["times"] | {"ours": ours}, "errors": FOUND["errors"] | {"ours": error}}
    assert compiled.missed(case, found, {}, options()) == expected


def test_slow_first_calls_and_programs_are_named():
    import compiled

    slow = {"first": {"seconds": 21.0, "programs": ["g++"]}, "warm": {"seconds": 10.0, "programs": ["openssl"]}}
    first = FIRST | {"ours": slow}
    assert compiled.missed("graph: cat", FOUND, first, options()) == "3x first call; 1x warm call; no program"
    assert compiled.programs_of(slow) == ["g++", "openssl"]
    # On a GPU, half of inductor's time is enough.
    assert compiled.missed("graph: cat", FOUND, first, options(device="cuda")) == "1x warm call; no program"


def test_a_summary_has_a_line_for_each_kind_of_case():
    import compiled

    names = ("case", "inductor / ours", "eager / ours", "first inductor s", "first ours s")
    rows = [dict(zip(names, row)) for row in (("graph: a", "1.00", "2.00", "60", "10"), ("graph: b", "4.00", "", "", "3"))]
    rows += [{"case": "BERT, inference", "inductor / ours": "", "eager / ours": ""}]
    rows = [dict.fromkeys(compiled.HEAD, "") | row for row in rows]
    assert compiled.summary(rows) == [
        "- graph, 2 cases: inductor / ours: median 2.50, geomean 2.00, least 1.00; eager / ours: median 2.00, geomean 2.00, "
        "least 2.00; first call: geomean 6.00, least 6.00."
    ]


def test_rows_of_an_earlier_table_stay():
    import benchmark_frame

    lines = ["# Title", "", "| case | x |", "|---|---|", "| graph: a | 1 |", "| graph: b | 2 |", "", "- left out: c"]
    assert benchmark_frame.kept_rows(lines, "| case | x |", {"graph: b", "graph: d"}) == ["| graph: b | 2 |"]
    with pytest.raises(ValueError, match="the table there has other columns; measure all cases with --write"):
        benchmark_frame.kept_rows(lines, "| case | y |", {"graph: b"})


def test_rows_of_a_case_that_is_measured_again_are_replaced():
    import benchmark_frame
    import report

    table = report.Table("Models", [], ["case", "x"], {"case"})
    for row in (("a", "1"), ("a", "2"), ("b", "3")):
        table.add(*row)
    benchmark = types.SimpleNamespace(rows=lambda case, *_: [[case, "4"]])
    benchmark_frame.add(benchmark, table, "a", {}, {}, None, {})
    benchmark_frame.add(benchmark, table, "c", {"reason": "none"}, {}, None, {})
    assert [line for line in table.lines if line[:3] in ("| a", "| b")] == ["| b | 3 |", "| a | 4 |"]


def test_a_difference_is_relative_to_the_largest_element():
    import compiled_cases

    exact = [torch.tensor([1.0, -100.0]).double(), torch.tensor([0.0, 1e-9]).double(), torch.empty(0).double()]
    own = [each.float() for each in exact]
    assert compiled_cases.difference(own, exact) < 1e-7
    own[0][0] = 3.0
    assert compiled_cases.difference(own, exact) == pytest.approx(0.02)
    # Sums that cancel out count little: the second tensor is 1e-9 where the first is 100.
    own = [exact[0].float(), torch.tensor([0.0, 1e-4]), exact[2].float()]
    assert compiled_cases.difference(own, exact) == pytest.approx(1e-3, rel=1e-3)
    own[1][0] = math.nan
    assert math.isnan(compiled_cases.difference(own, exact))


def test_options_of_our_backend_reach_it_and_stand_above_the_table(capsys):
    import compiled
    import compiled_child

    options = compiled.options_of(["--options", "products=torch", "attention=tile"])
    options.device, options.scale = "cpu", "small"
    peers = compiled.peers("Llama, training", options)
    assert peers["ours"] == {"backend": "tile", "options": {"products": "torch", "attention": "tile"}}
    assert peers["inductor"] == {"backend": "inductor"}
    assert compiled.header(options)[0] == "Options of our backend: products=torch attention=tile."
    with pytest.raises(Exception, match="is 'none'; pass 'measured', 'tile' or 'torch'"):
        compiled_child.compiled(torch.neg, {"backend": "tile", "options": {"attention": "none"}})(torch.ones(3))
    with pytest.raises(SystemExit):
        compiled.options_of(["--options", "products"])
    assert "'products' is not NAME=VALUE, for example products=torch" in capsys.readouterr().err


def test_a_backend_that_fails_is_named_and_eager_that_fails_ends_the_case():
    import compiled_cases
    import compiled_child

    def work(function):
        return compiled_cases.Work(function, (torch.ones(3),), exact=lambda: compiled_cases.Work(torch.neg, (torch.ones(3),)))

    task = {"device": "cpu", "limit": 60, "caches": {"x": {"ours": {}}}}
    task["peers"] = {"x": {"ours": {"backend": "no_such_backend"}}}
    calls, failed = compiled_child.made_calls(work(torch.neg), task, "x")
    assert list(calls) == ["eager"] and calls["eager"][1] == 0
    assert "no_such_backend" in failed["ours"]
    with pytest.raises(ZeroDivisionError):
        compiled_child.made_calls(work(lambda x: 1 // 0), task, "x")


def test_called_kernels_are_counted_in_output_code():
    import compiled_kernels

    code = """
    from torch import empty_strided
    empty = torch._C._empty
    async_compile = AsyncCompile()
    fused_0 = async_compile.triton('fused_0', 'def f(): g()')
    fused_1 = tile_kernel('fused_1')

    def partition_0(args):
        fused_0.run(args, grid=1)

    class Runner:
        def call(self, args):
            buffer = empty((3,))
            fused_0.run(buffer)
            fused_1[(1, 2)](buffer)
            extern_kernels.mm(buffer, out=buffer)
            helper(buffer)

    def benchmark_compiled_module(times=10):
        fused_0.run(1)
    """
    assert compiled_kernels.called_kernels(textwrap.dedent(code)) == 3


def test_a_graph_of_inductor_has_output_code():
    import compiled_kernels

    from torch._inductor.graph import GraphLowering

    before = GraphLowering.save_output_code
    assert compiled_kernels.count({}, None, "cpu") is None
    with compiled_kernels.output_codes() as codes:
        GraphLowering.save_output_code("k = make()\ndef call(args):\n    k(args)\n")
    assert compiled_kernels.count(codes, None, "cpu") == 1
    assert GraphLowering.save_output_code is before


@pytest.mark.parametrize(
    "event, arguments, expected",
    [
        ("subprocess.Popen", ("/usr/bin/g++", ["/usr/bin/g++", "-O3", "x.cpp"], None, None), "g++"),
        ("subprocess.Popen", ("sh", "gcc -c x.c", None, None), "gcc"),
        ("os.system", (b"/bin/ls -l",), "ls"),
        ("os.posix_spawn", (b"/usr/bin/ptxas", [b"ptxas"], {}), "ptxas"),
        ("os.fork", (), "a fork"),
        ("os.exec", ("/usr/bin/python3", ["python3", "/a/b/worker.py", "-x"], {}), "python b/worker.py"),
        ("os.exec", ("/usr/bin/python3", ["python3", "-m", "pool"], {}), "python -m pool"),
        ("os.exec", ("/usr/bin/python3", ["python3", "-c", "import x"], {}), "python"),
    ],
)
def test_programs_have_short_names(event, arguments, expected):
    import task_child

    assert task_child.program(event, arguments) == expected


def test_processes_of_processes_are_seen():
    import task_processes

    inner = subprocess.Popen(["sh", "-c", "sleep 60; true"], start_new_session=True)
    try:
        for _ in range(500):
            names = {task_processes.name_of(pid) for pid in task_processes.children(inner.pid)}
            if names == {"sleep"}:
                break
        assert names == {"sleep"}
    finally:
        for pid in task_processes.children(inner.pid):
            subprocess.run(["kill", pid], check=True)
        inner.kill()
        inner.wait()


@pytest.fixture
def child(monkeypatch, tmp_path):
    """Makes the processes run this program instead of task_child.py."""
    import task_processes

    def write(text):
        path = tmp_path / "child.py"
        path.write_text("import json, os, sys, time\ntask = json.loads(sys.argv[1])\n" + textwrap.dedent(text))
        monkeypatch.setattr(task_processes, "CHILD", path)
        return task_processes

    return write


def test_a_process_tells_what_it_and_its_programs_do(child):
    found = child(
        """
        print("noise")
        print('== {"begun": true}', flush=True)
        os.system("sleep 0.5")
        print('== {"seconds": 2, "programs": ["ls"]}')
        """
    ).one_answer({}, {}, 30)
    assert found["seconds"] == 2 and {"ls", "sleep"} <= set(found["programs"])


def test_a_process_that_fails_or_hangs_says_why(child):
    with pytest.raises(RuntimeError, match="^ValueError: no good: 3$"):
        child("raise ValueError('no good: ' + str(task['x']) + chr(10) + 'more')").one_answer({"x": 3}, {}, 30)
    with pytest.raises(RuntimeError, match="^ends with 7$"):
        child("os._exit(7)").one_answer({}, {}, 30)
    with pytest.raises(TimeoutError, match="^takes longer than 0.2 s$"):
        child("time.sleep(60)").one_answer({}, {}, 0.2)


def test_a_signal_ends_the_processes_that_were_started(tmp_path):
    path = tmp_path / "started"
    code = f"""
import signal, subprocess, sys, task_processes
task_processes.CHILD = {str(tmp_path / "child.py")!r}
signal.signal(signal.SIGTERM, task_processes.end_all)
task_processes.one_answer({{}}, {{}}, 60)
"""
    (tmp_path / "child.py").write_text(f"import os, time\nopen({str(path)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)\n")
    benchmarks = pathlib.Path(__file__).resolve().parents[2] / "benchmarks"
    process = subprocess.Popen([sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(benchmarks)})
    end = time.monotonic() + 30
    while not (path.exists() and path.read_text()) and time.monotonic() < end:
        time.sleep(0.02)
    process.terminate()
    assert process.wait(30) == 128 + signal.SIGTERM
    while time.monotonic() < end:
        try:
            os.kill(int(path.read_text()), 0)
        except ProcessLookupError:
            return
        status = pathlib.Path(f"/proc/{path.read_text()}/status")
        if status.exists() and "Z (zombie)" in status.read_text():  # it has ended, and nobody asks for its status
            return
        time.sleep(0.02)
    pytest.fail("the process still runs")


def test_cases_go_on_in_another_process_after_one_that_ends(child):
    processes = child(
        """
        for case in task["cases"]:
            print('== {"case": "' + case + '"}', flush=True)
            if case == "b":
                os._exit(3)
            print('== {"times": 1}', flush=True)
        """
    )
    found = list(processes.answers({}, ["a", "b", "c", "d"], {}, 30))
    assert found == [
        ("a", {"times": 1}),
        ("b", {"reason": "ends with 3", "ended": True}),
        ("c", {"times": 1}),
        ("d", {"times": 1}),
    ]


def test_a_case_that_fails_says_why_and_the_next_one_follows(capsys):
    import case_tasks
    import task_child

    def measured(task, case):
        if case == "a":
            raise ValueError("no good\nmore")
        return {"times": 1}

    case_tasks.each_case({"device": "cpu", "cases": ["a", "b"]}, measured)
    told = [json.loads(line.removeprefix(task_child.MARK)) for line in capsys.readouterr().out.splitlines()]
    assert told == [{"case": "a"}, {"reason": "no good"}, {"case": "b"}, {"times": 1}]


@pytest.mark.long
def test_the_table_of_a_backend(table_file, capfd):
    import compiled
    import report

    arguments = "--backend aot_eager --no-inductor --device cpu --scale tiny --seconds 0.01".split()
    compiled.main([*arguments, "--only", "graph: softmax$", "--write"])
    compiled.main([*arguments, "--only", "graph: cat$", "--add", "--no-first"])
    softmax, cat = report.records(table_file)
    assert (softmax["case"], cat["case"]) == ("graph: softmax", "graph: cat")
    assert softmax["our programs"] == "none" and float(softmax["first ours s"]) > 0
    assert softmax["error ours"] == softmax["error eager"]
    assert table_file.read_text().splitlines()[-1].startswith("- graph, 2 cases: eager / ours: median ")
    assert "- left out" not in capfd.readouterr().out


def test_a_first_call_leaves_the_folder_of_its_caches_apart():
    import benchmark_frame
    import compiled

    folders = {benchmark_frame.folder_of("/x", case, peer) for case in ("graph: cat", "graph: rope") for peer in compiled.PEERS}
    assert len(folders) == 4
    assert {
        str(pathlib.Path(value).parent)
        for key, value in benchmark_frame.variables_of(next(iter(folders))).items()
        if "DIR" in key
    } == {str(next(iter(folders)))}


def test_one_case_is_measured_while_others_wait(tmp_path):
    import case_tasks

    task, seen = {"turns": str(tmp_path / "turns")}, []
    prepared = threading.Event()

    def other():
        with case_tasks.turn(task, alone=False):
            prepared.set()
            time.sleep(0.2)
            seen.append("prepared")

    thread = threading.Thread(target=other)
    thread.start()
    prepared.wait()
    with case_tasks.turn(task, alone=False):  # beside the other
        assert not seen
    with case_tasks.turn(task, alone=True):
        assert seen == ["prepared"]
    thread.join()
    with case_tasks.turn({}, alone=True):  # one process needs no turns
        pass
