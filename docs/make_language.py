"""Makes the pages of the primitives, one for each of the registry, and their index. docs/make_site.py writes them."""

import re

import cpp_sources
from tile_ops import _C

TABLE = _C.primitives()
ROWS, REGISTERED, SNIPPETS = cpp_sources.rows(), cpp_sources.registered(), cpp_sources.snippets()
DECLARATIONS = list(cpp_sources.declarations())
# Families in the order of the index: title, the files (of rows: names of tables) that hold them.
FAMILIES = {
    "Arrays and the grid": ["array_views", "grid"],
    "Loads and stores": ["memory", "elements", "rows", "raw"],
    "Atomic operations": ["atomics"],
    "Making tiles, shapes": ["shape", "subtile", "core", "bytes"],
    "Control flow": ["control"],
    "Dtypes": ["cast"],
    "Arithmetic": ["arithmetic", "special"],
    "Arithmetic rounded in a direction": ["directed"],
    "Comparisons and choice": ["comparison", "elementwise"],
    "Bits": ["bits"],
    "Rounding to whole numbers": ["rounding"],
    "Exponentials and logarithms": ["exponential"],
    "Circular and hyperbolic functions": ["trigonometric"],
    "Reductions and scans": ["reduce"],
    "Products of matrices": ["mma"],
    "Random numbers": ["random"],
    "Derivatives": ["detach"],
    "Debugging": ["assert", "print"],
}
CONTROL = ("for", "loop", "if", "yield", "break", "continue")
# Pages by hand that say more.
READ_ON = {
    "Arrays and the grid": "views",
    "Loads and stores": "views",
    "Atomic operations": "memory_order",
    "Control flow": "control_flow",
    "Debugging": "debugging",
    "Random numbers": "../random_numbers",
}
DTYPES = list(_C.primitives()["where"]["dtypes"])
SETS = {
    "every dtype": DTYPES,
    "numbers: integers and floats": [d for d in DTYPES if d not in ("bool", "f8e4m3", "f8e5m2", "tf32")],
    "integers, floats and bool": [d for d in DTYPES if d not in ("f8e4m3", "f8e5m2", "tf32")],
    "integers": [d for d in DTYPES if d[0] in "iu"],
    "integers and bool": [d for d in DTYPES if d[0] in "iu" or d == "bool"],
    "signed integers and floats": [d for d in DTYPES if d[0] == "i" or d in ("f16", "bf16", "f32", "f64")],
    "floats: f16, bf16, f32, f64": ["f16", "bf16", "f32", "f64"],
    "every dtype but bool": [d for d in DTYPES if d != "bool"],
}
TRAITS = {
    "commutative": "Its first two operands may be exchanged.",
    "folds": "If its operands are constants it is computed while compiling, to the same bits.",
    "reads": "It reads memory.",
    "writes": "It writes memory: it keeps its order among reads and writes of that array.",
    "barrier": "No access of memory moves across it.",
    "effect": "It keeps its order among writes and others of its kind.",
    "terminator": "It ends a region.",
    "impure": "Two equal ops are never merged.",
}


def family_of(name):
    stem = "control" if name in CONTROL else ROWS[name][0] if name in ROWS else REGISTERED[name][0].stem
    return next(title for title, stems in FAMILIES.items() if stem in stems)


def parse(doc):
    """(summary, {operands, result, C++, …}, attributes, notes) of a primitive's doc; docs of rows are summaries."""
    summary, *lines = doc.split("\n")
    said, attributes, notes = {}, {}, []
    for line in lines:
        attribute, key = re.match(r"\{(\w+)\}: (.*)", line), re.match(r"(operands|result|dtypes|C\+\+|GPU): (.*)", line)
        if attribute:
            attributes[attribute[1]] = attribute[2]
        elif key:
            said[key[1]] = key[2]
        else:
            notes.append(line)
    return summary, said, attributes, notes


def names_in_cpp(name, said):
    """Returns its names in the language: [(class or "", function)]."""
    if "C++" in said:
        return [tuple(each.split("::")) if "::" in each else ("", each) for each in said["C++"].rstrip(".").split(", ")]
    plain = re.sub(r"_(nan|rz|rm|rp)$", "", name)
    return [("", plain)] if plain == name else [("", name), ("", plain)]


def operators(name):
    """Operators of C++ that are nothing but a call of it."""
    text = (cpp_sources.CSRC / "prims/elementwise.h").read_text()
    return re.findall(rf"operator(\S+?)\(const Operand& x[^)]*\) {{ return {name}\(", text)


def signatures(name, said):
    if name in ROWS and not name.endswith(("_rz", "_rm", "_rp")):
        count = TABLE[name]["operands"]
        yield f"Tile {name}({', '.join(f'const Operand& {x}' for x in 'xyz'[:count])})"
    for owner, function in names_in_cpp(name, said):
        for its, called, text, *_ in DECLARATIONS:
            if called != function or (owner and its != owner) or (not owner and its in ("Tile", "Array", "View")):
                continue
            if ("nan" in name.split("_")) != ("PropagateNan" in text) and name in ROWS:
                continue
            if its in ("Tile", "Array", "View"):
                text = re.sub(rf"{re.escape(called)}\(", f"{its}::{called}(", text, count=1)
            yield text


def comments(name, said):
    for owner, function in names_in_cpp(name, said):
        for its, called, _, comment in DECLARATIONS:
            fits = called == function and its in (owner, "") and name not in ROWS
            if fits and comment and not comment.startswith("Defined by"):
                yield comment


def accepted(dtypes):
    return next((name for name, each in SETS.items() if each == dtypes), ", ".join(dtypes))


def ir_form(name, row, said, attributes):
    operands = "xyz"[: row["operands"]] if row["elementwise"] and row["operands"] > 0 else None
    some = "" if said.get("operands", "none.") == "none." else "…"
    listed = ", ".join(f"%{x}" for x in operands) if operands else some
    inside = " {" + ", ".join(f"{each}=…" for each in attributes) + "}" if attributes else ""
    regions = " (…) {…}" * row["regions"]
    nothing = {"terminator", "effect", "writes"} & set(row["traits"]) and "result" not in said
    left = "" if nothing else "%r: type = "
    return f"{left}{name}{' ' + listed if listed else ''}{inside}{regions}"


def rules_of_row(name, row):
    """Returns the rules of values in a row of prims/elementwise."""
    _, kind, expression, traits = ROWS[name]
    count = row["operands"]
    predicate = "PREDICATE" in kind
    several = f"{', '.join('xyz'[:count])}: tiles of one dtype, which the language broadcasts to one shape; a literal "
    yield "Operands", "x: a tile." if count == 1 else several + "takes the others' dtype."
    yield "Result", "bool of x's shape." if predicate else "x's dtype and shape."
    lines = []
    if traits.startswith("EXACT"):
        lines.append("Every target gives the same bits.")
    elif traits.startswith("DIRECTED"):
        lines.append(
            "Rounded once, in the direction that the name says; every target gives the same bits. Overflow "
            "rounded toward zero is the largest number; a sum that cancels is -0 where it is rounded down."
        )
    else:
        lines.append(
            f"Within {row['ulp']:g} units in the last place of `{row['reference']}` in float64; 16-bit "
            "floats are computed in f32 and rounded, which adds half a unit. Targets may differ that much."
        )
    if "f32" in row["dtypes"] and row["dtypes"] != ["f32"] and not traits.startswith("DIRECTED"):
        lines.append(f"Infinities and NaN: as `{row['reference']}` of torch.")
    yield "Values", " ".join(lines)
    yield "One element", f"`{expression}`"


def kernel_of_row(name, count):
    """As snippets_test.cpp makes it of each row."""
    arrays = [f"Array {x}, " for x in "xyz"[:count]]
    loads = [f"{x}.tiled_view({{64}}).load({{i}})" for x in "xyz"[:count]]
    names = list("abc"[:count])
    tiles = ", ".join(f"{a} = {load}" for a, load in zip(names, loads))
    return (
        f"```c++\nvoid {name}_kernel({''.join(arrays)}Array out) {{\n  Tile i = bid(0);\n  Tile {tiles};\n"
        f"  out.tiled_view({{64}}).store({{i}}, {name}({', '.join(names)}));\n}}\n```\n\n"
    )


def words(text):
    return set(re.findall(r"\w+", text.lower()))


def paragraph(title, text):
    return f"**{title}.** {text}\n\n" if text else ""


def errors_of(name, row, said):
    if name in ROWS:
        count = row["operands"]
        path, infer = cpp_sources.CSRC / "prims/elementwise.cpp", "infer_same"
        functions = [infer, {1: "unary", 2: "binary", 3: "ternary"}[count]] if count > 1 else []
        found = cpp_sources.errors(path, functions)
        if any("FloatMode" in text for text in signatures(name, said)):
            found += cpp_sources.errors(cpp_sources.CSRC / "prims/float_mode.cpp", ["check"])
    else:
        path, infer = REGISTERED[name]
        found = cpp_sources.errors(path, [infer, *(function for _, function in names_in_cpp(name, said))])
        for _, function in names_in_cpp(name, said) if name in CONTROL else ():
            found += cpp_sources.failures_of(function)
    if len(row["dtypes"]) < len(DTYPES):
        found.append(("TypeError", "does not take …; cast with astype() first"))
    return list(dict.fromkeys(found))


def targets(row, said):
    text = "CPU and GPU."
    if not row["core"]:
        text = "It becomes other primitives before a target sees it, on CPU and GPU."
    return text + (" On a GPU " + said["GPU"] if "GPU" in said else "")


def related(name):
    stem = re.sub(r"_(nan|rz|rm|rp)$", "", name)
    names = [n for n in TABLE if n != name and re.sub(r"_(nan|rz|rm|rp)$", "", n) == stem]
    names += [n for n in re.findall(r"`(\w+)`", TABLE[name]["doc"]) if n in TABLE and n != name]
    near = [n for n in TABLE if n != name and family_of(n) == family_of(name)]
    names += near if len(near) < 20 else []
    return ", ".join(f"[{n}]({n}.md)" for n in dict.fromkeys(names))


def page(name):
    row = TABLE[name]
    summary, said, attributes, notes = parse(row["doc"])
    family = family_of(name)
    text = f"# {name}\n\n{summary}\n\n"
    signed = list(dict.fromkeys(signatures(name, said)))
    forms = operators(name) if name in ROWS else []
    if signed:
        text += "```c++\n" + "".join(f"{each};\n" for each in signed) + "```\n\n"
    if forms:
        count = row["operands"]
        text += paragraph("Operators", ", ".join(f"`{o}x`" if count == 1 else f"`x {o} y`" for o in forms))
    text += f"In Tile IR:\n\n```text\n{ir_form(name, row, said, attributes)}\n```\n\n"
    own = words(" ".join([summary, *notes]))
    notes += [each for each in dict.fromkeys(comments(name, said)) if len(words(each) - own) > len(words(each)) / 4]
    if name in ROWS:
        for title, line in rules_of_row(name, row):
            text += paragraph(title, line)
    else:
        text += paragraph("Operands", said.get("operands", "")) + paragraph("Result", said.get("result", "none."))
    if name not in CONTROL:
        text += paragraph("Dtypes", said.get("dtypes", accepted(row["dtypes"]) + "."))
    if attributes:
        text += "| attribute | meaning |\n|---|---|\n"
        text += "".join(f"| `{key}` | {meaning} |\n" for key, meaning in attributes.items()) + "\n"
    text += "".join(f"{note}\n\n" for note in notes)
    text += paragraph("Passes", " ".join(TRAITS[t] for t in row["traits"] if t in TRAITS))
    text += paragraph("Targets", targets(row, said))
    found = errors_of(name, row, said)
    if found:
        text += "An error begins with the location in the source and the name of the operation; … is a given value:\n\n"
        text += "".join(f"- {kind}: `{error}`\n" for kind, error in found) + "\n"
    if name in SNIPPETS:
        text += "".join(f"```cpp\n{each}```\n\n" for each in SNIPPETS[name])
    elif name in ROWS:
        text += kernel_of_row(name, row["operands"])
    page_by_hand = READ_ON.get(family, "types")
    text += f"Related: {related(name)}.\n\n" if related(name) else ""
    title = page_by_hand.split("/")[-1].replace("_", " ")
    return text + f"More: [{title}](../{page_by_hand}.md), [all primitives](../primitives.md).\n"


def index():
    text = """# Primitives

Every operation of Tile IR has a page here. The registry gives its meaning, dtypes, operands, attributes and traits; the C++
sources give its signatures and errors. Parameters of the type `Location`, which nobody passes, are left out.

"""
    for title, names in families().items():
        text += f"## {title}\n\n| primitive | what it does |\n|---|---|\n"
        text += "".join(f"| [{name}](primitives/{name}.md) | {parse(TABLE[name]['doc'])[0]} |\n" for name in names) + "\n"
    return text.rstrip("\n") + "\n"


def families():
    """Returns {title: the names of its primitives}."""
    return {title: [name for name in TABLE if family_of(name) == title] for title in FAMILIES}


def pages():
    """Returns {path below language/: text}."""
    return {"primitives.md": index()} | {f"primitives/{name}.md": page(name) for name in TABLE}
