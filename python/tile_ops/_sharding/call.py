"""Defines Call, one call of an operator on DTensors: its arguments by name, with their global shapes and placements."""

import torch
from torch.distributed.tensor import DTensor, Replicate

from . import torch_versions


class Call:
    """The arguments of a call, as rules read them: call["dim"], call["x"].shape; a missing tensor is None.

    values: the arguments by name, with defaults filled in. tensors: names of the tensors. lists: names of the arguments and
    results that are lists of tensors. mesh: the device mesh of the DTensors. A rule may depend only on shapes, dtypes,
    placements and plain values, because plans are cached under these.
    """

    def __init__(self, func, args, kwargs):
        self.func = func
        self.arguments = func._schema.arguments
        self.name = func._schema.name
        self.values = {}
        for at, argument in enumerate(self.arguments):
            if at < len(args) and not argument.kwarg_only:
                value = args[at]
            else:
                value = (kwargs or {}).get(argument.name, argument.default_value)
            self.values[argument.name] = value
        if "gradients_wanted" in self.values:  # of a shard they are a part of a sum; backward computes that
            self.values["gradients_wanted"] = [False] * len(self.values["gradients_wanted"])
        self.tensors = [name for name, value in self.values.items() if isinstance(value, torch.Tensor)]
        self.lists = [
            name
            for name, value in self.values.items()
            if isinstance(value, (list, tuple)) and any(isinstance(each, torch.Tensor) for each in value)
        ]
        self.lists += [each.name or "out" for each in func._schema.returns if isinstance(each.type, torch.ListType)]
        self.mesh = None
        for name in self.tensors:
            value = self.values[name]
            if not isinstance(value, DTensor):
                continue
            if self.mesh is None:
                self.mesh, first = value.device_mesh, name
            elif value.device_mesh != self.mesh:
                raise ValueError(
                    f"{self.name}: {first!r} is on {self.mesh} and {name!r} on {value.device_mesh}; redistribute one of them"
                )

    def __getitem__(self, name):
        return self.values[name]

    @property
    def written(self):
        """The names of the arguments that the operator writes into."""
        return [each.name for each in self.arguments if each.alias_info is not None and each.alias_info.is_write]

    def placements(self, name, shared=()):
        """Returns the placements of an argument.

        A plain tensor counts as replicated if it has one element, is named in `shared`, or torch's implicit replication is on.
        """
        value = self.values[name]
        if isinstance(value, DTensor):
            return tuple(value.placements)
        if value.numel() == 1 or name in shared or torch_versions.replicates_plain_tensors():
            return (Replicate(),) * self.mesh.ndim
        known = next(other for other in self.tensors if isinstance(self.values[other], DTensor))
        raise TypeError(
            f"{self.name}: {name!r} is a plain tensor of {tuple(value.shape)}, and {known!r} is a DTensor; convert it with "
            "distribute_tensor(...), or DTensor.from_local(..., [Replicate()]) if it is the same on every device"
        )

    def key(self, shared):
        """Returns the cache key of a plan. Raises TypeError if it cannot be hashed, as with symbolic sizes."""
        parts = [self.func, self.mesh]
        for name, value in self.values.items():
            if isinstance(value, torch.Tensor):
                parts.append((name, tuple(value.shape), value.dtype, self.placements(name, shared)))
            else:
                parts.append((name, tuple(value) if isinstance(value, (list, tuple)) else value))
        found = tuple(parts)
        hash(found)
        return found

    def run(self, values):
        """Calls the operator with `values`, a dict by argument name, and returns a tuple of its results."""
        return self.run_as(self.func, values)

    def run_as(self, func, values):
        """Calls another operator that takes the same arguments."""
        args = [values[each.name] for each in self.arguments if not each.kwarg_only]
        kwargs = {each.name: values[each.name] for each in self.arguments if each.kwarg_only}
        made = func(*args, **kwargs)
        return tuple(made) if isinstance(made, (tuple, list)) else (made,) if made is not None else ()
