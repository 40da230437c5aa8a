"""Rewrites a forward so that its calls of torch's functions go through the module's class, without entering a mode.

`F.softmax(x, -1)` becomes `self.tile_call(F.softmax, x, -1)`, which decides at every call what computes the function.
"""

import ast

# The name of transformers' table of attention functions, and the method that looks up one of them.
TABLE, ASKED = "ALL_ATTENTION_FUNCTIONS", "get_interface"
PROCESSOR = "processor"  # the attribute of diffusers' attention that computes it


class _Redirect(ast.NodeTransformer):
    """Redirects calls of the global functions with these names; `left` becomes True if a name is used in another way.

    through: the name of a function that is called instead, or None if methods of the module are.
    """

    def __init__(self, code, names, through):
        self.own, self.names, self.through = code.co_varnames[0], names, through
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
        self.left |= node.id in self.names - {PROCESSOR}
        return node

    def visit_Attribute(self, node):
        self.left |= node.attr in self.names - {PROCESSOR}
        return self.generic_visit(node)

    def visit_Call(self, node):
        if self._is_table(node.func, ast.Attribute) and node.func.attr == ASKED:
            node.args = [self.visit(each) for each in node.args]
            return self._through("tile_interface", node, [node], [])
        if self._is_processor(node.func):
            args, keywords = [self.visit(each) for each in node.args], [self.visit(each) for each in node.keywords]
            return self._through("tile_through_processor", node, [node.func, *args], keywords)
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

    def _is_processor(self, node):
        """Returns True for self.processor, if that is one of the names."""
        asked = isinstance(node, ast.Attribute) and node.attr == PROCESSOR and isinstance(node.value, ast.Name)
        return asked and node.value.id == self.own and PROCESSOR in self.names and not self.nested

    def _global(self, node):
        """Returns the last part of a dotted name that begins with a global, or None if that part is not to be redirected."""
        name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)
        while isinstance(node, ast.Attribute):
            node = node.value
        known = isinstance(node, ast.Name) and node.id not in self.locals
        return name if known and name in self.names and name != TABLE else None

    def _through(self, method, node, args, keywords):
        self.found = True
        if self.through:
            method = ast.Name(self.through, ast.Load())
        else:
            method = ast.Attribute(ast.Name(self.own, ast.Load()), method, ast.Load())
        return ast.fix_missing_locations(ast.copy_location(ast.Call(method, args, keywords), node))


def redirect(names, through=None):
    """Returns a change for source_rewrite: it redirects the calls of these names, and fails on other uses or without calls.

    names: of global functions, and PROCESSOR for calls of the attribute. through: the name of the function that is called
    instead, of a change of a function; methods of the module are called otherwise.
    """

    def change(function, code):
        redirected = _Redirect(code, names, through)
        changed = redirected.own if through is None else through
        if any(
            isinstance(each, ast.Name) and each.id == changed and not (through is None and isinstance(each.ctx, ast.Load))
            for each in ast.walk(function)
        ):
            return False
        function.body = [redirected.visit(statement) for statement in function.body]
        return redirected.found and not redirected.left

    return change
