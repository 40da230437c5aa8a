"""Converts arrays of other libraries to tensors over the same memory, detects read-only memory, and says what to pass
instead of an unsupported argument."""

import array
import ctypes
import enum
import numbers
import sys
import types

import torch
from torch.utils.dlpack import DLDeviceType

from .core import dtypes


def bits_dtype(value):
    """Returns the dtype of an array whose elements a launch passes as their bits; None for other arrays."""
    dtype = dtypes.known(getattr(value, "dtype", None))
    return dtype if dtype in dtypes.OF_BITS else None


def tensor_of(argument, value):
    """Returns a tensor over the memory of an array of any library."""
    return guarded_tensor(argument, value)[0]


def guarded_tensor(argument, value):
    """Returns a tensor over the memory of an array of any library, and True if that memory is read-only."""
    if isinstance(value, torch.Tensor):
        return value.view(torch.uint8) if bits_dtype(value) else value, False
    try:
        if hasattr(value, "__cuda_array_interface__"):
            return _of_cuda(value)
        if hasattr(value, "__array_interface__") and getattr(value, "shape", None) is not None:
            if hasattr(value, "item") and not hasattr(value, "__setitem__"):
                raise unsupported(argument, value)
            return _of_numpy(value)
        if hasattr(value, "__dlpack__"):
            return _of_dlpack(value)
    except _Unsuitable as error:
        raise TypeError(f"{argument}: {error}") from None
    raise unsupported(argument, value)


class _Unsuitable(Exception):
    """The error of an unsuitable array; its message includes the fix."""


class _Described:
    """The memory of another object, described by another array interface."""

    def __init__(self, owner, name, interface):
        self._owner = owner
        setattr(self, name, interface)


def _torch(function, value):
    """Returns function(value), which makes a tensor, and replaces torch's error messages."""
    try:
        return function(value)
    except TypeError:
        raise _Unsuitable(f"Unsupported array dtype {getattr(value, 'dtype', '')}") from None
    except ValueError as error:
        said = str(error)
        if "negative" in said:
            raise _Unsuitable("an array with a negative stride is not supported; pass a copy() of it") from None
        raise _Unsuitable(f"{said.split('.')[0]}; pass a copy() of it") from None


def _of_cuda(value):
    interface = value.__cuda_array_interface__
    pointer, read_only = interface["data"]
    if read_only:  # torch rejects read-only memory
        value = _Described(value, "__cuda_array_interface__", {**interface, "data": (pointer, False)})
    return _torch(torch.as_tensor, value), bool(read_only)


def _of_numpy(value):
    flags = getattr(value, "flags", None)
    if hasattr(flags, "writeable"):
        read_only, dtype = not flags.writeable, value.dtype
    else:
        interface = value.__array_interface__
        read_only, dtype = bool((interface.get("data") or (0, False))[1]), interface["typestr"]
    if not getattr(dtype, "isnative", True):
        raise _Unsuitable(f"Unsupported array dtype {dtype}, of another byte order; convert it with astype()")
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return _torch(torch.as_tensor, value), read_only
    if read_only:  # torch would warn, although a launch checks writes itself
        interface = value.__array_interface__
        value = _Described(value, "__array_interface__", {**interface, "data": (interface["data"][0], False)})
    try:
        found = numpy.asarray(value)
    except (TypeError, ValueError):
        raise _Unsuitable(f"Unsupported array dtype {dtype}") from None
    return _torch(torch.from_numpy, found), read_only


_VERSIONED = b"dltensor_versioned"
_READ_ONLY = 1


class _Managed(ctypes.Structure):
    """The head of DLManagedTensorVersioned."""

    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
    ]


_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]


def _of_dlpack(value):
    kind, index = value.__dlpack_device__()
    named = {}
    if kind == DLDeviceType.kDLCUDA:
        named["stream"] = torch.cuda.current_stream(index).cuda_stream or 1  # 1: the legacy one
    try:
        try:
            capsule = value.__dlpack__(max_version=(1, 0), **named)
        except TypeError:  # an older exporter, without max_version
            capsule = value.__dlpack__(**named)
    except BufferError as error:
        raise _Unsuitable(f"its __dlpack__ says: {error}; pass a copy of it") from None
    read_only = False
    if _is_valid(capsule, _VERSIONED):
        managed = _Managed.from_address(_pointer(capsule, _VERSIONED))
        read_only = bool(managed.flags & _READ_ONLY)
    return torch.utils.dlpack.from_dlpack(capsule), read_only


_CONSTANT = (str, enum.Enum, dtypes.DType, types.FunctionType)
_TAKEN = (
    " A kernel takes tensors, arrays (of NumPy, or with __dlpack__ or __cuda_array_interface__), int, float and bool, and "
    "tuples, frozen dataclasses and lists of arrays of these."
)


def unsupported(argument, value):
    """Returns the TypeError of an argument whose type kernels do not take; it says what to pass."""
    return TypeError(f"{argument}: Objects of type '{type(value).__name__}' are not supported.{_instead(value)}")


def _instead(value):
    if value is None:
        return ""
    if isinstance(value, _CONSTANT) or dtypes.known(value) is not None:
        return " Annotate its parameter with Constant: its value is then known when the kernel is compiled."
    if isinstance(value, complex) or getattr(getattr(value, "dtype", None), "kind", "") == "c":
        return " Pass its real and imag as two numbers."
    if isinstance(value, (bytes, bytearray, memoryview, array.array)):
        return " Pass an array over its memory, numpy.frombuffer(..., dtype)."
    if isinstance(value, dict):
        return " Pass its values as arguments of their own, or as a frozen dataclass."
    if isinstance(value, (set, frozenset, range)):
        return " Pass a tuple of its items."
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    name = {"b": "bool", "i": "int", "u": "int", "f": "float"}.get(kind)
    if name is None and isinstance(value, numbers.Number):
        name = "int" if isinstance(value, numbers.Integral) else "float"
    return f" Pass {name}(...) of it." if name else _TAKEN
