"""Writes the type stubs of tile_ops, tile_ops.language and tile_ops.cutile, of the registries and of language.pyi.in."""

import inspect
import pathlib
import re
import textwrap

import tile_ops
import tile_ops.cutile as cutile
import tile_ops.language as language
from tile_ops import _C
from tile_ops._operator_docs import docs
from tile_ops.language.core.registry import METHODS, LanguageFunction
from tile_ops.language.functions.elements import AT_OFFSETS
from tile_ops.language.functions.memory import slice_, tiled_view, view_load, view_num_tiles, view_store
from tile_ops.language.functions.shared_memory import VIEW_CHANGES
from tile_ops.language.functions.static import SpecialForm

HERE = pathlib.Path(__file__).parent
PACKAGE = HERE.parents[1] / "python" / "tile_ops"
# Types of parameters by name; others are TileLike.
TYPES = {
    "array": "Array", "index": "Index", "indices": "Any", "shape": "Shape", "tile_shape": "Shape", "dtype": "DTypeLike",
    "axis": "int", "axis0": "int | None", "axis1": "int | None", "axes": "Sequence[int]", "size": "int", "divisor": "int",
    "order": "Order", "padding_mode": "PaddingMode", "rounding_mode": "RoundingMode | None", "memory_order": "MemoryOrder",
    "memory_scope": "MemoryScope", "check_bounds": "bool", "latency": "int | None", "allow_tma": "bool | None",
    "flush_to_zero": "bool", "keepdims": "bool", "reverse": "bool", "propagate_nan": "bool", "use_fast_acc": "bool",
    "mask": "Tile | bool | None", "message": "str | None", "format": "str", "sep": "str", "end": "str", "args": "Any",
    "func": "Callable[..., Any]", "identity": "Any", "tiles": "Sequence[Tile]", "traversal_steps": "Shape | None",
    "start": "TileLike", "stop": "TileLike", "n": "int", "configs": "Sequence[dict[str, Any]]", "grid": "Grid", "passes": "bool",
    "verbose": "bool", "arguments": "Any", "named": "Any", "hints": "Any", "key": "Any",
}  # fmt: skip
# Types of single functions' parameters, and result types by function; others return a Tile.
OWN = {("reduce", "x"): "Any", ("scan", "x"): "Any", ("astile", "value"): "Any", ("ensure_constant", "value"): "_T",
       **{(name, "axis"): "int | tuple[int, ...] | None" for name in ("max", "min", "prod", "sum")},
       **{(name, "axis"): "int | None" for name in ("argmax", "argmin")}}  # fmt: skip
RETURNS = {
    **dict.fromkeys(("bid", "num_blocks", "num_tiles"), "Scalar"),
    **dict.fromkeys(("store", "store_advanced_indexing", "scatter", "store_offset", "print", "printf", "assert_",
                     "grid_dependency_control_launch_dependents", "grid_dependency_control_wait", "static_assert", "debug",
                     "check"), "None"),
    **dict.fromkeys((name for name in VIEW_CHANGES), "None"),
    **dict.fromkeys(("reduce", "scan", "static_eval", "static_iter"), "Any"),
    "divmod": "tuple[Tile, Tile]", "next_power_of_2": "int", "ensure_constant": "_T", "cdiv": "Any", "slice": "Array", "tiled_view": "TiledView",
    "assume_divisible_by": "Scalar", "item": "Scalar", "replace_hints": "kernel", "tune": "Tuned", "ir": "str",
}  # fmt: skip


def doc(function, indent="    "):
    text = inspect.cleandoc(function.__doc__).replace("\\", "\\\\")
    width = 120 - len(indent)
    lines = "\n".join(textwrap.fill(each, width) if len(each) > width else each for each in text.split("\n"))
    return textwrap.indent(f'"""{lines}"""' if "\n" not in lines else f'"""{lines}\n"""', indent)


def default(value):
    return "..." if not isinstance(value, (bool, int, str, float, type(None))) else repr(value)


def declaration(name, function, method=False, indent=""):
    """def name(...) -> ...: with its doc; method: the first parameter is self."""
    parts, kind, previous = [], inspect.Parameter, None
    parameters = list(inspect.signature(function).parameters.values())
    if method and not inspect.isfunction(function):
        parts.append("self")
        parameters = parameters[1:]
    for each in parameters:
        if each.name == "self":
            parts.append("self")
            continue
        if previous is kind.POSITIONAL_ONLY and each.kind is not kind.POSITIONAL_ONLY:
            parts.append("/")
        if each.kind is kind.KEYWORD_ONLY and previous not in (kind.KEYWORD_ONLY, kind.VAR_POSITIONAL):
            parts.append("*")
        stars = {kind.VAR_POSITIONAL: "*", kind.VAR_KEYWORD: "**"}.get(each.kind, "")
        type_ = OWN.get((name, each.name)) or TYPES.get(each.name, "TileLike")
        if each.default is None and "None" not in type_ and type_ != "Any":
            type_ += " | None"
        parts.append(f"{stars}{each.name}: {type_}" + ("" if each.default is each.empty else f" = {default(each.default)}"))
        previous = each.kind
    if previous is kind.POSITIONAL_ONLY and parts[-1] != "self":
        parts.append("/")
    head = f"{indent}def {name}({', '.join(parts)}) -> {RETURNS.get(name, 'Tile')}:"
    if len(head) > 120:
        inner = "".join(f"\n{indent}    {part}," for part in parts)
        head = f"{indent}def {name}({inner}\n{indent}) -> {RETURNS.get(name, 'Tile')}:"
    return f"{head}\n{doc(function, indent + '    ')}\n"


def special(name, form):
    """A function of its arguments' text; to a type checker, of values."""
    given = list(inspect.signature(form._function).parameters.values())[1:]
    parts = [f"{each.name}: Any" + ("" if each.default is each.empty else " = None") for each in given]
    return f"def {name}({', '.join(parts)}, /) -> {RETURNS[name]}:\n{doc(form)}\n"


def names(module, kind):
    return [name for name in sorted(module.__all__) if isinstance(getattr(module, name), kind)]


def language_stub():
    methods = {name: declaration(name, function, True, "    ") for name, function in METHODS.items()}
    if "item" not in methods:
        raise AssertionError("tiles have lost item()")
    views = {"load": view_load, "store": view_store, "num_tiles": view_num_tiles, **VIEW_CHANGES}
    errors = [name for name in names(language, type) if issubclass(getattr(language, name), Exception)]
    of_kernel = ("replace_hints", "tune", "debug", "ir", "check")
    functions = [declaration(name, getattr(language, name)) for name in names(language, LanguageFunction)]
    functions += [special(name, getattr(language, name)) for name in names(language, SpecialForm)]
    made = {
        "ERRORS": "\n".join(f"    {name} as {name}," for name in errors),
        "METHODS": "\n".join(methods.values()),
        "RAW_MEMORY": "\n".join(declaration(each.__name__, each, True, "    ") for each in AT_OFFSETS.values()),
        "VIEW": "\n".join(declaration(name, each, True, "    ") for name, each in views.items()),
        "ARRAY": "\n".join(declaration(each.__name__, each, True, "    ") for each in (slice_, tiled_view)),
        "KERNEL": textwrap.indent(inspect.cleandoc(language.kernel.__doc__), "    ").strip() + "\n    ",
        "MEMBERS": "\n".join(
            declaration(name, inspect.unwrap(getattr(language.kernel, name)), True, "    ") for name in of_kernel
        ),
        "DTYPES": "\n".join(f"{name}: DType" for name in names(language, language.DType)),
        "FUNCTIONS": "\n".join(functions),
    }
    text = (HERE / "language.pyi.in").read_text()
    for name, part in made.items():
        text = re.sub(rf"\b{name}\b", lambda _: part, text, count=1)
    return text.rstrip("\n") + "\n"


def cutile_stub():
    public = [name for name in cutile.__all__ if hasattr(language, name)]
    lines = ["# Made by docs/stubs/make.py.", f'"""{inspect.cleandoc(cutile.__doc__)}\n"""', ""]
    lines += ["from contextlib import AbstractContextManager", "from typing import Any", "", "from .. import language", ""]
    lines += [f"from ..language import {name} as {name}" for name in sorted(public)]
    lines += ["from . import tune as tune", "", "def launch("]
    lines += ["    stream: Any,", "    grid: tuple[int, ...],", "    kernel: language.kernel,"]
    lines += ["    kernel_args: tuple[Any, ...],", "    /,", "    *,", "    programmatic_dependent_launch: bool = False,"]
    lines += [") -> None:", doc(cutile.launch), ""]
    lines += ["def compiler_timeout(seconds: float) -> AbstractContextManager[None]:", doc(cutile.compiler_timeout), ""]
    lines += ["def install() -> None:", doc(cutile.install)]
    return "\n".join(lines) + "\n"


SCHEMA_TYPES = {"Tensor": "Tensor", "SymInt": "int", "int": "int", "float": "float", "bool": "bool", "str": "str",
                "ScalarType": "torch.dtype", "Scalar": "float"}  # fmt: skip


def schema_type(text):
    text, optional = (text[:-1], " | None") if text.endswith("?") else (text, "")
    text = re.sub(r"\(\w!\)", "", text)
    match = re.fullmatch(r"(\w+)(\[\d*\])?", text)
    inner = SCHEMA_TYPES[match[1]]
    return (f"Sequence[{inner}]" if match[2] else inner) + optional


def operator(schema):
    """Returns the declaration of an operator of torch.ops.tile, with its docstring."""
    name, arguments, results = re.fullmatch(r"tile::(\w+)\((.*)\) -> (.*)", schema).groups()
    parts = []
    for each in re.split(r", (?![^()]*\))", arguments) if arguments else []:
        match = re.fullmatch(r"(\S+) (\w+)(?:=(.*))?", each)
        value = {None: ""}.get(match[3], f" = {(match[3] or '').replace('1.0000000000000001e-05', '1e-05')}") if match else ""
        parts.append(f"{match[2]}: {schema_type(match[1])}{value}" if match else each)
    parts = [re.sub(r"Sequence\[int\] = -1", "Sequence[int] | int = -1", part) for part in parts]
    parts = [re.sub(r"= (\d+)\.$", r"= \1.0", part) for part in parts]
    given = re.findall(r"Tensor", results)
    result = "None" if not given else "Tensor" if len(given) == 1 else f"tuple[{', '.join(['Tensor'] * len(given))}]"
    inner = "".join(f"\n    {part}," for part in parts)
    text = textwrap.indent(docs()[name].replace("\\", "\\\\"), "    ").replace("\n    \n", "\n\n")
    return f'def {name}({inner}\n) -> {result}:\n    """{text.lstrip()}\n    """\n'


DECORATORS = {
    "elementwise": """@overload
def elementwise(function: Callable[..., Any], /) -> TorchOp: ...
@overload
def elementwise(schema: str | None = None) -> Callable[[Callable[..., Any]], TorchOp]:""",
    "reduction": """@overload
def reduction(source: Callable[..., Any], /) -> TorchOp: ...
@overload
def reduction(
    schema: str | None = None,
    combine: Literal["sum", "prod", "max", "min"] | Callable[..., Any] | None = None,
    *,
    map: Callable[..., Any] | None = None,
    finish: Callable[..., Any] | None = None,
    identity: Any = None,
) -> Callable[[Callable[..., Any]], TorchOp]:""",
    "op": """def op(
    schema: str,
    *,
    saves: str = "",
    autocast: str | tuple[str, str] = "keep",
    leading: str | Sequence[str] = (),
    fold: str | Sequence[str] = (),
    sums: str | Sequence[str] = (),
    outputs: str | Callable[..., Any] | None = None,
    saved_outputs: Callable[..., Any] | None = None,
    grad: str | type | Callable[..., Any] | None = None,
    flops: Callable[..., int] | None = None,
    sharding: str | Callable[..., str] | None = None,
) -> Callable[[Callable[..., Any]], TorchOp]:""",
}


def package_stub():
    late = {name: module for name, module in tile_ops._imported_late.items() if name not in DECORATORS}
    late = sorted(f"from .{module} import {name} as {name}" for name, module in late.items())
    early = re.findall(r"^from \.(\w+) import ([\w, ]+?)  #", (PACKAGE / "__init__.py").read_text(), re.MULTILINE)
    early = [(module, name) for module, listed in early for name in listed.split(", ") if not name.startswith("_")]
    own = {name for _, name in early} | set(tile_ops._imported_late)
    modules = sorted(path.stem for path in PACKAGE.glob("[a-z]*.py"))
    modules += sorted(path.parent.name for path in PACKAGE.glob("[a-z]*/__init__.py"))
    public = re.compile(r"tile::(?!_)(?!\w*backward)")
    schemas = [each for each in _C.operators() if public.match(each)]
    schemas = [each for each in schemas if re.match(r"tile::(\w+)", each)[1] not in own]
    lines = ["# Made by docs/stubs/make.py.", f'"""{tile_ops.__doc__}"""', "", "from collections.abc import Callable, Sequence"]
    lines += ["from typing import Any, Literal, overload", "", "import torch", "from torch import Tensor", ""]
    lines += [f"from . import {name} as {name}" for name in modules]
    lines += sorted([f"from .{module} import {name} as {name}" for module, name in early if name != "register_if_cheap"] + late)
    lines += ["", "__version__: str", "cmake_prefix_path: str", ""]
    lines += [f"{text}\n{doc(getattr(tile_ops, name))}\n" for name, text in DECORATORS.items()]
    return "\n".join(lines) + "\n" + "\n".join(operator(each) for each in schemas)


def stubs():
    """{file: text}"""
    return {
        PACKAGE / "__init__.pyi": package_stub(),
        PACKAGE / "language" / "__init__.pyi": language_stub(),
        PACKAGE / "cutile" / "__init__.pyi": cutile_stub(),
    }


if __name__ == "__main__":
    for path, text in stubs().items():
        path.write_text(text)
