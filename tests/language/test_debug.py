"""kernel.debug: the Python of a kernel, run as it is, gives what a launch gives."""

import dataclasses
import os
import subprocess
import sys

import pytest
import tile_ops.language as tl
import torch
from python_programs import PROGRAMS

from tile_ops import cutile as ct


def both(kernel, grid, make):
    """The arguments after a launch and after debugging."""
    arguments = []
    for run in (lambda *given: kernel[grid](*given), lambda *given: kernel.debug(grid, *given)):
        torch.manual_seed(3)
        given = make()
        run(*given)
        arguments.append(given)
    return arguments


def same(kernel, grid, make):
    launched, debugged = both(kernel, grid, make)
    for one, other in zip(launched, debugged):
        if isinstance(one, torch.Tensor):
            torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
    return debugged


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    """Bits differ only where the compiler contracts operations of floats into one."""
    torch.manual_seed(7)
    kernel, grid, launched, wanted = PROGRAMS[name]()
    torch.manual_seed(7)
    _, _, debugged, _ = PROGRAMS[name]()
    kernel[grid](*launched)
    kernel.debug(grid, *debugged)
    for index in wanted:
        one, other = launched[index], debugged[index]
        tolerance = 4 * torch.finfo(one.dtype).eps if one.dtype.is_floating_point else 0
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance * max(1, one.abs().max().item()))


def helper(x, n):
    for _ in range(n):
        x = x + 1
    return x


@tl.function
def marked(x):
    return min(x, 5)


@tl.kernel
def control(x, out, count, wide: tl.ScalarInt64, scale: float, N: tl.Constant[int]):
    i = tl.bid(0)
    tile = tl.load(x, i, N)
    total = 0
    for k in range(1, count, 2):
        if k == 5:
            continue
        if k > 8:
            break
        total = total + k
    while total > 10 and not total == 3:
        total -= 3
    half = total / 2 if total > 4 else total * 1.0
    square = lambda v: v * v  # noqa: E731
    tile = square(helper(tile, 3)) * scale + half + marked(total)
    tile = tl.where((tile > 3) & ~(tile > 100), -tile, abs(tile)) % 7 // 1
    for n in tl.static_iter(range(2)):
        tile = tile + tl.static_eval(n * 10)
    tl.static_assert(N == 16)
    if i == 2:
        tl.store(out, i, tl.full((N,), 7, out.dtype))
        return
    tl.store(out, i, (tile + wide.astype(tl.float32) + tl.int16(3)).astype(out.dtype))


@pytest.mark.parametrize("count", [0, 4, 11, 20])
def test_control_flow(count):
    same(control, 4, lambda: (torch.randn(60) * 4, torch.zeros(60), count, 2**33, 0.5, 16))


DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64,
          torch.uint32, torch.bool]  # fmt: skip


@tl.kernel
def cast_and_add(x, y, out, low):
    a, b = tl.load(x, 0, 32), tl.load(y, 0, 32)
    tl.store(out, 0, (a + b.astype(a.dtype)).astype(out.dtype) if a.dtype != tl.bool_ else a & (b != 0))
    tl.store(low, 0, tl.load(y, 0, 32).astype(tl.float8_e4m3fn))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes(dtype):
    def make():
        x = (torch.randn(32) * 3).to(dtype)
        low = torch.zeros(32, dtype=torch.float8_e4m3fn).view(torch.uint8).view(torch.float8_e4m3fn)
        return x, torch.randn(32), torch.zeros(32, dtype=dtype), low

    launched, debugged = both(cast_and_add, 1, make)
    assert torch.equal(launched[2], debugged[2])
    assert torch.equal(launched[3].view(torch.uint8), debugged[3].view(torch.uint8))


@dataclasses.dataclass(frozen=True)
class Pair:
    first: object
    second: object

    def both(self, index):
        return tl.load(self.first, index, 8) + tl.load(self.second, index, 8)


@tl.kernel
def structured(pair, sides, listed, out, k):
    value = pair.both(0) + tl.load(sides[0], 0, 8) * sides[1] + tl.load(listed[k], 0, 8)
    tl.store(out, 0, value + len(listed))


def test_structured_arguments():
    def make():
        a, b, c, d, e = torch.randn(5, 8)
        return Pair(a, b), (c, 2.5), [d, e], torch.zeros(8), 1

    launched, debugged = both(structured, 1, make)
    torch.testing.assert_close(launched[3], debugged[3], rtol=1e-6, atol=1e-6)  # one is by FMA


@tl.kernel
def memory(x, counts, out, raw):
    i = tl.bid(0)
    view = x.tiled_view((2, 4), padding_mode=tl.PaddingMode.NAN)
    tile = view.load((i, view.num_tiles(1) - 1))
    part = x.slice(0, 1, 3)
    extra = tl.load(part, (0, 0), (2, 4))
    rows = tl.arange(8, dtype=tl.int32)
    tl.atomic_add(counts, rows % 3, 1)
    picked = tl.gather(x, (rows % 2, rows))
    view = out.tiled_view((2, 4))
    view.store((i, 0), tl.where(tl.isnan(tile), 0.0, tile) + extra * part.shape[0] + x.strides[0])
    tl.scatter(raw, rows, picked)
    memory = raw.get_raw_memory()
    memory.store_offset(rows + 8, memory.load_offset(rows) * 2)


def test_memory():
    def make():
        counts = torch.zeros(3, dtype=torch.int32)
        return torch.arange(45.0).reshape(5, 9), counts, torch.zeros(4, 4), torch.zeros(16)

    _, counts, _, _ = same(memory, 2, make)
    assert counts.tolist() == [6, 6, 4]


@tl.kernel
def reductions(x, out, n):
    tile = tl.load(x, (0, 0), (4, 8))
    shift = tl.load(x, (0, 0), (1, 1)).reshape(())
    scaled = tl.reduce(tile, 1, lambda a, b: tl.maximum(a, b), -1e9)
    value, place = tl.reduce((tile, tl.broadcast_to(tl.arange(8, dtype=tl.int32), (4, 8))), 1,
                             lambda a, i, b, j: (tl.where(a >= b, a, b), tl.where(a >= b, i, j)), (-1e9, 0))  # fmt: skip
    running = tl.scan(tile, 1, lambda a, b: a + b, 0.0)
    total = tl.sum(running, axis=1) + scaled + value + place + tl.uniform((4,), 1) + shift
    tl.store(out, 0, total + n)


def test_reductions_and_random_numbers():
    launched, debugged = both(reductions, 1, lambda: (torch.randn(4, 8), torch.zeros(4), 3))
    torch.testing.assert_close(launched[1], debugged[1], rtol=1e-6, atol=1e-5)


@tl.kernel
def stops(x, out):
    tile = tl.load(x, tl.bid(0), 4)
    breakpoint()
    tl.store(out, tl.bid(0), tile + 1)


def test_breakpoint(monkeypatch):
    seen = []

    def hook():
        frame = sys._getframe(1)
        seen.append((frame.f_lineno, frame.f_locals["tile"].tensor.clone(), repr(frame.f_locals["tile"])))

    monkeypatch.setattr(sys, "breakpointhook", hook)
    x, out = torch.arange(8.0), torch.zeros(8)
    stops.debug(2, x, out)
    line = stops._pyfunc.__code__.co_firstlineno + 3
    assert [each[0] for each in seen] == [line, line]
    assert torch.equal(torch.cat([each[1] for each in seen]), x.cpu())
    assert seen[0][2] == f"Tile[float32,(4)] {torch.arange(4.0, device='cpu')}"
    assert torch.equal(out, x + 1)


def test_a_debugger_sees_the_lines():
    lines = []

    def trace(frame, event, _):
        if frame.f_code.co_filename == __file__ and frame.f_code.co_name == "control":
            if event == "line":
                lines.append(frame.f_lineno)
            return trace
        return trace if event == "call" else None

    sys.settrace(trace)
    try:
        control.debug(1, torch.randn(16), torch.zeros(16), 4, 0, 0.5, 16)
    finally:
        sys.settrace(None)
    first = control._pyfunc.__code__.co_firstlineno
    assert lines[:3] == [first + 2, first + 3, first + 4] and max(lines) > first + 15


@tl.kernel
def prints(x):
    tile = tl.load(x, 0, 2)
    print("tile", tile, f"{tl.sum(tile):.2f}", tl.bid(0))


def test_print(capsys):
    prints.debug(1, torch.tensor([1.0, 2.5]))
    assert capsys.readouterr().out == "tile tensor([1.0000, 2.5000]) 3.50 0\n"


def raises(kind, message, kernel, grid, *arguments):
    with pytest.raises(kind) as error:
        kernel.debug(grid, *arguments)
    assert str(error.value) == message, str(error.value)
    return error


@tl.kernel
def asserts(x):
    i = tl.bid(0)
    tile = tl.load(x, i, 4)
    assert tile < 6, "all are small"


@tl.kernel
def mismatched(x):
    a = tl.load(x, 0, 4)
    b = tl.load(x, 0, 8)
    tl.store(x, 0, a + b)


@tl.kernel
def branches(x):
    if tl.load(x, 0, 4) > 2:
        tl.store(x, 0, 1)


@tl.kernel
def named(x):
    tl.store(x, 0, tl.load(x, 0, 4).sume())


@tl.kernel
def truncated(x):
    tl.store(x, 0, tl.full((4,), int(tl.load(x, 0, ())), tl.float32))


def test_mistakes():
    x = torch.arange(8.0)
    asserts.debug(1, x)
    line = asserts._pyfunc.__code__.co_firstlineno + 4
    raises(RuntimeError, f"{os.path.basename(__file__)}:{line}:1: assertion failed: all are small; element [2] of bool[4] "
                         "in block (1, 0, 0) of kernel asserts", asserts, 2, x)  # fmt: skip
    error = raises(tl.TileTypeError, "add: shapes (4) and (8) are not broadcastable; extents must be equal or 1, counted "
                                     "from the last axis", mismatched, 1, x)  # fmt: skip
    assert any(entry.lineno + 1 == mismatched._pyfunc.__code__.co_firstlineno + 4 for entry in error.traceback)
    raises(tl.TileTypeError, "Expected a scalar, got Tile[bool_,(4)]; combine the elements of a condition with & and |, "
           "compare in a chain by two comparisons, and write not as tl.logical_not()", branches, 1, x)  # fmt: skip
    raises(
        AttributeError, "No such attribute 'sume' for object of type Tile[float32,(4)]; did you mean tl.sum(tile)?", named, 1, x
    )
    raises(tl.TileTypeError, "int() expects a constant argument, got Tile[float32,()]; use astype()", truncated, 1, x)
    raises(TypeError, "named() takes 1 positional argument but 2 were given", named, 1, x, x)
    raises(TypeError, "the grid is 'x'; give a tuple of one to three integers, or a function of the arguments that gives "
                      "one", named, "x", x)  # fmt: skip
    with pytest.raises(RuntimeError, match="Device functions can only be called from device code."):
        tl.bid(0)  # no kernel runs any more


@ct.kernel
def of_cutile(x, out):
    i = ct.bid(0)
    ct.store(out, index=(i,), tile=ct.load(x, index=(i,), shape=(4,)) * 2)


def test_cutile():
    same(of_cutile, (2, 1, 1), lambda: (torch.randn(8), torch.zeros(8)))


SCRIPT = """
import sys
import torch
import tile_ops.language as tl

@tl.kernel
def add(x, y, out, N: tl.Constant[int]):
    i = tl.bid(0)
    tile = tl.load(x, i, N) + tl.load(y, i, N)
    print(type(tile.tensor).__name__)
    tl.store(out, i, tile)

x, y, out = torch.randn(3, 8)
add[lambda x, y, out, n: (2,)](x, y, out, 4)
add.launch(2, x, y, out, 4)
assert torch.equal(out, x + y) and isinstance(add, tl.kernel)
assert add.compiled_count == 0
"""


@pytest.mark.slow
def test_the_variable(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)

    def run(value):
        environment = {**os.environ, "TILE_DEBUG": value, "PYTHONPATH": os.pathsep.join(sys.path)}
        return subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, timeout=100)

    done = run("python")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Tensor\n" * 4
    assert (
        "ValueError: TILE_DEBUG=yes: it is python, which runs kernels as Python; unset it or set it to that"
        in run("yes").stderr
    )
