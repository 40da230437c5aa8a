"""tile_ops.profile: the trace of a GPU, written by hand, and calls on a CPU."""

import json

import pytest
import tile_ops
import torch
from tile_ops._profile import counts, report_of, rows, trace
from tile_ops._profile.counts import Count


def event(cat, name, ts, dur, thread=1, **arguments):
    return {"ph": "X", "cat": cat, "name": name, "pid": 7, "tid": thread, "ts": ts, "dur": dur, "args": arguments}


def op(name, ts, dur, record=0, thread=1):
    return event("cpu_op", name, ts, dur, thread, **{"Record function id": record, "External id": record})


def ours(name, ts, dur, record=0, thread=1):
    return event("user_annotation", f"tile kernel {name}", ts, dur, thread, **{"Record function id": record})


def launched(ts, correlation, thread=1, call="cudaLaunchKernel"):
    return event("cuda_runtime" if call.startswith("cuda") else "cuda_driver", call, ts, 1, thread, correlation=correlation)


def kernel(name, ts, dur, correlation, cat="kernel", device=0, stream=7):
    return event(cat, name, ts, dur, 100 + stream, correlation=correlation, device=device, stream=stream)


def step(index, ts, dur, host):
    return [
        event("user_annotation", f"tile_ops.profile step {index}", ts, dur),
        event("user_annotation", f"tile_ops.profile call {index}", ts, host),
        event("gpu_user_annotation", f"tile_ops.profile call {index}", ts, host),
    ]


def gpu_step(index, start, longer=0.0, records=0):
    """One step: a product of torch, our softmax, and in another thread our backward of two kernels."""
    at, c, r = start, 10 * index + 100 * bool(records), records
    return [
        *step(index, at, 200, 60),
        op("aten::linear", at + 1, 10, r and r + 1),
        op("aten::addmm", at + 2, 8, r and r + 2),
        launched(at + 5, c + 1),
        kernel("sm90_gemm", at + 20, 30 + longer, c + 1),
        op("tile::softmax", at + 12, 8, r and r + 3),
        ours("softmax", at + 13, 6, r and r + 4),
        launched(at + 15, c + 2, call="cuLaunchKernelEx"),
        kernel("kernel_softmax", at + 60, 10, c + 2),
        event("cpu_op", "SoftmaxBackward0", at + 30, 20, 2),
        op("tile::softmax_backward", at + 31, 18, r and r + 5, 2),
        ours("softmax_backward", at + 32, 4, r and r + 6, 2),
        launched(at + 33, c + 3, 2, "cuLaunchKernelEx"),
        kernel("kernel_softmax_backward", at + 70, 20, c + 3),
        ours("sum_rows", at + 40, 4, r and r + 7, 2),
        launched(at + 41, c + 4, 2, "cuLaunchKernelEx"),
        kernel("kernel_sum_rows", at + 95, 5, c + 4),
        launched(at + 52, c + 5, call="cudaMemcpyAsync"),
        kernel("Memcpy DtoH (Device -> Pageable)", at + 110, 2, c + 5, "gpu_memcpy"),
    ]


def gpu_trace(steps=3):
    outside = [launched(1, 90), kernel("sm90_gemm", 2, 5, 90), {"ph": "M", "name": "process_name"}]
    return trace.read(outside + [each for k in range(steps) for each in gpu_step(k, 1000.0 * (k + 1), longer=k)])


COUNTS = {
    51: Count(),
    52: Count(bytes=3_000_000, flops=60_000_000, dtype=torch.bfloat16),
    53: Count(bytes=2_000_000),
    54: Count(bytes=1_999_000, where="softmax.cpp:12"),
    55: Count(bytes=4_000_000),
    56: Count(bytes=3_900_000, where="softmax.cpp:40"),
    57: Count(bytes=None, where="sum.cpp:3"),
}


def gpu_report(counted_steps=1, known=()):
    events = [each for k in range(counted_steps) for each in gpu_step(k, 1000.0 * (k + 1), records=50)]
    counted = rows.Counted(trace.read(events).launches, COUNTS)
    peaks = {torch.bfloat16: 10e12}
    return report_of(gpu_trace(), counted, (0.25e-3, 0.06e-3), torch.device("cuda", 0), "A GPU", 1e12, peaks.get, dict(known))


def test_a_trace_of_a_gpu_gives_steps_and_launches():
    traced = gpu_trace()
    assert traced.on_gpu and [(each.index, each.host) for each in traced.steps] == [(0, 60), (1, 60), (2, 60)]
    first = [each for each in traced.launches if each.step == 0]
    assert [(each.name, each.kind) for each in first] == [
        ("sm90_gemm", "kernel"),
        ("kernel_softmax", "kernel"),
        ("kernel_softmax_backward", "kernel"),
        ("kernel_sum_rows", "kernel"),
        ("Memcpy DtoH (Device -> Pageable)", "copy"),
    ]
    assert [each.launched and each.launched.name for each in first] == [
        None,
        "tile kernel softmax",
        "tile kernel softmax_backward",
        "tile kernel sum_rows",
        None,
    ]
    assert [[each.name for each in launch.operators] for launch in first] == [
        ["aten::addmm", "aten::linear"],
        ["tile::softmax"],
        ["tile::softmax_backward"],
        ["tile::softmax_backward"],
        [],
    ]


def test_a_launch_that_the_trace_lacks_is_found_by_its_external_id():
    lone = kernel("k", 1020, 5, 1)
    lone["args"]["External id"] = 3
    traced = trace.read([*step(0, 1000, 100, 50), op("aten::relu", 1001, 5, 3), lone])
    assert [each.name for each in traced.launches[0].operators] == ["aten::relu"]


def test_kernels_of_a_graph_have_one_launch():
    traced = trace.read(
        [*step(0, 1000, 100, 50), launched(1002, 5, call="cudaGraphLaunch"), kernel("kernel_softmax", 1010, 4, 5)]
        + [kernel("kernel_mine", 1020, 4, 5), kernel("kernel_tile_fused_add_0", 1030, 4, 5)]
    )
    found = rows.make(traced, None, rows.kernel_key, None, {"kernel_softmax": "softmax"})
    assert {(row.name, row.ours, row.bytes) for row in found} == {
        ("softmax", True, None),
        ("kernel_mine", False, None),
        ("tile_fused_add_0", True, None),
    }


def test_waiting_is_between_launches_of_one_gpu():
    def launch(start, end, device=0):
        return trace.Launch(0, "k", "kernel", start, end, end - start, device)

    assert trace.busy_and_idle([]) == (0, 0)
    assert trace.busy_and_idle([launch(10, 20), launch(15, 18), launch(18, 25), launch(40, 41)]) == (16, 15)
    assert trace.busy_and_idle([launch(10, 20), launch(25, 30, 1), launch(32, 33, 1)]) == (16, 2)


def test_a_report_of_a_gpu_has_medians_and_shares():
    report = gpu_report()
    assert (report.steps, report.launches, report.seconds, report.rest_seconds) == (3, 5, 0.25e-3, None)
    assert report.gpu_seconds == pytest.approx(68e-6) and report.gap_seconds == pytest.approx((9 + 5 + 10) * 1e-6)
    by_name = {row.name: row for row in report.kernels}
    product = by_name["sm90_gemm"]
    assert (product.operator, product.ours, product.launches, product.seconds) == ("aten::addmm", False, 1, 31e-6)
    assert (product.bytes, product.flops, product.dtype) == (3_000_000, 60_000_000, torch.bfloat16)
    assert product.bound == "compute"
    assert product.roof == pytest.approx(max(3_000_000 / 1e12, 60_000_000 / 10e12) / 31e-6)
    assert product.tb_per_s == pytest.approx(3e6 / 31e-6 / 1e12) and product.tflop_per_s == pytest.approx(6e7 / 31e-6 / 1e12)
    softmax = by_name["softmax"]
    assert (softmax.where, softmax.bytes, softmax.flops, softmax.ours) == ("softmax.cpp:12", 1_999_000, None, True)
    assert softmax.bound == "memory" and softmax.roof == pytest.approx(1.999e-6 / 10e-6)
    assert by_name["sum_rows"].bytes is None and by_name["sum_rows"].roof is None
    assert by_name["Memcpy DtoH (Device -> Pageable)"].operator is None
    total = 31 + 10 + 20 + 5 + 2
    assert report.ours == pytest.approx(35 / total) and sum(row.share for row in report.kernels) == pytest.approx(1)


def test_rows_by_operator_add_up_its_kernels():
    by_name = {row.name: row for row in gpu_report().operators}
    assert set(by_name) == {"aten::addmm", "tile::softmax", "tile::softmax_backward", "Memcpy DtoH (Device -> Pageable)"}
    assert by_name["tile::softmax_backward"].launches == 2 and by_name["tile::softmax_backward"].seconds == pytest.approx(25e-6)
    assert by_name["tile::softmax_backward"].bytes is None  # of one of its kernels they are unknown
    assert by_name["tile::softmax"].bytes == 1_999_000 and by_name["tile::softmax"].ours
    assert by_name["aten::addmm"].flops == 60_000_000


def test_operations_are_those_of_the_kernel_that_computes():
    """A product whose bias is copied first, and a convolution that another operator computes."""
    events = [
        *step(0, 1000, 100, 50),
        op("aten::addmm", 1001, 20, 1),
        op("aten::copy_", 1002, 5, 2),
        launched(1003, 1),
        kernel("copy", 1010, 4, 1),
        launched(1010, 2),
        kernel("gemm", 1020, 4, 2),
        op("aten::convolution", 1030, 20, 3),
        op("aten::cudnn_convolution", 1031, 15, 4),
        launched(1035, 3),
        kernel("conv", 1040, 4, 3),
        launched(1036, 4),
        kernel("Memset (Device)", 1038, 1, 4, "gpu_memset"),
        op("aten::convolution_backward", 1060, 20, 5),
        launched(1061, 5),
        kernel("dgrad", 1070, 4, 5),
        launched(1062, 6),
        kernel("wgrad", 1080, 4, 6),
    ]
    half = torch.float16
    known = {1: Count(9, 100, half), 2: Count(4), 3: Count(8, 200, half), 4: Count(8), 5: Count(7, 400, half)}
    traced = trace.read(events)
    counted = rows.Counted(traced.launches, known)
    report = report_of(traced, counted, (1e-4, 1e-4), torch.device("cuda", 0), "A GPU", 1e12, {half: 1e12}.get, {})
    assert {row.name: (row.bytes, row.flops) for row in report.kernels} == {
        "copy": (4, None),
        "gemm": (None, 100),
        "conv": (8, 200),
        "Memset (Device)": (None, None),
        "dgrad": (None, None),
        "wgrad": (None, None),
    }
    assert {row.name: (row.bytes, row.flops) for row in report.operators} == {
        "aten::copy_": (4, None),
        "aten::addmm": (None, 100),
        "aten::cudnn_convolution": (8, 200),
        "aten::convolution_backward": (7, 400),
    }


def test_a_call_that_differs_from_the_counted_one_has_no_bytes():
    assert all(row.bytes is None and row.flops is None for row in gpu_report(counted_steps=2).kernels)


def test_a_report_prints_a_table():
    lines = str(gpu_report()).splitlines()
    assert lines[:3] == [
        "A GPU, medians of 3 calls",
        "a call takes 0.250 ms; the host 0.060 ms; the GPU works 0.068 ms; it waits 0.024 ms between kernels; 5 launches; "
        "our kernels are 51.5 % of its work",
        "roofs: memory 1 TB/s, bfloat16 10 TFLOP/s",
    ]
    assert lines[4].split() == ["kernel", "launches", "us", "share", "MB", "GFLOP", "TB/s", "TFLOP/s", "roof"]
    assert lines[5].split() == "sm90_gemm, aten::addmm 1 31.0 45.6 % 3.00 0.06 0.0968 1.94 19.4 %".split()
    assert lines[6].split()[:3] == ["*", "softmax_backward", "(softmax.cpp:40),"]


def test_a_device_without_work_has_an_empty_table():
    traced = trace.read(step(0, 1000, 100, 50))
    empty = rows.Counted([], {})
    report = report_of(traced, empty, (1e-4, 1e-4), torch.device("cpu"), "A CPU", 1e11, lambda dtype: None, {})
    assert report.kernels == [] and report.ours == 0 and report.rest_seconds == pytest.approx(50e-6)
    assert "roofs: memory 0.1 TB/s" in str(report)


class Moved:
    """Counts of one operator, called with an observer."""

    def __init__(self, call):
        self.seen = []
        tile_ops._C.observe_operators(lambda *each: self.seen.append((each[1], counts.count_operator(*each[1:]))))
        try:
            call()
        finally:
            tile_ops._C.observe_operators(None)

    def of(self, name):
        return [count for seen, count in self.seen if seen == name]


@pytest.mark.parametrize(
    ("name", "call", "expected"),
    [
        ("aten::add", lambda x, y: x + y, 3 * 60),
        ("aten::add", lambda x, y: x + x, 2 * 60),
        ("aten::add_", lambda x, y: x.add_(y), 3 * 60),
        ("aten::add", lambda x, y: torch.add(x, y, out=torch.empty(3, 5)), 3 * 60),
        ("aten::copy_", lambda x, y: x.copy_(y), 2 * 60),
        ("aten::zero_", lambda x, y: x.zero_(), 60),
        ("aten::exp", lambda x, y: x.t()[1:].exp(), 2 * 48),
        ("aten::exp", lambda x, y: x[:1].expand(100, 5).exp(), 20 + 2000),
        ("aten::transpose", lambda x, y: x.t(), 0),
        ("aten::cat", lambda x, y: torch.cat([x, y]), 4 * 60),
        ("aten::index_select", lambda x, y: x.index_select(0, torch.tensor([1])), None),
        ("aten::exp", lambda x, y: x[:0].exp(), 0),
    ],
)
def test_bytes_of_an_operator(name, call, expected):
    x, y = torch.randn(3, 5), torch.randn(3, 5)
    assert Moved(lambda: call(x, y)).of(name)[0].bytes == expected


def test_operations_of_an_operator():
    x, y = torch.randn(3, 5), torch.randn(5, 7, dtype=torch.float32)
    (count,) = Moved(lambda: torch.mm(x, y, out=torch.empty(3, 7))).of("aten::mm")
    assert (count.flops, count.dtype) == (2 * 3 * 5 * 7, torch.float32)
    (count,) = Moved(lambda: tile_ops.matmul(x, y)).of("tile::matmul")
    assert count.flops == 2 * 3 * 5 * 7


def step_on_cpu():
    cpu = torch.device("cpu")
    x = torch.randn(64, 256, device=cpu, requires_grad=True)
    w, bias = torch.randn(128, 256, device=cpu), torch.randn(128, device=cpu)
    table, rows_of_table = torch.randn(1000, 16, device=cpu), torch.tensor([3, 5], device=cpu)

    def call():
        torch.ops.tile.softmax(torch.nn.functional.linear(x, w, bias), -1).sum().backward()
        torch.ops.tile.embedding(table, rows_of_table)

    return call


def test_a_profile_on_a_cpu(tmp_path):
    call = step_on_cpu()
    calls = []
    report = tile_ops.profile(lambda *_, **__: (calls.append(0), call()), 1, steps=2, warmup=1, key=2, bandwidth=0.01, peak=0.1)
    assert len(calls) == 1 + 2 * 2 + 2 and not report.on_gpu and report.steps == 2
    by_name = {row.name: row for row in report.kernels}
    assert by_name["softmax"].bytes == 2 * 64 * 128 * 4 and by_name["softmax"].launches == 1
    assert by_name["softmax"].where.startswith("softmax") and by_name["softmax"].ours
    assert by_name["softmax"].operator in ("tile::softmax", "tile::_softmax_saving")
    assert by_name["aten::addmm"].flops == by_name["aten::mm"].flops == 2 * 64 * 128 * 256
    assert not by_name["aten::mm"].ours and [row.flops for row in report.kernels if row.name == "aten::copy_"] in ([], [None])
    assert next(row for row in report.kernels if row.name.startswith("embedding")).bytes is None
    assert report.rest_seconds >= 0 and 0 < report.ours < 1
    assert "softmax" in str(report) and report.bandwidth == 0.01e12
    report.chrome_trace(tmp_path / "x.json")
    assert "tile kernel softmax" in {each.get("name") for each in json.loads((tmp_path / "x.json").read_text())["traceEvents"]}
    image = pytest.importorskip("PIL.Image")
    report.save(tmp_path / "x.png")
    assert image.open(tmp_path / "x.png").size == (2000, 1200)
    with pytest.raises(ValueError, match="its name ends with .png"):
        report.save(tmp_path / "x.jpg")


def test_a_trace_of_torch_with_shapes_has_the_bytes_of_our_launches(tmp_path):
    x = torch.randn(8, 16)
    torch.ops.tile.softmax(x, -1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        torch.ops.tile.softmax(x, -1)
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    (found,) = (each for each in events if each.get("name") == "tile kernel softmax")
    assert found["args"]["Concrete Inputs"][1:] == ["1024", "1024"]


def test_a_kernel_of_the_user_has_its_line():
    import tile_ops.language as tl

    @tile_ops.kernel
    def double(x, y):
        tl.store(y, (tl.bid(0),), tl.load(x, (tl.bid(0),), (64,)) * 2.0)

    x, y = torch.randn(256), torch.empty(256)
    report = tile_ops.profile(lambda: double[(4,)](x, y), steps=1, warmup=1, bandwidth=0.01)
    (row,) = (row for row in report.kernels if row.ours)
    assert row.name == "double" and row.where.startswith("test_profile.py:") and row.operator is None
    assert (row.bytes, row.launches) == (2 * 1024, 1) and report.operators[0].name == "double"


def test_bad_arguments():
    with pytest.raises(TypeError, match="fn is int; give a function or a module"):
        tile_ops.profile(3)
    with pytest.raises(ValueError, match="steps is 0; give an integer from 1 on"):
        tile_ops.profile(print, steps=0)
    with pytest.raises(ValueError, match="peak is -1; give a positive number, or None to measure it"):
        tile_ops.profile(print, peak=-1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        with pytest.raises(RuntimeError, match="a profiler of torch records already; end it first"):
            tile_ops.profile(print)


def test_an_error_of_the_function_ends_the_profile():
    calls = []

    def fails_late():
        calls.append(0)
        if len(calls) == 4:  # under the profiler
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        tile_ops.profile(fails_late, steps=1, warmup=1)
    assert not torch.autograd._profiler_enabled()
