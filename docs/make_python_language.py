"""Makes the page of every function of tile_ops.language from their docstrings, the text of help(); for docs/make_site.py."""

import collections
import enum
import inspect

import make_api
import tile_ops.language as language
from tile_ops.language.functions.elements import AT_OFFSETS
from tile_ops.language.functions.memory import slice_, tiled_view, view_load, view_num_tiles, view_store
from tile_ops.language.core.modes import MemoryOrder, MemoryScope, PaddingMode, RoundingMode
from tile_ops.language.core.registry import METHODS, LanguageFunction
from tile_ops.language.functions.shared_memory import VIEW_CHANGES
from tile_ops.language.functions.static import SpecialForm

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
    for index, each in enumerate(parameters):
        if each.kind is each.KEYWORD_ONLY and not named:
            parts.append("*")
            named = True
        named = named or each.kind is each.VAR_POSITIONAL
        text = f"*{each.name}" if each.kind is each.VAR_POSITIONAL else each.name
        parts.append(text if each.default is each.empty else f"{text}={default(each.default)}")
        last = each.kind is each.POSITIONAL_ONLY
        if last and (index + 1 == len(parameters) or parameters[index + 1].kind is not each.POSITIONAL_ONLY):
            parts.append("/")
    return ", ".join(parts)


def entry(name, function, owner=""):
    """Returns the entry of a function; owner: the text before its name in a kernel, instead of the first parameter."""
    if isinstance(function, SpecialForm):
        given = ", ".join(list(inspect.signature(function._function).parameters)[1:])
    else:
        given = signature(function)
    if owner:
        given = given.partition(", ")[2].removeprefix("/, ")
    note = "\n\nA tile has it as a method, too." if METHODS.get(name) is function and not owner else ""
    shown = f"{owner}{name}" if owner else f"tile_ops.language.{name}"
    text = make_api.markdown(function.__doc__) + note
    return f"::::{{py:function}} {shown}({given})\n\n{text}\n::::\n"


def others():
    """Returns {title: names} of what is no function of kernels."""
    found = {"Kernels": ["kernel", "function", "ByTarget", "Slice"]}
    kinds = {"Modes": enum.Enum, "Errors": Exception}
    for title, kind in kinds.items():
        found[title] = [name for name in sorted(language.__all__) if is_class(getattr(language, name), kind)]
    found["Annotations of parameters"] = [
        name for name in sorted(language.__all__)
        if getattr(getattr(language, name), "__module__", "").endswith("annotations") and name != "ScalarInt64"
    ]  # fmt: skip
    return found


def is_class(value, kind):
    return inspect.isclass(value) and issubclass(value, kind)


def member(name):
    """Returns the entry of a class or object that is no function of kernels."""
    value = getattr(language, name)
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        values = ", ".join(f"`{each.name}`" for each in value)
        shown, text = "", f"{make_api.markdown(value.__doc__)}\n\nIts members are {values}."
    else:
        shown = make_api.signature(value) if not is_class(value, Exception) and callable(value) else ""
        text = make_api.markdown(value.__doc__)
    kind = "class" if inspect.isclass(value) else "function" if inspect.isfunction(value) else "data"
    return f"::::{{py:{kind}}} tile_ops.language.{name}{shown}\n\n{text}\n::::\n"


def page():
    groups = collections.defaultdict(list)
    for name in sorted(language.__all__):
        function = getattr(language, name)
        if isinstance(function, (LanguageFunction, SpecialForm)):
            groups[function.__module__.rsplit(".", 1)[1]].append(entry(name, function))
    lines = [
        "# Functions of kernels in Python",
        "",
        "This page lists what the bodies of kernels may call. `import tile_ops.language as tl` gives them, and `help(tl.load)` shows",
        "the same text. [Kernels in Python](../kernels_in_python.md) is the introduction. Parameters may be passed by name, except",
        "those of the `static_` functions and of `printf`. In `tile_ops.cutile`, those that are positional-only in cuTile cannot be",
        "passed by name either.",
    ]
    for module, title in TITLES.items():
        lines += ["", f"## {title}", "", *groups.pop(module)]
        if module == "memory":
            lines += ["### Methods of an array", ""]
            lines += [entry("slice", slice_, "array."), entry("tiled_view", tiled_view, "array.")]
            lines += ["### Methods of array.get_raw_memory()", ""]
            lines += [entry(name, function, "memory.") for name, function in AT_OFFSETS.items()]
            views = {"load": view_load, "store": view_store, "num_tiles": view_num_tiles, **VIEW_CHANGES}
            lines += ["### Methods of a tiled view", ""]
            lines += [entry(name, function, "view.") for name, function in views.items()]
    assert not groups, f"no title for {list(groups)}"
    for title, names in others().items():
        lines += ["", f"## {title}", "", *map(member, names)]
    names = [name for name in sorted(language.__all__) if isinstance(getattr(language, name), language.DType)]
    lines += ["", "## Dtypes", "", ", ".join(f"`{name}`" for name in names) + " are instances of this class.", ""]
    lines += [member("DType")]
    return "\n".join(lines) + "\n"
