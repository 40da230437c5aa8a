"""The spelling of each primitive in Python: rows of a table, each a function (printer, op) -> Expression."""

from ..core import dtypes
from ..core.errors import TileTypeError
from ..core.modes import PADDING, PaddingMode
from ..core.registry import FUNCTIONS
from ..functions.elements import SCOPES
from .expressions import (
    AND,
    ATOM,
    COMPARISON,
    OR,
    PRODUCT,
    SHIFT,
    SIGN,
    SUM,
    XOR,
    Expression,
    common_shape,
    dtype_text,
    literal,
    operands,
    strict,
)
from .views import Tiles, tuple_text

TABLE = {}  # by the primitive's name
_INFIX = {
    "add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT), "div": ("/", PRODUCT), "floordiv": ("//", PRODUCT),
    "mod": ("%", PRODUCT), "bitwise_and": ("&", AND), "bitwise_or": ("|", OR), "bitwise_xor": ("^", XOR),
    "shift_left": ("<<", SHIFT), "shift_right": (">>", SHIFT), "eq": ("==", COMPARISON), "ne": ("!=", COMPARISON),
    "lt": ("<", COMPARISON), "le": ("<=", COMPARISON), "gt": (">", COMPARISON), "ge": (">=", COMPARISON),
}  # fmt: skip
_PREFIX = {"neg": "-", "bitwise_not": "~", "logical_not": "~"}
# Calls whose name or keywords differ from the primitive's.
_CALLS = {
    "minimum_nan": "tl.minimum({}, {}, propagate_nan=True)",
    "maximum_nan": "tl.maximum({}, {}, propagate_nan=True)",
    "flush_subnormal": "tl.add({}, 0.0, flush_to_zero=True)",
    **{
        f"{name}_{suffix}": f"tl.{python}({fields}, rounding_mode=tl.RoundingMode.{suffix.upper()})"
        for name, python, fields in (
            ("add", "add", "{}, {}"), ("sub", "sub", "{}, {}"), ("mul", "mul", "{}, {}"), ("div", "truediv", "{}, {}"),
            ("sqrt", "sqrt", "{}"),
        )
        for suffix in ("rz", "rm", "rp")
    },
}  # fmt: skip
_NAMED = (
    "abs", "acos", "asin", "atan", "atan2", "cdiv", "ceil", "cos", "cosh", "erf", "exp", "exp2", "expm1", "floor", "fma", "isfinite",
    "isinf", "isnan", "log", "log1p", "log2", "maximum", "minimum", "pow", "round", "rsqrt", "sigmoid", "silu", "sin", "sinh", "sqrt",
    "tan", "tanh", "trunc",
)  # fmt: skip


def spelling(*names):
    """Adds a function to the table."""

    def add(function):
        TABLE.update(dict.fromkeys(names, function))
        return function

    return add


def _result(op, text, level=ATOM, at=0):
    value = op.results[at]
    return Expression(text, level, dtypes.of_ir(value.dtype), value.shape)


def _elementwise(printer, op):
    made = [printer.expression(each) for each in op.operands]
    return operands(made, op.results[0].shape, dtypes.of_ir(op.operands[0].dtype))


@spelling(*_INFIX)
def _infix(printer, op):
    sign, level = _INFIX[op.name]
    x, y = _elementwise(printer, op)
    left = x.at(level + 1 if level == COMPARISON else level)
    return _result(op, f"{left} {sign} {y.at(level + 1)}", level)


@spelling(*_PREFIX)
def _prefix(printer, op):
    (x,) = _elementwise(printer, op)
    return _result(op, f"{_PREFIX[op.name]}{strict(x).at(SIGN)}", SIGN)


@spelling(*_CALLS)
def _call(printer, op):
    return _result(op, _CALLS[op.name].format(*(each.text for each in _elementwise(printer, op))))


@spelling(*_NAMED)
def _named(printer, op):
    assert op.name in FUNCTIONS
    return _result(op, f"tl.{op.name}({', '.join(each.text for each in _elementwise(printer, op))})")


@spelling("sign")
def _sign(printer, op):
    x = printer.named(op.operands[0])
    return _result(op, f"tl.where({x.at(SUM)} > 0, 1, tl.where({x.at(SUM)} < 0, -1, {x.text}))")


@spelling("where")
def _where(printer, op):
    shape, dtype = op.results[0].shape, dtypes.of_ir(op.results[0].dtype)
    cond, *made = operands([printer.expression(each) for each in op.operands], shape, None)
    made = operands(made, common_shape([each.shape for each in made]), dtype)
    return _result(op, f"tl.where({cond.text}, {made[0].text}, {made[1].text})")


@spelling("constant")
def _constant(printer, op):
    return literal(op.attributes["value"], dtypes.of_ir(op.attributes["dtype"]))


@spelling("broadcast")
def _broadcast(printer, op):
    x = printer.expression(op.operands[0])
    shape = op.attributes["shape"]
    if x.number is not None:
        zero = x.number == 0 and not x.text.startswith("-")
        text = "tl.zeros({0}, {2})" if zero else "tl.full({0}, {1}, {2})"
        made = _result(op, text.format(printer.shape(shape), x.text, dtype_text(x.dtype)))
    else:
        made = _result(op, f"tl.broadcast_to({x.text}, {printer.shape(shape)})")
    made.narrow = x
    return made


@spelling("astype")
def _astype(printer, op):
    x, dtype = printer.expression(op.operands[0]), dtypes.of_ir(op.attributes["dtype"])
    if x.dtype is dtype:
        return x
    if x.number is not None:
        return literal(dtypes.converted(x.number, dtype), dtype)
    made = _result(op, f"{strict(x).atom}.astype({dtype_text(dtype)})")
    made.uncast = x
    return made


@spelling("astype_rz", "astype_rm", "astype_rp", "astype_ra")
def _astype_rounded(printer, op):
    x, dtype = strict(printer.expression(op.operands[0])), dtype_text(dtypes.of_ir(op.attributes["dtype"]))
    return _result(op, f"{x.atom}.astype({dtype}, rounding_mode=tl.RoundingMode.{op.name[-2:].upper()})")


@spelling("bitcast", "unpack_from_bytes")
def _bits(printer, op):
    x, dtype = strict(printer.expression(op.operands[0])), dtype_text(dtypes.of_ir(op.attributes["dtype"]))
    return _result(op, f"tl.{op.name}({x.text}, {dtype})")


@spelling("pack_to_bytes")
def _one(printer, op):
    return _result(op, f"tl.{op.name}({strict(printer.expression(op.operands[0])).text})")


@spelling("detach")
def _detach(printer, op):
    return _result(op, f"{strict(printer.expression(op.operands[0])).atom}.detach()")


@spelling("reshape")
def _reshape(printer, op):
    return printer.reshaped(printer.expression(op.operands[0]), op.attributes["shape"])


@spelling("permute")
def _permute(printer, op):
    x, axes = printer.expression(op.operands[0]), op.attributes["axes"]
    return _result(op, f"{x.atom}.transpose()" if axes == (1, 0) else f"{x.atom}.permute({axes})")


@spelling("cat")
def _cat(printer, op):
    x, y = (strict(printer.expression(each)) for each in op.operands)
    return _result(op, f"tl.cat(({x.text}, {y.text}), {op.attributes['axis']})")


@spelling("arange")
def _arange(printer, op):
    size, dtype = op.attributes["size"], dtype_text(dtypes.of_ir(op.attributes["dtype"]))
    return _result(op, f"tl.arange({printer.extent(size)}, dtype={dtype})")


@spelling("extract")
def _extract(printer, op):
    x, *index = (printer.expression(each) for each in op.operands)
    return _result(
        op, f"{strict(x).atom}.extract({tuple_text(each.text for each in index)}, {printer.shape(op.results[0].shape)})"
    )


@spelling("insert")
def _insert(printer, op):
    x, part, *index = (printer.expression(each) for each in op.operands)
    return _result(op, f"{strict(x).atom}.insert({tuple_text(each.text for each in index)}, {strict(part).text})")


# Positions and sizes.


@spelling("bid", "num_blocks")
def _grid(printer, op):
    return _result(op, f"tl.{op.name}({op.attributes['axis']})")


@spelling("dim")
def _dim(printer, op):
    view = printer.view(op.operands[0])
    return _result(op, f"{view.text}.shape[{view.axis(op.attributes['axis'])}]")


@spelling("stride")
def _stride(printer, op):
    view = printer.view(op.operands[0])
    made = f"{view.text}.strides[{view.axis(op.attributes['axis'])}]"
    return _result(op, made if printer.wide(view) else f"{made}.astype({dtype_text(dtypes.of_ir(op.results[0].dtype))})")


# Reductions.


def _reduced(printer, op, python, ending=""):
    x, axes = printer.expression(op.operands[0]), op.attributes["axes"]
    axis = axes[0] if len(axes) == 1 else axes
    level = ATOM if not ending else COMPARISON
    made = _result(op, f"tl.{python}({x.text}, axis={axis}){ending}", level)
    shape = tuple(1 if at in axes else extent for at, extent in enumerate(op.operands[0].shape))
    made.kept = Expression(f"tl.{python}({x.text}, axis={axis}, keepdims=True){ending}", level, made.dtype, shape)
    return made


_REDUCTIONS = {"reduce_sum": "sum", "reduce_prod": "prod", "reduce_max": "max", "reduce_min": "min"}


@spelling(*_REDUCTIONS)
def _reduction(printer, op):
    return _reduced(printer, op, _REDUCTIONS[op.name])


@spelling("reduce_any")
def _any(printer, op):
    return _reduced(printer, op, "max", " != 0")


@spelling("reduce_all")
def _all(printer, op):
    return _reduced(printer, op, "min", " != 0")


@spelling("argmax", "argmin")
def _arg(printer, op):
    return _result(op, f"tl.{op.name}({printer.expression(op.operands[0]).text}, axis={op.attributes['axis']})")


_RUNNING = {"add": "cumsum", "mul": "cumprod"}


@spelling("scan", "reduce")
def _combined(printer, op):
    made = [printer.expression(each) for each in op.operands]
    axis = op.attributes["axis"]
    reverse = ", reverse=True" if op.attributes.get("reverse") else ""
    body = op.regions[0]
    first, narrow = body.ops[0], op.operands[0].dtype in ("f16", "bf16", "bool")
    plain = len(body.ops) == 2 and first.operands == body.arguments and body.ops[1].operands == first.results
    if op.name == "scan" and len(made) == 1 and plain and first.name in _RUNNING and not narrow:
        return _result(op, f"tl.{_RUNNING[first.name]}({strict(made[0]).text}, {axis}{reverse})")
    name = printer.local_function("combine", body)
    several = len(made) > 1
    tiles = tuple_text(strict(each).text for each in made) if several else strict(made[0]).text
    zeros = tuple_text(["0"] * len(made)) if several else "0"
    text = f"tl.{op.name}({tiles}, {axis}, {name}, {zeros}{reverse})"
    return Expression(text, ATOM, None, None) if several else _result(op, text)


@spelling("mma", "mma_scaled")
def _mma(printer, op):
    return _result(op, f"tl.{op.name}({', '.join(strict(printer.expression(each)).text for each in op.operands)})")


# Memory.

_PADDING = {repr(value): mode for mode, value in PADDING.items() if mode is not PaddingMode.UNDETERMINED}


def _padding(pad):
    """Returns the keyword of a load's padding; 0 needs none."""
    mode = _PADDING[repr(float(pad))]
    return "" if mode is PaddingMode.ZERO else f", padding_mode=tl.PaddingMode.{mode.name}"


def _tiles(printer, op, shape):
    return Tiles(printer.view(op.operands[0]), shape, op.attributes["steps"])


@spelling("load")
def _load(printer, op):
    tiles = _tiles(printer, op, op.attributes["shape"])
    index, order = tiles.index([printer.expression(each) for each in op.operands[1:]])
    padding = _padding(op.attributes.get("pad", 0.0))
    if tiles.ordered:
        return tiles.loaded(printer, f"tl.load({tiles.view.text}, {index}, {printer.shape(tiles.whole)}{order}{padding})")
    return tiles.loaded(printer, f"{tiles.tiled(printer, padding)}.load({index})")


def _implicit(tile, dtype):
    """Returns a tile without a cast that a store does itself."""
    if tile.uncast is not None:
        try:
            if dtypes.promote(tile.uncast.dtype, dtype) is dtype:
                return tile.uncast
        except TileTypeError:
            pass
    return strict(tile)


@spelling("store")
def _store(printer, op):
    tiles = _tiles(printer, op, op.operands[1].shape)
    index, order = tiles.index([printer.expression(each) for each in op.operands[2:]])
    tile = tiles.stored(printer, _implicit(printer.expression(op.operands[1]), tiles.view.dtype))
    if tiles.ordered:
        return f"tl.store({tiles.view.text}, {index}, {tile.text}{order})"
    return f"{tiles.tiled(printer)}.store({index}, {tile.text})"


@spelling("add_tile")
def _add_tile(printer, op):
    tiles = _tiles(printer, op, op.operands[1].shape)
    tiles.ordered = False
    index, _ = tiles.index([printer.expression(each) for each in op.operands[2:]])
    tile = tiles.stored(printer, strict(printer.expression(op.operands[1])))
    return f"{tiles.tiled(printer)}.atomic_store_add({index}, {tile.text})"


def _element_index(printer, op, at):
    """Returns the view, the texts of an index whose tiles begin at an operand, and the mask or None."""
    view = printer.view(op.operands[0])
    count = 1 if op.attributes.get("flat") else view.rank
    given = [strict(printer.expression(each)) for each in op.operands[at:]]
    index, mask = operands(given[:count], given[0].shape, None) if count else [], given[count:]
    return view, index, mask[0] if mask else None


@spelling("gather")
def _gather(printer, op):
    view, index, mask = _element_index(printer, op, 1)
    more = f", mask={mask.text}" if mask else ""
    pad = op.attributes.get("pad", 0.0)
    more += "" if repr(float(pad)) == "0.0" else f", padding_value={literal(pad, dtypes.float64).text}"
    return _result(op, f"tl.gather({view.text}, {tuple_text(view.elements(index))}{more})")


@spelling("scatter")
def _scatter(printer, op):
    view, index, mask = _element_index(printer, op, 2)
    value = _implicit(printer.expression(op.operands[1]), view.dtype)
    more = f", mask={mask.text}" if mask else ""
    return f"tl.scatter({view.text}, {tuple_text(view.elements(index))}, {value.text}{more})"


@spelling("load_offset")
def _load_offset(printer, op):
    view = printer.whole(op)
    offset, *mask = (strict(printer.expression(each)) for each in op.operands[1:])
    more = f", mask={mask[0].text}" if mask else ""
    pad = op.attributes.get("pad", 0.0)
    more += "" if repr(float(pad)) == "0.0" else f", padding_value={literal(pad, dtypes.float64).text}"
    return _result(op, f"{view.text}.get_raw_memory().load_offset({offset.text}{more})")


@spelling("store_offset")
def _store_offset(printer, op):
    view = printer.whole(op)
    value, offset, *mask = (strict(printer.expression(each)) for each in op.operands[1:])
    more = f", mask={mask[0].text}" if mask else ""
    return f"{view.text}.get_raw_memory().store_offset({offset.text}, {value.text}{more})"


_ORDERS = {"relaxed": "RELAXED", "acquire": "ACQUIRE", "release": "RELEASE"}
_SCOPES = {name: scope.name for scope, name in SCOPES.items()}


@spelling(*(f"atomic_{name}" for name in ("add", "and", "cas", "max", "min", "or", "xchg", "xor")))
def _atomic(printer, op):
    count = 2 if op.name == "atomic_cas" else 1
    values = [strict(printer.expression(each)) for each in op.operands[1 : 1 + count]]
    view, index, mask = _element_index(printer, op, 1 + count)
    order, scope = op.attributes.get("order", "relaxed"), op.attributes.get("scope", "device")
    more = f", memory_order=tl.MemoryOrder.{_ORDERS[order]}" if order in _ORDERS else ""
    more += f", memory_scope=tl.MemoryScope.{_SCOPES[scope]}" if scope != "device" else ""
    given = ", ".join(each.text for each in values)
    if op.attributes.get("flat"):
        more = (f", mask={mask.text}" if mask else "") + more
        text = f"{printer.whole(op).text}.get_raw_memory().{op.name}_offset({index[0].text}, {given}{more})"
    else:
        if mask:  # an element outside of the array is not changed
            index = [Expression(f"tl.where({mask.text}, {index[0].text}, -1)", ATOM, index[0].dtype, mask.shape), *index[1:]]
        text = f"tl.{op.name}({view.text}, {tuple_text(view.elements(index))}, {given}{more})"
    return _result(op, text)


def _row_index(printer, op, at, shape):
    view, axis = printer.view(op.operands[0]), op.attributes["axis"]
    rows, *starts = (strict(printer.expression(each)) for each in op.operands[at:])
    steps, made = op.attributes["steps"], []
    others = iter(starts)
    for each in range(view.rank):
        if each == axis:
            made.append(rows.text)
            continue
        start = next(others)
        text = start.text if steps[each] == 1 else f"{start.at(PRODUCT)} * {steps[each]}"
        made.append(f"tl.Slice({text}, {printer.extent(shape[each])})")
    if view.fixed:
        made = [*(f"tl.Slice({each.text}, 1)" for each in view.fixed), *made]
    if not view.plain():
        raise printer.unsupported(op, "rows of an array whose axes are reordered")
    return view, tuple_text(made), (1,) * len(view.fixed) + shape


@spelling("gather_rows")
def _gather_rows(printer, op):
    shape = op.results[0].shape
    view, index, whole = _row_index(printer, op, 1, shape)
    text = f"tl.load_advanced_indexing({view.text}, {index}{_padding(op.attributes.get('pad', 0.0))})"
    return printer.reshaped(Expression(text, ATOM, view.dtype, whole), shape)


@spelling("scatter_rows")
def _scatter_rows(printer, op):
    view, index, whole = _row_index(printer, op, 2, op.operands[1].shape)
    tile = printer.reshaped(_implicit(printer.expression(op.operands[1]), view.dtype), whole)
    return f"tl.store_advanced_indexing({view.text}, {index}, {tile.text})"


# Random numbers and output.


@spelling("random_u32", "random_u64")
def _random(printer, op):
    seed, stream, number = (printer.expression(each) for each in op.operands)
    seed, stream = (strict(each.narrow or each) for each in (seed, stream))
    if seed.shape or stream.shape:
        raise printer.unsupported(op, "a seed or stream for each element")
    dtype = ", dtype=tl.uint64" if op.name == "random_u64" else ""
    more = "" if stream.text.endswith("(), 0, tl.uint64)") else f", stream={stream.text}"
    return _result(op, f"tl.random_bits({printer.shape(op.results[0].shape)}, {seed.text}, {strict(number).text}{dtype}{more})")


@spelling("assert")
def _assert(printer, op):
    message = op.attributes.get("message", "")
    return f"tl.assert_({printer.expression(op.operands[0]).text}{f', {message!r}' if message else ''})"


@spelling("print")
def _print(printer, op):
    given = "".join(f", {strict(printer.expression(each)).text}" for each in op.operands)
    return f"tl.printf({op.attributes['format']!r}{given})"
