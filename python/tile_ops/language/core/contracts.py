"""The shapes, dtypes and errors of language functions, which families of functions share; docstrings end with them."""

import functools
import inspect
import textwrap

_WIDTH = 100
_BROADCAST = "the operands broadcast to one shape by NumPy's rules, and the result has that shape."
_PROMOTED = (
    "the operands promote to one dtype. A float wins over an integer, an integer over a bool, and between two of one kind the wider one wins. "
    "A Python number takes the dtype of the other operand."
)
_PROMOTION_ERRORS = (
    "TileTypeError if the shapes do not broadcast, if the dtypes have no common one (int32 and uint32, float16 and bfloat16), and "
    "for float8 and tfloat32, which need astype() first. TileValueError if a Python number is out of the dtype's range."
)
_FLOATS = (
    "float16, bfloat16, float32 and float64; integers and bools become float32. The result has that dtype. 16-bit floats are "
    "computed in float32 and rounded once."
)
_ORDER = "for an index of another rank, and for a memory order that the access cannot have or that lacks its scope."
_WORDS = "int32, uint32, int64 and uint64."
_NEW_SHAPE = "a shape is a constant integer or a tuple of them, each at least 1. In tile_ops.cutile they are powers of two."
_SIZE = "TileTypeError for a shape that is not constant, for an extent below 1, and for a tile with too many elements."
_AXIS = "TileTypeError for an axis out of range, for a repeated axis, and for float8 and tfloat32."
_RANDOM = (
    "TileTypeError for another dtype, for a seed, offset or stream that is no integer, and for an offset of another shape than the "
    "result."
)


def _family(names, shapes, dtypes, errors, units=""):
    parts = [("Shapes", shapes), ("Dtypes", dtypes), ("Units", units), ("Errors", errors)]
    return dict.fromkeys(names.split(), [(label, text) for label, text in parts if text])


def _atomic(names, update, dtypes):
    """Returns the contracts of atomic operations at index tiles and, with the suffix _offset, at offsets."""
    errors = "shapes that do not broadcast, for MemoryOrder.WEAK, and for MemoryScope.NONE. TileSyntaxError in the function of reduce "
    errors += "or scan."
    return {
        **_family(
            names,
            f"indices are one integer tile for each axis; they and the {update} broadcast to the result's shape.",
            dtypes,
            f"TileTypeError for other dtypes, for another number of indices, for {errors}",
            "indices count elements.",
        ),
        **_family(
            " ".join(f"{name}_offset" for name in names.split()),
            f"offset, an integer tile, the mask and the {update} broadcast to the result's shape.",
            f"{dtypes} mask: bool_.",
            f"TileTypeError for other dtypes, for an offset that is no integer, for a mask that is not bool_, for {errors}",
            "offset counts elements.",
        ),
    }


_CONTRACTS = {
    **_family(
        "add sub mul",
        _BROADCAST,
        f"integers, floats and one bool; {_PROMOTED}",
        f"{_PROMOTION_ERRORS} TileTypeError for two bools, for a rounding_mode of integers, and for flush_to_zero of other dtypes than "
        "float32.",
    ),
    **_family(
        "truediv",
        _BROADCAST,
        f"integers, bools and floats; {_PROMOTED} Integers and bools become float32.",
        f"{_PROMOTION_ERRORS} TileTypeError for RoundingMode.FULL and APPROX and for flush_to_zero of other dtypes than float32.",
    ),
    **_family("floordiv mod", _BROADCAST, f"integers, floats and one bool; {_PROMOTED}", f"{_PROMOTION_ERRORS} TileTypeError for two bools."),
    **_family(
        "maximum minimum",
        _BROADCAST,
        f"integers, floats and one bool; {_PROMOTED}",
        f"{_PROMOTION_ERRORS} TileTypeError for two bools, and for flush_to_zero of other dtypes than float32.",
    ),
    **_family("cdiv divmod_", _BROADCAST, f"integers; {_PROMOTED}", f"{_PROMOTION_ERRORS} TileTypeError for floats and for two bools."),
    **_family("next_power_of_2", "n is a constant; the result is one.", "an integer.", "TileTypeError for a tile and for a float."),
    **_family("pow_", _BROADCAST, f"at least one float; {_PROMOTED}", f"{_PROMOTION_ERRORS} TileTypeError for two integers or bools."),
    **_family("atan2", _BROADCAST, f"{_PROMOTED} Integers and bools become float32.", _PROMOTION_ERRORS, "the result is in radians."),
    **_family(
        "negative",
        "any; the result has x's.",
        "integers, floats and bool; the result has x's dtype, int32 for a bool.",
        "TileTypeError for float8 and tfloat32.",
    ),
    **_family(
        "greater greater_equal less less_equal equal not_equal",
        _BROADCAST,
        f"integers, floats and bool; {_PROMOTED} The result is bool_.",
        _PROMOTION_ERRORS,
    ),
    **_family(
        "bitwise_and bitwise_or bitwise_xor",
        _BROADCAST,
        "integers or bools of one dtype, which the result has. A Python integer takes the dtype of the other operand.",
        "TileTypeError for floats, for two dtypes, and for shapes that do not broadcast.",
    ),
    **_family("bitwise_not", "any; the result has x's.", "integers and bool; the result has x's.",
              "TileTypeError for floats, and for a constant bool."),
    **_family("bitwise_lshift bitwise_rshift", _BROADCAST, f"integers; {_PROMOTED}",
              f"{_PROMOTION_ERRORS} TileTypeError for floats and bools."),
    **_family("where", _BROADCAST, f"cond: bool, an integer or a float; x and y: any; {_PROMOTED}", _PROMOTION_ERRORS),
    **_family("logical_not", "any; the result has x's.", "integers, floats and bool; the result is bool_.",
              "TileTypeError for float8 and tfloat32."),
    **_family("detach", "any; the result has x's.", "any; the result has x's.", "none."),
    **_family("fma", _BROADCAST, f"floats; {_PROMOTED}", f"{_PROMOTION_ERRORS} TileTypeError for integers and bools."),
    **_family("abs_", "any; the result has x's.", "integers, floats and bool; the result has x's dtype.",
              "TileTypeError for float8 and tfloat32."),
    **_family("isnan isinf isfinite", "any; the result has x's.", "floats; the result is bool_.",
              "TileTypeError for integers, bools, float8 and tfloat32."),
    **_family("sin cos tan", "any; the result has x's.", _FLOATS, "TileTypeError for float8 and tfloat32.", "x is in radians."),
    **_family("asin acos atan", "any; the result has x's.", _FLOATS, "TileTypeError for float8 and tfloat32.",
              "the result is in radians."),
    **_family(
        "exp exp2 expm1 log log2 log1p sqrt rsqrt sinh cosh tanh erf sigmoid silu",
        "any; the result has x's.",
        _FLOATS,
        "TileTypeError for float8 and tfloat32, and for a rounding_mode or flush_to_zero that the dtype does not have. "
        "TileValueError for a constant outside of the domain.",
    ),
    **_family("floor ceil round trunc", "any; the result has x's.",
              "float16, bfloat16, float32 and float64; the result has x's dtype.",
              "TileTypeError for integers, bools, float8 and tfloat32."),
    **_family("reduce", "x has any shape; the result lacks the axis, or has extent 1 there with keepdims.",
              "integers, floats and bool; the results have the dtypes of x.",
              "TileTypeError for an axis out of range, for a func that returns another number of values or another dtype, and for "
              "identities that are not constant. TileSyntaxError for memory accesses in func."),
    **_family("scan", "x has any shape; the result has the same.", "integers, floats and bool; the results have the dtypes of x.",
              "TileTypeError for an axis out of range, for a func that returns another number of values or another dtype, and for "
              "identities that are not constant. TileSyntaxError for memory accesses in func."),
    **_family("sum_ prod", "x has any shape; the result lacks the axes, or has extent 1 there with keepdims.",
              "integers, floats and bool; the result has x's dtype, int32 for a bool. 16-bit floats are added in float32 and rounded "
              "once.", f"{_AXIS} TileTypeError for a rounding_mode of integers."),
    **_family("max_ min_", "x has any shape; the result lacks the axes, or has extent 1 there with keepdims.",
              "integers, floats and bool; the result has x's dtype, int32 for a bool.", _AXIS),
    **_family("argmax argmin", "x has any shape; the result lacks the axis, or has extent 1 there with keepdims.",
              "integers, floats and bool; the result is int32.", _AXIS, "indices count elements, from 0."),
    **_family("cumsum cumprod", "x has any shape; the result has the same.",
              "integers, floats and bool; the result has x's dtype, int32 for a bool. 16-bit floats run in float32 and are rounded "
              "once.", f"{_AXIS} TileTypeError for a rounding_mode of integers."),
    **_family(
        "mma",
        "x [M, K], y [K, N], acc [M, N], or each with a batch axis before them; batches broadcast. The result has acc's shape.",
        "x and y are equal: float16 (acc float16 or float32), bfloat16, float32 or tfloat32 (acc float32), float64 (acc float64), "
        "float8_e4m3fn or float8_e5m2 (acc float16 or float32). int8 and uint8 may be mixed (acc int32).",
        "TileTypeError for other ranks, dtypes and extents, and for use_fast_acc without float8.",
    ),
    **_family(
        "matmul",
        "x [..., M, K] or [K], y [..., K, N] or [K], with at most one batch axis; the result as numpy.matmul's.",
        "as mma; x and y promote to one dtype first, and the result is rounded to it.",
        "TileTypeError for other ranks, dtypes and extents.",
    ),
    **_family(
        "mma_scaled",
        "x [M, K], x_scale [M, K / 32], y [K, N], y_scale [K / 32, N], acc [M, N], or each with a batch axis before them.",
        "x and y float8_e4m3fn or float8_e5m2, scales float8_e8m0fnu or uint8, acc and the result float32.",
        "TileTypeError for other ranks, extents and dtypes of scales; TileUnsupportedFeatureError for other dtypes of x and y.",
    ),
    **_family("random_bits", "the result has the given shape; offset is a scalar or has that shape.",
              "dtype is uint32 or uint64; seed, offset and stream are integers.", _RANDOM),
    **_family("uniform normal", "the result has the given shape; offset is a scalar or has that shape.",
              "dtype is float16, bfloat16, float32 or float64; seed, offset and stream are integers.", _RANDOM),
    **_family("bid num_blocks", "a scalar.", "int32.", "TileTypeError for an axis other than the constants 0, 1 and 2.",
              "blocks of the grid."),
    **_family("num_tiles", "shape has one extent for each axis of the array, or is (). The result is a scalar.",
              "int32, or int64 for an array that is indexed with int64.",
              "TileTypeError for a shape of another rank, an axis out of range, or an order that is no permutation.", "tiles."),
    **_family("view_num_tiles", "a scalar.", "int32, or int64 for an array that is indexed with int64.",
              "TileTypeError for an axis out of range.", "tiles."),
    **_family("assume_divisible_by", "any; the result has x's.", "any; the result has x's.",
              "TileTypeError for a divisor that is not constant, TileValueError for a divisor below 1."),
    **_family("grid_dependency_control_wait grid_dependency_control_launch_dependents", "it takes no tiles.", "it takes no tiles.",
              "none."),
    **_family(
        "load",
        "index has one entry for each axis of the array. shape has one extent for each axis, or is () for one element; the result "
        "has that shape.",
        "any; the result has the array's dtype. index: signed integers.",
        f"TileTypeError {_ORDER} TileTypeError for a shape of another rank. TileUnsupportedFeatureError for a padding that the dtype cannot have.",
        "index counts tiles of the shape; with shape () it counts elements.",
    ),
    **_family("store", "index has one entry for each axis of the array; tile has as many axes, or is a scalar.",
              "the tile's dtype converts implicitly to the array's: from a narrower to a wider one.",
              f"TileTypeError for a tile whose dtype does not convert, {_ORDER}", "index counts tiles of the tile's shape; for a scalar it counts elements."),
    **_family("slice_", "the result has the array's rank; extent `stop - start` along the axis.",
              "any; start and stop are signed integers.",
              "TileTypeError for an axis out of range or bounds that are no integers, TileValueError for constants with stop < start.",
              "start and stop count elements."),
    **_family("tiled_view", "tile_shape has one extent for each axis of the array, or is ().", "any.",
              "TileTypeError for a tile_shape or traversal_steps of another rank, and for steps below 1.",
              "traversal_steps count elements."),
    **_family("view_load", "index has one entry for each axis; the result has the view's tile shape.",
              "any; the result has the array's dtype.", "TileTypeError for an index of another rank.", "index counts tiles."),
    **_family("view_store", "index has one entry for each axis; tile broadcasts to the view's tile shape.",
              "the tile's dtype converts implicitly to the array's.",
              "TileTypeError for an index of another rank and a tile that does not broadcast or convert.", "index counts tiles."),
    **_family("load_advanced_indexing", "indices has one entry for each axis of an array of rank 2 or more. The result has the "
              "length of the tile or Slice along each axis.", "the array's dtype; rows are integers.",
              "TileTypeError for another rank, and unless exactly one entry is an integer tile of one axis.",
              "indices and starts count elements."),
    **_family("store_advanced_indexing", "as load_advanced_indexing; tile has the shape of the indices.",
              "the tile's dtype converts implicitly to the array's; rows are integers.",
              "TileTypeError for another rank or shape, and unless exactly one entry is an integer tile of one axis.",
              "indices and starts count elements."),
    **_family("gather", "indices are one integer tile for each axis; they and the mask broadcast to the result's shape.",
              "any; the result has the array's dtype. mask: bool_.",
              "TileTypeError for another number of indices, for shapes that do not broadcast, and for a mask that is not bool_.",
              "indices count elements, from 0; a negative index is outside."),
    **_family("scatter", "indices are one integer tile for each axis; they, the value and the mask broadcast to one shape.",
              "the value's dtype converts implicitly to the array's. mask: bool_.",
              "TileTypeError for another number of indices, for shapes that do not broadcast, and for a mask that is not bool_.",
              "indices count elements, from 0; a negative index is outside."),
    **_family("load_offset", "offset and mask broadcast to the result's shape.", "the result has the array's dtype; mask: bool_.",
              "TileTypeError for an offset that is no integer and for a mask that is not bool_.", "offset counts elements."),
    **_family("store_offset", "offset, value and mask broadcast to one shape.", "value converts implicitly to the array's dtype.",
              "TileTypeError for an offset that is no integer and for a mask that is not bool_.", "offset counts elements."),
    **_atomic("atomic_add", "update",
              "int32, uint32, int64, uint64, float16, bfloat16, float32 and float64; the update converts implicitly."),
    **_atomic("atomic_xchg atomic_cas", "values", "int32, uint32, int64, uint64, float32 and float64; the values convert implicitly."),
    **_atomic("atomic_max atomic_min", "update", f"{_WORDS} The update converts implicitly."),
    **_atomic("atomic_and atomic_or atomic_xor", "update", f"{_WORDS} The update has the array's dtype."),
    **_family("atomic_store_add", "index has one entry for each axis; update broadcasts to the view's tile shape.",
              "int32, uint32, int64, uint64, float16, bfloat16, float32 and float64.",
              "TileTypeError for other dtypes, an index of another rank and an update that does not broadcast.", "index counts tiles."),
    **_family("atomic_store_max atomic_store_min atomic_store_and atomic_store_or atomic_store_xor",
              "index has one entry for each axis; update broadcasts to the view's tile shape.", _WORDS,
              "TileTypeError for other dtypes, an index of another rank and an update that does not broadcast.", "index counts tiles."),
    **_family("full", _NEW_SHAPE, "any; fill_value is a scalar of any dtype.", _SIZE),
    **_family("zeros ones", _NEW_SHAPE, "any.", _SIZE),
    **_family("arange", "the result is [size].", "integers and floats.",
              "TileTypeError for a size below 1 or not constant, and for bools, float8 and tfloat32."),
    **_family("astile", "a scalar gives shape (); each level of the tuple gives an axis.", "any.",
              "TileTypeError for tuples of different lengths, for elements that are no scalars, and for lengths that are no power of 2 "
              "in tile_ops.cutile."),
    **_family("reshape", "the new shape has as many elements as x.", "any; the result has x's.",
              f"{_SIZE} TileTypeError for another number of elements and for a second -1."),
    **_family("item", "x has one element; the result is a scalar.", "any; the result has x's.", "TileTypeError for more elements."),
    **_family("expand_dims", "the result has one axis more than x.", "any; the result has x's.",
              "TileTypeError for an axis out of range."),
    **_family("broadcast_to", "x broadcasts to the shape by NumPy's rules.", "any; the result has x's.",
              f"{_SIZE} TileTypeError if x does not broadcast."),
    **_family("permute", "axes is a permutation of x's axes.", "any; the result has x's.", "TileTypeError for other axes."),
    **_family("transpose", "x has two axes or more.", "any; the result has x's.",
              "TileTypeError for fewer axes, for one named axis, for no named axes of three or more, and for an axis out of range."),
    **_family("cat", "one or two tiles, whose extents are equal but along the axis.", "any; both tiles have one dtype.",
              "TileTypeError for more tiles, for other extents or dtypes, and for a joined extent that is no power of two in "
              "tile_ops.cutile."),
    **_family("extract", "shape divides x's shape; index has one entry for each axis. The result has the shape.",
              "any; the result has x's.", "TileTypeError for other shapes and ranks, TileValueError for a constant index out of range.",
              "index counts sub-tiles."),
    **_family("insert", "value's shape divides x's shape; index has one entry for each axis. The result has x's shape.",
              "any; value has x's dtype.", "TileTypeError for other shapes, ranks and dtypes, TileValueError for a constant index out "
              "of range.", "index counts sub-tiles."),
    **_family("astype", "any; the result has x's.", "any to any; rounding_mode is for floats to floats.",
              "TileTypeError for a rounding_mode that the two dtypes do not have, TileUnsupportedFeatureError for a dtype that no "
              "target has."),
    **_family("bitcast", "any; the result has x's.", "two dtypes of equal width, neither bool_.",
              "TileTypeError for other widths and for bool_."),
    **_family("pack_to_bytes", "any; the result is [bytes of x].", "any but bool_; the result is uint8.", "TileTypeError for bool_."),
    **_family("unpack_from_bytes", "x is [n], n bytes; the result is [n / bytes of dtype].", "x is uint8; dtype is any but bool_.",
              "TileTypeError for another dtype or rank, and for a number of bytes that does not divide."),
    **_family("ensure_constant", "it takes no tiles.", "any constant.", "TileTypeError for a value that is known only when it runs."),
    **_family("static_assert", "it takes no tiles.", "any constant.",
              "TileStaticAssertionError if the condition is false, TileTypeError if it is not constant."),
    **_family("static_eval", "a tile has only its shape, dtype and rank there.", "any constant.",
              "TileStaticEvalError for an exception of the expression."),
    **_family("static_iter", "it takes no tiles.", "any constants.",
              "TileTypeError for what is no iterable of constants, and for more than 1000 items."),
    **_family("assert_", "any.", "bool, an integer or a float: 0 is false.",
              "TileTypeError for a message that is no constant text. The launch raises RuntimeError when an element is false."),
    **_family("print_", "any.", "any.", "TileTypeError for sep and end that are no constant text."),
    **_family("printf", "any.", "integers and bools for d i u o x X, floats for e E f F g G a A.",
              "TileTypeError for another specifier, for another number of arguments, and for a dtype that the specifier does not show."),
}  # fmt: skip


@functools.cache
def _filled(label, text):
    return textwrap.fill(f"{label}: {text}", _WIDTH, break_on_hyphens=False)


def documented(name, doc):
    """Returns the docstring of a function: what it says, then its shapes, dtypes, units and errors."""
    contract = _CONTRACTS.get(name)
    if contract is None:  # a method of a Python value, such as a dictionary's
        return doc
    return "\n".join([inspect.cleandoc(doc), "", *(_filled(*part) for part in contract)])
