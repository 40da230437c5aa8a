"""Rewrites a forward so that a module's call and the activation after it become one call.

`v = self.a(x); v = self.b(v)` becomes `v = self.tile_pair(self.a, self.b, x)`, which is equivalent whatever both are,
because the source shows that nothing else reads the first result.
"""

import ast
import copy
import functools
import inspect
import types


def _nodes_to(tree, code):
    """Returns the nodes from a file's tree down to the function of this code, or None."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            if min([node.lineno, *(each.lineno for each in node.decorator_list)]) == code.co_firstlineno:
                return [tree, node]
        rest = _nodes_to(node, code)
        if rest:
            return [tree, *rest]
    return None


def _compiled(tree, code):
    """Compiles the tree and returns the code of the function that `code` belongs to."""
    waiting = [compile(tree, code.co_filename, "exec", dont_inherit=True)]
    while waiting:
        found = waiting.pop()
        if (found.co_name, found.co_firstlineno) == (code.co_name, code.co_firstlineno):
            return found
        waiting += [each for each in found.co_consts if isinstance(each, types.CodeType)]
    return None


@functools.cache
def _tree(code, file):
    """Returns a file's tree without the definitions next to this function, or None if the source does not match the
    code.

    file: part of the cache key, because code of two files may be equal.
    """
    try:
        tree = ast.parse("".join(inspect.findsource(code)[0]))
    except (OSError, SyntaxError):
        return None
    nodes = _nodes_to(tree, code)
    for node, following in zip(nodes or (), nodes[1:] if nodes else ()):
        if isinstance(node, (ast.Module, ast.ClassDef)) and following in node.body:
            node.body = [
                each for each in node.body if each is following or not isinstance(each, (ast.FunctionDef, ast.ClassDef))
            ]
    return tree if nodes and _compiled(tree, code) == code else None


def _called(node):
    """Returns (callee, argument) for a call of a dotted name with one argument, or None."""
    if not isinstance(node, ast.Call) or node.keywords or len(node.args) != 1 or isinstance(node.args[0], ast.Starred):
        return None
    root = node.func
    while isinstance(root, ast.Attribute):
        root = root.value
    return (node.func, node.args[0]) if isinstance(root, ast.Name) else None


# The nodes of a test that only reads attributes of the module.
HARMLESS = (
    ast.Compare,
    ast.cmpop,
    ast.BoolOp,
    ast.boolop,
    ast.UnaryOp,
    ast.Not,
    ast.Attribute,
    ast.Name,
    ast.Constant,
    ast.expr_context,
)


class _Pairs(ast.NodeTransformer):
    """Merges the pairs for which wanted(first name, second name) is true, if both calls are in one sequence of
    statements."""

    def __init__(self, code, wanted):
        self.own, self.wanted, self.found = code.co_varnames[0], wanted, False
        self.locals = set(code.co_varnames) - set(code.co_cellvars)

    def visit_nested(self, node):
        return node

    # Not in places where an exception or another context could tell two calls from one, or where names differ.
    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = visit_nested
    visit_Try = visit_TryStar = visit_With = visit_AsyncWith = visit_Match = visit_nested

    def visit_Call(self, node):
        self.generic_visit(node)
        return self._pair(node, _called(node) and node.args[0]) or node

    def _pair(self, behind, before):
        """Returns the merged call of behind(before(x)) if the pair is wanted."""
        first, second = _called(before), _called(behind)
        if not first or not second or not self._own(first[0]):
            return None
        if not self.wanted(ast.unparse(first[0]), ast.unparse(second[0])):
            return None
        self.found = True
        both = ast.Attribute(ast.Name(self.own, ast.Load()), "tile_pair", ast.Load())
        return ast.fix_missing_locations(ast.copy_location(ast.Call(both, [first[0], second[0], first[1]], []), behind))

    def _own(self, node):
        return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == self.own

    def _name(self, statement):
        """Returns the local name that a statement assigns, if it does nothing else, or None."""
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
            return target.id if isinstance(target, ast.Name) and target.id in self.locals else None
        return None

    def _body(self, statements):
        done = []
        for statement in statements:
            if not done or not any(way(done, statement) for way in (self._joined, self._entered, self._sunk)):
                done.append(statement)
        return done

    def _joined(self, done, statement):
        """Merges `v = a(x)` with a following `v = b(v)`, `return b(v)` or c(b(v)); the first is the last statement of
        `done`."""
        name = self._name(done[-1])
        if not name or not (self._name(statement) == name or isinstance(statement, ast.Return)) or not statement.value:
            return False
        parent, behind = statement, statement.value
        while (inner := _called(behind)) and _called(inner[1]):
            parent, behind = behind, inner[1]
        uses = [each for each in ast.walk(statement.value) if isinstance(each, ast.Name) and each.id == name]
        if not inner or uses != [inner[1]]:  # v is the argument of b, and not part of its name, as in v.c
            return False
        made = self._pair(behind, done[-1].value)
        if made is None:
            return False
        if parent is statement:
            statement.value = made
        else:
            parent.args = [made]
        done[-1] = statement
        return True

    def _entered(self, done, statement):
        """Merges `v = a(x)` with the `v = b(v)` at the beginning of a following if, in both branches, if the test calls
        nothing."""
        if not isinstance(statement, ast.If) or not self._name(done[-1]):
            return False
        called = any(
            not isinstance(each, HARMLESS) or isinstance(each, ast.Name) and each.id != self.own
            for each in ast.walk(statement.test)
        )
        if called or not self._joined(copy.deepcopy(done[-1:]), copy.deepcopy(statement.body[0])):
            return False
        statement.body = self._body([done[-1], *statement.body])
        statement.orelse = [copy.deepcopy(done[-1]), *statement.orelse]
        done[-1] = statement
        return True

    def _sunk(self, done, statement):
        """Merges `v = b(v)` after an if whose branches end in `v = a(x)` into the end of each branch."""
        branches = done[-1]
        if not isinstance(branches, ast.If) or not self._ends(branches, statement):
            return False
        for part in ("body", "orelse"):
            body = getattr(branches, part)
            if not body or not isinstance(body[-1], (ast.Return, ast.Raise, ast.Continue, ast.Break)):
                setattr(branches, part, self._body([*body, copy.deepcopy(statement)]))
        return True

    def _ends(self, branches, statement):
        """Returns True if a branch ends in a statement that can be merged with this one."""
        for body in (branches.body, branches.orelse):
            last = copy.deepcopy(body[-1:])
            if last and isinstance(last[0], ast.If) and self._ends(last[0], statement):
                return True
            if self._name(statement) and last and self._joined(last, copy.deepcopy(statement)):
                return True
        return False

    def visit_If(self, node):
        self.generic_visit(node)
        node.body, node.orelse = self._body(node.body), self._body(node.orelse)
        return node

    visit_For = visit_While = visit_If

    def visit_function(self, node):
        if any(
            isinstance(each, ast.Name) and each.id == self.own and not isinstance(each.ctx, ast.Load) for each in ast.walk(node)
        ):
            return
        node.body = self._body([self.visit(statement) for statement in node.body])


def given(function, changes, **values):
    """Returns the function with these changes of its tree, in which the names of `values` are theirs, or None if one fails or
    its source is unavailable."""
    if not is_known(function):
        return None
    inner = inspect.unwrap(function)
    code = inner.__code__
    tree = copy.deepcopy(_tree(code, code.co_filename))
    *_, parent, node = _nodes_to(tree, code)
    if node not in getattr(parent, "body", ()) or not all(change(node, code) for change in changes):
        return None
    # A function around it gives it the names.
    around = ast.parse(f"def tile_{code.co_name}({', '.join(values)}): pass").body[0]
    around.body = [node]
    parent.body[parent.body.index(node)] = ast.copy_location(around, node)
    made = _compiled(tree, code)
    cells = dict(zip(code.co_freevars, inner.__closure__ or ())) | {
        name: types.CellType(value) for name, value in values.items()
    }
    if made is None or set(made.co_freevars) - set(cells):
        return None
    return _around(function, inner, _rebuilt(inner, made, tuple(cells[name] for name in made.co_freevars)))


def _rebuilt(function, code, closure):
    made = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    made.__kwdefaults__ = function.__kwdefaults__
    functools.update_wrapper(made, function)
    made.__dict__.pop("__wrapped__")
    return made


def _held(cell):
    try:
        return cell.cell_contents
    except ValueError:  # an empty cell
        return None


def _around(function, inner, made):
    """Returns the decorated function with `made` in place of `inner`, or None if its closure does not contain `inner`."""
    if function is inner:
        return made
    wrapped, cells = None, []
    for cell in function.__closure__ or ():
        if _held(cell) is function.__wrapped__:
            wrapped = _around(function.__wrapped__, inner, made)
            cell = types.CellType(wrapped)
        cells.append(cell)
    if wrapped is None:
        return None
    outer = _rebuilt(function, function.__code__, tuple(cells))
    outer.__wrapped__ = wrapped
    return outer


def named(forward, module, name):
    """Returns the value of a dotted name in this function if it is an attribute of the module or of a global; or None."""
    function = inspect.unwrap(forward)
    root, *names = name.split(".")
    if root == function.__code__.co_varnames[0]:
        found = module
    else:
        local = (*function.__code__.co_varnames, *function.__code__.co_freevars)
        found = None if root in local else function.__globals__.get(root)
    for each in names:
        found = getattr(found, each, None)
    return found


def node_of(forward):
    """Returns the tree of a function, which must not be changed, or None if its source is unavailable."""
    return _nodes_to(_tree(code := inspect.unwrap(forward).__code__, code.co_filename), code)[-1] if is_known(forward) else None


def is_known(forward):
    """Returns True if the source of this function is available."""
    code = getattr(inspect.unwrap(forward), "__code__", None)
    return code is not None and code.co_argcount > 0 and _tree(code, code.co_filename) is not None


def pairs(wanted):
    """Returns a change of a function's tree for changed(), which merges each pair of calls for which
    wanted(first name, second name) is true into one call, and fails if there is no such pair."""

    def change(function, code):
        found = _Pairs(code, wanted)
        found.visit_function(function)
        return found.found

    return change


def changed(forward, changes):
    """Returns the function with these changes of its tree, or None if there are none, one fails or its source is
    unavailable."""
    if not changes or not is_known(forward):
        return None
    inner = inspect.unwrap(forward)
    code = inner.__code__
    tree = copy.deepcopy(_tree(code, code.co_filename))
    if not all(change(_nodes_to(tree, code)[-1], code) for change in changes):
        return None
    made = _compiled(tree, code)
    if made.co_freevars != code.co_freevars:
        return None
    return _around(forward, inner, _rebuilt(inner, made, inner.__closure__))
