"""Keys of tuned choices: two launches share a key unless they may need different configurations."""

import dataclasses
import enum
import hashlib
import inspect
import json
import types

import tile_ops
import torch

from ..._C import _arguments_key, isa
from ..core import dtypes
from ..core.reached import reached_from
from .copies import leaves

_PLAIN = (bool, int, float, str, types.NoneType)


def constant_text(value):
    """Returns a text of a constant that is the same in every process."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if isinstance(value, tuple):
        return f"({', '.join(map(constant_text, value))})"
    if isinstance(value, types.FunctionType):
        return source_text(value)
    return str(dtypes.known(value)) if dtypes.known(value) is not None else repr(value)


def source_text(function):
    """Returns the source of a function and of those that it may call, with the constants that their names refer to."""
    functions, constants = reached_from(function)
    texts = []
    for each in functions:
        try:
            texts.append(inspect.getsource(each.__code__))
        except (OSError, TypeError):
            texts.append(each.__qualname__)
    return "\n".join([*sorted(texts), *sorted(constants)])


def device_text(device):
    """Returns the properties of a device that decide how fast a configuration is."""
    if device.type != "cuda":
        return f"cpu {isa()}, {torch.get_num_threads()} threads"
    properties = torch.cuda.get_device_properties(device)
    arch = f"sm_{properties.major}{properties.minor}"
    return f"{properties.name} {arch}, {properties.multi_processor_count} multiprocessors"


def device_of(arguments):
    """Returns the device of the first tensor, or the CPU if there is none."""
    return next((each.device for each in leaves(arguments, [])), torch.device("cpu"))


def _rounded(extents):
    """Rounds extents up to powers of two."""
    return [1 << (extent - 1).bit_length() if extent > 0 else 0 for extent in extents]


def _described(value, by_value, exact):
    """Returns the description of an argument in a key, made of JSON types."""
    if isinstance(value, torch.Tensor):
        extents = map(int, value.shape)
        return [str(value.dtype)[6:], value.dim() if exact is None else list(extents) if exact else _rounded(extents)]
    if isinstance(value, (tuple, list)):
        return [type(value).__name__, *(_described(each, by_value, exact) for each in value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [getattr(value, field.name) for field in dataclasses.fields(value)]
        return [type(value).__qualname__, *(_described(each, by_value, exact) for each in fields)]
    if found := leaves(value, []):
        return _described(found[0], by_value, exact)
    return constant_text(value) if by_value or not isinstance(value, _PLAIN) else type(value).__name__


def _unusual(value, by_value):
    """Returns a part of the quick key for arguments that are not all tensors and numbers."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape, value.device
    if type(value) in _PLAIN:
        return (type(value), value) if by_value else type(value)
    return (json.dumps(_described(value, by_value, True)), *(each.device for each in leaves(value, [])))


def _flat(given):
    """Returns the leaves of nested tuples and lists, including shapes."""
    return [leaf for each in given for leaf in _flat(each)] if isinstance(given, (tuple, list)) else [given]


class Key:
    """The key of a tuned kernel's arguments.

    wanted: None, names of parameters, and functions of the arguments; parameters: the names of those that are
    arguments; constants: which of these are Constant. Errors: ValueError or TypeError for an invalid key.
    """

    def __init__(self, owner, wanted, parameters, constants):
        self._owner, self._parameters = owner, parameters
        self._named = None if wanted is None else set()
        self.functions = []
        if wanted is None or callable(wanted) or isinstance(wanted, str):
            wanted = [] if wanted is None else [wanted]
        elif not isinstance(wanted, (list, tuple)):
            raise TypeError(
                f"{owner}.tune: the key is {wanted!r}; give names of parameters, functions of the arguments, or a list of these"
            )
        for each in wanted:
            if callable(each):
                self.functions.append(each)
            elif not isinstance(each, str):
                raise TypeError(
                    f"{owner}.tune: the key holds {each!r}; give names of parameters, or functions of the arguments"
                )
            elif each not in parameters:
                raise ValueError(
                    f"{owner}.tune: the key names {each!r}; the parameters that configurations leave to launches are "
                    f"{', '.join(parameters)}"
                )
            else:
                self._named.add(each)
        self.by_value = tuple(name in constants or name in (self._named or ()) for name in parameters)

    def _given(self, arguments):
        """Returns the results of the functions."""
        for function in self.functions:
            given = function(*arguments)
            for each in _flat(given):
                if not isinstance(each, _PLAIN) and dtypes.known(each) is None:
                    raise TypeError(
                        f"{self._owner}.tune: a function of the key gave {given!r}; let it give numbers, strings or "
                        "dtypes, or a tuple of them"
                    )
            yield given

    def exact(self, arguments):
        """Returns a quick key, which may distinguish more arguments than necessary."""
        made = _arguments_key(arguments, self.by_value)
        if made is None:
            made = tuple([_unusual(*each) for each in zip(arguments, self.by_value)])
        return (made, *map(str, self._given(arguments))) if self.functions else made

    def text(self, arguments):
        """Returns the key: dtypes and ranks of tensors, constants, and the wanted properties, by default the tensors'
        extents rounded up to powers of two."""
        parts = []
        for name, value, by_value in zip(self._parameters, arguments, self.by_value):
            exact = False if self._named is None else True if name in self._named else None
            parts.append(f"{name}={json.dumps(_described(value, by_value, exact))}")
        parts += [str(each) for each in self._given(arguments)]
        return ", ".join(parts)


def digest(function, dialect, configurations, device, key):
    """Returns the SHA-256 of everything that a choice depends on."""
    fields = [
        "tile_ops tuning 1",
        tile_ops.__version__,
        source_text(function),
        dialect,
        [{name: constant_text(value) for name, value in each.items()} for each in configurations],
        device_text(device),
        key,
    ]
    return hashlib.sha256(json.dumps(fields).encode()).digest()
