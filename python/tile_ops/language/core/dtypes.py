"""Element types and their promotion."""

import struct

import torch

from .debugging import debugging
from .errors import TileTypeError, TileUnsupportedFeatureError, TileValueError

BOOL, INTEGER, FLOAT = range(3)  # categories; the higher one wins


class DType:
    """An element type of tiles and arrays. A call inside a kernel converts: float32(x) is astype(x, float32).

    name: "float32" and so on.
    bitwidth: bits of a value.
    Shapes: any; the result has x's.
    Dtypes: any; the result has this dtype.
    Errors: RuntimeError outside of a kernel, TileTypeError for more than one argument.
    """

    __slots__ = ("name", "ir", "category", "signed", "bitwidth", "arithmetic", "torch", "__name__")

    def __init__(self, name, ir, category, bitwidth, signed=True, arithmetic=True):
        self.name = self.__name__ = name
        self.ir = ir  # name in Tile IR; None if it has no such type; for OF_BITS, the integer type of the bits
        self.category, self.signed, self.bitwidth, self.arithmetic = category, signed, bitwidth, arithmetic
        self.torch = getattr(torch, name.rstrip("_"), None)

    def __repr__(self):
        return self.name

    def __call__(self, *arguments):
        if debugging.session:
            return debugging.session.converted(self, arguments)
        raise RuntimeError(
            f"Device functions can only be called from device code. {self}() is for a kernel, a function that @kernel "
            f"marks; outside of one make a tensor, torch.tensor(..., dtype={self.torch})"
        )

    def __reduce__(self):
        return (named, (self.name,))


bool_ = DType("bool_", "bool", BOOL, 8, signed=False)
int8, int16, int32, int64 = (DType(f"int{n}", f"i{n}", INTEGER, n) for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (DType(f"uint{n}", f"u{n}", INTEGER, n, signed=False) for n in (8, 16, 32, 64))
float16 = DType("float16", "f16", FLOAT, 16)
bfloat16 = DType("bfloat16", "bf16", FLOAT, 16)
float32 = DType("float32", "f32", FLOAT, 32)
float64 = DType("float64", "f64", FLOAT, 64)
tfloat32 = DType("tfloat32", "tf32", FLOAT, 32, arithmetic=False)
float8_e4m3fn = DType("float8_e4m3fn", "f8e4m3", FLOAT, 8, arithmetic=False)
float8_e5m2 = DType("float8_e5m2", "f8e5m2", FLOAT, 8, arithmetic=False)
float8_e8m0fnu = DType("float8_e8m0fnu", "u8", FLOAT, 8, signed=False, arithmetic=False)
float8_e5m3fnu = DType("float8_e5m3fnu", None, FLOAT, 8, arithmetic=False)
float4_e2m1fn = DType("float4_e2m1fn", None, FLOAT, 4, arithmetic=False)

ALL = {value.name: value for value in list(globals().values()) if isinstance(value, DType)}
OF_BITS = (float8_e8m0fnu,)
_of_ir = {dtype.ir: dtype for dtype in ALL.values() if dtype.ir and dtype not in OF_BITS}
_of_torch = {dtype.torch: dtype for dtype in ALL.values() if dtype.torch is not None}


def named(name):
    """Returns the dtype of a name."""
    return ALL[name]


def of_ir(name):
    """Returns the dtype with this name in Tile IR."""
    return _of_ir[name]


def known(value):
    """Returns the DType of a DType, torch dtype or NumPy dtype; None for other values."""
    if isinstance(value, DType):
        return value
    if isinstance(value, torch.dtype):
        return _of_torch.get(value)
    name = getattr(value, "name", None) if hasattr(value, "itemsize") else None  # a numpy.dtype
    if name is None and isinstance(value, type) and value.__module__ == "numpy":
        name = value.__name__
    return ALL.get({"bool": "bool_"}.get(name, name)) if isinstance(name, str) else None


def require_ir(dtype):
    """Returns the dtype's name in Tile IR. Error: it has none."""
    if dtype.ir is None:
        raise TileUnsupportedFeatureError(f"{dtype} is not supported here; use float8_e4m3fn or float8_e5m2")
    return dtype.ir


def promote(x, y):
    """Returns the dtype that two dtypes promote to. Error: they have none."""
    if x is y:
        return x
    if x.category != y.category and x.arithmetic and y.arithmetic:
        return x if x.category > y.category else y
    same_kind = x.signed == y.signed and x.bitwidth != y.bitwidth
    if x.arithmetic and y.arithmetic and same_kind:
        return x if x.bitwidth > y.bitwidth else y
    raise TileTypeError(f"Implicit promotion of {x} and {y} is not supported; convert one with astype()")


def of_constant(value):
    """Returns the dtype of a Python number by itself: bool_, int32 (int64 or uint64 if necessary), float32."""
    if isinstance(value, bool):
        return bool_
    if isinstance(value, float):
        return float32
    for dtype in (int32, int64, uint64):
        if fits(value, dtype):
            return dtype
    raise TileValueError(f"Integer constant {value} is out of range of any supported integer type")


def limits(dtype):
    """Returns the least and the largest value of an integer dtype."""
    if dtype is bool_:
        return 0, 1
    return (-(1 << (dtype.bitwidth - 1)), (1 << (dtype.bitwidth - 1)) - 1) if dtype.signed else (0, (1 << dtype.bitwidth) - 1)


def fits(value, dtype):
    low, high = limits(dtype)
    return low <= value <= high


def bits_of(number, dtype):
    """Returns the bits of a number in a dtype of OF_BITS, as an integer."""
    return torch.tensor(number, dtype=torch.float64).to(dtype.torch).view(torch.uint8).item()


def converted(value, dtype):
    """Returns a Python number after an explicit cast: integers wrap, floats round, floats to integers truncate."""
    if dtype is bool_:
        return bool(value)
    if dtype.category == INTEGER:
        if value != value:
            return 0
        if value in (float("inf"), float("-inf")):
            return limits(dtype)[value > 0]
        bits = int(value) & ((1 << dtype.bitwidth) - 1)
        return bits - (1 << dtype.bitwidth) if dtype.signed and bits >> (dtype.bitwidth - 1) else bits
    try:
        value = float(value)
    except OverflowError:
        value = float("inf") if value > 0 else float("-inf")
    if dtype is float64:
        return value
    if dtype is float32 or dtype is tfloat32:
        try:
            return struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")
    return torch.tensor(value, dtype=torch.float64).to(dtype.torch).item()
