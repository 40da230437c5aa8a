"""Every operator's kernels are within their gates: registers, spills, shared memory and NVRTC's warnings of lost speed.

To make the texts of all calls takes minutes: a run without --long makes those of a sixth of the calls, another sixth after
each change of the sources.
Only texts whose hash is not in the table are compiled, and one of the others, which the texts themselves decide
(`python tests/cuda/gates.py --all` compiles all)."""

import dataclasses
import hashlib
import random

import gate_calls
import gates
import pytest
from tile_ops import _C

ROOT = gates.HERE.parent.parent


@pytest.fixture(scope="module")
def table():
    return gates.read()


def sixth(jobs):
    sources = hashlib.sha256()
    for path in sorted(path for folder in ("csrc", "tile_ops") for path in (ROOT / folder).rglob("*.*")):
        sources.update(path.read_bytes())
    return random.Random(sources.digest()).sample(jobs, len(jobs) // 6)


@pytest.mark.slow
def test_kernels_are_within_their_gates(table, long):
    known, version = table
    jobs = list(gate_calls.jobs())
    if not long:
        jobs = sixth(jobs)
    found, new = gates.brought_up(jobs, known)
    if version == gates.nvrtc():  # another one's figures are others
        digest = hashlib.sha256(" ".join(sorted(text.hash for text in found)).encode()).hexdigest()
        new += gates.compiled([found[int(digest, 16) % len(found)]])
    broken = list(gates.broken(known, new))
    assert not broken, "\n".join([*broken, f"where that is wanted: {gates.COMMAND}"])


def test_every_operator_has_gates_for_every_arch(table):
    """In its usual configuration; on two chips also in all others that differ. A variant on those, in bfloat16."""
    known = {(gate.call, gate.dtype, gate.arch, gate.configuration == "usual") for gate in table[0]}
    for name in gate_calls.CALLS:
        if name in gate_calls.VARIANTS:
            assert {(name, "bfloat16", arch, True) for arch in gate_calls.ARCHS} <= known
            continue
        for arch in gate_calls.ARCHS:
            assert {(name, dtype, arch, True) for dtype in ("float32", "float16", "bfloat16")} <= known
            assert (name, "bfloat16", arch, False) in known
        assert {(name, "bfloat16", arch, True) for arch in gate_calls.OTHER_ARCHS} <= known
    assert set(gate_calls.VARIANTS) < set(gate_calls.CALLS)
    assert len(gate_calls.OTHER_ARCHS) == 3 and gate_calls.ARCHS == (80, 90)


def test_the_table_is_as_it_would_be_written(table, tmp_path):
    gates.write(table[0], tmp_path / "gates.txt")
    lines = gates.TABLE.read_text().splitlines()
    assert (tmp_path / "gates.txt").read_text().splitlines()[2:] == lines[2:] and lines[0] == gates.HEAD


def test_what_a_gate_lets_through():
    gate = gates.Gate("call", "float32", 90, "kernel.1", "usual", "0", 128, 100, 16, 8, 4096, "ok", "-")
    other = dataclasses.replace(gate, configuration="single_CTA", hash="2")
    worse = dataclasses.replace(gate, registers=101, spilled=20, hash="1")
    assert list(gates.broken([gate], [gate, dataclasses.replace(gate, registers=9, spilled=0)])) == []
    assert list(gates.broken([gate], [worse])) == ["call float32 90 kernel.1 usual: registers 101 > 100, spilled 20 > 16"]
    more = dataclasses.replace(gate, shared=4097, local=9)
    assert list(gates.broken([gate], [more])) == ["call float32 90 kernel.1 usual: local 9 > 8, shared 4097 > 4096"]
    assert list(gates.broken([gate], [dataclasses.replace(gate, warning="wgmma is serialized")])) == [
        "call float32 90 kernel.1 usual: wgmma is serialized"
    ]
    # A kernel without a gate: what runs of it must not spill. A configuration more of one that has a gate may be
    # anything.
    assert list(gates.broken([], [gate, other])) == ["call float32 90 kernel.1 usual: spilled 16 > 0"]
    fallback = dataclasses.replace(gate, spilled=2000, status="fallback")
    assert list(gates.broken([], [fallback, dataclasses.replace(other, spilled=0)])) == []
    assert list(gates.broken([], [fallback, other])) == ["call float32 90 kernel.1 single_CTA: spilled 16 > 0"]
    assert list(gates.broken([gate], [other])) == []


def test_a_hash_is_of_what_the_text_includes(tmp_path):
    for name, line in {"a": '#include "cuda/device/b.cuh"', "b": "int b;", "c": "int c;"}.items():
        (tmp_path / f"{name}.cuh").write_text(line + "\n")
    text = '// "x.cuh"\n#include "cuda/device/a.cuh"\nint x;\n'
    assert gates.with_included(text, tmp_path) == text + '#include "cuda/device/b.cuh"\nint b;\n'
    assert gates.code_of("// a\nint x;  // b\n  // c\nchar y = '/';\n") == "int x;\nchar y = '/';\n"
    row = next(iter(_C.inspect("usual", 90, 0, lambda: gate_calls.call("softmax[8192,8192]", gate_calls.f32))))
    included = gates.with_included(row["text"])
    assert "TILE_KERNEL(...)" in included and "mma_sync" not in included  # machine.cuh, far below; no tensor cores
    assert gates.hash_of(row["text"], 90) != gates.hash_of(row["text"], 80)


def test_what_is_compiled():
    job = (90, gate_calls.f32, "softmax[8192,8192]")
    usual = list(gates.wanted([job], []))
    assert {text.key[:3] for text in usual} == {("softmax[8192,8192]", "float32", 90)}
    assert {text.key[4] for text in usual} == {"usual"} and len({text.hash for text in usual}) == len(usual) > 1
    assert gates.unknown(usual, []) == usual

    def gate(text, **figures):
        return dataclasses.replace(gates.Gate(*text.key, text.hash, 128, 100, 0, 0, 0, "ok", "-"), **figures)

    table = [gate(text) for text in usual]
    assert gates.unknown(usual, table) == [] and list(gates.wanted([job], table)) == usual
    assert gates.unknown(usual, [dataclasses.replace(table[0], hash="0"), *table[1:]]) == [usual[0]]
    # If the usual configuration is not acceptable, the other configurations of that kernel are wanted too; a call may
    # ask for all of them.
    table[0] = dataclasses.replace(table[0], status="fallback")
    others = gates.unknown(gates.wanted([job], table), table)
    assert (
        {text.key[:4] for text in others} == {usual[0].key[:4]} and "usual" not in {text.key[4] for text in others} and others
    )
    every = list(gates.wanted([job], [], others=lambda job: True))
    assert [text for text in every if text.key[4] == "usual"] == usual and set(others) < set(every)
