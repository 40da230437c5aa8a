"""Tile kernels as torch operators: loads libtile_ops.so and forwards names to torch.ops.tile."""

import importlib.util
import pathlib

import torch

__version__ = "0.1.0"

_folder = pathlib.Path(__file__).resolve().parent
cmake_prefix_path = str(_folder / "share" / "cmake")


def _check_torch(built: str, present: str) -> None:
    if built.split(".")[:2] != present.split(".")[:2]:
        built_minor = ".".join(built.split(".")[:2])
        raise ImportError(
            f"tile_ops {__version__} was built for torch {built_minor}, but torch {present} is installed; run "
            f"`pip install 'torch=={built_minor}.*'`, or in the sources of tile_ops "
            "`pip install --no-build-isolation --no-deps --force-reinstall .`"
        )


def _load() -> None:
    library = _folder / "lib" / "libtile_ops.so"
    if not library.exists():
        raise ImportError(f"tile_ops {__version__} is not built: there is no {library}; run `make` in its sources")
    _check_torch((_folder / "lib" / "torch_version.txt").read_text().strip(), str(torch.__version__))
    torch.ops.load_library(str(library))


_load()

if importlib.util.find_spec("tile_ops._C"):  # a build without Python.h lacks it
    from . import _compile, _log, _operator_calls

    _compile.register()

from . import _sharding  # noqa: E402
from ._doctor import doctor  # noqa: E402, F401
from ._flops import register_flop_formulas, register_if_cheap  # noqa: E402, F401
from ._inspect import inspect  # noqa: E402, F401
from ._sharding import register_sharding  # noqa: E402, F401
from ._synchronize import synchronize  # noqa: E402, F401
from .functional import dropout, gated_linear, linear, matmul, rope_, scaled_dot_product_attention  # noqa: E402, F401

register_if_cheap()
del register_if_cheap
_sharding.start()

# Names that most programs do not need; their modules are imported when the names are first used.
_imported_late = {
    "derive": "_derive",
    "Derivative": "_derive",
    "kernel": "language",
    "op": "_operators",
    "TorchOp": "_operators",
    "elementwise": "_operators",
    "reduction": "_operators",
    "cuda_kernel": "_cuda_kernel",
    "CudaKernel": "_cuda_kernel",
    "enable_inductor_fusion": "_inductor",
    "disable_inductor_fusion": "_inductor",
    "aoti_compile_and_package": "_compile.package",
    "compile_report": "_compile.report",
    "patch": "_patching",
    "profile": "_profile",
    "unpatch": "_patching",
}


def __getattr__(name: str):
    if name.startswith("_"):
        raise AttributeError(f"module 'tile_ops' has no attribute {name!r}")
    if name in _imported_late:
        value = globals()[name] = getattr(importlib.import_module(f"tile_ops.{_imported_late[name]}"), name)
        return value
    if importlib.util.find_spec(f"tile_ops.{name}"):
        return importlib.import_module(f"tile_ops.{name}")
    try:
        value = getattr(torch.ops.tile, name)
    except AttributeError:
        import difflib

        close = difflib.get_close_matches(name, __dir__(), 1, 0.75)
        raise AttributeError(
            f"module 'tile_ops' has no attribute {name!r}, and torch.ops.tile no such operator"
            + (f"; did you mean {close[0]}?" if close else "")
        ) from None
    globals()[name] = value
    return value


def __dir__():
    operators = {
        full.split("::")[1].split(".")[0]
        for full in torch._C._dispatch_get_all_op_names()
        if full.startswith("tile::") and not full.startswith("tile::_")
    }
    modules = {path.stem for path in _folder.glob("[a-z]*.py")} | {
        path.parent.name for path in _folder.glob("[a-z]*/__init__.py")
    }
    own = {name for name, value in globals().items() if not name.startswith("_") and not isinstance(value, type(torch))}
    return sorted(own | modules | operators | set(_imported_late) | {"__version__"})
