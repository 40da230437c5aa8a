"""Runs kernels made for a GPU on the CPU: compiles their CUDA C++ with the host's compiler, many programs a file, and
launches them."""

import concurrent.futures
import ctypes
import dataclasses
import functools
import hashlib
import math
import os
import pathlib
import re
import shutil
import struct
import subprocess

import torch
from built import BUILD
from tile_ops import _C

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
EMULATOR, CSRC = ROOT / "tests" / "cuda" / "emulator", ROOT / "csrc"
DEVICE = CSRC / "cuda" / "device"
TEXT = [CSRC / "support" / "text.h", CSRC / "support" / "text.cpp"]  # of reports
FOLDER = BUILD / "emulated"
# The dialect that NVRTC is given; products and sums are not fused, and integers do not wrap.
FLAGS = [
    "-std=c++17",
    "-O0",
    "-w",
    "-fPIC",
    "-ffp-contract=off",
    "-U_FORTIFY_SOURCE",
    f"-I{EMULATOR}",
    f"-I{ROOT}/tests",
    f"-I{CSRC}",
]
BATCH = 25  # programs a file
KEPT = 2000  # compiled files, several runs of the suite
H200 = 227 * 1024  # bytes of shared memory a block
PERSISTENT_BLOCKS = 3  # that run at once, each of them several blocks of the grid
PERSISTENT_PAIRS = 2
NO_PAIRS, HINTED_PAIRS, ALL_PAIRS = range(3)


@dataclasses.dataclass
class Case:
    """One launch; its arrays are written in place."""

    text: str  # Tile IR
    grid: tuple
    arguments: list
    passes: bool = True
    arch: int = 90
    shared_bytes: int = H200
    block_bytes: int = 64 * 1024  # of tiles that the registers of a block hold
    cluster_blocks: int = 16
    wgmma: bool = False
    panels_in_turn: bool = False  # of an epilogue
    pairs: int = HINTED_PAIRS  # which kernels run in pairs of blocks

    @functools.cached_property
    def program(self):
        return _C.cuda_program(
            numbered(self.text),
            self.arguments,
            self.arch,
            self.passes,
            self.shared_bytes,
            self.block_bytes,
            self.cluster_blocks,
            self.wgmma,
            self.panels_in_turn,
            self.pairs,
        )


def numbered(text):
    """Tile IR whose ops know their line of the text, which reports then name."""
    return "\n".join(
        line if not line.strip(" }") or line.endswith("{") or "//" in line else f"{line}  // ir:{i}"
        for i, line in enumerate(text.split("\n"), 1)
    )


def compiler():
    return os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")


@functools.cache
def headers():
    """A digest of all that a program includes, and of the compiler."""
    digest = hashlib.sha256(subprocess.run([compiler(), "--version"], capture_output=True).stdout)
    for path in sorted([*DEVICE.iterdir(), *EMULATOR.rglob("*.*"), *TEXT]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def made(folder, suffix, text, flags):
    """Returns the file that the compiler makes of C++ text in the folder, or that of an earlier run."""
    name = hashlib.sha256("\0".join([text, headers(), *flags]).encode()).hexdigest()[:24]
    path = folder / f"{name}{suffix}"
    try:
        os.utime(path)  # one step, because another process may delete old files
        return path
    except FileNotFoundError:
        pass
    folder.mkdir(parents=True, exist_ok=True)
    source, new = folder / f"{name}.{os.getpid()}.cpp", folder / f"{name}.{os.getpid()}.new"
    source.write_text(text)
    done = subprocess.run([compiler(), *flags, str(source), "-o", str(new)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{source} does not compile:\n{done.stderr[:8000]}")
    source.unlink()
    new.replace(path)
    return path


def compiled(text, flags):
    """The shared library made of C++ text."""
    # A C++ library that some compilers put into each file stays its own: its locales would else be another's.
    return made(FOLDER, ".so", text, [*flags, "-shared", "-Wl,--exclude-libs,libstdc++.a"])


@functools.cache
def device_library():
    """The device library as a header, compiled once for all programs: parsing it takes a third of a second."""
    text = "\n".join(
        [*(f'#include "cuda/device/{path.name}"' for path in sorted(DEVICE.glob("*.cuh"))), '#include "call.h"', ""]
    )
    header = made(FOLDER / "header", ".h.gch", text, [*FLAGS, "-x", "c++-header"]).with_suffix("")
    if not header.exists():
        header.write_text(text)  # of compilers that do not find the compiled one
    return header


def last_use(path):
    """When the file was used, or 0 if another process has deleted it."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0


def clean():
    """Deletes old compiled files and keeps those that were used last."""
    for pattern, kept in (("*.so", KEPT), ("header/*.gch", 2)):
        for path in sorted(FOLDER.glob(pattern), key=last_use, reverse=True)[kept:]:
            path.unlink(missing_ok=True)


@functools.cache
def emulator():
    sources = [*sorted(map(str, EMULATOR.glob("*.cpp"))), str(TEXT[1])]
    flags = ["-std=c++20", "-O2", *FLAGS[2:], *sources]
    function = ctypes.CDLL(str(compiled("", flags)), mode=ctypes.RTLD_GLOBAL).tile_emulate
    function.argtypes, function.restype = [ctypes.c_void_p], ctypes.c_char_p
    return function


def batch_text(programs):
    """One file of many programs. Each is in a namespace of its own within the device library's, in which it finds
    the names that it would find there."""
    lines = [f'#include "{device_library()}"']
    for i, program in enumerate(programs):
        lines += [f"namespace tile::program_{i}::math {{ using namespace tile::math; }}", f"#define tile tile::program_{i}"]
        lines += [f'#line 1 "{program["entry"]}.cu"', program["text"].rstrip(), "#undef tile"]
        lines += [
            f'extern "C" void program_{i}(void** arguments) {{',
            f"  tile::emulator::call(tile::program_{i}::{program['entry']}, arguments);",
            "}",
        ]
    return "\n".join(lines) + "\n"


known = {}  # the compiled function of a program's text


def functions(programs):
    """Those of these programs too."""
    emulator(), device_library()  # before threads ask for them
    new = list({program["text"]: program for program in programs if program["text"] not in known}.values())
    batches = [new[i : i + BATCH] for i in range(0, len(new), BATCH)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        libraries = list(pool.map(lambda batch: ctypes.CDLL(str(compiled(batch_text(batch), FLAGS))), batches))
    clean()
    for library, batch in zip(libraries, batches):
        known.update((program["text"], library[f"program_{i}"]) for i, program in enumerate(batch))
    return known


class Array(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("element_bytes", ctypes.c_int64),
        ("rank", ctypes.c_int64),
        ("sizes", ctypes.c_int64 * 8),
        ("strides", ctypes.c_int64 * 8),
        ("parameter", ctypes.c_int64),
    ]


class Launch(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("kernel", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p),
        ("threads", ctypes.c_int32),
        ("shared_bytes", ctypes.c_int32),
        ("cluster", ctypes.c_int32),
        ("grid", ctypes.c_int32 * 3),
        ("array_count", ctypes.c_int32),
        ("arrays", ctypes.c_void_p),
    ]


def parameters_of(arguments):
    """(address, bytes of an element, sizes, strides) of a tensor, the bytes of a scalar."""
    for a in arguments:
        if isinstance(a, torch.Tensor):
            if a.device.type != "cpu":
                raise ValueError(f"the emulator takes tensors of the CPU, got one on {a.device}")
            yield a.data_ptr(), a.itemsize, a.shape, a.stride()
        elif isinstance(a, ctypes.c_float):
            yield struct.pack("f", a.value)
        elif isinstance(a, ctypes.c_int64):
            yield struct.pack("q", a.value)
        else:
            yield struct.pack("?" if isinstance(a, bool) else "i" if isinstance(a, int) else "d", a)


def packed(parameter, wide):
    """Packs a parameter as a launch does, see csrc/cuda/program.h. wide: True if its extents have 64 bits."""
    if isinstance(parameter, bytes):
        return ctypes.create_string_buffer(parameter, 8)
    address, _, sizes, strides = parameter
    n = len(sizes) or 1
    form = f"@Q{n}q{n}{'q' if wide else 'i'}"
    return ctypes.create_string_buffer(struct.pack(form, address, *(strides or [1]), *(sizes or [1])))


def tensor_map(of, parameters):
    """Encodes a map of Program.tensor_maps for the emulator: the fields that the hardware's encoding hides, in as many
    bytes. The emulator checks the last number of the head."""
    address, element_bytes, *_ = array = parameters[of["parameter"]]
    sizes, strides, box = _C.tensor_map(of["parameter"], of["unit"], of["box"], of["swizzle"], of.get("sliced", -1), array)
    # As in a launch, the unused stride of an axis of one element is one that the hardware takes.
    strides = strides[:1] + [stride if size > 1 else 16 for size, stride in zip(sizes[1:], strides[1:])]
    unused = [0] * (5 - len(sizes))
    dimensions = [number for pair in zip(sizes + unused, box + unused) for number in pair]
    head = struct.pack("<QIIII", address, len(sizes), element_bytes, of["swizzle"], 0x54494C45)
    fields = head + struct.pack("<10I5qI", *dimensions, *strides, *unused, of.get("rounds", 0))
    memory = ctypes.create_string_buffer(128 + 64)
    aligned = (ctypes.c_char * 128).from_buffer(memory, -ctypes.addressof(memory) % 64)
    aligned[: len(fields)] = fields
    return aligned


def launch(program, function, grid, parameters):
    """Runs it; what was wrong, or None. In a tuple: what an assertion of the kernel says."""
    wide = {int(number) for number in re.findall(r", i64> p(\d+)", program["text"])}
    failed = (ctypes.c_uint32 * 5)()  # the word of all kernels, and this one's record
    place = struct.pack("@QQ", ctypes.addressof(failed), ctypes.addressof(failed) + 4)
    buffer_of = {
        "argument": lambda i: packed(parameters[i], i in wide),
        "grid": lambda i: ctypes.create_string_buffer(struct.pack("@i", grid[i])),
        "tensor_map": lambda i: tensor_map(program["tensor_maps"][i], parameters),
        "block_counter": lambda i: ctypes.create_string_buffer(struct.pack("@I", 7)),
        "failures": lambda i: ctypes.create_string_buffer(place),
        "starts_early": lambda i: ctypes.create_string_buffer(4),
    }
    buffers = [buffer_of[kind](i) for kind, i in program["parameters"]]
    pointers = (ctypes.c_void_p * len(buffers))(*map(ctypes.addressof, buffers))
    arrays = [
        Array(p[0], p[1], len(p[2]), (ctypes.c_int64 * 8)(*p[2]), (ctypes.c_int64 * 8)(*p[3]), i)
        for i, p in enumerate(parameters)
        if not isinstance(p, bytes)
    ]
    arrays = (Array * len(arrays))(*arrays)
    cluster = program["cluster"]
    axis = program.get("pair_axis", -1)
    if axis >= 0:
        pairs = math.prod(-(-extent // 2) if i == axis else extent for i, extent in enumerate(grid))
        blocks = (1, min(pairs, PERSISTENT_PAIRS), 1)
    else:
        blocks = (min(math.prod(grid), PERSISTENT_BLOCKS), 1, 1) if program.get("persistent") else grid
    call = Launch(
        program["entry"].encode(),
        ctypes.cast(function, ctypes.c_void_p),
        ctypes.addressof(pointers),
        program["threads"],
        program["shared_bytes"],
        cluster,
        (ctypes.c_int32 * 3)(blocks[0] * cluster, *blocks[1:]),
        len(arrays),
        ctypes.addressof(arrays),
    )
    report = emulator()(ctypes.byref(call))
    if report or not failed[0]:
        return report.decode() if report else None
    _, number, element, x, others = failed
    return (_C.failure_text(program["assertions"][number - 1], element, (x // cluster, others & 65535, others >> 16)),)


def run(cases):
    """Runs the cases; for each what was wrong, or None."""
    functions([case.program for case in cases])
    return [launch(case.program, known[case.program["text"]], case.grid, list(parameters_of(case.arguments))) for case in cases]


def run_changed(case, text):
    """Runs a case whose program has another text; what was wrong, or None."""
    program = {**case.program, "text": text}
    return launch(program, functions([program])[text], case.grid, list(parameters_of(case.arguments)))


def run_ir(text, grid, arguments, passes=True):
    """As _C.run_ir, on the emulator."""
    case = Case(text, grid, arguments, passes)
    (report,) = run([case])
    if isinstance(report, tuple):
        raise RuntimeError(*report)
    if report:
        raise RuntimeError(f"{report}\n{numbered(text)}\n{case.program['text']}")


def same_on_both(launches, **options):
    """Runs each (text, grid, arguments) here and on the CPU: every array is the same afterwards, bit for bit; values are
    whole numbers. options: of Case. Returns the cases."""
    cases, expected = [], []
    for text, grid, arguments in launches:
        theirs = [a.detach().clone() if isinstance(a, torch.Tensor) else a for a in arguments]
        _C.run_ir(text, grid, theirs)
        expected.append(theirs)
        cases.append(Case(text, grid, arguments, **options))
    for case, theirs, report in zip(cases, expected, run(cases)):
        assert report is None, f"{report}\n{numbered(case.text)}\n{case.program['text']}"
        for got, wanted in zip(case.arguments, theirs):
            if isinstance(got, torch.Tensor):
                assert torch.equal(got, wanted), f"{numbered(case.text)}\n{case.program['text']}"
    return cases


def entry(text):
    return re.search(r"TILE_KERNEL\([\d, ]+\)\s+(\w+)", text)[1]


def compile_texts(texts):
    """Kernels written by hand that run_text is to run, together: a file of many is compiled sooner than many files."""
    functions([{"text": text, "entry": entry(text)} for text in texts])


def run_text(text, threads, shared_bytes, arguments, grid=(1, 1, 1), cluster=1, tensor_maps=()):
    """A kernel written by hand, in the text that programs have; a grid of clusters. Tensor maps are rows as those of
    _C.cuda_program; the kernel takes them behind its arguments."""
    program = {"text": text, "entry": entry(text), "threads": threads, "cluster": cluster, "shared_bytes": shared_bytes}
    program["tensor_maps"] = tensor_maps
    kinds = (("argument", arguments), ("tensor_map", tensor_maps))
    program["parameters"] = [(kind, i) for kind, values in kinds for i in range(len(values))]
    return launch(program, functions([program])[text], grid, list(parameters_of(arguments)))
