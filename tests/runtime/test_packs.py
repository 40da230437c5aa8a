"""Packs of compiled kernels: made by NVRTC without a GPU, and used where there is no NVRTC."""

import json
import os
import random
import re
import subprocess
import sys
import zlib

import pytest
import torch
from tile_ops import __main__ as commands
from tile_ops import _C, packs


def tensors():
    return torch.empty(64, 128, device="meta"), torch.empty(128, device="meta")


def two_kernels():
    x, weight = tensors()
    torch.ops.tile.softmax(x, -1)
    torch.ops.tile.rms_norm(x, [128], weight, 1e-6)


def cubins(arch=90):
    return [row["cubin"] for row in _C.inspect("code", arch, 0, two_kernels)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(path, what make() returns) of a pack of two kernels for sm_90, and the texts that it told."""
    path, told = tmp_path_factory.mktemp("packs") / "two.pack", []
    return path, packs.make(path, calls=[two_kernels], archs=["sm_90a"], progress=told.append), told


def test_a_pack_of_two_kernels(made):
    path, result, told = made
    assert result == {"path": str(path), "entries": 2, "bytes": path.stat().st_size, "archs": [90], "failures": []}
    assert told[-1].startswith("2 of 2 kernels, ")
    entries = _C.read_pack(str(path))
    major, minor = _C.nvrtc()[1].split(".")
    assert [entry[1:3] for entry in entries] == [(90, 1000 * int(major) + 10 * int(minor))] * 2
    for _, _, _, size, body in entries:
        assert len(body) < size
        data = zlib.decompress(body)
        assert len(data) == size and data == _C.decompressed(body, size)
    assert sum(data.count(b"\x7fELF") for data in (zlib.decompress(entry[4]) for entry in entries)) == 2


PROGRAM = """
import json, sys
sys.path.insert(0, sys.argv[1])
import torch
from test_packs import cubins, tensors
from tile_ops import _C, packs

def error(call):
    try:
        call()
    except RuntimeError as error:
        return str(error)

x, weight = tensors()
print(json.dumps({
    "cubins": [cubin.hex() for cubin in cubins()],
    "other arch": error(lambda: cubins(80)),
    "other text": error(lambda: _C.inspect("code", 90, 0, lambda: torch.ops.tile.log_softmax(x, -1))),
    "hits": [(pack["path"], pack["hits"]) for pack in packs.found()],
}))
"""


@pytest.mark.slow  # starts a process
def test_a_program_without_nvrtc(made, tmp_path):
    path, record = made[0], tmp_path / "record"
    variables = {"TILE_PACKS": str(path), "TILE_NVRTC": "no/nvrtc", "TILE_CACHE_MB": "0", "TILE_RECORD": str(record)}
    command = [sys.executable, "-c", PROGRAM, os.path.dirname(__file__)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | variables)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["cubins"] == [cubin.hex() for cubin in cubins()]
    assert found["hits"] == [[str(path), 2]]
    assert found["other arch"].startswith("tile::softmax: TILE_NVRTC=no/nvrtc: ")
    assert found["other text"].startswith("tile::log_softmax: TILE_NVRTC=no/nvrtc: ")
    # The record has the kernels of both chips, and makes the same entries.
    kernels = [(name, arch) for name, arch, _ in _C.recorded_kernels(str(record))]
    assert kernels == [("softmax", 90), ("rms_norm", 90), ("softmax", 80), ("log_softmax", 90)]
    again = packs.make(tmp_path / "again.pack", [record], archs=[90])
    assert again["entries"] == 3
    assert set(map(tuple, _C.read_pack(str(path)))) < set(map(tuple, _C.read_pack(str(tmp_path / "again.pack"))))


def test_a_pack_of_other_packs(made, tmp_path):
    path = tmp_path / "copy.pack"
    result = packs.make(path, [made[0], made[0]])
    assert result["entries"] == 2 and path.read_bytes() == made[0].read_bytes()
    with pytest.raises(ValueError, match="there are no kernels for the pack; run the program first"):
        packs.make(path, [made[0]], archs=[80])


CACHED = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from test_packs import cubins
from tile_ops import __main__ as commands

cubins()
commands.main()
"""


@pytest.mark.slow  # starts a process
def test_the_cache_as_a_pack(made, tmp_path):
    path = tmp_path / "cache.pack"
    command = [sys.executable, "-c", CACHED, os.path.dirname(__file__), "pack", str(path), "--arch", "sm_90a"]
    variables = {"TILE_CACHE_DIR": str(tmp_path / "cache"), "TILE_PACKS": "none"}
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | variables)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{path}: 2 kernels for sm_90, ")
    assert [entry[0] for entry in _C.read_pack(str(path))] == [entry[0] for entry in _C.read_pack(str(made[0]))]


def test_a_record_of_a_block(tmp_path):
    path = tmp_path / "record"
    with packs.record(path):
        cubins()
    cubins(80)
    assert [(name, arch) for name, arch, _ in _C.recorded_kernels(str(path))] == [("softmax", 90), ("rms_norm", 90)]


def test_a_chip_that_nvrtc_does_not_know_is_left_out(tmp_path, capsys, monkeypatch):
    record, path = tmp_path / "record", tmp_path / "some.pack"
    with packs.record(record):
        cubins()
    monkeypatch.setattr(sys, "argv", ["tile_ops", "pack", str(path), "--from", str(record), "--arch", "sm_90,sm_999"])
    commands.main()
    out, err = capsys.readouterr()
    assert out.startswith(f"{path}: 2 kernels for sm_90, ")
    text = rf"^left out: softmax for sm_999: NVRTC {re.escape(_C.nvrtc()[1])} cannot compile for sm_999: "
    assert re.search(text, err, re.MULTILINE) and err.count("left out: ") == 2


@pytest.mark.parametrize(
    "arch, text", [("sm_9x", "the arch is 'sm_9x'; write it as sm_90"), (70, "the arch is sm_70, and kernels")]
)
def test_wrong_archs(arch, text, tmp_path):
    with pytest.raises(ValueError, match=text):
        packs.make(tmp_path / "a.pack", archs=[arch])


def test_wrong_files(tmp_path, monkeypatch, capsys):
    other = tmp_path / "other"
    other.write_text("something else")
    for path, text in {
        other: "it is neither a record of kernels nor a pack; give a file of TILE_RECORD or a pack",
        tmp_path / "no": "it cannot be read: No such file or directory; give a record or a pack",
    }.items():
        with pytest.raises(ValueError) as error:
            packs.make(tmp_path / "a.pack", [path])
        assert str(error.value) == f"{path}: {text}"
    with pytest.raises(ValueError) as error:
        packs.load(other)
    assert str(error.value) == f"{other}: it is not a pack; give one that `python -m tile_ops pack` made"
    with pytest.raises(ValueError, match="calls are compiled for the chips in archs"):
        packs.make(tmp_path / "a.pack", calls=[two_kernels])
    monkeypatch.setattr(sys, "argv", ["tile_ops", "pack", str(tmp_path / "a.pack"), "--from", str(other)])
    with pytest.raises(SystemExit) as ended:
        commands.main()
    assert ended.value.code == 1 and capsys.readouterr().err.startswith(f"{other}: it is neither")


def samples(random):
    yield b""
    yield b"a"
    yield bytes(100_000)
    yield random.randbytes(70_000)
    yield bytes(random.choice(b"abcde") for _ in range(40_000))
    for _ in range(40):
        words = [random.randbytes(random.randrange(1, 40)) for _ in range(random.randrange(1, 50))]
        yield b"".join(random.choice(words) for _ in range(random.randrange(1, 400)))


def test_decompression_of_whole_and_damaged_streams():
    source = random.Random(0)
    strategies = [zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED]
    for data in samples(source):
        level, strategy = source.randrange(10), source.choice(strategies)
        packer = zlib.compressobj(level, zlib.DEFLATED, source.randrange(9, 16), source.randrange(1, 10), strategy)
        middle = source.randrange(len(data) + 1)
        body = (
            packer.compress(data[:middle]) + packer.flush(zlib.Z_FULL_FLUSH) + packer.compress(data[middle:]) + packer.flush()
        )
        assert _C.decompressed(body, len(data)) == data
        assert _C.decompressed(body, len(data) + 1) is None
        if data:
            assert _C.decompressed(body, len(data) - 1) is None
            assert _C.decompressed(body[: source.randrange(len(body))], len(data)) is None
        for _ in range(20):
            flipped = bytearray(body)
            flipped[source.randrange(len(body))] ^= 1 << source.randrange(8)
            # A flipped bit may change no data, for example in the stream's header.
            assert _C.decompressed(bytes(flipped), len(data)) in (data, None)
