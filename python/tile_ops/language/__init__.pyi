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
    def detach(self) -> Tile:
        """Returns x, which derivatives by the compiler take for a constant.

        Serves numbers that results depend on only by rounding, such as the maximum that a softmax subtracts: their
        gradients and
        tangents would cost time and add up to nothing.

        Shapes: any; the result has x's.
        Dtypes: any; the result has x's.
        Errors: none.
        """

    def reshape(self, shape: Shape) -> Tile:
        """Returns the elements of x, in row-major order, in another shape; one extent may be -1.

        Shapes: the new shape has as many elements as x.
        Dtypes: any; the result has x's.
        Errors: TileTypeError for a shape that is not constant, for an extent below 1, and for a tile with
        too many elements. TileTypeError for another number of elements and for a second -1.
        """

    def item(self) -> Scalar:
        """Returns the one element of a tile as a scalar.

        Shapes: x has one element; the result is a scalar.
        Dtypes: any; the result has x's.
        Errors: TileTypeError for more elements.
        """

    def permute(self, axes: Sequence[int]) -> Tile:
        """Returns x with its axes in another order.

        Shapes: axes is a permutation of x's axes.
        Dtypes: any; the result has x's.
        Errors: TileTypeError for other axes.
        """

    def transpose(self, axis0: int | None = None, axis1: int | None = None) -> Tile:
        """Swaps two axes. A tile of two axes needs no arguments.

        Shapes: x has two axes or more.
        Dtypes: any; the result has x's.
        Errors: TileTypeError for fewer axes, for one named axis, for no named axes of three or more, and
        for an axis out of range.
        """

    def extract(self, index: Index, shape: Shape) -> Tile:
        """Returns the sub-tile of a shape at an index. Shape () is one element.

        Shapes: shape divides x's shape; index has one entry for each axis. The result has the shape.
        Dtypes: any; the result has x's.
        Units: index counts sub-tiles.
        Errors: TileTypeError for other shapes and ranks, TileValueError for a constant index out of range.
        """

    def insert(self, index: Index, value: TileLike) -> Tile:
        """Returns x with the sub-tile at an index replaced by value.

        Shapes: value's shape divides x's shape; index has one entry for each axis. The result has x's
        shape.
        Dtypes: any; value has x's dtype.
        Units: index counts sub-tiles.
        Errors: TileTypeError for other shapes, ranks and dtypes, TileValueError for a constant index out of
        range.
        """

    def astype(self, dtype: DTypeLike, *, rounding_mode: RoundingMode | None = None) -> Tile:
        """Returns x in another dtype. Floats become integers by truncation, integers wrap, and floats round to nearest
        even.

        A conversion to bool_ is x != 0.

        Shapes: any; the result has x's.
        Dtypes: any to any; rounding_mode is for floats to floats.
        Errors: TileTypeError for a rounding_mode that the two dtypes do not have,
        TileUnsupportedFeatureError for a dtype that no target has.
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
        """Returns elements by their offset from the array's first one. Nothing keeps an offset within the array's memory.

        Shapes: offset and mask broadcast to the result's shape.
        Dtypes: the result has the array's dtype; mask: bool_.
        Units: offset counts elements.
        Errors: TileTypeError for an offset that is no integer and for a mask that is not bool_.
        """

    def store_offset(
        self,
        offset: TileLike,
        value: TileLike,
        *,
        mask: Tile | bool | None = None,
        latency: int | None = None,
    ) -> None:
        """Writes elements by their offset from the array's first one. Offsets are not checked against the array's memory.

        Shapes: offset, value and mask broadcast to one shape.
        Dtypes: value converts implicitly to the array's dtype.
        Units: offset counts elements.
        Errors: TileTypeError for an offset that is no integer and for a mask that is not bool_.
        """

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
        """Replaces an element by `desired` if it has the bits of `expected`, and returns the old values. Indices are
        offsets from the array's first element.

        Shapes: offset, an integer tile, the mask and the values broadcast to the result's shape.
        Dtypes: int32, uint32, int64, uint64, float32 and float64; the values convert implicitly. mask:
        bool_.
        Units: offset counts elements.
        Errors: TileTypeError for other dtypes, for an offset that is no integer, for a mask that is not
        bool_, for shapes that do not broadcast, for MemoryOrder.WEAK, and for MemoryScope.NONE.
        TileSyntaxError in the function of reduce or scan.
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
        """Replaces elements by values, and returns the old values. Indices are offsets from the array's first element.

        Shapes: offset, an integer tile, the mask and the values broadcast to the result's shape.
        Dtypes: int32, uint32, int64, uint64, float32 and float64; the values convert implicitly. mask:
        bool_.
        Units: offset counts elements.
        Errors: TileTypeError for other dtypes, for an offset that is no integer, for a mask that is not
        bool_, for shapes that do not broadcast, for MemoryOrder.WEAK, and for MemoryScope.NONE.
        TileSyntaxError in the function of reduce or scan.
        """

    def atomic_add_offset(
        self,
        offset: TileLike,
        update: TileLike,
        *,
        mask: Tile | bool | None = None,
        memory_order: MemoryOrder = ...,
        memory_scope: MemoryScope = ...,
    ) -> Tile:
        """Adds to elements, and returns the old values. Indices are offsets from the array's first element.

        Shapes: offset, an integer tile, the mask and the update broadcast to the result's shape.
        Dtypes: int32, uint32, int64, uint64, float16, bfloat16, float32 and float64; the update converts
        implicitly. mask: bool_.
        Units: offset counts elements.
        Errors: TileTypeError for other dtypes, for an offset that is no integer, for a mask that is not
        bool_, for shapes that do not broadcast, for MemoryOrder.WEAK, and for MemoryScope.NONE.
        TileSyntaxError in the function of reduce or scan.
        """

    def atomic_max_offset(
        self,
        offset: TileLike,
        update: TileLike,
        *,
        mask: Tile | bool | None = None,
        memory_order: MemoryOrder = ...,
        memory_scope: MemoryScope = ...,
    ) -> Tile:
        """Replaces elements by the larger of element and value, and returns the old values. Indices are offsets from the
        array's first element.

        Shapes: offset, an integer tile, the mask and the update broadcast to the result's shape.
        Dtypes: int32, uint32, int64 and uint64. The update converts implicitly. mask: bool_.
        Units: offset counts elements.
        Errors: TileTypeError for other dtypes, for an offset that is no integer, for a mask that is not
        bool_, for shapes that do not broadcast, for MemoryOrder.WEAK, and for MemoryScope.NONE.
        TileSyntaxError in the function of reduce or scan.
        """

    def atomic_min_offset(
        self,
        offset: TileLike,
        update: TileLike,
        *,
        mask: Tile | bool | None = None,
        memory_order: MemoryOrder = ...,
        memory_scope: MemoryScope = ...,
    ) -> Tile:
        """Replaces elements by the smaller of element and value, and returns the old values. Indices are offsets from the
        array's first element.

        Shapes: offset, an integer tile, the mask and the update broadcast to the result's shape.
        Dtypes: int32, uint32, int64 and uint64. The update converts implicitly. mask: bool_.
        Units: offset counts elements.
        Errors: TileTypeError for other dtypes, for an offset that is no integer, for a mask that is not
        bool_, for shapes that do not broadcast, for MemoryOrder.WEAK, and for MemoryScope.NONE.
        TileSyntaxError in the function of reduce or scan.
        """

    def atomic_and_offset(
        self,
        offset: TileLike,
        update: TileLike,
        *,
        mask: Tile | bool | None = None,
        memory_order: MemoryOrder = ...,
        memory_scope: MemoryScope = ...,
    ) -> Tile:
        """Replaces elements by their bitwise and with values, and returns the old values. Indices are offsets from the
        array's first element.

        Shapes: offset, an integer tile, the mask and the update broadcast to the result's shape.
        Dtypes: int32, uint32, int64 and uint64. The update has the array's dtype. mask: bool_.
        Units: offset counts elements.
        Errors: TileTypeError for other dtypes, for an offset that is no integer, for a mask that is not
        bool_, for shapes that do not broadcast, for MemoryOrder.WEAK, and for MemoryScope.NONE.
        TileSyntaxError in the function of reduce or scan.
        """

    def atomic_or_offset(
        self,
        offset: TileLike,
        update: TileLike,
        *,
        mask: Tile | bool | None = None,
        memory_order: MemoryOrder = ...,
        memory_scope: MemoryScope = ...,
    ) -> Tile:
        """Replaces elements by their bitwise or with values, and returns the old values. Indices are offsets from the
        array's first element.

        Shapes: offset, an integer tile, the mask and the update broadcast to the result's shape.
        Dtypes: int32, uint32, int64 and uint64. The update has the array's dtype. mask: bool_.
        Units: offset counts elements.
        Errors: TileTypeError for other dtypes, for an offset that is no integer, for a mask that is not
        bool_, for shapes that do not broadcast, for MemoryOrder.WEAK, and for MemoryScope.NONE.
        TileSyntaxError in the function of reduce or scan.
        """

    def atomic_xor_offset(
        self,
        offset: TileLike,
        update: TileLike,
        *,
        mask: Tile | bool | None = None,
        memory_order: MemoryOrder = ...,
        memory_scope: MemoryScope = ...,
    ) -> Tile:
        """Replaces elements by their exclusive or with values, and returns the old values. Indices are offsets from the
        array's first element.

        Shapes: offset, an integer tile, the mask and the update broadcast to the result's shape.
        Dtypes: int32, uint32, int64 and uint64. The update has the array's dtype. mask: bool_.
        Units: offset counts elements.
        Errors: TileTypeError for other dtypes, for an offset that is no integer, for a mask that is not
        bool_, for shapes that do not broadcast, for MemoryOrder.WEAK, and for MemoryScope.NONE.
        TileSyntaxError in the function of reduce or scan.
        """

class TiledView:
    """An array divided into tiles."""

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
        """Returns the tile at an index.

        Shapes: index has one entry for each axis; the result has the view's tile shape.
        Dtypes: any; the result has the array's dtype.
        Units: index counts tiles.
        Errors: TileTypeError for an index of another rank.
        """

    def store(
        self,
        index: Index,
        tile: TileLike,
        *,
        check_bounds: bool = True,
        latency: int | None = None,
        allow_tma: bool | None = None,
    ) -> None:
        """Writes a tile at an index. Elements outside of the array are dropped.

        Shapes: index has one entry for each axis; tile broadcasts to the view's tile shape.
        Dtypes: the tile's dtype converts implicitly to the array's.
        Units: index counts tiles.
        Errors: TileTypeError for an index of another rank and a tile that does not broadcast or convert.
        """

    def num_tiles(self, axis: int) -> Scalar:
        """Returns the number of tiles along an axis of the view.

        Shapes: a scalar.
        Dtypes: int32, or int64 for an array that is indexed with int64.
        Units: tiles.
        Errors: TileTypeError for an axis out of range.
        """

    def atomic_store_add(self, index: Index, update: TileLike) -> None:
        """Adds a tile to the elements at an index, each at once. Elements outside the array are dropped.

        Shapes: index has one entry for each axis; update broadcasts to the view's tile shape.
        Dtypes: int32, uint32, int64, uint64, float16, bfloat16, float32 and float64.
        Units: index counts tiles.
        Errors: TileTypeError for other dtypes, an index of another rank and an update that does not
        broadcast.
        """

    def atomic_store_max(self, index: Index, update: TileLike) -> None:
        """Replaces each element by the larger of it and the tile's, at once. Elements outside the array are dropped.

        Shapes: index has one entry for each axis; update broadcasts to the view's tile shape.
        Dtypes: int32, uint32, int64 and uint64.
        Units: index counts tiles.
        Errors: TileTypeError for other dtypes, an index of another rank and an update that does not
        broadcast.
        """

    def atomic_store_min(self, index: Index, update: TileLike) -> None:
        """Replaces each element by the smaller of it and the tile's, at once. Elements outside the array are dropped.

        Shapes: index has one entry for each axis; update broadcasts to the view's tile shape.
        Dtypes: int32, uint32, int64 and uint64.
        Units: index counts tiles.
        Errors: TileTypeError for other dtypes, an index of another rank and an update that does not
        broadcast.
        """

    def atomic_store_and(self, index: Index, update: TileLike) -> None:
        """Replaces each element by its bitwise and with the tile's, at once. Elements outside the array are dropped.

        Shapes: index has one entry for each axis; update broadcasts to the view's tile shape.
        Dtypes: int32, uint32, int64 and uint64.
        Units: index counts tiles.
        Errors: TileTypeError for other dtypes, an index of another rank and an update that does not
        broadcast.
        """

    def atomic_store_or(self, index: Index, update: TileLike) -> None:
        """Replaces each element by its bitwise or with the tile's, at once. Elements outside the array are dropped.

        Shapes: index has one entry for each axis; update broadcasts to the view's tile shape.
        Dtypes: int32, uint32, int64 and uint64.
        Units: index counts tiles.
        Errors: TileTypeError for other dtypes, an index of another rank and an update that does not
        broadcast.
        """

    def atomic_store_xor(self, index: Index, update: TileLike) -> None:
        """Replaces each element by its exclusive or with the tile's, at once. Elements outside the array are dropped.

        Shapes: index has one entry for each axis; update broadcasts to the view's tile shape.
        Dtypes: int32, uint32, int64 and uint64.
        Units: index counts tiles.
        Errors: TileTypeError for other dtypes, an index of another rank and an update that does not
        broadcast.
        """

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
        """Returns the part start <= index < stop of an axis. Loads and stores clip at its ends.

        Shapes: the result has the array's rank; extent `stop - start` along the axis.
        Dtypes: any; start and stop are signed integers.
        Units: start and stop count elements.
        Errors: TileTypeError for an axis out of range or bounds that are no integers, TileValueError for
        constants with stop < start.
        """

    def tiled_view(
        self,
        tile_shape: Shape,
        *,
        padding_mode: PaddingMode = ...,
        traversal_steps: Shape | None = None,
    ) -> TiledView:
        """Returns the array divided into tiles. Tile i begins at i * step; a step is by default the tile's extent.

        Shapes: tile_shape has one extent for each axis of the array, or is ().
        Dtypes: any.
        Units: traversal_steps count elements.
        Errors: TileTypeError for a tile_shape or traversal_steps of another rank, and for steps below 1.
        """

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
    """Makes a kernel of a Python function: `@kernel` or `@kernel(hints)`. The function runs once for each block of a grid.

    kernel[grid](*arguments) launches it. grid is an integer, a tuple of up to three, or a function of the arguments. Arguments
    may be passed by name, and left out if the parameter has a default.

    Shapes: tensors become arrays of any rank, extents and strides. NumPy arrays and arrays of other libraries with DLPack or
    __cuda_array_interface__ do, too.
    Dtypes: arrays have those of tile_ops.language. int, float and bool become scalars of dtype int32, float32 and bool_. None,
    and arguments of parameters annotated with Constant, are compile-time constants.
    Errors: TileError, with the place in the kernel, for code that the language refuses. TypeError and ValueError for
    arguments, grids and hints, and for tensors on more than one device.

    On a CPU the launch returns when the kernel has run. On a GPU it runs in the current stream.

    The Python code and constants that the kernel reads, in globals, closures, modules and classes, may change. The next
    launch then compiles it again.

    num_worker_warps: a power of two up to 32 (4 or 8 in cutile). A GPU deals tiles over so many warps, unless the kernel
    multiplies matrices.
    occupancy: the blocks that a multiprocessor shall hold at once, which bounds a thread's registers.
    num_ctas: from 2 on, sm_90 may run two neighbouring blocks of a grid together, which copy a tile once if both multiply it.
    opt_level: accepted.

    These hints never change results. Each may be ByTarget(default=4, sm_90=8).
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
        """Returns a kernel of the same function with other hints."""

    def tune(self, configs: Sequence[dict[str, Any]], key: Any = None, *, verbose: bool = False) -> Tuned:
        """Returns a kernel that is launched without some constants and uses the fastest of these configurations.

        configs: dictionaries of Constant parameters, the same ones in each, and hints. key: the properties of the
        arguments, besides dtypes, ranks, the other constants and the device, for which a configuration is chosen: names
        of parameters (tensors by their shape, numbers by their value), functions of the arguments, or a list of these;
        by default the tensors' extents, rounded up to powers of two. verbose: prints the table of times, as
        TILE_AUTOTUNE_PRINT=1 does. Errors: ValueError or TypeError for an invalid configuration or key; a launch raises
        ValueError if every configuration fails.
        """

    def debug(self, grid: Grid, *arguments: Any, **named: Any) -> None:
        """Runs the function as Python, one block after another, the first axis of the grid fastest: print, breakpoint()
        and a debugger work in it. Tiles hold torch tensors (tile.tensor). Each call of the language is compiled and run
        separately, so that results equal those of a launch. Tensors on a GPU are copied to the CPU and back. If
        TILE_DEBUG=python is set when a kernel is made, its launches do this.
        """

    def ir(self, *arguments: Any, passes: bool = False, **named: Any) -> str:
        """Returns the Tile IR for these arguments as text; with passes, also after each pass. Tensors may be fake."""

    def check(self, *arguments: Any, **named: Any) -> None:
        """Raises the errors in the kernel's source that a launch with these arguments would raise. Tensors may be fake
        or on meta.
        """

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
    """Returns the absolute value of x.

    Shapes: any; the result has x's.
    Dtypes: integers, floats and bool; the result has x's dtype.
    Errors: TileTypeError for float8 and tfloat32.
    """

def acos(x: TileLike) -> Tile:
    """Returns the angle whose cosine is x.

    Shapes: any; the result has x's.
    Dtypes: float16, bfloat16, float32 and float64; integers and bools become float32. The result has
    that dtype. 16-bit floats are computed in float32 and rounded once.
    Units: the result is in radians.
    Errors: TileTypeError for float8 and tfloat32.
    """

def add(x: TileLike, y: TileLike, *, rounding_mode: RoundingMode | None = None, flush_to_zero: bool = False) -> Tile:
    """Returns x + y.

    Shapes: the operands broadcast to one shape by NumPy's rules, and the result has that shape.
    Dtypes: integers, floats and one bool; the operands promote to one dtype. A float wins over an
    integer, an integer over a bool, and between two of one kind the wider one wins. A Python number
    takes the dtype of the other operand.
    Errors: TileTypeError if the shapes do not broadcast, if the dtypes have no common one (int32 and
    uint32, float16 and bfloat16), and for float8 and tfloat32, which need astype() first.
    TileValueError if a Python number is out of the dtype's range. TileTypeError for two bools, for a
    rounding_mode of integers, and for flush_to_zero of other dtypes than float32.
    """

def arange(size: int, *, dtype: DTypeLike, start: TileLike = 0, step: TileLike = 1) -> Tile:
    """Returns start + step * (0, 1, ..., size - 1), computed in dtype: integers wrap, floats round.

    Shapes: the result is [size].
    Dtypes: integers and floats.
    Errors: TileTypeError for a size below 1 or not constant, and for bools, float8 and tfloat32.
    """

def argmax(x: TileLike, axis: int | None = None, *, keepdims: bool = False, propagate_nan: bool = False) -> Tile:
    """Returns the first index of the largest element; without an axis, in row-major order of all elements.

    Shapes: x has any shape; the result lacks the axis, or has extent 1 there with keepdims.
    Dtypes: integers, floats and bool; the result is int32.
    Units: indices count elements, from 0.
    Errors: TileTypeError for an axis out of range, for a repeated axis, and for float8 and tfloat32.
    """

def argmin(x: TileLike, axis: int | None = None, *, keepdims: bool = False, propagate_nan: bool = False) -> Tile:
    """Returns the first index of the smallest element; without an axis, in row-major order of all elements.

    Shapes: x has any shape; the result lacks the axis, or has extent 1 there with keepdims.
    Dtypes: integers, floats and bool; the result is int32.
    Units: indices count elements, from 0.
    Errors: TileTypeError for an axis out of range, for a repeated axis, and for float8 and tfloat32.
    """

def asin(x: TileLike) -> Tile:
    """Returns the angle whose sine is x.

    Shapes: any; the result has x's.
    Dtypes: float16, bfloat16, float32 and float64; integers and bools become float32. The result has
    that dtype. 16-bit floats are computed in float32 and rounded once.
    Units: the result is in radians.
    Errors: TileTypeError for float8 and tfloat32.
    """

def assert_(cond: TileLike, message: str | None = None) -> None:
    """Checks that every element is true. If one is not, the block stops and the launch reports the message.

    Shapes: any.
    Dtypes: bool, an integer or a float: 0 is false.
    Errors: TileTypeError for a message that is no constant text. The launch raises RuntimeError when an
    element is false.
    """

def assume_divisible_by(x: TileLike, divisor: int) -> Scalar:
    """Returns x. The caller promises that x is a multiple of divisor.

    Shapes: any; the result has x's.
    Dtypes: any; the result has x's.
    Errors: TileTypeError for a divisor that is not constant, TileValueError for a divisor below 1.
    """

def astile(value: Any, *, dtype: DTypeLike) -> Tile:
    """Returns a tile of a scalar or a nested tuple of scalars, converted to dtype.

    Shapes: a scalar gives shape (); each level of the tuple gives an axis.
    Dtypes: any.
    Errors: TileTypeError for tuples of different lengths, for elements that are no scalars, and for
    lengths that are no power of 2 in tile_ops.cutile.
    """

def astype(x: TileLike, dtype: DTypeLike, *, rounding_mode: RoundingMode | None = None) -> Tile:
    """Returns x in another dtype. Floats become integers by truncation, integers wrap, and floats round to nearest even.

    A conversion to bool_ is x != 0.

    Shapes: any; the result has x's.
    Dtypes: any to any; rounding_mode is for floats to floats.
    Errors: TileTypeError for a rounding_mode that the two dtypes do not have,
    TileUnsupportedFeatureError for a dtype that no target has.
    """

def atan(x: TileLike) -> Tile:
    """Returns the angle whose tangent is x.

    Shapes: any; the result has x's.
    Dtypes: float16, bfloat16, float32 and float64; integers and bools become float32. The result has
    that dtype. 16-bit floats are computed in float32 and rounded once.
    Units: the result is in radians.
    Errors: TileTypeError for float8 and tfloat32.
    """

def atan2(x: TileLike, y: TileLike) -> Tile:
    """Returns the angle of the point (y, x), from -pi to pi.

    Shapes: the operands broadcast to one shape by NumPy's rules, and the result has that shape.
    Dtypes: the operands promote to one dtype. A float wins over an integer, an integer over a bool, and
    between two of one kind the wider one wins. A Python number takes the dtype of the other operand.
    Integers and bools become float32.
    Units: the result is in radians.
    Errors: TileTypeError if the shapes do not broadcast, if the dtypes have no common one (int32 and
    uint32, float16 and bfloat16), and for float8 and tfloat32, which need astype() first.
    TileValueError if a Python number is out of the dtype's range.
    """

def atomic_add(
    array: Array,
    indices: Any,
    update: TileLike,
    *,
    check_bounds: bool = True,
    memory_order: MemoryOrder = ...,
    memory_scope: MemoryScope = ...,
) -> Tile:
    """Adds to elements, and returns the old values. Elements outside the array are not changed.

    Shapes: indices are one integer tile for each axis; they and the update broadcast to the result's
    shape.
    Dtypes: int32, uint32, int64, uint64, float16, bfloat16, float32 and float64; the update converts
    implicitly.
    Units: indices count elements.
    Errors: TileTypeError for other dtypes, for another number of indices, for shapes that do not
    broadcast, for MemoryOrder.WEAK, and for MemoryScope.NONE. TileSyntaxError in the function of reduce
    or scan.
    """

def atomic_and(
    array: Array,
    indices: Any,
    update: TileLike,
    *,
    check_bounds: bool = True,
    memory_order: MemoryOrder = ...,
    memory_scope: MemoryScope = ...,
) -> Tile:
    """Replaces elements by their bitwise and with values, and returns the old values. Elements outside the array are not
    changed.

    Shapes: indices are one integer tile for each axis; they and the update broadcast to the result's
    shape.
    Dtypes: int32, uint32, int64 and uint64. The update has the array's dtype.
    Units: indices count elements.
    Errors: TileTypeError for other dtypes, for another number of indices, for shapes that do not
    broadcast, for MemoryOrder.WEAK, and for MemoryScope.NONE. TileSyntaxError in the function of reduce
    or scan.
    """

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
    """Replaces an element by `desired` if it has the bits of `expected`, and returns the old values. Elements outside the
    array are not changed.

    Shapes: indices are one integer tile for each axis; they and the values broadcast to the result's
    shape.
    Dtypes: int32, uint32, int64, uint64, float32 and float64; the values convert implicitly.
    Units: indices count elements.
    Errors: TileTypeError for other dtypes, for another number of indices, for shapes that do not
    broadcast, for MemoryOrder.WEAK, and for MemoryScope.NONE. TileSyntaxError in the function of reduce
    or scan.
    """

def atomic_max(
    array: Array,
    indices: Any,
    update: TileLike,
    *,
    check_bounds: bool = True,
    memory_order: MemoryOrder = ...,
    memory_scope: MemoryScope = ...,
) -> Tile:
    """Replaces elements by the larger of element and value, and returns the old values. Elements outside the array are not
    changed.

    Shapes: indices are one integer tile for each axis; they and the update broadcast to the result's
    shape.
    Dtypes: int32, uint32, int64 and uint64. The update converts implicitly.
    Units: indices count elements.
    Errors: TileTypeError for other dtypes, for another number of indices, for shapes that do not
    broadcast, for MemoryOrder.WEAK, and for MemoryScope.NONE. TileSyntaxError in the function of reduce
    or scan.
    """

def atomic_min(
    array: Array,
    indices: Any,
    update: TileLike,
    *,
    check_bounds: bool = True,
    memory_order: MemoryOrder = ...,
    memory_scope: MemoryScope = ...,
) -> Tile:
    """Replaces elements by the smaller of element and value, and returns the old values. Elements outside the array are
    not changed.

    Shapes: indices are one integer tile for each axis; they and the update broadcast to the result's
    shape.
    Dtypes: int32, uint32, int64 and uint64. The update converts implicitly.
    Units: indices count elements.
    Errors: TileTypeError for other dtypes, for another number of indices, for shapes that do not
    broadcast, for MemoryOrder.WEAK, and for MemoryScope.NONE. TileSyntaxError in the function of reduce
    or scan.
    """

def atomic_or(
    array: Array,
    indices: Any,
    update: TileLike,
    *,
    check_bounds: bool = True,
    memory_order: MemoryOrder = ...,
    memory_scope: MemoryScope = ...,
) -> Tile:
    """Replaces elements by their bitwise or with values, and returns the old values. Elements outside the array are not
    changed.

    Shapes: indices are one integer tile for each axis; they and the update broadcast to the result's
    shape.
    Dtypes: int32, uint32, int64 and uint64. The update has the array's dtype.
    Units: indices count elements.
    Errors: TileTypeError for other dtypes, for another number of indices, for shapes that do not
    broadcast, for MemoryOrder.WEAK, and for MemoryScope.NONE. TileSyntaxError in the function of reduce
    or scan.
    """

def atomic_xchg(
    array: Array,
    indices: Any,
    update: TileLike,
    *,
    check_bounds: bool = True,
    memory_order: MemoryOrder = ...,
    memory_scope: MemoryScope = ...,
) -> Tile:
    """Replaces elements by values, and returns the old values. Elements outside the array are not changed.

    Shapes: indices are one integer tile for each axis; they and the values broadcast to the result's
    shape.
    Dtypes: int32, uint32, int64, uint64, float32 and float64; the values convert implicitly.
    Units: indices count elements.
    Errors: TileTypeError for other dtypes, for another number of indices, for shapes that do not
    broadcast, for MemoryOrder.WEAK, and for MemoryScope.NONE. TileSyntaxError in the function of reduce
    or scan.
    """

def atomic_xor(
    array: Array,
    indices: Any,
    update: TileLike,
    *,
    check_bounds: bool = True,
    memory_order: MemoryOrder = ...,
    memory_scope: MemoryScope = ...,
) -> Tile:
    """Replaces elements by their exclusive or with values, and returns the old values. Elements outside the array are not
    changed.

    Shapes: indices are one integer tile for each axis; they and the update broadcast to the result's
    shape.
    Dtypes: int32, uint32, int64 and uint64. The update has the array's dtype.
    Units: indices count elements.
    Errors: TileTypeError for other dtypes, for another number of indices, for shapes that do not
    broadcast, for MemoryOrder.WEAK, and for MemoryScope.NONE. TileSyntaxError in the function of reduce
    or scan.
    """

def bid(axis: int) -> Scalar:
    """Returns the index of this block along an axis of the grid.

    Shapes: a scalar.
    Dtypes: int32.
    Units: blocks of the grid.
    Errors: TileTypeError for an axis other than the constants 0, 1 and 2.
    """

def bitcast(x: TileLike, dtype: DTypeLike) -> Tile:
    """Returns the bits of x as another dtype of equal width.

    Shapes: any; the result has x's.
    Dtypes: two dtypes of equal width, neither bool_.
    Errors: TileTypeError for other widths and for bool_.
    """

def bitwise_and(x: TileLike, y: TileLike) -> Tile:
    """Returns x & y of integers or bools of one dtype.

    Shapes: the operands broadcast to one shape by NumPy's rules, and the result has that shape.
    Dtypes: integers or bools of one dtype, which the result has. A Python integer takes the dtype of
    the other operand.
    Errors: TileTypeError for floats, for two dtypes, and for shapes that do not broadcast.
    """

def bitwise_lshift(x: TileLike, y: TileLike) -> Tile:
    """Returns x << y of integers.

    Shapes: the operands broadcast to one shape by NumPy's rules, and the result has that shape.
    Dtypes: integers; the operands promote to one dtype. A float wins over an integer, an integer over a
    bool, and between two of one kind the wider one wins. A Python number takes the dtype of the other
    operand.
    Errors: TileTypeError if the shapes do not broadcast, if the dtypes have no common one (int32 and
    uint32, float16 and bfloat16), and for float8 and tfloat32, which need astype() first.
    TileValueError if a Python number is out of the dtype's range. TileTypeError for floats and bools.
    """

def bitwise_not(x: TileLike) -> Tile:
    """Returns ~x of an integer and `not x` of a bool tile.

    Shapes: any; the result has x's.
    Dtypes: integers and bool; the result has x's.
    Errors: TileTypeError for floats, and for a constant bool.
    """

def bitwise_or(x: TileLike, y: TileLike) -> Tile:
    """Returns x | y of integers or bools of one dtype.

    Shapes: the operands broadcast to one shape by NumPy's rules, and the result has that shape.
    Dtypes: integers or bools of one dtype, which the result has. A Python integer takes the dtype of
    the other operand.
    Errors: TileTypeError for floats, for two dtypes, and for shapes that do not broadcast.
    """

def bitwise_rshift(x: TileLike, y: TileLike) -> Tile:
    """Returns x >> y of integers; the sign of a signed one moves in.

    Shapes: the operands broadcast to one shape by NumPy's rules, and the result has that shape.
    Dtypes: integers; the operands promote to one dtype. A float wins over an integer, an integer over a
    bool, and between two of one kind the wider one wins. A Python number takes the dtype of the other
    operand.
    Errors: TileTypeError if the shapes do not broadcast, if the dtypes have no common one (int32 and
    uint32, float16 and bfloat16), and for float8 and tfloat32, which need astype() first.
    TileValueError if a Python number is out of the dtype's range. TileTypeError for floats and bools.
    """

def bitwise_xor(x: TileLike, y: TileLike) -> Tile:
    """Returns x ^ y of integers or bools of one dtype.

    Shapes: the operands broadcast to one shape by NumPy's rules, and the result has that shape.
    Dtypes: integers or bools of one dtype, which the result has. A Python integer takes the dtype of
    the other operand.
    Errors: TileTypeError for floats, for two dtypes, and for shapes that do not broadcast.
    """

def broadcast_to(x: TileLike, shape: Shape) -> Tile:
    """Repeats axes of extent 1 and adds leading axes, by NumPy's rules.

    Shapes: x broadcasts to the shape by NumPy's rules.
    Dtypes: any; the result has x's.
    Errors: TileTypeError for a shape that is not constant, for an extent below 1, and for a tile with
    too many elements. TileTypeError if x does not broadcast.
    """

def cat(tiles: Sequence[Tile], axis: int) -> Tile:
    """Joins two tiles along an axis.

    Shapes: one or two tiles, whose extents are equal but along the axis.
    Dtypes: any; both tiles have one dtype.
    Errors: TileTypeError for more tiles, for other extents or dtypes, and for a joined extent that is
    no power of two in tile_ops.cutile.
    """

def cdiv(x: TileLike, y: TileLike) -> Any:
    """Returns x / y of integers, rounded up. It may be called outside of kernels, too.

    Shapes: the operands broadcast to one shape by NumPy's rules, and the result has that shape.
    Dtypes: integers; the operands promote to one dtype. A float wins over an integer, an integer over a
    bool, and between two of one kind the wider one wins. A Python number takes the dtype of the other
    operand.
    Errors: TileTypeError if the shapes do not broadcast, if the dtypes have no common one (int32 and
    uint32, float16 and bfloat16), and for float8 and tfloat32, which need astype() first.
    TileValueError if a Python number is out of the dtype's range. TileTypeError for floats and for two
    bools.
    """

def ceil(x: TileLike) -> Tile:
    """Returns the least whole number that is not below x.

    Shapes: any; the result has x's.
    Dtypes: float16, bfloat16, float32 and float64; the result has x's dtype.
    Errors: TileTypeError for integers, bools, float8 and tfloat32.
    """

def cos(x: TileLike) -> Tile:
    """Returns the cosine of x radians.

    Shapes: any; the result has x's.
    Dtypes: float16, bfloat16, float32 and float64; integers and bools become float32. The result has
    that dtype. 16-bit floats are computed in float32 and rounded once.
    Units: x is in radians.
    Errors: TileTypeError for float8 and tfloat32.
    """

def cosh(x: TileLike) -> Tile:
    """Returns the hyperbolic cosine of x.

    Shapes: any; the result has x's.
    Dtypes: float16, bfloat16, float32 and float64; integers and bools become float32. The result has
    that dtype. 16-bit floats are computed in float32 and rounded once.
    Errors: TileTypeError for float8 and tfloat32, and for a rounding_mode or flush_to_zero that the
    dtype does not have. TileValueError for a constant outside of the domain.
    """

def cumprod(
    x: TileLike,
    axis: int = 0,
    *,
    reverse: bool = False,
    rounding_mode: RoundingMode | None = None,
    flush_to_zero: bool = False,
) -> Tile:
    """Returns the products up to each element along an axis, or from it on with `reverse`.

    Shapes: x has any shape; the result has the same.
    Dtypes: integers, floats and bool; the result has x's dtype, int32 for a bool. 16-bit floats run in
    float32 and are rounded once.
    Errors: TileTypeError for an axis out of range, for a repeated axis, and for float8 and tfloat32.
    TileTypeError for a rounding_mode of integers.
    """

def cumsum(
    x: TileLike,
    axis: int = 0,
    *,
    reverse: bool = False,
    rounding_mode: RoundingMode | None = None,
    flush_to_zero: bool = False,
) -> Tile:
    """Returns the sums up to each element along an axis, or from it on with `reverse`.

    Shapes: x has any shape; the result has the same.
    Dtypes: integers, floats and bool; the result has x's dtype, int32 for a bool. 16-bit floats run in
    float32 and are rounded once.
    Errors: TileTypeError for an axis out of range, for a repeated axis, and for float8 and tfloat32.
    TileTypeError for a rounding_mode of integers.
    """

def detach(x: TileLike) -> Tile:
    """Returns x, which derivatives by the compiler take for a constant.

    Serves numbers that results depend on only by rounding, such as the maximum that a softmax subtracts: their
    gradients and
    tangents would cost time and add up to nothing.

    Shapes: any; the result has x's.
    Dtypes: any; the result has x's.
    Errors: none.
    """

def divmod(x: TileLike, y: TileLike) -> tuple[Tile, Tile]:
    """Returns (x // y, x % y) of integers.

    Shapes: the operands broadcast to one shape by NumPy's rules, and the result has that shape.
    Dtypes: integers; the operands promote to one dtype. A float wins over an integer, an integer over a
    bool, and between two of one kind the wider one wins. A Python number takes the dtype of the other
    operand.
    Errors: TileTypeError if the shapes do not broadcast, if the dtypes have no common one (int32 and
    uint32, float16 and bfloat16), and for float8 and tfloat32, which need astype() first.
    TileValueError if a Python number is out of the dtype's range. TileTypeError for floats and for two
    bools.
    """

def ensure_constant(value: _T) -> _T:
    """Returns the value, which must be known while the kernel is compiled.

    Shapes: it takes no tiles.
    Dtypes: any constant.
    Errors: TileTypeError for a value that is known only when it runs.
    """

def equal(x: TileLike, y: TileLike) -> Tile:
    """Returns x == y.

    Shapes: the operands broadcast to one shape by NumPy's rules, and the result has that shape.
    Dtypes: integers, floats and bool; the operands promote to one dtype. A float wins over an integer,
    an integer over a bool, and between two of one kind the wider one wins. A Python number takes the
    dtype of the other operand. The result is bool_.
    Errors: TileTypeError if the shapes do not broadcast, if the dtypes have no common one (int32 and
    uint32, float16 and bfloat16), and for float8 and tfloat32, which need astype() first.
    TileValueError if a Python number is out of the dtype's range.
    """

def erf(x: TileLike) -> Tile:
    """Returns the error function of x.

    Shapes: any; the result has x's.
    Dtypes: float16, bfloat16, float32 and float64; integers and bools become float32. The result has
    that dtype. 16-bit floats are computed in float32 and rounded once.
    Errors: TileTypeError for float8 and tfloat32, and for a rounding_mode or flush_to_zero that the
    dtype does not have. TileValueError for a constant outside of the domain.
    """

def exp(x: TileLike, *, rounding_mode: RoundingMode | None = None) -> Tile:
    """Returns e ** x.

    Shapes: any; the result has x's.
    Dtypes: float16, bfloat16, float32 and float64; integers and bools become float32. The result has
    that dtype. 16-bit floats are computed in float32 and rounded once.
    Errors: TileTypeError for float8 and tfloat32, and for a rounding_mode or flush_to_zero that the
    dtype does not have. TileValueError for a constant outside of the domain.
    """

def exp2(x: TileLike, *, flush_to_zero: bool = False) -> Tile:
    """Returns 2 ** x.

    Shapes: any; the result has x's.
    Dtypes: float16, bfloat16, float32 and float64; integers and bools become float32. The result has
    that dtype. 16-bit floats are computed in float32 and rounded once.
    Errors: TileTypeError for float8 and tfloat32, and for a rounding_mode or flush_to_zero that the
    dtype does not have. TileValueError for a constant outside of the domain.
    """

def expand_dims(x: TileLike, axis: int) -> Tile:
    """Returns x with one more axis of extent 1. Negative axes count from the end of the result.

    Shapes: the result has one axis more than x.
    Dtypes: any; the result has x's.
    Errors: TileTypeError for an axis out of range.
    """

def expm1(x: TileLike) -> Tile:
    """Returns e ** x - 1, accurate for small x.

    Shapes: any; the result has x's.
    Dtypes: float16, bfloat16, float32 and float64; integers and bools become float32. The result has
    that dtype. 16-bit floats are computed in float32 and rounded once.
    Errors: TileTypeError for float8 and tfloat32, and for a rounding_mode or flush_to_zero that the
    dtype does not have. TileValueError for a constant outside of the domain.
    """

def extract(x: TileLike, index: Index, shape: Shape) -> Tile:
    """Returns the sub-tile of a shape at an index. Shape () is one element.

    Shapes: shape divides x's shape; index has one entry for each axis. The result has the shape.
    Dtypes: any; the result has x's.
    Units: index counts sub-tiles.
    Errors: TileTypeError for other shapes and ranks, TileValueError for a constant index out of range.
    """

def floor(x: TileLike) -> Tile:
    """Returns the largest whole number that is not above x.

    Shapes: any; the result has x's.
    Dtypes: float16, bfloat16, float32 and float64; the result has x's dtype.
    Errors: TileTypeError for integers, bools, float8 and tfloat32.
    """

def floordiv(x: TileLike, y: TileLike) -> Tile:
    """Returns x // y, rounded to minus infinity. An integer divided by 0 gives any value.

    Shapes: the operands broadcast to one shape by NumPy's rules, and the result has that shape.
    Dtypes: integers, floats and one bool; the operands promote to one dtype. A float wins over an
    integer, an integer over a bool, and between two of one kind the wider one wins. A Python number
    takes the dtype of the other operand.
    Errors: TileTypeError if the shapes do not broadcast, if the dtypes have no common one (int32 and
    uint32, float16 and bfloat16), and for float8 and tfloat32, which need astype() first.
    TileValueError if a Python number is out of the dtype's range. TileTypeError for two bools.
    """

def fma(x: TileLike, y: TileLike, z: TileLike) -> Tile:
    """Returns x * y + z, rounded once.

    Shapes: the operands broadcast to one shape by NumPy's rules, and the result has that shape.
    Dtypes: floats; the operands promote to one dtype. A float wins over an integer, an integer over a
    bool, and between two of one kind the wider one wins. A Python number takes the dtype of the other
    operand.
    Errors: TileTypeError if the shapes do not broadcast, if the dtypes have no common one (int32 and
    uint32, float16 and bfloat16), and for float8 and tfloat32, which need astype() first.
    TileValueError if a Python number is out of the dtype's range. TileTypeError for integers and bools.
    """

def full(shape: Shape, fill_value: TileLike, dtype: DTypeLike) -> Tile:
    """Returns a tile of one value, which is converted to dtype.

    Shapes: a shape is a constant integer or a tuple of them, each at least 1. In tile_ops.cutile they
    are powers of two.
    Dtypes: any; fill_value is a scalar of any dtype.
    Errors: TileTypeError for a shape that is not constant, for an extent below 1, and for a tile with
    too many elements.
    """

def gather(
    array: Array,
    indices: Any,
    *,
    mask: Tile | bool | None = None,
    padding_value: TileLike = 0,
    check_bounds: bool = True,
    latency: int | None = None,
) -> Tile:
    """Returns elements at index tiles. Those outside of the array, or where the mask is false, are padding_value.

    Shapes: indices are one integer tile for each axis; they and the mask broadcast to the result's
    shape.
    Dtypes: any; the result has the array's dtype. mask: bool_.
    Units: indices count elements, from 0; a negative index is outside.
    Errors: TileTypeError for another number of indices, for shapes that do not broadcast, and for a
    mask that is not bool_.
    """

def greater(x: TileLike, y: TileLike) -> Tile:
    """Returns x > y.

    Shapes: the operands broadcast to one shape by NumPy's rules, and the result has that shape.
    Dtypes: integers, floats and bool; the operands promote to one dtype. A float wins over an integer,
    an integer over a bool, and between two of one kind the wider one wins. A Python number takes the
    dtype of the other operand. The result is bool_.
    Errors: TileTypeError if the shapes do not broadcast, if the dtypes have no common one (int32 and
    uint32, float16 and bfloat16), and for float8 and tfloat32, which need astype() first.
    TileValueError if a Python number is out of the dtype's range.
    """

def greater_equal(x: TileLike, y: TileLike) -> Tile:
    """Returns x >= y.

    Shapes: the operands broadcast to one shape by NumPy's rules, and the result has that shape.
    Dtypes: integers, floats and bool; the operands promote to one dtype. A float wins over an integer,
    an integer over a bool, and between two of one kind the wider one wins. A Python number takes the
    dtype of the other operand. The result is bool_.
    Errors: TileTypeError if the shapes do not broadcast, if the dtypes have no common one (int32 and
    uint32, float16 and bfloat16), and for float8 and tfloat32, which need astype() first.
    TileValueError if a Python number is out of the dtype's range.
    """

def grid_dependency_control_launch_dependents() -> None:
    """Does nothing: launches of one stream run in order. It is there for programs written for cuTile.

    Shapes: it takes no tiles.
    Dtypes: it takes no tiles.
    Errors: none.
    """

def grid_dependency_control_wait() -> None:
    """Does nothing: launches of one stream run in order. It is there for programs written for cuTile.

    Shapes: it takes no tiles.
    Dtypes: it takes no tiles.
    Errors: none.
    """

def insert(x: TileLike, index: Index, value: TileLike) -> Tile:
    """Returns x with the sub-tile at an index replaced by value.

    Shapes: value's shape divides x's shape; index has one entry for each axis. The result has x's
    shape.
    Dtypes: any; value has x's dtype.
    Units: index counts sub-tiles.
    Errors: TileTypeError for other shapes, ranks and dtypes, TileValueError for a constant index out of
    range.
    """

def isfinite(x: TileLike) -> Tile:
    """Returns True where x is a finite number.

    Shapes: any; the result has x's.
    Dtypes: floats; the result is bool_.
    Errors: TileTypeError for integers, bools, float8 and tfloat32.
    """

def isinf(x: TileLike) -> Tile:
    """Returns True where x is infinite.

    Shapes: any; the result has x's.
    Dtypes: floats; the result is bool_.
    Errors: TileTypeError for integers, bools, float8 and tfloat32.
    """

def isnan(x: TileLike) -> Tile:
    """Returns True where x is a NaN.

    Shapes: any; the result has x's.
    Dtypes: floats; the result is bool_.
    Errors: TileTypeError for integers, bools, float8 and tfloat32.
    """

def less(x: TileLike, y: TileLike) -> Tile:
    """Returns x < y.

    Shapes: the operands broadcast to one shape by NumPy's rules, and the result has that shape.
    Dtypes: integers, floats and bool; the operands promote to one dtype. A float wins over an integer,
    an integer over a bool, and between two of one kind the wider one wins. A Python number takes the
    dtype of the other operand. The result is bool_.
    Errors: TileTypeError if the shapes do not broadcast, if the dtypes have no common one (int32 and
    uint32, float16 and bfloat16), and for float8 and tfloat32, which need astype() first.
    TileValueError if a Python number is out of the dtype's range.
    """

def less_equal(x: TileLike, y: TileLike) -> Tile:
    """Returns x <= y.

    Shapes: the operands broadcast to one shape by NumPy's rules, and the result has that shape.
    Dtypes: integers, floats and bool; the operands promote to one dtype. A float wins over an integer,
    an integer over a bool, and between two of one kind the wider one wins. A Python number takes the
    dtype of the other operand. The result is bool_.
    Errors: TileTypeError if the shapes do not broadcast, if the dtypes have no common one (int32 and
    uint32, float16 and bfloat16), and for float8 and tfloat32, which need astype() first.
    TileValueError if a Python number is out of the dtype's range.
    """

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
    """Returns the tile at an index. Elements outside of the array are padding.

    order: the order of the array's axes, "C", "F" or a permutation; index and shape refer to the permuted array.
    padding_mode: the value of elements outside of the array.
    latency, allow_tma, check_bounds: accepted as hints; they do not change the result.

    Shapes: index has one entry for each axis of the array. shape has one extent for each axis, or is ()
    for one element; the result has that shape.
    Dtypes: any; the result has the array's dtype. index: signed integers.
    Units: index counts tiles of the shape; with shape () it counts elements.
    Errors: TileTypeError for an index of another rank, and for a memory order that the access cannot
    have or that lacks its scope. TileTypeError for a shape of another rank. TileUnsupportedFeatureError
    for a padding that the dtype cannot have.
    """

def load_advanced_indexing(
    array: Array,
    indices: Any,
    *,
    padding_mode: PaddingMode = ...,
    latency: int | None = None,
    allow_tma: bool | None = None,
) -> Tile:
    """Returns a tile of rows at indices. One entry is an integer tile of one axis, the others are Slice(start, length).

    Shapes: indices has one entry for each axis of an array of rank 2 or more. The result has the length
    of the tile or Slice along each axis.
    Dtypes: the array's dtype; rows are integers.
    Units: indices and starts count elements.
    Errors: TileTypeError for another rank, and unless exactly one entry is an integer tile of one axis.
    """

def log(x: TileLike) -> Tile:
    """Returns the natural logarithm of x.

    Shapes: any; the result has x's.
    Dtypes: float16, bfloat16, float32 and float64; integers and bools become float32. The result has
    that dtype. 16-bit floats are computed in float32 and rounded once.
    Errors: TileTypeError for float8 and tfloat32, and for a rounding_mode or flush_to_zero that the
    dtype does not have. TileValueError for a constant outside of the domain.
    """

def log1p(x: TileLike) -> Tile:
    """Returns log(1 + x), accurate for small x.

    Shapes: any; the result has x's.
    Dtypes: float16, bfloat16, float32 and float64; integers and bools become float32. The result has
    that dtype. 16-bit floats are computed in float32 and rounded once.
    Errors: TileTypeError for float8 and tfloat32, and for a rounding_mode or flush_to_zero that the
    dtype does not have. TileValueError for a constant outside of the domain.
    """

def log2(x: TileLike) -> Tile:
    """Returns the logarithm of x to base 2.

    Shapes: any; the result has x's.
    Dtypes: float16, bfloat16, float32 and float64; integers and bools become float32. The result has
    that dtype. 16-bit floats are computed in float32 and rounded once.
    Errors: TileTypeError for float8 and tfloat32, and for a rounding_mode or flush_to_zero that the
    dtype does not have. TileValueError for a constant outside of the domain.
    """

def logical_not(x: TileLike) -> Tile:
    """Returns x == 0.

    Shapes: any; the result has x's.
    Dtypes: integers, floats and bool; the result is bool_.
    Errors: TileTypeError for float8 and tfloat32.
    """

def matmul(x: TileLike, y: TileLike) -> Tile:
    """Returns x @ y of 1, 2 or 3 axes by NumPy's rules. It adds in the accumulator of mma.

    Shapes: x [..., M, K] or [K], y [..., K, N] or [K], with at most one batch axis; the result as
    numpy.matmul's.
    Dtypes: as mma; x and y promote to one dtype first, and the result is rounded to it.
    Errors: TileTypeError for other ranks, dtypes and extents.
    """

def max(
    x: TileLike,
    axis: int | tuple[int, ...] | None = None,
    *,
    keepdims: bool = False,
    flush_to_zero: bool = False,
    propagate_nan: bool = False,
) -> Tile:
    """Returns the largest element over axes, by default all. A NaN is skipped unless propagate_nan is True.

    Shapes: x has any shape; the result lacks the axes, or has extent 1 there with keepdims.
    Dtypes: integers, floats and bool; the result has x's dtype, int32 for a bool.
    Errors: TileTypeError for an axis out of range, for a repeated axis, and for float8 and tfloat32.
    """

def maximum(x: TileLike, y: TileLike, *, flush_to_zero: bool = False, propagate_nan: bool = False) -> Tile:
    """Returns the larger of x and y. A NaN is ignored unless propagate_nan is True.

    Shapes: the operands broadcast to one shape by NumPy's rules, and the result has that shape.
    Dtypes: integers, floats and one bool; the operands promote to one dtype. A float wins over an
    integer, an integer over a bool, and between two of one kind the wider one wins. A Python number
    takes the dtype of the other operand.
    Errors: TileTypeError if the shapes do not broadcast, if the dtypes have no common one (int32 and
    uint32, float16 and bfloat16), and for float8 and tfloat32, which need astype() first.
    TileValueError if a Python number is out of the dtype's range. TileTypeError for two bools, and for
    flush_to_zero of other dtypes than float32.
    """

def min(
    x: TileLike,
    axis: int | tuple[int, ...] | None = None,
    *,
    keepdims: bool = False,
    flush_to_zero: bool = False,
    propagate_nan: bool = False,
) -> Tile:
    """Returns the smallest element over axes, by default all. A NaN is skipped unless propagate_nan is True.

    Shapes: x has any shape; the result lacks the axes, or has extent 1 there with keepdims.
    Dtypes: integers, floats and bool; the result has x's dtype, int32 for a bool.
    Errors: TileTypeError for an axis out of range, for a repeated axis, and for float8 and tfloat32.
    """

def minimum(x: TileLike, y: TileLike, *, flush_to_zero: bool = False, propagate_nan: bool = False) -> Tile:
    """Returns the smaller of x and y. A NaN is ignored unless propagate_nan is True.

    Shapes: the operands broadcast to one shape by NumPy's rules, and the result has that shape.
    Dtypes: integers, floats and one bool; the operands promote to one dtype. A float wins over an
    integer, an integer over a bool, and between two of one kind the wider one wins. A Python number
    takes the dtype of the other operand.
    Errors: TileTypeError if the shapes do not broadcast, if the dtypes have no common one (int32 and
    uint32, float16 and bfloat16), and for float8 and tfloat32, which need astype() first.
    TileValueError if a Python number is out of the dtype's range. TileTypeError for two bools, and for
    flush_to_zero of other dtypes than float32.
    """

def mma(x: TileLike, y: TileLike, acc: TileLike, *, use_fast_acc: bool = False) -> Tile:
    """Returns x @ y + acc, with acc's dtype. float32 is never rounded to tfloat32.

    Shapes: x [M, K], y [K, N], acc [M, N], or each with a batch axis before them; batches broadcast.
    The result has acc's shape.
    Dtypes: x and y are equal: float16 (acc float16 or float32), bfloat16, float32 or tfloat32 (acc
    float32), float64 (acc float64), float8_e4m3fn or float8_e5m2 (acc float16 or float32). int8 and
    uint8 may be mixed (acc int32).
    Errors: TileTypeError for other ranks, dtypes and extents, and for use_fast_acc without float8.
    """

def mma_scaled(x: TileLike, x_scale: TileLike, y: TileLike, y_scale: TileLike, acc: TileLike) -> Tile:
    """Returns acc + the sum over k of x[i, k] xs[i, k // B] y[k, j] ys[k // B, j], with B = K / K_s = 32.

    The formats are those of OCP Microscaling Formats 1.0. A uint8 scale holds the bits of a float8_e8m0fnu.

    Shapes: x [M, K], x_scale [M, K / 32], y [K, N], y_scale [K / 32, N], acc [M, N], or each with a
    batch axis before them.
    Dtypes: x and y float8_e4m3fn or float8_e5m2, scales float8_e8m0fnu or uint8, acc and the result
    float32.
    Errors: TileTypeError for other ranks, extents and dtypes of scales; TileUnsupportedFeatureError for
    other dtypes of x and y.
    """

def mod(x: TileLike, y: TileLike) -> Tile:
    """Returns x % y, with the sign of y. An integer modulo 0 gives any value.

    Shapes: the operands broadcast to one shape by NumPy's rules, and the result has that shape.
    Dtypes: integers, floats and one bool; the operands promote to one dtype. A float wins over an
    integer, an integer over a bool, and between two of one kind the wider one wins. A Python number
    takes the dtype of the other operand.
    Errors: TileTypeError if the shapes do not broadcast, if the dtypes have no common one (int32 and
    uint32, float16 and bfloat16), and for float8 and tfloat32, which need astype() first.
    TileValueError if a Python number is out of the dtype's range. TileTypeError for two bools.
    """

def mul(x: TileLike, y: TileLike, *, rounding_mode: RoundingMode | None = None, flush_to_zero: bool = False) -> Tile:
    """Returns x * y.

    Shapes: the operands broadcast to one shape by NumPy's rules, and the result has that shape.
    Dtypes: integers, floats and one bool; the operands promote to one dtype. A float wins over an
    integer, an integer over a bool, and between two of one kind the wider one wins. A Python number
    takes the dtype of the other operand.
    Errors: TileTypeError if the shapes do not broadcast, if the dtypes have no common one (int32 and
    uint32, float16 and bfloat16), and for float8 and tfloat32, which need astype() first.
    TileValueError if a Python number is out of the dtype's range. TileTypeError for two bools, for a
    rounding_mode of integers, and for flush_to_zero of other dtypes than float32.
    """

def negative(x: TileLike) -> Tile:
    """Returns -x. Unsigned integers wrap, bools become int32.

    Shapes: any; the result has x's.
    Dtypes: integers, floats and bool; the result has x's dtype, int32 for a bool.
    Errors: TileTypeError for float8 and tfloat32.
    """

def next_power_of_2(n: int) -> int:
    """Returns the smallest power of two that is at least n; 1 if n is below 1. It may be called outside of kernels, too.

    Shapes: n is a constant; the result is one.
    Dtypes: an integer.
    Errors: TileTypeError for a tile and for a float.
    """

def normal(shape: Shape, seed: TileLike, offset: TileLike = 0, *, dtype: DTypeLike = ..., stream: TileLike = 0) -> Tile:
    """Returns standard normal numbers by Box and Muller: sqrt(-2 log a) sin(pi b), a on (0, 1], b on [-1/2, 1/2].

    Shapes: the result has the given shape; offset is a scalar or has that shape.
    Dtypes: dtype is float16, bfloat16, float32 or float64; seed, offset and stream are integers.
    Errors: TileTypeError for another dtype, for a seed, offset or stream that is no integer, and for an
    offset of another shape than the result.
    """

def not_equal(x: TileLike, y: TileLike) -> Tile:
    """Returns x != y; a NaN differs from everything.

    Shapes: the operands broadcast to one shape by NumPy's rules, and the result has that shape.
    Dtypes: integers, floats and bool; the operands promote to one dtype. A float wins over an integer,
    an integer over a bool, and between two of one kind the wider one wins. A Python number takes the
    dtype of the other operand. The result is bool_.
    Errors: TileTypeError if the shapes do not broadcast, if the dtypes have no common one (int32 and
    uint32, float16 and bfloat16), and for float8 and tfloat32, which need astype() first.
    TileValueError if a Python number is out of the dtype's range.
    """

def num_blocks(axis: int) -> Scalar:
    """Returns the number of blocks along an axis of the grid.

    Shapes: a scalar.
    Dtypes: int32.
    Units: blocks of the grid.
    Errors: TileTypeError for an axis other than the constants 0, 1 and 2.
    """

def num_tiles(array: Array, axis: int, shape: Shape, order: Order = 'C') -> Scalar:
    """Returns the number of tiles of a shape along an axis of an array, rounded up. Shape () counts elements.

    Shapes: shape has one extent for each axis of the array, or is (). The result is a scalar.
    Dtypes: int32, or int64 for an array that is indexed with int64.
    Units: tiles.
    Errors: TileTypeError for a shape of another rank, an axis out of range, or an order that is no
    permutation.
    """

def ones(shape: Shape, dtype: DTypeLike) -> Tile:
    """Returns a tile of ones.

    Shapes: a shape is a constant integer or a tuple of them, each at least 1. In tile_ops.cutile they
    are powers of two.
    Dtypes: any.
    Errors: TileTypeError for a shape that is not constant, for an extent below 1, and for a tile with
    too many elements.
    """

def pack_to_bytes(x: TileLike) -> Tile:
    """Returns the bytes of a tile in row-major order, little-endian, as a uint8 tile of one axis.

    Shapes: any; the result is [bytes of x].
    Dtypes: any but bool_; the result is uint8.
    Errors: TileTypeError for bool_.
    """

def permute(x: TileLike, axes: Sequence[int]) -> Tile:
    """Returns x with its axes in another order.

    Shapes: axes is a permutation of x's axes.
    Dtypes: any; the result has x's.
    Errors: TileTypeError for other axes.
    """

def pow(x: TileLike, y: TileLike) -> Tile:
    """Returns x ** y; one of them is a float. An integer exponent keeps the dtype of a float base.

    Shapes: the operands broadcast to one shape by NumPy's rules, and the result has that shape.
    Dtypes: at least one float; the operands promote to one dtype. A float wins over an integer, an
    integer over a bool, and between two of one kind the wider one wins. A Python number takes the dtype
    of the other operand.
    Errors: TileTypeError if the shapes do not broadcast, if the dtypes have no common one (int32 and
    uint32, float16 and bfloat16), and for float8 and tfloat32, which need astype() first.
    TileValueError if a Python number is out of the dtype's range. TileTypeError for two integers or
    bools.
    """

def print(*args: Any, sep: str = ' ', end: str = '\n') -> None:
    """Writes values to the process's standard output: numbers, tiles as nested lists, text.

    Shapes: any.
    Dtypes: any.
    Errors: TileTypeError for sep and end that are no constant text.
    """

def printf(format: str, /, *args: Any) -> None:
    """Writes values by a C format. %% is a percent sign; length modifiers, as in %lld, are ignored.

    Shapes: any.
    Dtypes: integers and bools for d i u o x X, floats for e E f F g G a A.
    Errors: TileTypeError for another specifier, for another number of arguments, and for a dtype that
    the specifier does not show.
    """

def prod(
    x: TileLike,
    axis: int | tuple[int, ...] | None = None,
    *,
    keepdims: bool = False,
    rounding_mode: RoundingMode | None = None,
    flush_to_zero: bool = False,
) -> Tile:
    """Returns the product over axes, by default all.

    Shapes: x has any shape; the result lacks the axes, or has extent 1 there with keepdims.
    Dtypes: integers, floats and bool; the result has x's dtype, int32 for a bool. 16-bit floats are
    added in float32 and rounded once.
    Errors: TileTypeError for an axis out of range, for a repeated axis, and for float8 and tfloat32.
    TileTypeError for a rounding_mode of integers.
    """

def random_bits(
    shape: Shape,
    seed: TileLike,
    offset: TileLike = 0,
    *,
    dtype: DTypeLike = ...,
    stream: TileLike = 0,
) -> Tile:
    """Returns random bits, which are a function of (seed, stream, number of the element) alone.

    The elements are numbered offset, offset + 1, ... in row-major order; an integer tile as offset gives each element
    its number. Draws with one seed and number in different streams are independent.

    Shapes: the result has the given shape; offset is a scalar or has that shape.
    Dtypes: dtype is uint32 or uint64; seed, offset and stream are integers.
    Errors: TileTypeError for another dtype, for a seed, offset or stream that is no integer, and for an
    offset of another shape than the result.
    """

def reduce(x: Any, axis: int, func: Callable[..., Any], identity: Any, *, keepdims: bool = False) -> Any:
    """Reduces an axis by an associative function. x is a tile or a tuple of N tiles.

    func: it takes 2N scalars, first those of the earlier elements, and returns N.
    identity: the neutral constant of func, or N of them.

    Shapes: x has any shape; the result lacks the axis, or has extent 1 there with keepdims.
    Dtypes: integers, floats and bool; the results have the dtypes of x.
    Errors: TileTypeError for an axis out of range, for a func that returns another number of values or
    another dtype, and for identities that are not constant. TileSyntaxError for memory accesses in
    func.
    """

def reshape(x: TileLike, shape: Shape) -> Tile:
    """Returns the elements of x, in row-major order, in another shape; one extent may be -1.

    Shapes: the new shape has as many elements as x.
    Dtypes: any; the result has x's.
    Errors: TileTypeError for a shape that is not constant, for an extent below 1, and for a tile with
    too many elements. TileTypeError for another number of elements and for a second -1.
    """

def round(x: TileLike) -> Tile:
    """Returns the nearest whole number, halves to even.

    Shapes: any; the result has x's.
    Dtypes: float16, bfloat16, float32 and float64; the result has x's dtype.
    Errors: TileTypeError for integers, bools, float8 and tfloat32.
    """

def rsqrt(x: TileLike, *, flush_to_zero: bool = False) -> Tile:
    """Returns 1 / sqrt(x).

    Shapes: any; the result has x's.
    Dtypes: float16, bfloat16, float32 and float64; integers and bools become float32. The result has
    that dtype. 16-bit floats are computed in float32 and rounded once.
    Errors: TileTypeError for float8 and tfloat32, and for a rounding_mode or flush_to_zero that the
    dtype does not have. TileValueError for a constant outside of the domain.
    """

def scan(x: Any, axis: int, func: Callable[..., Any], identity: Any, *, reverse: bool = False) -> Any:
    """Returns the combination of all elements up to each one along an axis, or from it on with `reverse`.

    func, identity: as those of reduce.

    Shapes: x has any shape; the result has the same.
    Dtypes: integers, floats and bool; the results have the dtypes of x.
    Errors: TileTypeError for an axis out of range, for a func that returns another number of values or
    another dtype, and for identities that are not constant. TileSyntaxError for memory accesses in
    func.
    """

def scatter(
    array: Array,
    indices: Any,
    value: TileLike,
    *,
    mask: Tile | bool | None = None,
    check_bounds: bool = True,
    latency: int | None = None,
) -> None:
    """Writes elements at index tiles. Those outside of the array, or where the mask is false, are dropped.

    Shapes: indices are one integer tile for each axis; they, the value and the mask broadcast to one
    shape.
    Dtypes: the value's dtype converts implicitly to the array's. mask: bool_.
    Units: indices count elements, from 0; a negative index is outside.
    Errors: TileTypeError for another number of indices, for shapes that do not broadcast, and for a
    mask that is not bool_.
    """

def sigmoid(x: TileLike) -> Tile:
    """Returns 1 / (1 + e ** -x).

    Shapes: any; the result has x's.
    Dtypes: float16, bfloat16, float32 and float64; integers and bools become float32. The result has
    that dtype. 16-bit floats are computed in float32 and rounded once.
    Errors: TileTypeError for float8 and tfloat32, and for a rounding_mode or flush_to_zero that the
    dtype does not have. TileValueError for a constant outside of the domain.
    """

def silu(x: TileLike) -> Tile:
    """Returns x * sigmoid(x).

    Shapes: any; the result has x's.
    Dtypes: float16, bfloat16, float32 and float64; integers and bools become float32. The result has
    that dtype. 16-bit floats are computed in float32 and rounded once.
    Errors: TileTypeError for float8 and tfloat32, and for a rounding_mode or flush_to_zero that the
    dtype does not have. TileValueError for a constant outside of the domain.
    """

def sin(x: TileLike) -> Tile:
    """Returns the sine of x radians.

    Shapes: any; the result has x's.
    Dtypes: float16, bfloat16, float32 and float64; integers and bools become float32. The result has
    that dtype. 16-bit floats are computed in float32 and rounded once.
    Units: x is in radians.
    Errors: TileTypeError for float8 and tfloat32.
    """

def sinh(x: TileLike) -> Tile:
    """Returns the hyperbolic sine of x.

    Shapes: any; the result has x's.
    Dtypes: float16, bfloat16, float32 and float64; integers and bools become float32. The result has
    that dtype. 16-bit floats are computed in float32 and rounded once.
    Errors: TileTypeError for float8 and tfloat32, and for a rounding_mode or flush_to_zero that the
    dtype does not have. TileValueError for a constant outside of the domain.
    """

def sqrt(x: TileLike, *, rounding_mode: RoundingMode | None = None, flush_to_zero: bool = False) -> Tile:
    """Returns the square root of x.

    Shapes: any; the result has x's.
    Dtypes: float16, bfloat16, float32 and float64; integers and bools become float32. The result has
    that dtype. 16-bit floats are computed in float32 and rounded once.
    Errors: TileTypeError for float8 and tfloat32, and for a rounding_mode or flush_to_zero that the
    dtype does not have. TileValueError for a constant outside of the domain.
    """

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
    """Writes a tile at an index. Elements outside of the array are dropped.

    order: the order of the array's axes, "C", "F" or a permutation; index refers to the permuted array.
    latency, allow_tma, check_bounds: accepted as hints; they do not change the result.

    Shapes: index has one entry for each axis of the array; tile has as many axes, or is a scalar.
    Dtypes: the tile's dtype converts implicitly to the array's: from a narrower to a wider one.
    Units: index counts tiles of the tile's shape; for a scalar it counts elements.
    Errors: TileTypeError for a tile whose dtype does not convert, for an index of another rank, and for
    a memory order that the access cannot have or that lacks its scope.
    """

def store_advanced_indexing(
    array: Array,
    indices: Any,
    tile: TileLike,
    *,
    latency: int | None = None,
    allow_tma: bool | None = None,
) -> None:
    """Writes a tile to rows at indices, which have the form of load_advanced_indexing.

    Shapes: as load_advanced_indexing; tile has the shape of the indices.
    Dtypes: the tile's dtype converts implicitly to the array's; rows are integers.
    Units: indices and starts count elements.
    Errors: TileTypeError for another rank or shape, and unless exactly one entry is an integer tile of
    one axis.
    """

def sub(x: TileLike, y: TileLike, *, rounding_mode: RoundingMode | None = None, flush_to_zero: bool = False) -> Tile:
    """Returns x - y.

    Shapes: the operands broadcast to one shape by NumPy's rules, and the result has that shape.
    Dtypes: integers, floats and one bool; the operands promote to one dtype. A float wins over an
    integer, an integer over a bool, and between two of one kind the wider one wins. A Python number
    takes the dtype of the other operand.
    Errors: TileTypeError if the shapes do not broadcast, if the dtypes have no common one (int32 and
    uint32, float16 and bfloat16), and for float8 and tfloat32, which need astype() first.
    TileValueError if a Python number is out of the dtype's range. TileTypeError for two bools, for a
    rounding_mode of integers, and for flush_to_zero of other dtypes than float32.
    """

def sum(
    x: TileLike,
    axis: int | tuple[int, ...] | None = None,
    *,
    keepdims: bool = False,
    rounding_mode: RoundingMode | None = None,
    flush_to_zero: bool = False,
) -> Tile:
    """Returns the sum over axes, by default all.

    Shapes: x has any shape; the result lacks the axes, or has extent 1 there with keepdims.
    Dtypes: integers, floats and bool; the result has x's dtype, int32 for a bool. 16-bit floats are
    added in float32 and rounded once.
    Errors: TileTypeError for an axis out of range, for a repeated axis, and for float8 and tfloat32.
    TileTypeError for a rounding_mode of integers.
    """

def tan(x: TileLike) -> Tile:
    """Returns the tangent of x radians.

    Shapes: any; the result has x's.
    Dtypes: float16, bfloat16, float32 and float64; integers and bools become float32. The result has
    that dtype. 16-bit floats are computed in float32 and rounded once.
    Units: x is in radians.
    Errors: TileTypeError for float8 and tfloat32.
    """

def tanh(x: TileLike, *, rounding_mode: RoundingMode | None = None) -> Tile:
    """Returns the hyperbolic tangent of x.

    Shapes: any; the result has x's.
    Dtypes: float16, bfloat16, float32 and float64; integers and bools become float32. The result has
    that dtype. 16-bit floats are computed in float32 and rounded once.
    Errors: TileTypeError for float8 and tfloat32, and for a rounding_mode or flush_to_zero that the
    dtype does not have. TileValueError for a constant outside of the domain.
    """

def transpose(x: TileLike, axis0: int | None = None, axis1: int | None = None) -> Tile:
    """Swaps two axes. A tile of two axes needs no arguments.

    Shapes: x has two axes or more.
    Dtypes: any; the result has x's.
    Errors: TileTypeError for fewer axes, for one named axis, for no named axes of three or more, and
    for an axis out of range.
    """

def truediv(
    x: TileLike,
    y: TileLike,
    *,
    rounding_mode: RoundingMode | None = None,
    flush_to_zero: bool = False,
) -> Tile:
    """Returns x / y; integers are divided in float32.

    Shapes: the operands broadcast to one shape by NumPy's rules, and the result has that shape.
    Dtypes: integers, bools and floats; the operands promote to one dtype. A float wins over an integer,
    an integer over a bool, and between two of one kind the wider one wins. A Python number takes the
    dtype of the other operand. Integers and bools become float32.
    Errors: TileTypeError if the shapes do not broadcast, if the dtypes have no common one (int32 and
    uint32, float16 and bfloat16), and for float8 and tfloat32, which need astype() first.
    TileValueError if a Python number is out of the dtype's range. TileTypeError for RoundingMode.FULL
    and APPROX and for flush_to_zero of other dtypes than float32.
    """

def trunc(x: TileLike) -> Tile:
    """Returns x without the digits after the point.

    Shapes: any; the result has x's.
    Dtypes: float16, bfloat16, float32 and float64; the result has x's dtype.
    Errors: TileTypeError for integers, bools, float8 and tfloat32.
    """

def uniform(
    shape: Shape,
    seed: TileLike,
    offset: TileLike = 0,
    *,
    dtype: DTypeLike = ...,
    stream: TileLike = 0,
) -> Tile:
    """Returns numbers uniform on [0, 1), from the highest bits of random_bits. Every value is exact, and none is 1.

    Shapes: the result has the given shape; offset is a scalar or has that shape.
    Dtypes: dtype is float16, bfloat16, float32 or float64; seed, offset and stream are integers.
    Errors: TileTypeError for another dtype, for a seed, offset or stream that is no integer, and for an
    offset of another shape than the result.
    """

def unpack_from_bytes(x: TileLike, dtype: DTypeLike) -> Tile:
    """Undoes pack_to_bytes, and returns a tile of one axis.

    Shapes: x is [n], n bytes; the result is [n / bytes of dtype].
    Dtypes: x is uint8; dtype is any but bool_.
    Errors: TileTypeError for another dtype or rank, and for a number of bytes that does not divide.
    """

def where(cond: TileLike, x: TileLike, y: TileLike) -> Tile:
    """Returns x where cond is not zero, and y elsewhere.

    Shapes: the operands broadcast to one shape by NumPy's rules, and the result has that shape.
    Dtypes: cond: bool, an integer or a float; x and y: any; the operands promote to one dtype. A float
    wins over an integer, an integer over a bool, and between two of one kind the wider one wins. A
    Python number takes the dtype of the other operand.
    Errors: TileTypeError if the shapes do not broadcast, if the dtypes have no common one (int32 and
    uint32, float16 and bfloat16), and for float8 and tfloat32, which need astype() first.
    TileValueError if a Python number is out of the dtype's range.
    """

def zeros(shape: Shape, dtype: DTypeLike) -> Tile:
    """Returns a tile of zeros.

    Shapes: a shape is a constant integer or a tuple of them, each at least 1. In tile_ops.cutile they
    are powers of two.
    Dtypes: any.
    Errors: TileTypeError for a shape that is not constant, for an extent below 1, and for a tile with
    too many elements.
    """

def static_assert(node: Any, message: Any = None, /) -> None:
    """Raises TileStaticAssertionError while the kernel is compiled unless a constant condition holds.

    Shapes: it takes no tiles.
    Dtypes: any constant.
    Errors: TileStaticAssertionError if the condition is false, TileTypeError if it is not constant.
    """

def static_eval(node: Any, /) -> Any:
    """Returns the value of any Python expression of constants, computed while the kernel is compiled.

    Shapes: a tile has only its shape, dtype and rank there.
    Dtypes: any constant.
    Errors: TileStaticEvalError for an exception of the expression.
    """

def static_iter(node: Any, /) -> Any:
    """Gives the items of an iterable, each in a copy of the loop's body: `for i in static_iter(range(4))`.

    Shapes: it takes no tiles.
    Dtypes: any constants.
    Errors: TileTypeError for what is no iterable of constants, and for more than 1000 items.
    """
