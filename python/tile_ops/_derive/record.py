"""Records the launches of an operator's run, and refuses what it computes elsewhere."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .. import _C
from .traced import traced

_FILLS = {"zero_", "fill_"}
_FACTORIES = {
    "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "zeros", "zeros_like", "new_zeros",
    "ones", "ones_like", "new_ones", "full", "full_like", "new_full",
}  # fmt: skip


def is_copy(error):
    """Returns true for the error of record_rows() that says that run copies a float tensor."""
    return getattr(error, "is_copy", False)


def storage_of(tensor):
    """Returns a number that tensors with the same memory have in common."""
    return tensor.untyped_storage()._cdata


def _tensors(values):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (tuple, list)):
            yield from _tensors(value)


class Launch:
    """One launch of a kernel in Python. leaves: the arguments of its IR."""

    def __init__(self, kernel, grid, arguments):
        self.kernel, self.grid, self.arguments = kernel, grid, arguments
        self.traced = traced(kernel, arguments)
        self.leaves = tuple(value for value, _ in _C.passed_arguments(kernel, arguments))


class _Watch(TorchDispatchMode):
    """Lets views, allocations and constants pass; other computations of torch are errors."""

    def __init__(self, name, launches):
        super().__init__()
        self.name, self.launches = name, launches

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function.namespace == "prim":  # the device of a fake tensor
            return function(*args, **kwargs)
        schema, name = function._schema, function._schema.name.split("::")[1]
        given = list(_tensors([*args, *kwargs.values()]))
        writes = any(each.alias_info is not None and each.alias_info.is_write for each in schema.arguments)
        view = not writes and any(each.alias_info is not None for each in schema.returns)
        if name in _FACTORIES or not given:
            return function(*args, **kwargs)
        if view:  # reshape, contiguous and to copy if they have to
            result = function(*args, **kwargs)
            memory = {storage_of(each) for each in given}
            if all(storage_of(each) in memory or not each.is_floating_point() for each in _tensors([result])):
                return result
            name = "clone"
        launched = {storage_of(each) for _, _, values in self.launches for each in _tensors(values)}
        late = any(storage_of(each) in launched for each in given)
        if name in _FILLS and not late and not any(each.is_floating_point() for each in given[1:]):
            return function(*args, **kwargs)
        if not late and not any(each.is_floating_point() for each in given):
            result = function(*args, **kwargs)
            if not any(each.is_floating_point() for each in _tensors([result])):
                return result
        error = NotImplementedError(
            f"{self.name}: run computes {schema.name} outside of our kernels, so that its gradient is not derived; do it in a "
            "kernel, or write the gradient by hand"
        )
        error.is_copy = name in ("clone", "copy_", "_to_copy")
        raise error


def record_rows(name, call):
    """Returns (kernel, grid, arguments) of each launch of call(), none of which runs."""
    launches = []
    with _Watch(name, launches):
        _C.record_launches(call, launches)
    return launches


def record(name, call):
    """Returns the Launches of call(), which do not run."""
    return [Launch(*each) for each in record_rows(name, call)]
