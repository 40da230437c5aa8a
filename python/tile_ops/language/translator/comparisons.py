"""Translates comparisons: ==, <, is, in, of numbers, tuples, dictionaries, enumerations and strings."""

import ast
import enum

from ..core import dtypes
from ..core.errors import TileTypeError
from ..core.values import Tile, is_constant, memory_of, shown, to_load
from ..functions.arithmetic import BINARY, COMPARE, SIGNS, logical_not
from ..functions.text import Text


class Comparisons:
    """The part of the translator that translates comparisons."""

    def _Compare(self, node):
        left, result = self.value(node.left), None
        for operator, right_node in zip(node.ops, node.comparators):
            right = self.value(right_node)
            test = self.compared(operator, left, right)
            result = test if result is None else self._both(result, test)
            if result is False:
                return False
            left = right
        return result

    def _both(self, x, y):
        if x is True:
            return y
        if y is True:
            return x
        if y is False:
            return False
        return BINARY["BitAnd"].lower(self, (x, y), {})

    def compared(self, operator, x, y):
        name = type(operator).__name__
        if name in ("Is", "IsNot"):
            if x is not None and y is not None and not (isinstance(x, enum.Enum) and isinstance(y, enum.Enum)):
                raise TileTypeError("`is` and `is not` compare with None and members of enumerations alone; use ==")
            return (x is y) == (name == "Is")
        if name in ("In", "NotIn"):
            found = self._contained(x, y)
            return found if name == "In" else logical_not.lower(self, (found,), {})
        if all(isinstance(value, Tile) or is_constant(value) for value in (x, y)):
            return COMPARE[name].lower(self, (x, y), {})
        if type(x) is tuple and type(y) is tuple:
            if name not in ("Eq", "NotEq"):
                raise TileTypeError(f"{SIGNS[name]} is not supported for tuples; compare their items")
            same = self._equal_items(x, y) if len(x) == len(y) else False
            return same if name == "Eq" else logical_not.lower(self, (same,), {})
        if type(x) is dict and type(y) is dict and name in ("Eq", "NotEq"):
            same = self._equal_items(tuple(x.values()), tuple(y[key] for key in x)) if x.keys() == y.keys() else False
            return same if name == "Eq" else logical_not.lower(self, (same,), {})
        if name in ("Eq", "NotEq"):
            kinds = (str, enum.Enum, dtypes.DType, type(None), bool, int, float)
            if isinstance(x, Text) or isinstance(y, Text):
                raise TileTypeError("Texts with values of the running kernel have no ==")
            x_dtype, y_dtype = dtypes.known(x), dtypes.known(y)
            if x_dtype is not None and y_dtype is not None:
                return (x_dtype is y_dtype) == (name == "Eq")
            if isinstance(x, kinds) or isinstance(y, kinds):
                return bool(x == y) == (name == "Eq")
        raise TileTypeError(f"Unsupported operand types for {SIGNS[name]}: {shown(x)} and {shown(y)}{to_load(x, y)}")

    def _equal_items(self, x, y):
        """Compares two tuples of equal length: returns a bool, or a scalar of the running kernel."""
        same = True
        for a, b in zip(x, y):
            for each in (a, b):
                if memory_of(each) is not None:
                    raise TileTypeError(f"== of tuples is not supported for elements of type {shown(each)}")
            test = self.compared(ast.Eq(), a, b)
            if isinstance(test, Tile) and test.shape:
                raise TileTypeError(f"== of tuples is not supported for non-scalar elements, got {shown(a)} and {shown(b)}")
            same = self._both(same, test)
            if same is False:
                return False
        return same

    def _contained(self, x, items):
        """Translates `x in items`: returns a bool, or a scalar of the running kernel."""
        if isinstance(items, type) and issubclass(items, enum.Enum):
            return any(x is member for member in items)
        if isinstance(items, enum.Flag):
            if type(x) is not type(items):
                raise TileTypeError(f"'in' of a flag of {shown(items)} needs one of the same class, got {shown(x)}")
            return x in items
        if isinstance(items, str):
            if not isinstance(x, str):
                raise TileTypeError(f"'in' of a string needs a constant string, got {shown(x)}")
            return x in items
        if not isinstance(items, (tuple, dict)):
            raise TileTypeError(f"'in' needs a tuple, got {shown(items)}")
        found = False
        for item in items:
            for operand in (x, item):
                if isinstance(operand, Tile) and operand.shape:
                    raise TileTypeError(f"'in' requires scalar operands, got {shown(x)} and {shown(item)}")
            same = self.compared(ast.Eq(), x, item)
            if same is True:
                return True
            if same is not False:
                found = same if found is False else BINARY["BitOr"].lower(self, (found, same), {})
        return found
