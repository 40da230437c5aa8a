"""The host's time of a warm call, from Python and C++: our operators with one result, raw kernels and generated code,
against torch.add and inductor; and that of derived gradients, against ours by hand.

    python benchmarks/host.py [--write] [--device cpu]

Tensors are small, so that the GPU has finished before the next call; median of interleaved rounds, in each of which the
queue stays short. --device cpu: times the whole call, including its work, to try this program. --write: writes
results/host-<chip>.md."""

import argparse
import dataclasses
import gc
import pathlib
import statistics
import sys
import time
from typing import Callable

import derivatives
import generated_calls
import measure
import raw_launch
import torch
from report import Table, cpu_name, driver, file_name
from torch.nn import functional as F

HEAD = ["call", "tensors", "us", "beside the first", "us with gradient", "beside the first", "bars"]
COUNT, ROUNDS = 200, 25
SECONDS = 60  # for each part of the table


@dataclasses.dataclass
class Call:
    """make(inputs) returns a function of a count, which returns nanoseconds per call."""

    name: str
    tensors: int
    make: Callable
    allowed: float | None = None  # microseconds more than the first call of the part may take
    fraction: float | None = None  # or the part of its time that it may take


def repeated(call):
    """Times a call from Python."""

    def run(count):
        start = time.perf_counter_ns()
        for _ in range(count):
            call()
        return (time.perf_counter_ns() - start) / count

    return run


def python_calls():
    ops = torch.ops

    def triton(x, y, w):
        import triton_add

        return repeated(lambda: triton_add.add(x, y))

    yield Call("torch.add", 3, lambda x, y, w: repeated(lambda: torch.add(x, y)))
    yield Call("ours, a kernel of 3 tensors", 3, lambda x, y, w: repeated(lambda: ops.bench.add(x, y)), 0.5)
    # No list of arguments is made, because that takes time that does not belong to the call.
    yield Call(
        "ours, a kernel of 10 tensors", 10, lambda x, y, w: repeated(lambda: ops.bench.add9(x, y, y, y, y, y, y, y, y)), 0.5
    )
    yield Call("ours, softmax", 2, lambda x, y, w: repeated(lambda: ops.tile.softmax(x, 1)), 0.5)
    yield Call("ours, rms_norm", 3, lambda x, y, w: repeated(lambda: ops.tile.rms_norm(x, [64], w, 1e-5)), 0.5)
    yield Call("torch.softmax", 2, lambda x, y, w: repeated(lambda: torch.softmax(x, 1)))
    yield Call("torch's rms_norm", 3, lambda x, y, w: repeated(lambda: F.rms_norm(x, [64], w, 1e-5)))
    yield Call("Triton, a kernel of 3 tensors", 3, triton)


def cpp_calls():
    def of(what):
        return lambda x, y, w: lambda count: torch.ops.bench.time_calls(what, x, y, count)

    yield Call("at::add", 3, of("at::add"))
    yield Call("ours, a kernel of 3 tensors", 3, of("add"), 0)
    yield Call("ours, a kernel of 10 tensors", 10, of("add9"), 0)
    yield Call("ours, softmax", 2, of("softmax"), 0)
    yield Call("ours, rms_norm", 3, of("rms_norm"), 0)
    yield Call("at::softmax", 2, of("at::softmax"))


def raw_calls():
    yield Call("torch.cuda._compile_kernel", 2, lambda x, y, w: repeated(raw_launch.theirs(x.detach()[0], y[0])))
    yield Call("tile_ops.cuda_kernel", 2, lambda x, y, w: repeated(raw_launch.ours(x.detach()[0], y[0])), fraction=0.5)


def generated():
    def of(make):
        return lambda x, y, w: repeated(make(x, y))

    yield Call("inductor's", 3, of(generated_calls.inductors))
    yield Call("ours, CompiledCall", 3, of(generated_calls.compiled_call), 2)
    yield Call("ours, CompiledCall with sizes of run time", 3, of(generated_calls.with_run_time_sizes), 2)
    yield Call("ours, kernel[grid]", 3, of(generated_calls.plain_launch))


def gradient_calls():
    """Yields two parts for each operator, its gradient and the call before it: by hand, and derived from a kernel in Python. Of
    these calls only that of the product saves something."""
    tile = torch.ops.tile
    for name, derived, by_hand, shapes in (
        ("rms norm", derivatives.rms_norm, lambda x, w: tile.rms_norm(x, w.shape, w, 1e-5), [(8, 64), (64,)]),
        (
            "layer norm",
            derivatives.layer_norm,
            lambda x, w, b: tile.layer_norm(x, w.shape, w, b, 1e-5),
            [(8, 64), (64,), (64,)],
        ),
        ("softmax", derivatives.softmax, lambda x: tile.softmax(x, -1), [(8, 64)]),
        ("swiglu", derivatives.swiglu, lambda gate, up: tile.swiglu(gate, up), [(8, 64), (8, 64)]),
        (
            "product",
            derivatives.matmul,
            lambda x, w, b: tile.matmul(x, w, bias=b, activation="silu"),
            [(64, 64), (64, 64), (64,)],
        ),
    ):

        def of(function, backward, shapes=shapes):
            def make(x, y, w):
                inputs = [torch.randn(shape, device=x.device, requires_grad=True) for shape in shapes]
                return repeated(derivatives.gradients(function, inputs) if backward else lambda: function(*inputs))

            return make

        for what, backward in (("gradient", True), ("call", False)):
            calls = [
                Call("ours by hand", len(shapes), of(by_hand, backward)),
                Call("derived", len(shapes), of(derived, backward)),
            ]
            yield f"{what} of {name} {str(list(shapes[0])).replace(' ', '')}", calls


def medians(runs, synchronize):
    """Returns nanoseconds per call for each entry of a dict, run alternately."""
    for run in runs.values():
        run(20)
    taken = {name: [] for name in runs}
    gc.collect()
    gc.disable()
    try:
        for _ in range(ROUNDS):
            for name, run in runs.items():
                synchronize()
                taken[name].append(run(COUNT))
    finally:
        gc.enable()
        synchronize()
    return {name: statistics.median(values) for name, values in taken.items()}


def measured(calls, grad, device, complain):
    """Returns the microseconds of each call that runs here."""
    synchronize = torch.cuda.synchronize if device == "cuda" else lambda: None
    x = torch.randn(64, 64, device=device, requires_grad=grad)
    y, w = torch.randn(64, 64, device=device), torch.randn(64, device=device)
    runs = {}
    with torch.set_grad_enabled(grad):
        for call in calls:
            try:
                run = call.make(x, y, w)
                run(3)
                synchronize()
                runs[call.name] = run
            except Exception as error:  # such as a peer that is not installed
                complain(f"{call.name} is left out: {measure.reason(error)}")
        return {name: 1e-3 * value for name, value in medians(runs, synchronize).items()}


def bar(call, own, first):
    """Returns the bar of a call, from its times without and with a gradient and those of the first call."""
    pairs = [(a, b) for a, b in zip(own, first) if a is not None and b is not None]
    if not pairs or (call.allowed is None and call.fraction is None):
        return ""
    if call.fraction is not None:
        text, reached = f"{call.fraction:g} of the first", all(a <= call.fraction * b for a, b in pairs)
    else:
        text, reached = (
            f"the first + {call.allowed:g} us" if call.allowed else "the first",
            all(a <= b + call.allowed for a, b in pairs),
        )
    return text + ("" if reached else ", missed")


def rows(part, calls, device, grads=(False, True)):
    """Yields the rows of a part of the table; a part that fails becomes one row that says so."""
    complain = lambda text: print(f"{part}: {text}", file=sys.stderr, flush=True)  # noqa: E731
    calls = list(calls)
    try:
        with measure.time_limit(SECONDS):
            silent = lambda text: None  # noqa: E731
            found = [measured(calls, grad, device, silent if grad and len(grads) > 1 else complain) for grad in grads]
    except Exception as error:
        yield [f"{part}: failed, {measure.reason(error)}"]
        return
    found = [{}, *found] if grads == (True,) else found + [{}] * (2 - len(found))
    first = [times.get(calls[0].name) for times in found]
    for call in calls:
        own = [times.get(call.name) for times in found]
        if all(each is None for each in own):
            continue
        cells = [f"{part}: {call.name}", str(call.tensors)]
        for a, b in zip(own, first):
            cells += ["" if a is None else f"{a:.2f}", "" if a is None or b is None or call is calls[0] else f"{a - b:+.2f}"]
        yield [*cells, bar(call, own, first)]


def load_operators():
    """Loads torch.ops.bench of benchmarks/cpp, built like a user's library. Returns the reason if that fails."""
    root = pathlib.Path(__file__).resolve().parent.parent
    sys.path.append(str(root / "examples"))
    import build_cpp

    try:
        library = build_cpp.build(build_cpp.FOLDER.parent / "benchmarks", ("host_costs",), root / "benchmarks" / "cpp")
        torch.ops.load_library(str(library))
    except (RuntimeError, OSError) as error:
        print(f"benchmarks/cpp is not built, and its rows are left out: {error}", file=sys.stderr, flush=True)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", action="store_true", help="write the table into results/")
    options.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    options = options.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("benchmarks/host.py needs a GPU that torch sees; --device cpu times whole calls on the CPU")
    load_operators()
    where = (
        f"{torch.cuda.get_device_name()}, driver {driver()}"
        if options.device == "cuda"
        else "no GPU: whole calls, with their work"
    )
    words = [
        f"{cpu_name()}; {where}; torch {torch.__version__}. The host's microseconds of a warm call on float32 [64,64], "
        "medians of",
        f"{ROUNDS} interleaved rounds of {COUNT} calls. tensors: those that a kernel reads and writes. beside the "
        "first: what a call costs more",
        "than the first of its part. Made by `python benchmarks/host.py --write`.",
    ]
    table = Table("The host's time of a call", words, HEAD, {"call", "bars"})
    parts = [("Python", python_calls(), (False, True)), ("C++", cpp_calls(), (False, True))]
    parts.append(("generated code", generated(), (False,)))
    if options.device == "cuda":
        parts.append(("CUDA C++ from a string", raw_calls(), (False,)))
    parts += [(part, calls, (True,)) for part, calls in gradient_calls()]
    for part, calls, grads in parts:
        for cells in rows(part, calls, options.device, grads):
            table.add(*cells)
    if options.write and options.device == "cuda":
        table.write(file_name("host", torch.cuda.get_device_name()))


if __name__ == "__main__":
    main()
