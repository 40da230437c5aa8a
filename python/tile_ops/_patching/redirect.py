"""A forward's own text in which calls of torch's functions go through the module's class, so that no mode is entered.

`F.softmax(x, -1)` is `self.tile_call(F.softmax, x, -1)`, which asks at every call what computes that function.
"""

import ast

# How a table of attention functions is asked for one of them, and the name of transformers' table.
TABLE, ASKED = "ALL_ATTENTION_FUNCTIONS", "get_interface"


class _Redirect(ast.NodeTransformer):
    """Redirects calls of the global functions of these names; `left` is true where a name is used in another way."""

    def __init__(self, code, names):
        self.own, self.names = code.co_varnames[0], names
        self.locals = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
        self.found, self.left, self.nested = False, False, False

    def visit_nested(self, node):
        outer, self.nested = self.nested, True
        self.generic_visit(node)
        self.nested = outer
        return node

    # In these the module may have another name.
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
        """Whether this asks the table, which is a global, for something: table.x or table[x]."""
        asked = isinstance(node, kind) and isinstance(node.value, ast.Name) and node.value.id == TABLE
        return asked and TABLE in self.names and TABLE not in self.locals and not self.nested

    def _global(self, node):
        """The last of the names with dots of something that begins with a global, where that is a wanted one."""
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
    """A change of a function's tree, for text.changed: whether all uses of these names were calls, now redirected."""

    def change(function, code):
        redirected = _Redirect(code, names)
        if any(isinstance(each, ast.Name) and each.id == redirected.own and not isinstance(each.ctx, ast.Load)
               for each in ast.walk(function)):
            return False
        function.body = [redirected.visit(statement) for statement in function.body]
        return redirected.found and not redirected.left

    return change
