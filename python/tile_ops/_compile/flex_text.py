"""The functions of flex_attention as a text of tile::_attention_with_score, and as the keys that each query sees."""

import dataclasses
import math

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from . import compat
from .active import Refused
from .epilogue import SPECIAL, TEXTS, Value
from .ops import literal

aten = torch.ops.aten
INDICES = "b", "h", "q", "k"
MOST_OPERANDS, MOST_TABLE_AXES = 8, 4
MOST_LENGTH = 1 << 20  # of queries and keys, also where it varies: a text counts them in floats
MOST_INTEGER = 1 << 24  # which floats hold
MOST_CONSTANT = 1 << 31  # a text takes greater numbers for floats

# Names of torch's operators that inductor's table of texts has under others.
_OTHER_NAMES = {"div": "truediv", "bitwise_not": "logical_not", "convert_element_type": "_to_copy"}
_INTEGERS = ("add", "sub", "mul", "neg", "abs", "maximum", "minimum", "square", "relu")  # that they are closed under
_BOUNDS = {"add": sum, "sub": sum, "mul": math.prod, "square": lambda bounds: bounds[0] ** 2}
_LIMITS = {"clamp_min": "lt", "clamp_max": "gt"}
# {operator: the index of the number that fills its result}
_FILLED = {"full": 1, "full_like": 1, "new_full": 2, "scalar_tensor": 0}
_ONES, _ZEROS = ("ones", "ones_like", "new_ones"), ("zeros", "zeros_like", "new_zeros")
_COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")
# Texts of operators whose text for integers differs from that for numbers.
_OF_INTEGERS = {
    "remainder": "mod({0}, {1})",
    "maximum": "maximum({0}, {1})",
    "minimum": "minimum({0}, {1})",
    "clamp_min": "maximum({0}, {1})",
    "clamp_max": "minimum({0}, {1})",
    "bitwise_and": "({0} & {1})",
    "bitwise_or": "({0} | {1})",
    "bitwise_xor": "({0} ^ {1})",
}
_OF_DIVISIONS = {"floor": "floordiv({0}, {1})", "trunc": "where({0} < 0, -floordiv(-{0}, {1}), floordiv({0}, {1}))"}
_SAME = ("lift_fresh_copy", "detach", "clone", "alias", "expand", "view")  # of numbers without dimensions


@dataclasses.dataclass
class Number(Value):
    """A part of a text. bound: of an integer's magnitude; constant: its value if it is known."""

    bound: int = 0
    constant: float | None = None

    def __str__(self):
        return self.text


def _name_of(node):
    name = node.target._schema.name.split("::")[1]
    return _OTHER_NAMES.get(name, name)


def _is_integer(node):
    if not isinstance(node, torch.fx.Node):
        return isinstance(node, int) and not isinstance(node, bool)
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and not value.dtype.is_floating_point and value.dtype != torch.bool


def _kind_of(node):
    """Returns the name of an integer's dtype; raises Refused for one in which a text does not compute."""
    kind = str(node.meta["val"].dtype).split(".")[1]
    if kind not in ("int32", "int64"):
        raise Refused(f"integers of {kind}")
    return kind


def traced(function, examples, device):
    """Returns the graph of torch's operators of a function of numbers without dimensions and captured tensors."""
    from torch._inductor.decomposition import select_decomp_table

    with torch.no_grad(), compat.stand_ins(examples, device) as own, compat.indices_are_tensors():
        return make_fx(function, decomposition_table=select_decomp_table())(*own).graph


class Text:
    """Writes the graph of a function of scores. dtype: of the sums; extents: of b, h, q and k.

    An integer is written as a number where numbers hold it exactly, which threads compute fastest, and as an integer where it
    is an index, or beyond these.
    """

    def __init__(self, graph, extents, dtype):
        self.dtype, self.module, self.named, self.values, self.integers = dtype, graph.owning_module, {}, {}, {}
        self.inexact = set()  # integers that numbers do not hold, so that each is tried once
        # (captured argument, axes or constants that index it, or None for computed places): its name in the text
        self.operands = {}
        score, *places = [node for node in graph.nodes if node.op == "placeholder"]
        self.values[score] = Number("score", dtype)
        for node, name, extent in zip(places, INDICES, extents):
            self.values[node], self.integers[node] = Number(name, torch.int32, extent), f"i{name}"
        self.captured = {node: number for number, node in enumerate(places[len(INDICES) :])}

    def write(self, node):
        """Returns the value of a node; raises Refused."""
        if not isinstance(node, torch.fx.Node):
            return self.constant(node)
        if node not in self.values:
            self.values[node] = self.exact(node) if _is_integer(node) else self.made(node)
        return self.values[node]

    def exact(self, node):
        """Returns an integer as a number: as what is computed in numbers, if these hold it exactly."""
        value = self.attempt(self.made, node)
        return value or self.name(f"float({self.integer(node)})", self.dtype)

    def attempt(self, make, node):
        """Returns what make(node) does; None, and nothing is written, if that is no integer that numbers hold."""
        if node in self.inexact:
            return None
        kept = [dict(each) for each in (self.named, self.values, self.integers, self.operands)]
        try:
            value = make(node)
            if value.dtype == torch.int32:
                return value
        except Refused:
            pass
        self.named, self.values, self.integers, self.operands = kept
        self.inexact.add(node)
        return None

    def integer(self, node):
        """Returns the text of an integer, which has its dtype if torch's is one; raises Refused."""
        if isinstance(node, int) and not isinstance(node, bool):
            return f"({node})" if node < 0 else f"{node}"
        if not isinstance(node, torch.fx.Node):
            raise Refused(f"an integer that is {type(node).__name__}")
        if node not in self.integers:
            text = self.made_integer(node)
            self.integers[node] = text if text.isalnum() else self.name(text, torch.int64).text
        return self.integers[node]

    def made_integer(self, node):
        if not _is_integer(node):
            return self.cut(node, "int32")
        if node in self.captured:
            return self.read(node, ()).text
        name = _called(node)
        if name in ("index", "select"):
            return self.read(*self.place(node)).text
        kind = _kind_of(node)
        if node.op == "get_attr":
            return self.whole(self.own_number(node), kind)
        name = _name_of(node)
        if name in _FILLED:
            return self.whole(node.args[_FILLED[name]], kind)
        if name in _ONES or name in _ZEROS:
            return self.whole(name in _ONES, kind)
        if name in _SAME:
            return self.integer(node.args[0])
        if name == "_to_copy":
            given = node.args[0]
            return f"{kind}({self.integer(given)})" if _is_integer(given) else self.cut(given, kind)
        if name == "where":
            condition, *chosen = node.args
            x, y = (self.widened(each, kind) for each in chosen)
            condition = self.write(condition)
            return f"where({condition}, {x}, {y})" if condition.constant is None else x if condition.constant else y
        text = _OF_INTEGERS.get(name) or TEXTS.get(name, ("",))[0] * (name in _INTEGERS)
        mode = node.kwargs.get("rounding_mode") if name == "truediv" else None
        text = _OF_DIVISIONS[mode] if mode else text
        if not text or not mode and any(each != 1 for each in node.kwargs.values()):
            raise Refused(f"{name} of integers")
        if (mode or name == "remainder") and not (isinstance(node.args[1], int) and node.args[1] > 0):
            raise Refused("an integer that is divided by another one than a positive constant")
        return text.format(*(self.widened(each, kind) for each in node.args))

    def whole(self, number, kind):
        """Returns the text of a constant integer of a dtype."""
        if not isinstance(number, (bool, int)) or abs(number) >= MOST_CONSTANT:
            raise Refused("a constant that is no integer of 32 bits")
        return f"{kind}({int(number)})"

    def cut(self, node, kind):
        """Returns the text of a condition or a number as an integer."""
        value = self.write(node)
        return f"{kind}({int(value.constant) if value.dtype == torch.bool and value.constant is not None else value})"

    def widened(self, node, kind):
        """Returns the text of an operand of integers of a dtype, in which a condition is one too."""
        is_condition = isinstance(node, torch.fx.Node) and not _is_integer(node)
        return f"int64({self.integer(node)})" if is_condition and kind == "int64" else self.integer(node)

    def own_number(self, node):
        tensor = getattr(self.module, node.target)
        if not isinstance(tensor, torch.Tensor) or tensor.numel() != 1 or torch._subclasses.fake_tensor.is_fake(tensor):
            raise Refused("a tensor of the function's own")
        return tensor.item()

    def constant(self, number, dtype=None):
        if not isinstance(number, (bool, int, float)):
            raise Refused(f"an argument that is {type(number).__name__}")
        kind = dtype or (torch.bool if isinstance(number, bool) else torch.int32 if isinstance(number, int) else self.dtype)
        kind = kind if kind == torch.bool else torch.int32 if not kind.is_floating_point else self.dtype
        if kind == torch.bool:
            return Number("", kind, constant=bool(number))
        text = SPECIAL.get(str(float(number))) or f"({literal(float(number))})"
        return Number(text, kind, abs(number) if kind == torch.int32 else 0, number)

    def name(self, text, dtype, bound=0):
        if bound > MOST_INTEGER:
            raise Refused("integers beyond those that a float holds")
        if text not in self.named:
            self.named[text] = Number(f"t{len(self.named)}", dtype, bound)
        return self.named[text]

    def made(self, node):
        if node in self.captured:
            return self.read(node, ())
        if node.op == "get_attr":
            return self.constant(self.own_number(node), getattr(self.module, node.target).dtype)
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            raise Refused(f"{node.target}")
        name = _name_of(node)
        if name in _FILLED:
            return self.constant(node.args[_FILLED[name]], node.meta["val"].dtype)
        if name in _ONES or name in _ZEROS:
            return self.constant(int(name in _ONES), node.meta["val"].dtype)
        if name in ("index", "select"):
            return self.read(*self.place(node))
        if _is_integer(node):
            _kind_of(node)
        if name in _SAME:
            return self.write(node.args[0])
        if name == "_to_copy":
            return self.converted(self.write(node.args[0]), node.meta["val"].dtype)
        if any(each != 1 for each in node.kwargs.values()) or "Tensor_mode" in node.target._overloadname:
            raise Refused(f"{node.target} with options")
        if name == "pow" and node.args[1] == 2:
            return self.applied("square", [self.write(node.args[0])])
        if name in _COMPARED and all(map(_is_integer, node.args)):
            if not all(self.attempt(self.write, each) for each in node.args):  # numbers do not hold them
                return self.name(TEXTS[name][0].format(*map(self.integer, node.args)), torch.bool)
        return self.applied(name, [self.write(each) for each in node.args])

    def applied(self, name, values):
        if name == "where":
            return self.chosen(*values)
        if name in _LIMITS:  # at a limit torch's gradient is that of the value
            x, limit = values
            return self.chosen(self.applied(_LIMITS[name], values), limit, x)
        if name not in TEXTS:
            raise Refused(f"{name} of a score")
        text, is_condition = TEXTS[name]
        if name.startswith(("logical", "bitwise")):
            if any(each.dtype != torch.bool or each.constant is not None for each in values):
                raise Refused(f"{name} of numbers")
        else:
            values = [self.number(each) for each in values]
        is_integer = not is_condition and name in _INTEGERS and all(each.dtype == torch.int32 for each in values)
        bound = _BOUNDS.get(name, max)([each.bound for each in values]) if is_integer else 0
        kind = torch.bool if is_condition else torch.int32 if is_integer else self.dtype
        return self.name(text.format(*values), kind, bound)

    def number(self, value):
        """Returns a condition as 1 or 0, and a number as it is."""
        if value.dtype != torch.bool:
            return value
        if value.constant is not None:
            return self.constant(int(value.constant))
        return self.name(f"where({value}, 1.0, 0.0)", torch.int32, 1)

    def chosen(self, condition, x, y):
        if condition.constant is not None:
            return x if condition.constant else y
        if condition.dtype != torch.bool:
            raise Refused("where of a number")
        x, y = self.number(x), self.number(y)
        is_integer = x.dtype == y.dtype == torch.int32
        kind = torch.int32 if is_integer else self.dtype
        return self.name(f"where({condition}, {x}, {y})", kind, max(x.bound, y.bound) if is_integer else 0)

    def converted(self, value, dtype):
        if dtype == torch.bool or value.dtype == dtype:
            return value if value.dtype == torch.bool else self.applied("ne", [value, self.constant(0)])
        value = self.number(value)
        if not dtype.is_floating_point:
            if value.dtype != torch.int32:
                raise Refused("an integer of a float")
            return value
        if dtype in (torch.bfloat16, torch.float16):
            return self.name(f"{str(dtype).split('.')[1]}({value})", self.dtype)
        return Number(value.text, self.dtype)

    def place(self, node):
        """Returns the tensor of which a node is an element, and the indices."""
        name = _called(node)
        if name not in ("index", "select"):
            return node, ()
        tensor, before = self.place(node.args[0])
        if name == "select":
            if node.args[1] != 0:
                raise Refused("an element of another axis than the first")
            return tensor, (*before, node.args[2])
        if any(each is None for each in node.args[1]):
            raise Refused("an index that leaves an axis out")
        return tensor, (*before, *node.args[1])

    def read(self, node, indices):
        """Returns an element of a captured tensor: an operand where the numbers of a score index its axes, else a table's."""
        if node not in self.captured:
            raise Refused("an index of what is computed")
        axes = [self.values[each].text if each in self.values else self.constant_index(each) for each in indices]
        tensor = node.meta.get("val")
        if not isinstance(tensor, torch.Tensor):
            raise Refused("a captured number that varies")
        if len(indices) != tensor.dim():
            raise Refused("a captured tensor that is read as a whole")
        kinds = {torch.bool: torch.bool, torch.int32: torch.int64, torch.int64: torch.int64}
        floats = (torch.float16, torch.bfloat16, torch.float32, *([torch.float64] if self.dtype == torch.float64 else []))
        kinds |= dict.fromkeys(floats, self.dtype)
        if tensor.dtype not in kinds:
            raise Refused(f"a captured tensor of {tensor.dtype}")
        varying = [axis for axis in axes if not isinstance(axis, int)]
        if all(axis in INDICES for axis in varying) and len(set(varying)) == len(varying):
            return Number(self.operand(node, tuple(axes)), kinds[tensor.dtype])
        if tensor.dim() > MOST_TABLE_AXES:
            raise Refused(f"a captured tensor of {tensor.dim()} axes that is read at computed places")
        places = ", ".join(self.integer(axis if isinstance(axis, int) else index) for axis, index in zip(axes, indices))
        return self.name(f"{self.operand(node, None)}[{places}]", kinds[tensor.dtype])

    def constant_index(self, index):
        if isinstance(index, int):
            return index
        if index.op == "get_attr":
            return int(self.own_number(index))
        return self.constant_index(index.args[0]) if _called(index) in _SAME else None

    def operand(self, node, axes):
        key = self.captured[node], axes
        if key not in self.operands:
            if len(self.operands) == MOST_OPERANDS:
                raise Refused("more captured tensors than a text can have")
            self.operands[key] = f"x{len(self.operands)}"
        return self.operands[key]


def result_of(graph):
    (output,) = (node for node in graph.nodes if node.op == "output")
    return output.args[0]


@dataclasses.dataclass
class Score:
    """A text of scores, empty if it leaves them as they are, and (captured argument, axes or None) of its operands."""

    text: str
    reads: tuple


def score_of(function, examples, dtype, device, extents):
    """Returns the Score of a score_mod; raises Refused. examples: arguments as the graph has them; extents: of b, h, q and k."""
    graph = traced(function, examples, device)
    writer = Text(graph, extents, dtype)
    value = writer.number(writer.write(result_of(graph)))
    if value.text == "score":
        return Score("", ())
    text = "; ".join([*(f"{each} = {what}" for what, each in writer.named.items()), value.text])
    if not _uses_score(graph):
        raise Refused("a score that does not matter")
    return Score(text, tuple(writer.operands))


def _uses_score(graph):
    score = next(iter(graph.nodes))
    seen, waiting = set(), [result_of(graph)]
    while waiting:
        node = waiting.pop()
        if node is score:
            return True
        if isinstance(node, torch.fx.Node) and node not in seen:
            seen.add(node)
            waiting += node.all_input_nodes
    return False


@dataclasses.dataclass
class Seen:
    """The keys that a mask_mod shows. window: (most q - k, most k - q), each may be None, if that is all; reads: the numbers
    that the function reads, in their order."""

    window: tuple | None
    reads: tuple = INDICES


def seen_of(function, examples, device):
    """Returns the Seen of a mask_mod. examples: arguments as the graph has them."""
    graph = traced(function, examples, device)
    places = [node for node in graph.nodes if node.op == "placeholder"][:4]
    reads = tuple(name for node, name in zip(places, INDICES) if node.users)
    try:
        return Seen(_window(result_of(graph), dict(zip(places, INDICES))), reads)
    except Refused:
        return Seen(None, reads)


def _called(node):
    is_call = isinstance(node, torch.fx.Node) and isinstance(node.target, torch._ops.OpOverload)
    return node.target._schema.name.split("::")[1] if is_call else ""


def _affine(node, names):
    """Returns (factor of q, factor of k, number) of an integer; raises Refused."""
    if isinstance(node, int) and not isinstance(node, bool):
        return 0, 0, node
    if names.get(node) in ("q", "k"):
        return int(names[node] == "q"), int(names[node] == "k"), 0
    name = _called(node)
    if name in ("add", "sub") and not node.kwargs and len(node.args) == 2:
        sign = -1 if name == "sub" else 1
        return tuple(x + sign * y for x, y in zip(_affine(node.args[0], names), _affine(node.args[1], names)))
    if name == "neg":
        return tuple(-x for x in _affine(node.args[0], names))
    raise Refused("a condition that is no window")


def _window(node, names):
    """Returns (most q - k, most k - q) of a conjunction of comparisons, None for no limit; raises Refused."""
    name = _called(node)
    if name in _ONES or (name in _FILLED and node.args[_FILLED[name]] is True):
        return None, None
    if name in ("bitwise_and", "logical_and"):
        return tuple(
            min((each for each in pair if each is not None), default=None)
            for pair in zip(*(_window(each, names) for each in node.args))
        )
    if name not in ("ge", "gt", "le", "lt"):
        raise Refused("a condition that is no window")
    left, right = (_affine(each, names) for each in node.args)
    q, k, number = (x - y for x, y in zip(left, right))  # compared with 0
    if name in ("le", "lt"):
        q, k, number = -q, -k, -number
    number -= name in ("gt", "lt")
    if (q, k) == (1, -1):  # k - q <= number
        limits = None, number
    elif (q, k) == (-1, 1):  # q - k <= number
        limits = number, None
    else:
        raise Refused("a condition that is no window")
    if number < 0:
        raise Refused("a window beside the query's own place")
    return limits
