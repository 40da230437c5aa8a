"""The parts of tuning: copies of tensors, measuring, what a choice rests on, and the disk."""

import pathlib
import threading

import fresh_process
import pytest
import tile_ops.language as tl
import torch
from tile_ops.language.tuning import copies, keys, measure

CONFIGS = [{"N": 64}, {"N": 128}]


@tl.kernel
def double(x, N: tl.Constant[int]):
    tl.store(x, 0, tl.load(x, 0, N) * 2)


def test_copies():
    memory = torch.arange(1000, dtype=torch.int16)
    a, b, c = memory[5:50:3], memory[20:30], torch.empty(0)
    d = torch.ones(4).expand(3, 4)
    made = copies.Copies((a, 3, (b, [c, d]), None))
    first, three, (second, [third, fourth]), nothing = made.arguments
    assert three == 3 and nothing is None and third is c
    for old, new in ((a, first), (b, second), (d, fourth)):
        assert torch.equal(old, new) and old.stride() == new.stride() and old.data_ptr() != new.data_ptr()
        assert (old.data_ptr() - new.data_ptr()) % 256 == 0
    first.zero_()  # they overlap as those given do
    assert second[0].item() == 0 and memory.tolist() == list(range(1000))
    made.note_changes()
    made.restore()
    assert torch.equal(first, a) and torch.equal(second, b)


def test_measuring():
    ran = []

    def slow():
        threading.Event().wait(0.002)

    candidates = [
        measure.Candidate(lambda: ran.append("run"), lambda: ran.append("before")),
        measure.Candidate(slow),
        measure.Candidate(lambda: 1 / 0),
        measure.Candidate(lambda: None, error=KeyError()),
    ]
    measure.measure(candidates, torch.device("cpu"), seconds=0, least=5)
    assert [len(each.times) for each in candidates] == [5, 3, 0, 0]
    assert ran == ["before", "run"] * 5 and isinstance(candidates[2].error, ZeroDivisionError)
    late = measure.Candidate(slow)
    measure.measure([late], torch.device("cpu"), limit=0.001)
    assert str(late.error).startswith("a run took 0.00") and str(late.error).endswith(" s; the limit is 0.001 s")


def test_what_a_choice_rests_on():
    def of(function=double, configs=CONFIGS, device="cpu", key="k"):
        return keys.digest(function._pyfunc, False, configs, torch.device(device), key)

    def helper(x):
        return x + 1

    def outer(x, n):
        return helper(x)

    assert of() == of() and len(of()) == 32
    assert len({of(), of(configs=CONFIGS[:1]), of(key="l"), of(configs=[{"N": tl.float32}])}) == 4
    assert "return x + 1" in keys.source_text(outer)
    assert keys.constant_text((1, 1.0, True, "a", torch.float16, tl.PaddingMode.NAN, helper)) == (
        "(1, 1.0, True, 'a', float16, PaddingMode.NAN,     def helper(x):\n        return x + 1\n)"
    )


PROGRAM = """
import sys
import torch
import tile_ops.language as tl

@tl.kernel
def double(x, out, N: tl.Constant[int]):
    tl.store(out, tl.bid(0), 2 * tl.load(x, tl.bid(0), N))

kernel = double.tune([{"N": 16}, {"N": 32}])
x = torch.randn(64)
out = torch.zeros(64)
kernel[lambda x, out, n: 64 // n](x, out)
assert torch.equal(out, 2 * x)
print("stored" if kernel.table(x, out).stored else "measured")
"""


def run_program(path, folder, **variables):
    status, written = fresh_process.run(path, path.parent, TILE_CACHE_DIR=str(folder), **variables)
    assert status == 0, written
    return written.strip()


@pytest.mark.slow
def test_the_disk(tmp_path):
    path, folder = tmp_path / "program.py", tmp_path / "cache"
    path.write_text(PROGRAM)
    assert [run_program(path, folder) for _ in range(2)] == ["measured", "stored"]
    (entry,) = pathlib.Path(folder).rglob("*.bin")
    entry.write_bytes(entry.read_bytes()[:-3] + b"abc")
    assert [run_program(path, folder) for _ in range(2)] == ["measured", "stored"]
    path.write_text(PROGRAM.replace("2 * tl.load", "tl.load(out, tl.bid(0), N) + 2 * tl.load"))
    assert run_program(path, folder) == "measured"
    assert run_program(path, folder, TILE_CACHE_MB="0") == "measured"
    assert run_program(path, "/dev/null/none") == "measured"  # nothing can be written there
