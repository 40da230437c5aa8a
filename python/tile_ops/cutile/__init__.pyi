# Made by docs/stubs/make.py.
"""The names of cuTile Python for the kernels of tile_ops: `import tile_ops.cutile as ct`. Programs also run on CPU
tensors.

install() makes `import cuda.tile` return this module.
"""

from contextlib import AbstractContextManager
from typing import Any

from .. import language

from ..language import Array as Array
from ..language import ArrayAnnotation as ArrayAnnotation
from ..language import ByTarget as ByTarget
from ..language import Constant as Constant
from ..language import ConstantAnnotation as ConstantAnnotation
from ..language import DType as DType
from ..language import IndexedWithInt64 as IndexedWithInt64
from ..language import ListAnnotation as ListAnnotation
from ..language import MemoryOrder as MemoryOrder
from ..language import MemoryScope as MemoryScope
from ..language import PaddingMode as PaddingMode
from ..language import RoundingMode as RoundingMode
from ..language import Scalar as Scalar
from ..language import ScalarInt64 as ScalarInt64
from ..language import Slice as Slice
from ..language import Tile as Tile
from ..language import TileCompilerExecutionError as TileCompilerExecutionError
from ..language import TileCompilerTimeoutError as TileCompilerTimeoutError
from ..language import TileError as TileError
from ..language import TileInternalError as TileInternalError
from ..language import TileRecursionError as TileRecursionError
from ..language import TileStaticAssertionError as TileStaticAssertionError
from ..language import TileStaticEvalError as TileStaticEvalError
from ..language import TileSyntaxError as TileSyntaxError
from ..language import TileTypeError as TileTypeError
from ..language import TileUnsupportedFeatureError as TileUnsupportedFeatureError
from ..language import TileValueError as TileValueError
from ..language import TiledView as TiledView
from ..language import UnsupportedCallError as UnsupportedCallError
from ..language import abs as abs
from ..language import add as add
from ..language import arange as arange
from ..language import argmax as argmax
from ..language import argmin as argmin
from ..language import assert_ as assert_
from ..language import assume_divisible_by as assume_divisible_by
from ..language import astile as astile
from ..language import astype as astype
from ..language import atan2 as atan2
from ..language import atomic_add as atomic_add
from ..language import atomic_and as atomic_and
from ..language import atomic_cas as atomic_cas
from ..language import atomic_max as atomic_max
from ..language import atomic_min as atomic_min
from ..language import atomic_or as atomic_or
from ..language import atomic_xchg as atomic_xchg
from ..language import atomic_xor as atomic_xor
from ..language import bfloat16 as bfloat16
from ..language import bid as bid
from ..language import bitcast as bitcast
from ..language import bitwise_and as bitwise_and
from ..language import bitwise_lshift as bitwise_lshift
from ..language import bitwise_not as bitwise_not
from ..language import bitwise_or as bitwise_or
from ..language import bitwise_rshift as bitwise_rshift
from ..language import bitwise_xor as bitwise_xor
from ..language import bool_ as bool_
from ..language import broadcast_to as broadcast_to
from ..language import cat as cat
from ..language import cdiv as cdiv
from ..language import ceil as ceil
from ..language import cos as cos
from ..language import cosh as cosh
from ..language import cumprod as cumprod
from ..language import cumsum as cumsum
from ..language import detach as detach
from ..language import divmod as divmod
from ..language import ensure_constant as ensure_constant
from ..language import equal as equal
from ..language import exp as exp
from ..language import exp2 as exp2
from ..language import expand_dims as expand_dims
from ..language import extract as extract
from ..language import float16 as float16
from ..language import float32 as float32
from ..language import float4_e2m1fn as float4_e2m1fn
from ..language import float64 as float64
from ..language import float8_e4m3fn as float8_e4m3fn
from ..language import float8_e5m2 as float8_e5m2
from ..language import float8_e5m3fnu as float8_e5m3fnu
from ..language import float8_e8m0fnu as float8_e8m0fnu
from ..language import floor as floor
from ..language import floordiv as floordiv
from ..language import full as full
from ..language import function as function
from ..language import gather as gather
from ..language import greater as greater
from ..language import greater_equal as greater_equal
from ..language import grid_dependency_control_launch_dependents as grid_dependency_control_launch_dependents
from ..language import grid_dependency_control_wait as grid_dependency_control_wait
from ..language import insert as insert
from ..language import int16 as int16
from ..language import int32 as int32
from ..language import int64 as int64
from ..language import int8 as int8
from ..language import isnan as isnan
from ..language import kernel as kernel
from ..language import less as less
from ..language import less_equal as less_equal
from ..language import load as load
from ..language import load_advanced_indexing as load_advanced_indexing
from ..language import log as log
from ..language import log2 as log2
from ..language import matmul as matmul
from ..language import max as max
from ..language import maximum as maximum
from ..language import min as min
from ..language import minimum as minimum
from ..language import mma as mma
from ..language import mma_scaled as mma_scaled
from ..language import mod as mod
from ..language import mul as mul
from ..language import negative as negative
from ..language import not_equal as not_equal
from ..language import num_blocks as num_blocks
from ..language import num_tiles as num_tiles
from ..language import ones as ones
from ..language import pack_to_bytes as pack_to_bytes
from ..language import permute as permute
from ..language import pow as pow
from ..language import print as print
from ..language import printf as printf
from ..language import prod as prod
from ..language import reduce as reduce
from ..language import reshape as reshape
from ..language import rsqrt as rsqrt
from ..language import scan as scan
from ..language import scatter as scatter
from ..language import sin as sin
from ..language import sinh as sinh
from ..language import sqrt as sqrt
from ..language import static_assert as static_assert
from ..language import static_eval as static_eval
from ..language import static_iter as static_iter
from ..language import store as store
from ..language import store_advanced_indexing as store_advanced_indexing
from ..language import sub as sub
from ..language import sum as sum
from ..language import tan as tan
from ..language import tanh as tanh
from ..language import tfloat32 as tfloat32
from ..language import transpose as transpose
from ..language import truediv as truediv
from ..language import uint16 as uint16
from ..language import uint32 as uint32
from ..language import uint64 as uint64
from ..language import uint8 as uint8
from ..language import unpack_from_bytes as unpack_from_bytes
from ..language import where as where
from ..language import zeros as zeros
from . import tune as tune

def launch(
    stream: Any,
    grid: tuple[int, ...],
    kernel: language.kernel,
    kernel_args: tuple[Any, ...],
    /,
    *,
    programmatic_dependent_launch: bool = False,
) -> None:
    """Runs a kernel for each block of the grid, a tuple of up to three integers.

    stream: an object with cuda_stream or ptr, or an integer handle, 0 for the default one. If all arrays are on the CPU
    it is
    not used, and the kernel has run when this returns.
    kernel_args: a tuple with one entry for each parameter.

    Shapes and dtypes: help(tile_ops.kernel).
    Errors: TypeError for a stream that is None and for what is no kernel, ValueError for a grid beyond 2147483647
    blocks along
    an axis, TileError for code that the language refuses.
    """

def compiler_timeout(seconds: float) -> AbstractContextManager[None]:
    """Accepted, for programs that have it: the compiler runs in this process and takes the time that it takes. Errors:
    none.
    """

def install() -> None:
    """Makes `import cuda.tile` and `from cuda import tile` return this module, in this process."""
