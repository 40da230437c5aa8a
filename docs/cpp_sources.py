"""Reads the C++ sources for the pages of the language: declarations with comments, texts of errors, rows of tables."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
CSRC = ROOT / "csrc"
HEADERS = [CSRC / "dsl" / name for name in ("tile.h", "array.h", "range.h", "hints.h")]
HEADERS += sorted((CSRC / "prims").glob("*.h"))
# A function or class that begins at the left of a line.
DEFINITION = re.compile(
    r"^(?:class (\w+)|(?!namespace|using|struct|enum|#|//)[\w:<>,&*\[\] ]*?([\w:~+\-*/=]+)\([^;{]*\)(?: const)?) \{",
    re.MULTILINE,
)
DECLARATION = re.compile(r"(inline )?(std::vector<Tile>|Tile&?|Array|View|Range|void|FloatMode) [\w\[\]+\-*/%&|^<>=!~]+\(")
SOURCES = [
    *(CSRC / name for name in ("dsl/tile.cpp", "ir/core.cpp", "ir/format.cpp", "ir/atomic.cpp")),
    *sorted((CSRC / "prims").glob("*.cpp")),
    *sorted((CSRC / "prims").glob("*.h")),
]
KINDS = {"value": "ValueError", "type": "TypeError", "unsupported": "NotImplementedError", "runtime": "RuntimeError"}


def balanced(text, begin):
    """The end of the bracket that opens at `begin`; strings are skipped."""
    depth, i = 0, begin
    while i < len(text):
        if text[i] == '"':
            i = re.compile(r'"(?:[^"\\]|\\.)*"').match(text, i).end() - 1
        elif text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            depth -= 1
            if depth == 0:
                return i
        i += 1
    raise ValueError(f"no end of {text[begin : begin + 40]!r}")


def split(text, by=","):
    """Returns the parts of a list. Commas in brackets and strings do not divide it."""
    parts, begin, i = [], 0, 0
    while i < len(text):
        if text[i] in '([{"':
            i = balanced(text, i) if text[i] != '"' else re.compile(r'"(?:[^"\\]|\\.)*"').match(text, i).end() - 1
        elif text[i] == by:
            parts.append(text[begin:i].strip())
            begin = i + 1
        i += 1
    return [*parts, text[begin:].strip()]


def literal(part):
    """The text of string literals side by side; None: it is something else."""
    if not re.fullmatch(r'(?:"(?:[^"\\]|\\.)*"\s*)+', part):
        return None
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', part)).replace('\\"', '"').replace("\\n", "\n")


def shown(part):
    """A part of an error's text: literals as they are, of two one or the other, … for what is put in."""
    text = literal(part)
    if text is not None:
        return text
    choice = re.fullmatch(r'[^"]*\?\s*("(?:[^"\\]|\\.)*")\s*:\s*("(?:[^"\\]|\\.)*")', part, re.DOTALL)
    if choice:
        return "/".join(literal(each).strip() for each in choice.groups()) + (" " if choice[1].endswith(' "') else "")
    return "…"


def functions():
    """{(file, name): text} of functions and classes that begin at the left of a line."""
    found = {}
    for path in SOURCES:
        text = path.read_text()
        for match in DEFINITION.finditer(text):
            name = (match[1] or match[2]).split("::")[-1]
            body = text[match.start() : balanced(text, match.end() - 1) + 1]
            found[path, name] = found.get((path, name), "") + "\n" + body
    return found


FUNCTIONS = functions()
# Calls that occur in functions of all kinds, so that they do not identify the caller.
SHARED = {"emit", "fail", "current", "visible", "Tile", "Operand", "value", "astype", "reshape", "any", "type", "range"}


def errors(path, names):
    """[(kind, text)] of the functions and what they call, in the order of the sources; the prefix of each left out."""
    seen, left, found = set(), [(path, name) for name in names], []
    while left:
        key = left.pop(0)
        if key not in FUNCTIONS:
            shared = ("elements", "tile", "format", "atomic")
            others = [k for k in FUNCTIONS if k[1] == key[1] and (k[0].suffix == ".h" or k[0].stem in shared)]
            key = others[0] if others else key
        if key in seen or key not in FUNCTIONS:
            continue
        seen.add(key)
        body = FUNCTIONS[key]
        found += failures(body)
        calls = re.findall(r"\b([a-z_]\w*)\(", body)
        left += [(key[0], call) for call in dict.fromkeys(calls) if call not in SHARED]
    return list(dict.fromkeys(found))


def failures_of(operation):
    """[(kind, text)] of the errors of the language's loops and branches that begin with its name."""
    files = [CSRC / "dsl" / name for name in ("range.cpp", "tracer.cpp", "tracer_loops.cpp")]
    found = [each for path in files for each in failures(path.read_text(), keep_prefix=True)]
    return [(kind, text.removeprefix(operation + ": ")) for kind, text in found if text.startswith(operation + ": ")]


def failures(body, keep_prefix=False):
    for match in re.finditer(r"\bfail\(", body):
        parts = split(body[match.end() : balanced(body, match.end() - 1)])
        at = next((i for i, part in enumerate(parts) if "ErrorKind::" in part), None)
        if at is None:
            continue
        kinds = " or ".join(KINDS[kind] for kind in dict.fromkeys(re.findall(r"ErrorKind::(\w+)", parts[at])))
        text = "".join(shown(part) for part in parts[at + 1 :])
        if parts[0] != "op" and not keep_prefix:  # "load: …", with the name of the operation in front, here as `operation`
            text = re.sub(r"^[\w …]*?: ", "", text, count=1)
        yield kinds, text.strip()


def prose(lines):
    """A comment as Markdown: a line that begins "   name   words" is an item of a list."""
    text = ""
    for line in lines:
        item = re.fullmatch(r"  +(\w+)  +(.*)", line)
        continued = line.startswith("    ")
        if item:
            text += f"\n- `{item[1]}`: {item[2]}"
        elif not continued and text.rpartition("\n")[2].startswith("- "):
            text += "\n\n" + line
        else:
            text += " " + line.strip()
    text = text.strip().rstrip(";")
    return text if not text or text.endswith(".") else text + "."


def declarations():
    """[(class, name, declaration, comment)] of the language's headers, without locations in the source."""
    for path in HEADERS:
        owner, comment, fresh = "", [], True
        lines = iter(path.read_text().splitlines())
        for line in lines:
            bare = line.strip()
            if re.match(r"(class|struct) \w+ \{$", line):
                owner = line.split()[1]
            elif line.startswith("}"):
                owner = ""
            if bare.startswith("//"):
                comment = ([] if fresh else comment) + [re.sub(r"^ ", "", bare[2:])]
                fresh = False
                continue
            fresh = True
            if not bare:
                comment = []
            if not DECLARATION.match(bare):
                continue
            while bare.count("(") > bare.count(")") or not re.search(r"[;{}]", bare):
                bare += " " + next(lines).strip()
            bare = re.sub(r" // NOLINT.*", "", bare)
            comment_here = comment
            trailing = re.search(r";\s*// (.*)", bare)
            if trailing:
                comment_here = [*comment, trailing[1]]
            text = re.sub(r"(, )?Location \w+ = Location::current\(\)", "", bare.replace("inline ", "", 1))
            text = re.sub(r"\s*(;.*|(?<=\)|t) \{.*)$", "", text)
            yield owner, re.match(r"[\w:<>&]+ ([^(]+)\(", text)[1], text, prose(comment_here)


def rows():
    """{name: (family, kind, expression, traits)} of prims/elementwise."""
    found = {}
    for path in sorted((CSRC / "prims/elementwise").glob("*.def")):
        if path.stem in ("all", "end"):
            continue
        text = path.read_text()
        macro = re.search(r"#define TILE_ROUNDED\(mode, way\)(.*?\\\n)+.*\n", text)
        expansions = [text]
        if macro:
            body = macro[0].replace("\\\n", "\n").replace("#define TILE_ROUNDED(mode, way)", "")
            expansions = [
                body.replace("##mode", f"{mode}").replace("way)", '"")')
                for mode in re.findall(r"^TILE_ROUNDED\((\w+)", text, re.MULTILINE)
            ]
            expansions = [re.sub(r"_(?=[rz mp]*,|\()", "_", expansion) for expansion in expansions]
        for expansion in expansions:
            for match in re.finditer(r"\b(UNARY|BINARY|TERNARY|UNARY_PREDICATE|PREDICATE)\(", expansion):
                parts = split(expansion[match.end() : balanced(expansion, match.end() - 1)])
                found[parts[0]] = (path.stem, match[1], parts[2], parts[3])
    return found


def registered():
    """{name: (file, infer)} of the primitives that are not rows of a table."""
    found = {}
    for path in [CSRC / "ir/core.cpp", *sorted((CSRC / "prims").glob("*.cpp"))]:
        text = path.read_text()
        for match in re.finditer(r'\.name = "(\w+)",', text):
            infer = re.compile(r"\.infer = (\w+)").search(text, match.end())
            found[match[1]] = (path, infer[1])
    atomics, reduce = CSRC / "prims/atomics.cpp", CSRC / "prims/reduce.cpp"
    table = (CSRC / "ir/atomics.def").read_text()
    found |= {name: (atomics, "infer_atomic") for name in re.findall(r"^ATOMIC\((\w+)", table, re.M)}
    found |= {name: (reduce, "infer_reduce") for name in re.findall(r"^REDUCTION\((\w+)", reduce.read_text(), re.M)}
    found |= {name: (reduce, "infer_arg") for name in re.findall(r"^INDEX_OF\((\w+)", reduce.read_text(), re.M)}
    found |= {f"astype_{mode}": (CSRC / "prims/cast.cpp", "infer_directed") for mode in ("rz", "rm", "rp", "ra")}
    return found


def snippets():
    """{primitive: [text]} of the kernels of tests/prims/snippets.h."""
    found = {}
    text = (ROOT / "tests/prims/snippets.h").read_text()
    for match in re.finditer(r"((?:^// page: .*\n)+)(^void (?:.*\n)*?}\n)", text, re.MULTILINE):
        for name in re.findall(r"[a-z]\w*", re.sub(r"// page:", "", match[1])):
            found.setdefault(name, []).append(match[2])
    return found
