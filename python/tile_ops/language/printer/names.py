"""Names of values: those of the user's variables where locations tell them, else short ones from the primitive."""

import ast
import builtins
import keyword

_OF_OPS = {
    "bid": "block", "reduce_sum": "total", "reduce_max": "highest", "reduce_min": "lowest", "reduce_prod": "product",
    "mma": "product", "mma_scaled": "product", "exp": "e", "exp2": "e", "rsqrt": "r", "sqrt": "r", "sigmoid": "s", "arange": "index",
    "where": "chosen", "scan": "running", "reduce": "combined", "argmax": "at", "argmin": "at",
}  # fmt: skip
_VALUES = {"constant", "broadcast", "reshape", "astype", "dim", "stride"}  # what an assigned call makes on its way


class Names:
    """Gives each value a name of its own. variables: {file:line:column: name} of the user's assignments."""

    def __init__(self, variables=None):
        self.used = set(keyword.kwlist) | set(dir(builtins)) | {"tl"}
        self.variables = dict(variables or {})

    def fresh(self, base):
        """Returns a name that nothing else has."""
        name, number = base, 1
        while name in self.used:
            number += 1
            name = f"{base}{number}" if not base[-1].isdigit() else f"{base}_{number}"
        self.used.add(name)
        return name

    def of(self, op, default=None):
        """Returns the name of an operation's result."""
        named = None if op.name in _VALUES else self.variables.pop(op.where, None)
        return self.fresh(named or default or _OF_OPS.get(op.name, "t"))


def variables_of(source, file, first_line):
    """Returns {file:line:column: name} of the calls that a function assigns to variables."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return {}
    found = {}
    for node in ast.walk(tree):
        pairs = []
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            both = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
            pairs = list(zip(target.elts, value.elts)) if both else [(target, value)]
        for target, value in pairs:
            if isinstance(target, ast.Name) and isinstance(value, ast.Call):
                found[f"{file}:{value.lineno + first_line - 1}:{value.col_offset + 1}"] = target.id
    return found
