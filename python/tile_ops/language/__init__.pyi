# Made by docs/stubs/make.py.
"""Kernels in Python: `import tile_ops.language as tl`. Its functions are for the bodies of kernels."""

import enum
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NoReturn, TypeAlias, TypeVar, overload

import torch

from .core.errors import (
    TileCompilerExecutionError as TileCompilerExecutionError,
    TileCompilerTimeoutError as TileCompilerTimeoutError,
    TileError as TileError,
    TileInternalError as TileInternalError,
    TileRecursionError as TileRecursionError,
    TileStaticAssertionError as TileStaticAssertionError,
    TileStaticEvalError as TileStaticEvalError,
    TileSyntaxError as TileSyntaxError,
    TileTypeError as TileTypeError,
    TileUnsupportedFeatureError as TileUnsupportedFeatureError,
    TileValueError as TileValueError,
    UnsupportedCallError as UnsupportedCallError,
)
from .core.modes import MemoryOrder as MemoryOrder
from .core.modes import MemoryScope as MemoryScope
from .core.modes import PaddingMode as PaddingMode
from .core.modes import RoundingMode as RoundingMode
from .functions.memory import Slice as Slice
from .kernel import ByTarget as ByTarget
from .tuning.tuned import Tuned

_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])

class DType:
    """The dtype of a tile. Calling it converts a number, or a string such as "1.5", to a scalar of that dtype; the default is 0."""

    bitwidth: int
    def __call__(self, value: TileLike | str = 0, /) -> Scalar: ...

class Tile:
    """A value of the running kernel: an immutable array whose shape and dtype are known when the kernel is compiled."""

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""

    @property
    def ndim(self) -> int:
        """The number of extents."""

    def __add__(self, other: TileLike, /) -> Tile: ...
    def __sub__(self, other: TileLike, /) -> Tile: ...
    def __mul__(self, other: TileLike, /) -> Tile: ...
    def __truediv__(self, other: TileLike, /) -> Tile: ...
    def __floordiv__(self, other: TileLike, /) -> Tile: ...
    def __mod__(self, other: TileLike, /) -> Tile: ...
    def __pow__(self, other: TileLike, /) -> Tile: ...
    def __matmul__(self, other: Tile, /) -> Tile: ...
    def __and__(self, other: TileLike, /) -> Tile: ...
    def __or__(self, other: TileLike, /) -> Tile: ...
    def __xor__(self, other: TileLike, /) -> Tile: ...
    def __lshift__(self, other: TileLike, /) -> Tile: ...
    def __rshift__(self, other: TileLike, /) -> Tile: ...
    def __radd__(self, other: TileLike, /) -> Tile: ...
    def __rsub__(self, other: TileLike, /) -> Tile: ...
    def __rmul__(self, other: TileLike, /) -> Tile: ...
    def __rtruediv__(self, other: TileLike, /) -> Tile: ...
    def __rfloordiv__(self, other: TileLike, /) -> Tile: ...
    def __rmod__(self, other: TileLike, /) -> Tile: ...
    def __rpow__(self, other: TileLike, /) -> Tile: ...
    def __rand__(self, other: TileLike, /) -> Tile: ...
    def __ror__(self, other: TileLike, /) -> Tile: ...
    def __rxor__(self, other: TileLike, /) -> Tile: ...
    def __rlshift__(self, other: TileLike, /) -> Tile: ...
    def __rrshift__(self, other: TileLike, /) -> Tile: ...
    def __neg__(self) -> Tile: ...
    def __pos__(self) -> Tile: ...
    def __invert__(self) -> Tile: ...
    def __abs__(self) -> Tile: ...
    def __lt__(self, other: TileLike, /) -> Tile: ...
    def __le__(self, other: TileLike, /) -> Tile: ...
    def __gt__(self, other: TileLike, /) -> Tile: ...
    def __ge__(self, other: TileLike, /) -> Tile: ...
    def __eq__(self, other: TileLike, /) -> Tile: ...  # type: ignore[override]
    def __ne__(self, other: TileLike, /) -> Tile: ...  # type: ignore[override]
    def __bool__(self) -> bool: ...
    def __index__(self) -> int: ...
    def __getitem__(self, item: Any, /) -> Tile:
        """Inserts axes: t[:, None]. Items are `:`, None and `...`."""
    def reshape(self, shape: Shape) -> Tile:
        """The elements in row-major order in another shape; one extent may be -1."""

    def item(self) -> Scalar:
        """The one element of a tile, as a scalar."""

    def permute(self, axes: Sequence[int]) -> Tile:
        """The axes in another order."""

    def transpose(self, axis0: int | None = None, axis1: int | None = None) -> Tile:
        """Swaps two axes; of a tile of two axes they need no names."""

    def extract(self, index: Index, shape: Shape) -> Tile:
        """The sub-tile of a shape at an index that counts sub-tiles; shape () is one element."""

    def insert(self, index: Index, value: TileLike) -> Tile:
        """The tile with the sub-tile at an index, which counts sub-tiles, replaced."""

    def astype(self, dtype: DTypeLike, *, rounding_mode: RoundingMode | None = None) -> Tile:
        """x in another dtype: floats to integers truncate, integers wrap, floats round to nearest even; to bool_ is !=
        0.
        """

class Scalar(Tile):
    """A tile of shape ()."""

class RawMemory:
    """An array's memory by offsets from its first element."""

    def load_offset(
        self,
        offset: TileLike,
        *,
        mask: Tile | bool | None = None,
        padding_value: TileLike = 0,
        latency: int | None = None,
    ) -> Tile:
        """Elements by their offset from the array's first one; nothing keeps an offset within the array's memory."""

    def store_offset(
        self,
        offset: TileLike,
        value: TileLike,
        *,
        mask: Tile | bool | None = None,
        latency: int | None = None,
    ) -> None:
        """Writes elements by their offset from the array's first one."""

    def atomic_cas_offset(
        self,
        offset: TileLike,
        expected: TileLike,
        desired: TileLike,
        *,
        mask: Tile | bool | None = None,
        memory_order: MemoryOrder = ...,
        memory_scope: MemoryScope = ...,
    ) -> Tile:
        """Where an element has the bits of `expected` it becomes `desired`; the old values, at offsets from the array's
        first element.
        """

    def atomic_xchg_offset(
        self,
        offset: TileLike,
        update: TileLike,
        *,
        mask: Tile | bool | None = None,
        memory_order: MemoryOrder = ...,
        memory_scope: MemoryScope = ...,
    ) -> Tile:
        """Exchanges elements for values; the old values, at offsets from the array's first element."""

    def atomic_add_offset(
        self,
        offset: TileLike,
        update: TileLike,
        *,
        mask: Tile | bool | None = None,
        memory_order: MemoryOrder = ...,
        memory_scope: MemoryScope = ...,
    ) -> Tile:
        """Adds to elements; the old values, at offsets from the array's first element."""

    def atomic_max_offset(
        self,
        offset: TileLike,
        update: TileLike,
        *,
        mask: Tile | bool | None = None,
        memory_order: MemoryOrder = ...,
        memory_scope: MemoryScope = ...,
    ) -> Tile:
        """The larger of element and value; the old values, at offsets from the array's first element."""

    def atomic_min_offset(
        self,
        offset: TileLike,
        update: TileLike,
        *,
        mask: Tile | bool | None = None,
        memory_order: MemoryOrder = ...,
        memory_scope: MemoryScope = ...,
    ) -> Tile:
        """The smaller of element and value; the old values, at offsets from the array's first element."""

    def atomic_and_offset(
        self,
        offset: TileLike,
        update: TileLike,
        *,
        mask: Tile | bool | None = None,
        memory_order: MemoryOrder = ...,
        memory_scope: MemoryScope = ...,
    ) -> Tile:
        """Bitwise and with elements; the old values, at offsets from the array's first element."""

    def atomic_or_offset(
        self,
        offset: TileLike,
        update: TileLike,
        *,
        mask: Tile | bool | None = None,
        memory_order: MemoryOrder = ...,
        memory_scope: MemoryScope = ...,
    ) -> Tile:
        """Bitwise or with elements; the old values, at offsets from the array's first element."""

    def atomic_xor_offset(
        self,
        offset: TileLike,
        update: TileLike,
        *,
        mask: Tile | bool | None = None,
        memory_order: MemoryOrder = ...,
        memory_scope: MemoryScope = ...,
    ) -> Tile:
        """Exclusive or with elements; the old values, at offsets from the array's first element."""

class TiledView:
    """An array cut into tiles."""

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""

    def load(
        self,
        index: Index,
        *,
        check_bounds: bool = True,
        latency: int | None = None,
        allow_tma: bool | None = None,
    ) -> Tile:
        """The tile at an index."""

    def store(
        self,
        index: Index,
        tile: TileLike,
        *,
        check_bounds: bool = True,
        latency: int | None = None,
        allow_tma: bool | None = None,
    ) -> None:
        """Writes a tile, broadcast to the view's shape, at an index; elements outside are dropped."""

    def num_tiles(self, axis: int) -> Scalar:
        """The number of tiles along an axis of the view, in the dtype of the array's shape."""

    def atomic_store_add(self, index: Index, update: TileLike) -> None:
        """Adds a tile to the elements at an index, each at once. Elements outside are dropped."""

    def atomic_store_max(self, index: Index, update: TileLike) -> None:
        """The larger of each element and the tile's, at once. Elements outside are dropped."""

    def atomic_store_min(self, index: Index, update: TileLike) -> None:
        """The smaller of each element and the tile's, at once. Elements outside are dropped."""

    def atomic_store_and(self, index: Index, update: TileLike) -> None:
        """Bitwise and of each element and the tile's, at once. Elements outside are dropped."""

    def atomic_store_or(self, index: Index, update: TileLike) -> None:
        """Bitwise or of each element and the tile's, at once. Elements outside are dropped."""

    def atomic_store_xor(self, index: Index, update: TileLike) -> None:
        """Exclusive or of each element and the tile's, at once. Elements outside are dropped."""

class Array:
    """A tensor that the kernel was given. Annotate a kernel's parameter with it to see what it has."""

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""

    @property
    def shape(self) -> tuple[Scalar, ...]:
        """The extents, known when the kernel runs."""

    @property
    def strides(self) -> tuple[Scalar, ...]:
        """The strides in elements, known when the kernel runs."""

    @property
    def ndim(self) -> int:
        """The number of extents."""

    def get_raw_memory(self) -> RawMemory:
        """The memory by offsets; nothing keeps an offset within it."""
    def slice(self, axis: int, start: TileLike, stop: TileLike) -> Array:
        """The part start <= index < stop of an axis; loads and stores clip at its ends."""

    def tiled_view(
        self,
        tile_shape: Shape,
        *,
        padding_mode: PaddingMode = ...,
        traversal_steps: Shape | None = None,
    ) -> TiledView:
        """The array cut into tiles; tile i begins at i * step, by default the tile's extent."""

class ConstantAnnotation:
    """The parameter's value is known when the kernel is compiled."""

class ArrayAnnotation:
    """What is known of an array: index_dtype of shape and strides; axes whose extent or stride is a constant."""

    def __init__(
        self,
        *,
        index_dtype: DTypeLike = ...,
        static_shape_dims: tuple[int, ...] = ...,
        static_stride_dims: tuple[int, ...] = ...,
    ) -> None: ...

class ListAnnotation:
    """A list of arrays; element: an ArrayAnnotation, or an Annotated type that holds one."""

    def __init__(self, *, element: Any) -> None: ...

Constant: TypeAlias = Annotated[_T, ConstantAnnotation()]
IndexedWithInt64: TypeAlias = Annotated[_T, ArrayAnnotation()]
ScalarInt64: TypeAlias = int
TileLike: TypeAlias = Tile | float | bool
Index: TypeAlias = TileLike | tuple[TileLike, ...]
Shape: TypeAlias = int | Sequence[int]
DTypeLike: TypeAlias = DType | torch.dtype | type
Order: TypeAlias = Literal["C", "F"] | tuple[int, ...]
Grid: TypeAlias = int | tuple[int, ...] | Callable[..., int | tuple[int, ...]]

class Launcher:
    """kernel[grid]: call it with the kernel's arguments."""

    def __call__(self, *arguments: Any, **named: Any) -> None: ...

class kernel:
    """Makes a kernel of a Python function, which is run once for each block of a grid: `@kernel` or `@kernel(...)`.

    Launch it with kernel[grid](*arguments): grid is an integer, a tuple of up to three, or a function of the arguments.
    Arguments may be passed by name, and left out if the parameter has a default. Tensors become arrays, and so do NumPy
    arrays and arrays of other libraries with DLPack or __cuda_array_interface__; int, float and bool become scalars of
    dtype int32, float32 and bool_; None, and arguments of parameters annotated with Constant, are compile-time
    constants. All tensors must be on one device: on a CPU the launch returns when the kernel has run, on a GPU it runs
    in the current stream.

    The Python code and constants that the kernel reads, in globals, closures, modules and classes, may change: the next
    launch then recompiles.

    Hints, which never change results, on a GPU: num_worker_warps, a power of two up to 32 (of cutile 4 or 8), deals
    tiles over so many warps (not of kernels that multiply matrices); occupancy, the blocks that a processor is to hold
    at once, bounds a thread's registers; num_ctas and opt_level are accepted. Each may be ByTarget(default=4, sm_90=8).
    """

    parameters: tuple[str, ...]
    @property
    def compiled_count(self) -> int:
        """How many kinds of arguments it was compiled for."""

    @overload
    def __new__(cls, function: Callable[..., None], /) -> kernel: ...
    @overload
    def __new__(
        cls,
        /,
        *,
        num_ctas: int | ByTarget | None = None,
        occupancy: int | ByTarget | None = None,
        opt_level: int | ByTarget = 3,
        num_worker_warps: int | ByTarget | None = None,
    ) -> Callable[[Callable[..., None]], kernel]: ...
    def __getitem__(self, grid: Grid, /) -> Launcher:
        """kernel[grid](*arguments) launches it; grid: blocks along up to three axes, or a function of the arguments."""

    def launch(self, grid: Grid, *arguments: Any, stream: Any = None, **named: Any) -> None:
        """Launches it in a stream, by default torch's current one."""
    def replace_hints(self, **hints: Any) -> kernel:
        """A kernel of the same function with other hints."""

    def tune(self, configs: Sequence[dict[str, Any]], key: Any = None, *, verbose: bool = False) -> Tuned:
        """A kernel that is launched without some constants, and takes the fastest of these configurations.

        configs: dictionaries of Constant parameters, the same in each, and hints. key: what a choice is made for,
        beside dtypes, ranks, the other constants and the device: names of parameters (tensors by their shape, numbers
        by their value), functions of the arguments, or a list of these; by default the tensors' extents, rounded up to
        powers of two. verbose: prints the table of times, as TILE_AUTOTUNE_PRINT=1 does. Errors: ValueError or
        TypeError of what is no configuration or key; a launch raises ValueError where every configuration fails.
        """

    def debug(self, grid: Grid, *arguments: Any, **named: Any) -> None:
        """Runs the function's own Python, one block after the other, the first axis of the grid fastest: print,
        breakpoint() and a debugger work in it. Tiles hold torch tensors (tile.tensor); each call of the language is
        compiled and run by itself, so that results are those of a launch. Tensors of a GPU are copied to the CPU and
        back. TILE_DEBUG=python, where it is set when a kernel is made, makes its launches do this.
        """

    def ir(self, *arguments: Any, passes: bool = False, **named: Any) -> str:
        """The Tile IR that these arguments would compile, as text; passes: after each pass, too. Tensors may be
        fake.
        """

    def check(self, *arguments: Any, **named: Any) -> None:
        """Raises what a launch with such arguments would raise of the kernel's text. Tensors may be fake or on meta."""

@overload
def function(function: _F, /) -> _F: ...
@overload
def function(*, host: bool = False, tile: bool = True) -> Callable[[_F], _F]:
    """Marks a helper of kernels; host: it may be called outside of kernels, too."""

bfloat16: DType
bool_: DType
float16: DType
float32: DType
float4_e2m1fn: DType
float64: DType
float8_e4m3fn: DType
float8_e5m2: DType
float8_e5m3fnu: DType
float8_e8m0fnu: DType
int16: DType
int32: DType
int64: DType
int8: DType
tfloat32: DType
uint16: DType
uint32: DType
uint64: DType
uint8: DType
def abs(x: TileLike) -> Tile:
    """The absolute value, in x's dtype."""

def acos(x: TileLike) -> Tile:
    """The angle whose cosine is x."""

def add(x: TileLike, y: TileLike, *, rounding_mode: RoundingMode | None = None, flush_to_zero: bool = False) -> Tile:
    """x + y."""

def arange(size: int, *, dtype: DTypeLike, start: TileLike = 0, step: TileLike = 1) -> Tile:
    """start + step * (0, 1, ..., size - 1), computed in dtype: integers wrap, floats round."""

def argmax(x: TileLike, axis: int | None = None, *, keepdims: bool = False, propagate_nan: bool = False) -> Tile:
    """The first index of the largest element, int32; without an axis in row-major order of all."""

def argmin(x: TileLike, axis: int | None = None, *, keepdims: bool = False, propagate_nan: bool = False) -> Tile:
    """The first index of the smallest element, int32; without an axis in row-major order of all."""

def asin(x: TileLike) -> Tile:
    """The angle whose sine is x."""

def assert_(cond: TileLike, message: str | None = None) -> None:
    """Every element must be true: else the block does nothing more, and the launch reports the message."""

def assume_divisible_by(x: TileLike, divisor: int) -> Scalar:
    """x, of which the caller promises that it is a multiple."""

def astile(value: Any, *, dtype: DTypeLike) -> Tile:
    """A tile of a scalar or a nested tuple of scalars, converted to dtype."""

def astype(x: TileLike, dtype: DTypeLike, *, rounding_mode: RoundingMode | None = None) -> Tile:
    """x in another dtype: floats to integers truncate, integers wrap, floats round to nearest even; to bool_ is !=
    0.
    """

def atan(x: TileLike) -> Tile:
    """The angle whose tangent is x."""

def atan2(x: TileLike, y: TileLike) -> Tile:
    """The angle of the point (y, x), from -pi to pi."""

def atomic_add(
    array: Array,
    indices: Any,
    update: TileLike,
    *,
    check_bounds: bool = True,
    memory_order: MemoryOrder = ...,
    memory_scope: MemoryScope = ...,
) -> Tile:
    """Adds to elements; the old values. Elements outside are left alone."""

def atomic_and(
    array: Array,
    indices: Any,
    update: TileLike,
    *,
    check_bounds: bool = True,
    memory_order: MemoryOrder = ...,
    memory_scope: MemoryScope = ...,
) -> Tile:
    """Bitwise and with elements; the old values. Elements outside are left alone."""

def atomic_cas(
    array: Array,
    indices: Any,
    expected: TileLike,
    desired: TileLike,
    *,
    check_bounds: bool = True,
    memory_order: MemoryOrder = ...,
    memory_scope: MemoryScope = ...,
) -> Tile:
    """Where an element has the bits of `expected` it becomes `desired`; the old values. Elements outside are left alone."""

def atomic_max(
    array: Array,
    indices: Any,
    update: TileLike,
    *,
    check_bounds: bool = True,
    memory_order: MemoryOrder = ...,
    memory_scope: MemoryScope = ...,
) -> Tile:
    """The larger of element and value; the old values. Elements outside are left alone."""

def atomic_min(
    array: Array,
    indices: Any,
    update: TileLike,
    *,
    check_bounds: bool = True,
    memory_order: MemoryOrder = ...,
    memory_scope: MemoryScope = ...,
) -> Tile:
    """The smaller of element and value; the old values. Elements outside are left alone."""

def atomic_or(
    array: Array,
    indices: Any,
    update: TileLike,
    *,
    check_bounds: bool = True,
    memory_order: MemoryOrder = ...,
    memory_scope: MemoryScope = ...,
) -> Tile:
    """Bitwise or with elements; the old values. Elements outside are left alone."""

def atomic_xchg(
    array: Array,
    indices: Any,
    update: TileLike,
    *,
    check_bounds: bool = True,
    memory_order: MemoryOrder = ...,
    memory_scope: MemoryScope = ...,
) -> Tile:
    """Exchanges elements for values; the old values. Elements outside are left alone."""

def atomic_xor(
    array: Array,
    indices: Any,
    update: TileLike,
    *,
    check_bounds: bool = True,
    memory_order: MemoryOrder = ...,
    memory_scope: MemoryScope = ...,
) -> Tile:
    """Exclusive or with elements; the old values. Elements outside are left alone."""

def bid(axis: int) -> Scalar:
    """The index of this block along an axis of the grid, int32."""

def bitcast(x: TileLike, dtype: DTypeLike) -> Tile:
    """The same bits as another dtype of equal width."""

def bitwise_and(x: TileLike, y: TileLike) -> Tile:
    """x & y of integers or bools of one dtype."""

def bitwise_lshift(x: TileLike, y: TileLike) -> Tile:
    """x << y of integers."""

def bitwise_not(x: TileLike) -> Tile:
    """~x of integers; of a bool tile not x."""

def bitwise_or(x: TileLike, y: TileLike) -> Tile:
    """x | y of integers or bools of one dtype."""

def bitwise_rshift(x: TileLike, y: TileLike) -> Tile:
    """x >> y of integers; of signed ones the sign moves in."""

def bitwise_xor(x: TileLike, y: TileLike) -> Tile:
    """x ^ y of integers or bools of one dtype."""

def broadcast_to(x: TileLike, shape: Shape) -> Tile:
    """Repeats axes of extent 1, and puts axes in front, by NumPy's rules."""

def cat(tiles: Sequence[Tile], axis: int) -> Tile:
    """Two tiles joined along an axis."""

def cdiv(x: TileLike, y: TileLike) -> Any:
    """x / y of integers, rounded up. Also outside of kernels."""

def ceil(x: TileLike) -> Tile:
    """The least whole number that is not below x."""

def cos(x: TileLike) -> Tile:
    """The cosine of x radians."""

def cosh(x: TileLike) -> Tile:
    """The hyperbolic cosine."""

def cumprod(
    x: TileLike,
    axis: int = 0,
    *,
    reverse: bool = False,
    rounding_mode: RoundingMode | None = None,
    flush_to_zero: bool = False,
) -> Tile:
    """The products up to each element along an axis, or from it on where `reverse`; bools count as int32."""

def cumsum(
    x: TileLike,
    axis: int = 0,
    *,
    reverse: bool = False,
    rounding_mode: RoundingMode | None = None,
    flush_to_zero: bool = False,
) -> Tile:
    """The sums up to each element along an axis, or from it on where `reverse`; bools count as int32."""

def divmod(x: TileLike, y: TileLike) -> tuple[Tile, Tile]:
    """(x // y, x % y) of integers."""

def ensure_constant(value: _T) -> _T:
    """The value, which must be known while the kernel is compiled."""

def equal(x: TileLike, y: TileLike) -> Tile:
    """x == y, bool_."""

def erf(x: TileLike) -> Tile:
    """The error function."""

def exp(x: TileLike, *, rounding_mode: RoundingMode | None = None) -> Tile:
    """e ** x."""

def exp2(x: TileLike, *, flush_to_zero: bool = False) -> Tile:
    """2 ** x."""

def expand_dims(x: TileLike, axis: int) -> Tile:
    """A tile with an axis of extent 1 more; negative axes count from the end of the result."""

def expm1(x: TileLike) -> Tile:
    """e ** x - 1, also where x is small."""

def extract(x: TileLike, index: Index, shape: Shape) -> Tile:
    """The sub-tile of a shape at an index that counts sub-tiles; shape () is one element."""

def floor(x: TileLike) -> Tile:
    """The largest whole number that is not above x."""

def floordiv(x: TileLike, y: TileLike) -> Tile:
    """x // y, rounded to minus infinity. Of integers by 0: any value."""

def fma(x: TileLike, y: TileLike, z: TileLike) -> Tile:
    """x * y + z, rounded once."""

def full(shape: Shape, fill_value: TileLike, dtype: DTypeLike) -> Tile:
    """A tile of one value, which is converted to dtype, whatever it is."""

def gather(
    array: Array,
    indices: Any,
    *,
    mask: Tile | bool | None = None,
    padding_value: TileLike = 0,
    check_bounds: bool = True,
    latency: int | None = None,
) -> Tile:
    """Elements at index tiles, one an axis, broadcast together; outside, or where the mask is false, padding_value."""

def greater(x: TileLike, y: TileLike) -> Tile:
    """x > y, bool_."""

def greater_equal(x: TileLike, y: TileLike) -> Tile:
    """x >= y, bool_."""

def grid_dependency_control_launch_dependents() -> None:
    """Nothing: launches of one stream run one behind the other."""

def grid_dependency_control_wait() -> None:
    """Nothing: launches of one stream run one behind the other."""

def insert(x: TileLike, index: Index, value: TileLike) -> Tile:
    """The tile with the sub-tile at an index, which counts sub-tiles, replaced."""

def isfinite(x: TileLike) -> Tile:
    """Whether x is a number, bool_."""

def isinf(x: TileLike) -> Tile:
    """Whether x is infinite, bool_."""

def isnan(x: TileLike) -> Tile:
    """Whether x is a NaN, bool_."""

def less(x: TileLike, y: TileLike) -> Tile:
    """x < y, bool_."""

def less_equal(x: TileLike, y: TileLike) -> Tile:
    """x <= y, bool_."""

def load(
    array: Array,
    index: Index,
    shape: Shape,
    *,
    order: Order = 'C',
    padding_mode: PaddingMode = ...,
    check_bounds: bool = True,
    latency: int | None = None,
    allow_tma: bool | None = None,
    memory_order: MemoryOrder = ...,
    memory_scope: MemoryScope = ...,
) -> Tile:
    """The tile at an index that counts tiles; shape () is the element at an index that counts elements.

    order: of the array's axes, "C", "F" or a permutation; index and shape speak of the permuted array. Elements outside
    of the array are padding.
    """

def load_advanced_indexing(
    array: Array,
    indices: Any,
    *,
    padding_mode: PaddingMode = ...,
    latency: int | None = None,
    allow_tma: bool | None = None,
) -> Tile:
    """A tile of rows at indices: one entry is a 1-D integer tile, the others are Slice(start, length)."""

def log(x: TileLike) -> Tile:
    """The natural logarithm."""

def log1p(x: TileLike) -> Tile:
    """log(1 + x), also where x is small."""

def log2(x: TileLike) -> Tile:
    """The logarithm to base 2."""

def logical_not(x: TileLike) -> Tile:
    """x == 0."""

def matmul(x: TileLike, y: TileLike) -> Tile:
    """x @ y of 1, 2 or 3 axes by NumPy's rules, in the dtype they promote to; sums as mma."""

def max(
    x: TileLike,
    axis: int | tuple[int, ...] | None = None,
    *,
    keepdims: bool = False,
    flush_to_zero: bool = False,
    propagate_nan: bool = False,
) -> Tile:
    """The largest element over axes, by default all; a NaN is skipped unless propagate_nan."""

def maximum(x: TileLike, y: TileLike, *, flush_to_zero: bool = False, propagate_nan: bool = False) -> Tile:
    """The larger one; a NaN is ignored unless propagate_nan."""

def min(
    x: TileLike,
    axis: int | tuple[int, ...] | None = None,
    *,
    keepdims: bool = False,
    flush_to_zero: bool = False,
    propagate_nan: bool = False,
) -> Tile:
    """The smallest element over axes, by default all; a NaN is skipped unless propagate_nan."""

def minimum(x: TileLike, y: TileLike, *, flush_to_zero: bool = False, propagate_nan: bool = False) -> Tile:
    """The smaller one; a NaN is ignored unless propagate_nan."""

def mma(x: TileLike, y: TileLike, acc: TileLike, *, use_fast_acc: bool = False) -> Tile:
    """x @ y + acc, of 2 axes or batched, with acc's dtype: float32 is never rounded to tfloat32."""

def mma_scaled(x: TileLike, x_scale: TileLike, y: TileLike, y_scale: TileLike, acc: TileLike) -> Tile:
    """The sum over k of x[i, k] xs[i, k // B] y[k, j] ys[k // B, j], + acc, B = K / K_s = 32.

    x and y: float8_e4m3fn or float8_e5m2, of 2 axes or 3, the batch broadcast; scales: float8_e8m0fnu, or uint8, its
    bits; acc: float32. OCP Microscaling Formats 1.0.
    """

def mod(x: TileLike, y: TileLike) -> Tile:
    """x % y, with the sign of y. Of integers by 0: any value."""

def mul(x: TileLike, y: TileLike, *, rounding_mode: RoundingMode | None = None, flush_to_zero: bool = False) -> Tile:
    """x * y."""

def negative(x: TileLike) -> Tile:
    """-x. Unsigned integers wrap, bools become int32."""

def next_power_of_2(n: int) -> int:
    """The smallest power of two that is at least n, an integer constant; 1 if n is below 1. Also outside of kernels."""

def normal(shape: Shape, seed: TileLike, offset: TileLike = 0, *, dtype: DTypeLike = ..., stream: TileLike = 0) -> Tile:
    """Standard normal, by Box and Muller: sqrt(-2 log a) sin(pi b), a on (0, 1], b on [-1/2, 1/2]."""

def not_equal(x: TileLike, y: TileLike) -> Tile:
    """x != y, bool_; a NaN differs from everything."""

def num_blocks(axis: int) -> Scalar:
    """The number of blocks along an axis of the grid, int32."""

def num_tiles(array: Array, axis: int, shape: Shape, order: Order = 'C') -> Scalar:
    """The number of tiles of a shape along an axis of an array, rounded up, in the dtype of the array's shape; shape ()
    counts elements.
    """

def ones(shape: Shape, dtype: DTypeLike) -> Tile:
    """A tile of ones."""

def pack_to_bytes(x: TileLike) -> Tile:
    """The bytes of a tile in row-major order, little-endian, as a uint8 tile of one axis."""

def permute(x: TileLike, axes: Sequence[int]) -> Tile:
    """The axes in another order."""

def pow(x: TileLike, y: TileLike) -> Tile:
    """x ** y; one of them is a float. An integer exponent keeps the dtype of a float base."""

def print(*args: Any, sep: str = ' ', end: str = '\n') -> None:
    """Writes values to the process's standard output: numbers, tiles as nested lists, text."""

def printf(format: str, /, *args: Any) -> None:
    """Writes by a C format: d i u o x X for integers and bools, e E f F g G a A for floats, %% for a percent sign.
    Length modifiers, as in %lld, are ignored: the dtype decides.
    """

def prod(
    x: TileLike,
    axis: int | tuple[int, ...] | None = None,
    *,
    keepdims: bool = False,
    rounding_mode: RoundingMode | None = None,
    flush_to_zero: bool = False,
) -> Tile:
    """The product over axes, by default all, in x's dtype; bools count as int32."""

def random_bits(
    shape: Shape,
    seed: TileLike,
    offset: TileLike = 0,
    *,
    dtype: DTypeLike = ...,
    stream: TileLike = 0,
) -> Tile:
    """Random bits, uint32 or uint64: a function of (seed, stream, number of the element) alone.

    The elements are numbered offset, offset + 1, ... in row-major order; an integer tile as offset is each element's
    own
    number. Draws of one seed and number in different streams are independent.
    """

def reduce(x: Any, axis: int, func: Callable[..., Any], identity: Any, *, keepdims: bool = False) -> Any:
    """Reduces an axis by an associative function; x: a tile or a tuple of N.

    func takes 2N scalars, those of the elements before first, and returns N. identity: its neutral constant, or N.
    """

def reshape(x: TileLike, shape: Shape) -> Tile:
    """The elements in row-major order in another shape; one extent may be -1."""

def round(x: TileLike) -> Tile:
    """The nearest whole number, halves to even."""

def rsqrt(x: TileLike, *, flush_to_zero: bool = False) -> Tile:
    """1 / sqrt(x)."""

def scan(x: Any, axis: int, func: Callable[..., Any], identity: Any, *, reverse: bool = False) -> Any:
    """The combination of all elements up to each one along an axis, or from it on where `reverse`; as reduce."""

def scatter(
    array: Array,
    indices: Any,
    value: TileLike,
    *,
    mask: Tile | bool | None = None,
    check_bounds: bool = True,
    latency: int | None = None,
) -> None:
    """Writes elements at index tiles; those outside, or where the mask is false, are dropped."""

def sigmoid(x: TileLike) -> Tile:
    """1 / (1 + e ** -x)."""

def silu(x: TileLike) -> Tile:
    """x * sigmoid(x)."""

def sin(x: TileLike) -> Tile:
    """The sine of x radians."""

def sinh(x: TileLike) -> Tile:
    """The hyperbolic sine."""

def sqrt(x: TileLike, *, rounding_mode: RoundingMode | None = None, flush_to_zero: bool = False) -> Tile:
    """The square root."""

def store(
    array: Array,
    index: Index,
    tile: TileLike,
    *,
    order: Order = 'C',
    check_bounds: bool = True,
    latency: int | None = None,
    allow_tma: bool | None = None,
    memory_order: MemoryOrder = ...,
    memory_scope: MemoryScope = ...,
) -> None:
    """Writes a tile at an index that counts tiles; elements outside are dropped. The dtype is converted upward
    alone.
    """

def store_advanced_indexing(
    array: Array,
    indices: Any,
    tile: TileLike,
    *,
    latency: int | None = None,
    allow_tma: bool | None = None,
) -> None:
    """Writes a tile to rows at indices, as load_advanced_indexing reads them."""

def sub(x: TileLike, y: TileLike, *, rounding_mode: RoundingMode | None = None, flush_to_zero: bool = False) -> Tile:
    """x - y."""

def sum(
    x: TileLike,
    axis: int | tuple[int, ...] | None = None,
    *,
    keepdims: bool = False,
    rounding_mode: RoundingMode | None = None,
    flush_to_zero: bool = False,
) -> Tile:
    """The sum over axes, by default all, in x's dtype; bools count as int32."""

def tan(x: TileLike) -> Tile:
    """The tangent of x radians."""

def tanh(x: TileLike, *, rounding_mode: RoundingMode | None = None) -> Tile:
    """The hyperbolic tangent."""

def transpose(x: TileLike, axis0: int | None = None, axis1: int | None = None) -> Tile:
    """Swaps two axes; of a tile of two axes they need no names."""

def truediv(
    x: TileLike,
    y: TileLike,
    *,
    rounding_mode: RoundingMode | None = None,
    flush_to_zero: bool = False,
) -> Tile:
    """x / y; of integers in float32."""

def trunc(x: TileLike) -> Tile:
    """x without what stands behind the point."""

def uniform(
    shape: Shape,
    seed: TileLike,
    offset: TileLike = 0,
    *,
    dtype: DTypeLike = ...,
    stream: TileLike = 0,
) -> Tile:
    """Uniform on [0, 1), of the highest bits of random_bits; every value is exact, and none is 1."""

def unpack_from_bytes(x: TileLike, dtype: DTypeLike) -> Tile:
    """The inverse of pack_to_bytes: a tile of one axis."""

def where(cond: TileLike, x: TileLike, y: TileLike) -> Tile:
    """x where cond is not zero, else y; the three broadcast, x and y promote."""

def zeros(shape: Shape, dtype: DTypeLike) -> Tile:
    """A tile of zeros."""

def static_assert(node: Any, message: Any = None, /) -> None:
    """Raises TileStaticAssertionError while the kernel is compiled unless a constant condition holds."""

def static_eval(node: Any, /) -> Any:
    """The value of any Python expression of constants, computed while the kernel is compiled."""

def static_iter(node: Any, /) -> Any:
    """The items of an iterable, each in a copy of the loop's body: `for i in static_iter(range(4))`."""
