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


class Copies(NotImplementedError):
    """run copies a float tensor."""


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
    """One launch of a kernel in Python. arrays: (position, tensor, row of Traced.arrays)."""

    def __init__(self, kernel, grid, arguments):
        self.kernel, self.grid, self.arguments = kernel, grid, arguments
        self.traced = traced(kernel, arguments)
        self.leaves = tuple(value for value, _ in _C.passed_arguments(kernel, arguments))
        self.arrays = [(i, self.leaves[i], row) for i, row in enumerate(self.traced.arrays) if row is not None]

    def read(self):
        return [tensor for _, tensor, row in self.arrays if row[2]]

    def written(self):
        return [tensor for _, tensor, row in self.arrays if row[3] or row[4]]

    def stored(self):
        return [tensor for _, tensor, row in self.arrays if row[3]]

    def run(self):
        self.kernel[self.grid](*self.arguments)


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
        kind = Copies if name in ("clone", "copy_", "_to_copy") else NotImplementedError
        raise kind(
            f"{self.name}: run computes {schema.name} outside of our kernels, so that its gradient is not derived; do it in a "
            "kernel, or write the gradient by hand"
        )


def record(name, call):
    """Returns the Launches of call(), which do not run."""
    launches = []
    with _Watch(name, launches):
        _C.record_launches(call, launches)
    return [Launch(*each) for each in launches]


def _range(tensor):
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


def check_memory(name, launches, known):
    """Raises NotImplementedError if a launch reaches the memory of the tensors `known` by a storage of its own, as an array of
    NumPy does."""
    storages = {storage_of(each): _range(each) for each in known}
    for each in launches:
        for _, tensor, _ in each.arrays:
            if storage_of(tensor) in storages:
                continue
            low, high = _range(tensor)
            if any(low < end and begin < high for begin, end in storages.values()):
                raise NotImplementedError(
                    f"{name}: run gives {each.kernel.__name__} memory of a tensor as another object, so that its gradient is not "
                    "derived; pass the tensor, or a view of it"
                )


def check(name, launches):
    """Raises NotImplementedError if a launch changes what an earlier one, or itself, has used."""

    def overlapping(first, second):
        for x in first:
            for y in second:
                if x is y or (storage_of(x) == storage_of(y) and x.numel() and y.numel() and _C.overlap(x, y)):
                    return True
        return False

    for j, later in enumerate(launches):
        for earlier in launches[: j + 1]:
            if overlapping(earlier.read(), later.written()):
                raise NotImplementedError(
                    f"{name}: run's launch of {later.kernel.__name__} overwrites memory that {earlier.kernel.__name__} reads, so "
                    "that its gradient is not derived; write to other memory"
                )
            if earlier is not later and overlapping(earlier.written(), later.stored()):
                raise NotImplementedError(
                    f"{name}: run's launches of {earlier.kernel.__name__} and {later.kernel.__name__} write the same memory, so "
                    "that its gradient is not derived; write to different memory"
                )
