"""Writes docs/language/python.md: every function of tile_ops.language with its signature, of what the functions say."""

import collections
import inspect
import pathlib

import tile_ops.language as language
from tile_ops.language.functions.elements import AT_OFFSETS
from tile_ops.language.functions.memory import slice_, tiled_view, view_load, view_num_tiles, view_store
from tile_ops.language.core.modes import MemoryOrder, MemoryScope, PaddingMode, RoundingMode
from tile_ops.language.core.registry import METHODS, LanguageFunction
from tile_ops.language.functions.shared_memory import VIEW_CHANGES
from tile_ops.language.functions.static import SpecialForm

PAGE = pathlib.Path(__file__).parent / "language" / "python.md"
TITLES = {
    "grid": "Blocks and index spaces",
    "memory": "Loads and stores",
    "elements": "Elements: gather, scatter, atomics",
    "shapes": "Making and reshaping tiles",
    "arithmetic": "Arithmetic, comparison, bits",
    "unary": "Functions of one number",
    "reductions": "Reductions and running sums",
    "combine": "Reductions by a function of one's own",
    "products": "Matrix products",
    "microscaling": "Matrix products with scales",
    "random": "Random numbers",
    "static": "While the kernel is compiled",
    "text": "Output for debugging",
}


def default(value):
    return str(value) if isinstance(value, (PaddingMode, MemoryOrder, MemoryScope, RoundingMode)) else repr(value)


def signature(function):
    parts, named = [], False
    parameters = list(function.__signature__.parameters.values())
    for place, each in enumerate(parameters):
        if each.kind is each.KEYWORD_ONLY and not named:
            parts.append("*")
            named = True
        named = named or each.kind is each.VAR_POSITIONAL
        text = f"*{each.name}" if each.kind is each.VAR_POSITIONAL else each.name
        parts.append(text if each.default is each.empty else f"{text}={default(each.default)}")
        last = each.kind is each.POSITIONAL_ONLY
        if last and (place + 1 == len(parameters) or parameters[place + 1].kind is not each.POSITIONAL_ONLY):
            parts.append("/")
    return ", ".join(parts)


def entry(name, function):
    if isinstance(function, SpecialForm):
        given = ", ".join(list(inspect.signature(function._function).parameters)[1:])
        return f"- `{name}({given})`: {inspect.cleandoc(function.__doc__)}"
    note = " Tiles have it as a method." if METHODS.get(name) is function else ""
    text = " ".join(inspect.cleandoc(function.__doc__).split())
    return f"- `{name}({signature(function)})`: {text}{note}"


def page():
    groups = collections.defaultdict(list)
    for name in sorted(language.__all__):
        function = getattr(language, name)
        if isinstance(function, (LanguageFunction, SpecialForm)):
            groups[function.__module__.rsplit(".", 1)[1]].append(entry(name, function))
    lines = [
        "# Functions of kernels in Python",
        "",
        "What `tile_ops.language` has for the bodies of kernels; [kernels_in_python.md](../kernels_in_python.md) is the",
        "introduction. Parameters may be passed by name, except those of the `static_` functions and of `printf`, and, in",
        "`tile_ops.cutile`, those that are positional-only in cuTile. This page is made by docs/make_python_language.py.",
    ]
    for module, title in TITLES.items():
        lines += ["", f"## {title}", "", *groups.pop(module)]
        if module == "memory":
            lines += [
                "",
                "Of an array:",
                "",
                entry("array.slice", slice_).replace("(array, ", "("),
                entry("array.tiled_view", tiled_view).replace("(array, ", "("),
            ]
            lines += [
                entry(f"array.get_raw_memory().{each.__name__}", each).replace("(memory, ", "(") for each in AT_OFFSETS.values()
            ]
            views = [("load", view_load), ("store", view_store), ("num_tiles", view_num_tiles), *VIEW_CHANGES.items()]
            lines += ["", "Of a tiled view:", ""]
            lines += [entry(name, function).replace("(view, ", "(") for name, function in views]
    assert not groups, f"no title for {list(groups)}"
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
