"""Every operator's kernels are within their gates: registers, spills, shared memory and NVRTC's warnings of lost speed.

All texts are made, which takes seconds. Compiled are those whose hash is not in the table, and of the others one call's, another
one each day: all take minutes (`python tests/cuda/gates.py --all`)."""

import dataclasses
import datetime
import random

import gate_calls
import gates
import pytest


@pytest.fixture(scope="module")
def table():
    return gates.read()


def test_kernels_are_within_their_gates(table):
    known, version = table
    found = gates.wanted(gate_calls.jobs())
    compiled = gates.unknown(found, known)
    if version == gates.nvrtc():  # another one's figures are others
        day = random.Random(datetime.date.today().toordinal())
        compiled |= {job: found[job] for job in day.sample(sorted(found, key=str), 1)}
    broken = list(gates.broken(known, gates.compiled(compiled)))
    assert not broken, "\n".join([*broken, f"where that is wanted: {gates.COMMAND}"])


def test_the_table_is_as_it_would_be_written(table, tmp_path):
    gates.write(table[0], tmp_path / "gates.txt")
    lines = gates.TABLE.read_text().splitlines()
    assert (tmp_path / "gates.txt").read_text().splitlines()[2:] == lines[2:] and lines[0] == gates.HEAD


def test_what_a_gate_lets_through():
    gate = gates.Gate("call", "float32", 90, "kernel.1", "0", 128, 100, 16, 8, 4096, "-")
    worse = dataclasses.replace(gate, registers=101, spilled=20, hash="1")
    assert list(gates.broken([gate], [gate, dataclasses.replace(gate, registers=9, spilled=0)])) == []
    assert list(gates.broken([gate], [worse])) == ["call float32 90 kernel.1: registers 101 > 100, spilled 20 > 16"]
    assert list(gates.broken([], [gate])) == ["call float32 90 kernel.1: spilled 16 > 0"]
    assert list(gates.broken([gate], [dataclasses.replace(gate, loss="wgmma is serialized")])) == ["call float32 90 kernel.1: wgmma is serialized"]
    job = (90, "float32", "call")
    found = {job: {0: (gate.key, "0")}}
    assert gates.unknown(found, [gate]) == {} and gates.unknown(found, [worse]) == found == gates.unknown(found, [])
