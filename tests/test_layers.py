"""The structure of the sources: includes and imports go down only, operators call no ATen compute."""

import pathlib
import re
import subprocess

import pytest
import tile_ops
import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"

# The folders that a folder of csrc may include besides itself. Folders of csrc/cpu and files of csrc/tile have rows, too.
CORE = "ir support"
TARGETS = f"derive dsl passes cpu cuda {CORE}"
RUNTIME = f"runtime driver {TARGETS}"
ARROWS = {
    "support": "",
    "ir": "support",
    "dsl": CORE,
    "prims": f"dsl {CORE}",
    "passes": CORE,
    "derive": f"passes prims dsl {CORE}",
    "cpu/vecmath": CORE,
    "cpu/gemm": f"cpu/vecmath {CORE}",
    "cpu/interpreter": f"cpu/gemm cpu/vecmath {CORE}",
    "cpu/prims": f"cpu/interpreter cpu/gemm cpu/vecmath {CORE}",
    "cpu/fusion": f"cpu/interpreter cpu/gemm cpu/vecmath {CORE}",
    "cpu/jit": f"cpu/fusion cpu/interpreter cpu/gemm cpu/vecmath {CORE}",
    "cpu/exec": f"cpu/jit cpu/fusion cpu/interpreter cpu/gemm cpu/vecmath {CORE}",
    "cuda": CORE,
    "driver": "support",
    "runtime": f"driver {TARGETS}",
    "raw_cuda": RUNTIME,
    "torch": f"raw_cuda {RUNTIME}",
    "tile.h": f"dsl prims {CORE}",
    "tile/op.h": f"tile.h torch prims {RUNTIME}",
    "expr": f"tile/op.h tile.h torch prims {RUNTIME}",
    "tile": f"expr tile/op.h tile.h torch raw_cuda prims {RUNTIME}",
    "python": f"derive tile expr tile/op.h tile.h torch raw_cuda {RUNTIME}",
}
# Tables of data that a target may read to attach its bodies.
TABLES = re.compile(r"prims/[\w/]+\.def")
# Factories, views and copies: all of ATen that the library may call. Compute is written in our own language.
ATEN = """
    _fw_primal alias as_strided clone contiguous copy_ detach empty empty_like empty_permuted empty_strided expand expand_as
    flatten full full_like movedim narrow new_empty new_empty_strided new_zeros ones permute randint reshape
    scalar_tensor select slice squeeze stack to t transpose unflatten unsqueeze view view_as zero_ zeros zeros_like
    resize_ set_data
""".split()
# Headers of ATen and c10 that an operator may include. ATen/Context has the precision of float32 that torch allows.
OPERATOR_INCLUDES = re.compile(r"(ATen/Context|ATen/core/Tensor|ATen/ops/(%s)|c10/\w+/\w+)\.h" % "|".join(ATEN))

SOURCES = [
    path
    for pattern in ("csrc", "tile_ops", "python", "tests", "benchmarks", "examples", "cmake")
    for path in sorted((ROOT / pattern).rglob("*"))
    if path.suffix in (".cpp", ".h", ".def", ".cuh", ".py")
    and not {"include", "lib", "share", "__pycache__", "build"} & set(path.relative_to(ROOT).parts)
]


def includes(path: pathlib.Path, quotes: str) -> list[str]:
    left, right = quotes
    pattern = rf'^\s*#\s*include\s*{left}([^"<>]+){right}'
    return re.findall(pattern, path.read_text(), re.MULTILINE)


def relative(path: pathlib.Path) -> str:
    return str(path.relative_to(ROOT))


def layer(path: pathlib.PurePath) -> str:
    """The row of ARROWS that csrc/<path> belongs to."""
    two = "/".join(path.parts[:2])
    return two if two in ARROWS else path.parts[0]


def wrong_arrows(path: pathlib.PurePath, included: list[str]) -> list[str]:
    """The includes of csrc/<path> that its layer does not allow."""
    own = layer(path)
    allowed = set(ARROWS.get(own, "").split()) | {own}
    wrong = []
    for name in included:
        table = path.parts[0] in ("cpu", "cuda") and TABLES.fullmatch(name)
        at = pathlib.PurePath(name)
        if not table and layer(at) not in allowed and at.parts[0] not in allowed:
            wrong.append(f"csrc/{path} includes {name}")
    return wrong


def test_every_folder_of_csrc_has_a_layer():
    parents = [CSRC, CSRC / "cpu"]
    folders = {str(path.relative_to(CSRC)) for parent in parents for path in parent.iterdir()} - {"cpu"}
    assert folders <= set(ARROWS)


def test_every_folder_of_csrc_has_tests():
    folders = {path.name for path in CSRC.iterdir() if any(path.glob("*.cpp"))}
    assert folders <= {path.parent.name for path in (ROOT / "tests").glob("*/*") if path.suffix in (".cpp", ".py")}


def test_includes_of_csrc_go_down():
    wrong = []
    for path in SOURCES:
        if CSRC in path.parents:
            wrong += wrong_arrows(path.relative_to(CSRC), includes(path, '""'))
    assert wrong == []


@pytest.mark.parametrize(
    "path, included, count",
    [
        ("ir/op.h", "support/error.h", 0),
        ("ir/op.h", "dsl/tile.h", 1),
        ("cpu/prims/elementwise.cpp", "prims/elementwise/bits.def", 0),
        ("cpu/prims/elementwise.cpp", "prims/elementwise.h", 1),
        ("dsl/tile.h", "prims/elementwise/bits.def", 1),
        ("cpu/fusion/fused_loop.h", "cpu/jit/fused_loop_code.h", 1),
        ("cpu/jit/fused_loop_code.h", "cpu/fusion/fused_loop.h", 0),
        ("driver/driver.h", "ir/op.h", 1),
        ("runtime/kernel.h", "cpu/exec/program.h", 0),
        ("torch/op.h", "runtime/kernel.h", 0),
        ("tile/op.h", "tile.h", 0),
    ],
)
def test_the_check_itself(path, included, count):
    assert len(wrong_arrows(pathlib.PurePath(path), [included])) == count


def test_included_files_exist():
    missing = []
    for path in SOURCES:
        for name in includes(path, '""'):
            if not any((folder / name).exists() for folder in (CSRC, path.parent, ROOT / "tests")):
                missing.append(f"{relative(path)} includes {name}")
    assert missing == []


def test_core_is_std_only():
    wrong = []
    for path in SOURCES:
        inside = CSRC in path.parents and layer(path.relative_to(CSRC)) not in ("torch", "tile", "tile/op.h", "expr", "python")
        for name in includes(path, "<>") if inside else []:
            if re.match(r"(torch|ATen|c10|pybind11|Python\.h|cuda)", name):
                wrong.append(f"{relative(path)} includes <{name}>")
    assert wrong == []


def test_only_the_python_module_includes_python():
    users = [relative(path) for path in SOURCES if {"Python.h", "torch/extension.h"} & set(includes(path, "<>"))]
    assert {str(pathlib.PurePath(user).parent) for user in users} <= {"csrc/python"}


def test_no_header_of_ours_hides_one_of_torch():
    # csrc is before torch on the include path.
    roots = [pathlib.Path(torch.__file__).parent / "include"]
    roots.append(roots[0] / "torch/csrc/api/include")
    headers = [path.relative_to(CSRC) for path in CSRC.rglob("*.h")]
    assert [str(h) for h in headers if any((root / h).exists() for root in roots)] == []


def test_operators_include_what_authors_include():
    wrong = []
    for path in sorted((ROOT / "tile_ops").rglob("*.*")):
        own = [name for name in includes(path, '""') if not re.fullmatch(r"tile\.h|tile/\w+\.h", name)]
        wrong += [f"{relative(path)} includes {name}" for name in own if not (path.parent / name).exists()]
        for name in includes(path, "<>"):
            if "/" in name and not OPERATOR_INCLUDES.fullmatch(name):
                wrong.append(f"{relative(path)} includes <{name}>")
    assert wrong == []


def test_library_calls_no_aten_compute_function():
    # Functions and methods of at::Tensor alike end in at::_ops::<name>::call, a symbol that the library needs.
    library = pathlib.Path(tile_ops.__file__).parent / "lib" / "libtile_ops.so"
    text = subprocess.run(["nm", "-DC", "--undefined-only", str(library)], capture_output=True, text=True, check=True).stdout
    called = set(re.findall(r"at::_ops::(\w+)::(?:call|redispatch)\(", text))
    compute = {name for name in called if not any(name == a or name.startswith(a + "_") for a in ATEN)}
    assert compute == set()


def test_python_imports_go_down():
    # The package imports torch and itself; tests and benchmarks are never imported by it.
    wrong = []
    for path in sorted((ROOT / "python").rglob("*.py")):
        for name in re.findall(r"^\s*(?:from|import)\s+([\w.]+)", path.read_text(), re.MULTILINE):
            if name.split(".")[0] in ("tests", "benchmarks", "examples", "numpy"):
                wrong.append(f"{relative(path)} imports {name}")
    assert wrong == []


# A folder of the Python language may import what is listed here, and itself; the files outside of them import all.
LANGUAGE = {
    "core": "",
    "functions": "core",
    "translator": "core functions",
    "tuning": "core arguments arrays",
    "debug": "core functions translator arguments arrays",
    "printer": "core functions",
}


def test_the_python_language_imports_down():
    root, wrong = ROOT / "python" / "tile_ops" / "language", []
    assert {path.name for path in root.iterdir() if path.is_dir() and path.name[0] != "_"} == set(LANGUAGE)
    for folder, allowed in LANGUAGE.items():
        for path in sorted((root / folder).glob("*.py")):
            for name in re.findall(r"^\s*from \.\.(?!\._C)(\w*)", path.read_text(), re.MULTILINE):
                if name not in allowed.split():
                    wrong.append(f"{relative(path)} imports {name or 'what is above'}")
    assert wrong == []
