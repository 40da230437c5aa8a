"""The language of kernels in Python: `import tile_ops.language as tl`. Its functions are for the bodies of kernels."""

import sys as _sys

from .core.annotations import (
    Array,
    ArrayAnnotation,
    Constant,
    ConstantAnnotation,
    IndexedWithInt64,
    ListAnnotation,
    Scalar,
    ScalarInt64,
    Tile,
    TiledView,
)
from .functions.arithmetic import (
    add,
    atan2,
    bitwise_and,
    bitwise_lshift,
    bitwise_not,
    bitwise_or,
    bitwise_rshift,
    bitwise_xor,
    cdiv,
    detach,
    equal,
    floordiv,
    greater,
    greater_equal,
    less,
    less_equal,
    logical_not,
    maximum,
    minimum,
    mod,
    mul,
    negative,
    next_power_of_2,
    not_equal,
    sub,
    truediv,
    where,
)
from .functions.arithmetic import divmod_ as divmod
from .functions.arithmetic import pow_ as pow
from .functions.combine import reduce, scan
from .core.dtypes import (
    DType,
    bfloat16,
    bool_,
    float4_e2m1fn,
    float8_e4m3fn,
    float8_e5m2,
    float8_e5m3fnu,
    float8_e8m0fnu,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    tfloat32,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .functions.elements import (
    atomic_add,
    atomic_and,
    atomic_cas,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_xchg,
    atomic_xor,
    gather,
    scatter,
)
from .core.errors import (
    TileCompilerExecutionError,
    TileCompilerTimeoutError,
    TileError,
    TileInternalError,
    TileRecursionError,
    TileStaticAssertionError,
    TileStaticEvalError,
    TileSyntaxError,
    TileTypeError,
    TileUnsupportedFeatureError,
    TileValueError,
    UnsupportedCallError,
)
from .functions.unary import (
    acos,
    asin,
    atan,
    ceil,
    cos,
    cosh,
    erf,
    exp,
    exp2,
    expm1,
    floor,
    fma,
    isfinite,
    isinf,
    isnan,
    log,
    log1p,
    log2,
    rsqrt,
    sigmoid,
    silu,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
)
from .functions.unary import abs_ as abs
from .functions.unary import round_ as round
from .functions.grid import (
    assume_divisible_by,
    bid,
    grid_dependency_control_launch_dependents,
    grid_dependency_control_wait,
    num_blocks,
    num_tiles,
)
from .kernel import ByTarget, kernel
from .functions.memory import Slice, load, load_advanced_indexing, store, store_advanced_indexing
from .functions.microscaling import mma_scaled
from .core.modes import MemoryOrder, MemoryScope, PaddingMode, RoundingMode
from .functions.products import matmul, mma
from .functions.random import normal, random_bits, uniform
from .functions.reductions import argmax, argmin, cumprod, cumsum, prod
from .functions.reductions import max_ as max
from .functions.reductions import min_ as min
from .functions.reductions import sum_ as sum
from .core.registry import function
from .functions.shapes import (
    arange,
    astile,
    astype,
    bitcast,
    broadcast_to,
    cat,
    expand_dims,
    extract,
    full,
    insert,
    ones,
    pack_to_bytes,
    permute,
    reshape,
    transpose,
    unpack_from_bytes,
    zeros,
)
from .functions.static import ensure_constant, static_assert, static_eval, static_iter
from .functions.text import assert_, printf
from .functions.text import print_ as print

from .. import _graphs as _graphs  # registers launches of kernels with torch.compile


def __getattr__(name):
    from .core import advice

    close = "" if name.startswith("_") else advice.of_module(name, globals(), "tl")
    raise AttributeError(f"module 'tile_ops.language' has no attribute {name!r}{close}")


# Without the modules that this package imports.
__all__ = [name for name, value in list(globals().items()) if name[0] != "_" and not isinstance(value, type(_sys))]
