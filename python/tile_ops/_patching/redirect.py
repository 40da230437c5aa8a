"""Rewrites a forward so that its calls of torch's functions go through the module's class, without entering a mode.

`F.softmax(x, -1)` becomes `self.tile_call(F.softmax, x, -1)`, which decides at every call what computes the function.
"""

import ast

# The name of transformers' table of attention functions, and the method that looks up one of them.
TABLE, ASKED = "ALL_ATTENTION_FUNCTIONS", "get_interface"


class _Redirect(ast.NodeTransformer):
    """Redirects calls of the global functions with these names; `left` becomes True if a name is used in another way."""

    def __init__(self, code, names):
        self.own, self.names = code.co_varnames[0], names
        self.locals = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
        self.found, self.left, self.nested = False, False, False

    def visit_nested(self, node):
        outer, self.nested = self.nested, True
        self.generic_visit(node)
        self.nested = outer
        return node

    # Inside nested scopes the name of `self` may refer to something else.
    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = visit_nested

    def visit_Name(self, node):
        self.left |= node.id in self.names
        return node

    def visit_Attribute(self, node):
        self.left |= node.attr in self.names
        return self.generic_visit(node)

    def visit_Call(self, node):
        if self._is_table(node.func, ast.Attribute) and node.func.attr == ASKED:
            node.args = [self.visit(each) for each in node.args]
            return self._through("tile_interface", node, [node], [])
        name = self._global(node.func)
        if name is None or self.nested:
            return self.generic_visit(node)
        args = [self.visit(each) for each in node.args]
        keywords = [self.visit(each) for each in node.keywords]
        through = "tile_rotate" if name == "apply_rotary_pos_emb" else "tile_call"
        return self._through(through, node, [node.func, *args], keywords)

    def visit_Subscript(self, node):
        if self._is_table(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            node.slice = self.visit(node.slice)
            return self._through("tile_interface", node, [node], [])
        return self.generic_visit(node)

    def _is_table(self, node, kind):
        """Returns True if the node looks something up in the global table: table.x or table[x]."""
        asked = isinstance(node, kind) and isinstance(node.value, ast.Name) and node.value.id == TABLE
        return asked and TABLE in self.names and TABLE not in self.locals and not self.nested

    def _global(self, node):
        """Returns the last part of a dotted name that begins with a global, or None if that part is not to be redirected."""
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)
        while isinstance(node, ast.Attribute):
            node = node.value
        known = isinstance(node, ast.Name) and node.id not in self.locals
        return name if known and name in self.names and name != TABLE else None

    def _through(self, method, node, args, keywords):
        self.found = True
        method = ast.Attribute(ast.Name(self.own, ast.Load()), method, ast.Load())
        return ast.fix_missing_locations(ast.copy_location(ast.Call(method, args, keywords), node))


def redirect(names):
    """Returns a change for source_rewrite.changed: it redirects the calls of these names, and fails on other uses or without calls."""

    def change(function, code):
        redirected = _Redirect(code, names)
        if any(
            isinstance(each, ast.Name) and each.id == redirected.own and not isinstance(each.ctx, ast.Load)
            for each in ast.walk(function)
        ):
            return False
        function.body = [redirected.visit(statement) for statement in function.body]
        return redirected.found and not redirected.left

    return change
