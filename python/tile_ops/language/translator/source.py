"""The source of a Python function as a syntax tree whose nodes know their location in the file."""

import ast
import functools
import inspect
import linecache
import re
import textwrap
import threading

from ..core.errors import TileSyntaxError


class Source:
    """file, the node of the function or lambda, and the indentation that was removed from its columns."""

    def __init__(self, file, node, indent, lines):
        self.file, self.node, self.indent, self._lines = file, node, indent, lines

    def columns(self, node):
        """Returns the first column of a node, and the column after its last one on that line, from 1."""
        line = self._lines[node.lineno - 1].encode() if node.lineno <= len(self._lines) else b""
        first = len(line[: node.col_offset].decode(errors="replace")) + self.indent + 1
        if node.end_lineno != node.lineno:
            return first, len(line.decode(errors="replace")) + self.indent + 1
        return first, len(line[: node.end_col_offset].decode(errors="replace")) + self.indent + 1


def source_of(function):
    """Returns the Source of a Python function. Error: its source is not available."""
    try:
        return _source_of(function.__code__, function.__code__.co_filename)
    except (OSError, TypeError):
        raise TileSyntaxError(
            f"the source of {function.__qualname__}() is not available; a kernel needs a file, or a cell of a notebook"
        ) from None


# The key is the code, because a function's code can be replaced, and the file, because two files may have equal code.
@functools.lru_cache(maxsize=None)
def _source_of(code, _):
    if code.co_name == "<lambda>":
        whole = "".join(inspect.findsource(code)[0])
        return Source(code.co_filename, _lambda(code, inspect.getsourcelines(code)[1], whole), 0, _padded(whole, 1))
    return _found_by_indentation(code) or _parsed(code, *inspect.getsourcelines(code))


_one_at_a_time = threading.Lock()


def parsed(text):
    """Returns ast.parse(text), for one thread at a time.

    All threads of CPython 3.11 count the depth of their trees in one variable: two that parse at once, as those that compile
    the configurations of a tuned kernel do, could get a SystemError about it (CPython's issue 106905).
    """
    with _one_at_a_time:
        return ast.parse(text)


def _parsed(code, lines, first):
    """Returns the Source of a function that these lines, from the line `first` on, define."""
    text = "".join(lines)
    dedented = textwrap.dedent(text) if text[:1].isspace() else text
    indent = len(lines[0]) - len(lines[0].lstrip()) - (len(dedented) - len(dedented.lstrip()))
    tree = parsed("\n" * (first - 1) + dedented)
    return Source(code.co_filename, tree.body[0], indent, _padded(dedented, first))


_DEF = re.compile(r"\s*(async\s+)?def\b")


def _found_by_indentation(code):
    """Returns the Source of a function, or None if its lines are not plainly indented. inspect takes milliseconds: it
    goes through all modules and reads the function token by token."""
    linecache.checkcache(code.co_filename)
    lines, first = linecache.getlines(code.co_filename), code.co_firstlineno
    end = next((at + 1 for at in range(first - 1, len(lines)) if _DEF.match(lines[at])), None)  # decorators come first
    if end is None:
        return None
    outer = len(lines[first - 1]) - len(lines[first - 1].lstrip())
    while end < len(lines):
        text = lines[end].lstrip()
        if text and text[0] not in "#)]}" and len(lines[end]) - len(text) <= outer:
            break
        end += 1
    # A line with less indentation may be part of a text or lie within parentheses. What is cut there does not parse.
    try:
        source = _parsed(code, lines[first - 1 : end], first)
    except SyntaxError:
        return None
    return source if getattr(source.node, "name", None) == code.co_name else None


def _padded(text, first):
    return [""] * (first - 1) + text.splitlines()


def _lambda(code, line, whole):
    """Finds a lambda in the whole file, because its lines may not be a complete statement."""
    tree = parsed(whole)
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and node.lineno == line]
    names = code.co_varnames[: code.co_argcount]
    found = [node for node in found if tuple(each.arg for each in node.args.posonlyargs + node.args.args) == names]
    if len(found) == 1:
        return found[0]
    raise TileSyntaxError(
        f"line {line} holds {len(found) or 'no'} lambda{'s' if found else ''} of these parameters; "
        "write a def, or one lambda a line"
    )


# Fields of the syntax whose nodes are only signs, such as Load and Add; most nodes of a function are of these.
_SIGNS = {"ctx", "op", "ops"}


@functools.lru_cache(maxsize=None)
def _fields_of(kind):
    return tuple(name for name in kind._fields if name not in _SIGNS)


def _children(node):
    """Yields the nodes directly under a node, without signs."""
    for name in _fields_of(type(node)):
        value = getattr(node, name, None)
        if isinstance(value, ast.AST):
            yield value
        elif isinstance(value, list):
            yield from (each for each in value if isinstance(each, ast.AST))


_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def inside(node, into_loops=True):
    """Yields the nodes of a statement, without signs and those of functions defined in it, and optionally without those
    of its loops."""
    todo = [node]
    while todo:
        each = todo.pop()
        yield each
        if isinstance(each, _NESTED):
            continue
        if not into_loops and isinstance(each, (ast.For, ast.While)) and each is not node:
            continue
        if not isinstance(each, (ast.Name, ast.Constant)):
            todo.extend(_children(each))


def holds(statements, kinds, into_loops=True):
    """Returns True if a node of these kinds is among the statements; `into_loops`: those of inner loops count."""
    for statement in statements:
        if not into_loops and isinstance(statement, (ast.For, ast.While)):
            continue
        if any(isinstance(node, kinds) for node in inside(statement, into_loops)):
            return True
    return False


COMPREHENSIONS = (ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp)


def assigned(statements):
    """Returns the names that statements assign, in source order, without the targets of comprehensions."""
    names = {}
    for statement in statements:
        nodes = list(inside(statement))
        loops = [each for node in nodes if isinstance(node, COMPREHENSIONS) for each in node.generators]
        own = {id(each) for loop in loops for each in ast.walk(loop.target)}
        for node in nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in own:
                names[node.id] = None
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names[node.name] = None
    return list(names)


@functools.lru_cache(maxsize=None)
def read_in(node):
    """Returns the names that a function, and functions nested in it, read from outer scopes, in source order."""
    own, names = set(names_of(node)), [each for each in ast.walk(node) if isinstance(each, ast.Name)]
    names.sort(key=lambda each: (each.lineno, each.col_offset))
    return list(dict.fromkeys(each.id for each in names if isinstance(each.ctx, ast.Load) and each.id not in own))


def names_of(node):
    """Returns all names that are local to a function."""
    arguments = node.args
    plain = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    plain += [each for each in (arguments.vararg, arguments.kwarg) if each]
    return [each.arg for each in plain] + (assigned(node.body) if isinstance(node.body, list) else [])
