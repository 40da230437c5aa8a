"""Copies of a launch's tensors, so that measuring does not change the user's."""

import dataclasses

import torch

from ..arrays import tensor_of

ALIGNMENT = 256  # addresses of the copies are those of the tensors modulo this many bytes


def _bytes(storage, device, first, count):
    return torch.empty(0, dtype=torch.uint8, device=device).set_(storage, first, (count,))


def leaves(value, found):
    """Adds the tensors in an argument to a list; arrays of other libraries are added as tensors over the same memory."""
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif isinstance(value, (tuple, list)):
        for item in value:
            leaves(item, found)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            leaves(getattr(value, field.name), found)
    elif hasattr(value, "__dlpack__") or hasattr(value, "__cuda_array_interface__"):
        found.append(tensor_of("tune", value))
    return found


def _extent(tensor):
    """Returns the first byte of a tensor in its storage, and the byte after its last one."""
    first = tensor.storage_offset() * tensor.element_size()
    reach = sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride()))
    return first, first + (reach + 1) * tensor.element_size()


class _Memory:
    """The part of a storage that tensors use, and its copy."""

    def __init__(self, tensor, first, behind):
        self.first = first
        self.original = _bytes(tensor.untyped_storage(), tensor.device, first, behind - first)
        room = torch.empty(behind - first + ALIGNMENT, dtype=torch.uint8, device=tensor.device)
        self.skip = (self.original.data_ptr() - room.data_ptr()) % ALIGNMENT
        self.copy = room[self.skip : self.skip + behind - first]
        self.copy.copy_(self.original)

    def tensor(self, like):
        """Returns the same tensor in the copy."""
        offset = self.skip + like.storage_offset() * like.element_size() - self.first
        made = torch.empty(0, dtype=like.dtype, device=like.device)
        return made.set_(self.copy.untyped_storage(), offset // like.element_size(), like.shape, like.stride())


def spans_of(tensors):
    """Returns {address of a storage: (a tensor in it, the first byte that the tensors use, the byte after the last)}."""
    spans = {}
    for tensor in tensors:
        if tensor.numel():
            address = tensor.untyped_storage().data_ptr()
            first, behind = _extent(tensor)
            old = spans.get(address, (tensor, first, behind))
            spans[address] = (old[0], min(first, old[1]), max(behind, old[2]))
    return spans


class Copies:
    """arguments: the given ones with copies of their tensors, which have the same strides, alignment and overlap."""

    def __init__(self, arguments):
        self._memories = {address: _Memory(*span) for address, span in spans_of(leaves(arguments, [])).items()}
        self.arguments = tuple(map(self._copied, arguments))
        self._changed = set()

    def _copied(self, value):
        if isinstance(value, torch.Tensor):
            memory = self._memories.get(value.untyped_storage().data_ptr()) if value.numel() else None
            return memory.tensor(value) if memory else value
        if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
            return type(value)(map(self._copied, value))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
            return dataclasses.replace(value, **{name: self._copied(each) for name, each in fields.items()})
        found = leaves(value, [])
        return self._copied(found[0]) if found else value

    def note_changes(self):
        """Finds what a run has changed: another run from the same state changes nothing else."""
        for address, memory in self._memories.items():
            if address not in self._changed and not torch.equal(memory.copy, memory.original):
                self._changed.add(address)

    def restore(self):
        """Restores the tensors that runs change."""
        for address in self._changed:
            self._memories[address].copy.copy_(self._memories[address].original)


def _free(device):
    """Returns the free bytes of a device, or None if they are unknown."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    try:
        with open("/proc/meminfo") as lines:
            return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return None


def too_large(arguments, device):
    """Returns a text with the sizes if copies of the arguments would not fit next to them; None: they fit."""
    need = sum(behind - first for first, behind in (_extent(each) for each in leaves(arguments, []) if each.numel()))
    free = _free(device)
    if free is None or need <= 0.8 * free:
        return None
    return f"its tensors have {need / 2**30:.1f} GiB and {device} has {free / 2**30:.1f} GiB left for copies of them"
