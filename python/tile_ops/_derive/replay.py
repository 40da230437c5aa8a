"""Computes the gradients of an operator from the launches of its run, in the reverse order."""

import torch

from .. import _C
from . import saving
from .record import Copies, check, check_memory, record, storage_of


def _adjoint_dtype(dtype):
    return torch.float64 if dtype == torch.float64 else torch.float32


def _span(tensor):
    """Returns the number of elements from the first to the last in memory."""
    if not tensor.numel():
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))


class _Gradient:
    """The gradient of a piece of memory: elements of `buffer` from `start` on correspond to those of `base`."""

    def __init__(self, base, buffer, start, adds):
        self.base, self.buffer, self.start, self.adds = base, buffer, start, adds

    def view(self, tensor):
        """Returns the gradient of a tensor in this memory."""
        if tensor.dtype != self.base.dtype:
            raise NotImplementedError(
                f"memory of {self.base.dtype} is also used as {tensor.dtype}, so that its gradient is not derived"
            )
        offset = tensor.storage_offset() - self.base.storage_offset() + self.start
        return self.buffer.as_strided(tensor.shape, tensor.stride(), offset)


def _own_memory(tensors):
    """Returns the tensors, each with memory of its own and elements of their own."""
    seen, list_ = set(), []
    for tensor in tensors:
        shares = isinstance(tensor, torch.Tensor) and tensor.numel() and (storage_of(tensor) in seen or _C.overlap(tensor))
        if shares:
            tensor = tensor.clone(memory_format=torch.contiguous_format)
        if isinstance(tensor, torch.Tensor):
            seen.add(storage_of(tensor))
        list_.append(tensor)
    return list_


class Replay:
    """The launches of an operator's run for its arguments.

    run(arguments, results): calls the operator's run; neither is changed. allocate(arguments): the results.
    """

    def __init__(self, name, run, allocate, arguments):
        self.name, arguments = name, _own_memory(arguments)
        try:
            self._record(run, allocate, arguments)
        except Copies:
            strided = [each for each in arguments if isinstance(each, torch.Tensor) and not each.is_contiguous()]
            if not strided:
                raise
            dense = [each.contiguous() if isinstance(each, torch.Tensor) else each for each in arguments]
            self._record(run, allocate, dense)

    def _record(self, run, allocate, arguments):
        self.arguments, self.results = arguments, allocate(arguments)
        self.launches = record(self.name, lambda: run(self.arguments, self.results))
        check(self.name, self.launches)
        known = [each for each in (*self.arguments, *self.results) if isinstance(each, torch.Tensor)]
        check_memory(self.name, self.launches, known)

    def gradients(self, incoming, targets, saved=None):
        """Fills tensors with gradients.

        incoming: the gradient of each result, or None. targets: for each argument None, or the tensor that gets its gradient.
        saved: what saving.Saving.run_with has saved, or None.
        """
        self._saved = {}  # launch: the Traced of its kernel that saves, and all arguments
        if saved is not None and saved.numel():
            plan = saving.plan_of(self.launches, [each for each in self.arguments if isinstance(each, torch.Tensor)])
            if plan.fits(saved):
                for each, own in zip(self.launches, plan.launches):
                    if own is not None:
                        self._saved[each] = own.traced, (*each.leaves, *own.views(saved))
        self._targets = {}  # storage: (argument, target)
        for argument, target in zip(self.arguments, targets):
            if target is not None:
                self._targets[storage_of(argument)] = argument, target
        self._find_active()
        self._memory, self._copied = {}, []
        for result, gradient in zip(self.results, incoming):
            if gradient is not None:
                self._add_incoming(result, gradient)
        for each in self.launches[:-1]:
            if any(self._is_read_later(each, tensor) for tensor in each.written()):
                each.run()
        for each in reversed(self.launches):
            self._reverse(each)
        for target, memory, base in self._copied:
            target.copy_(memory.view(base))
        for storage, (_, target) in self._targets.items():
            if storage not in self._memory:
                target.zero_()

    def _is_read_later(self, launched, tensor):
        later = self.launches[self.launches.index(launched) + 1 :]
        return any(storage_of(each) == storage_of(tensor) for other in later for each in other.read())

    def _find_active(self):
        """Finds the memory that depends on the arguments, and counts how often each piece is read."""
        self._active, self._reads = set(self._targets), {}
        for each in self.launches:
            inputs = [each.leaves[i] for i in each.traced.inputs]
            if any(storage_of(tensor) in self._active for tensor in inputs):
                self._active.update(storage_of(each.leaves[i]) for i in each.traced.results)
            for tensor in inputs:
                self._reads[storage_of(tensor)] = self._reads.get(storage_of(tensor), 0) + 1

    def _add_incoming(self, result, gradient):
        if gradient.dtype != result.dtype:
            gradient = gradient.to(result.dtype)
        storage = storage_of(result)
        if storage not in self._reads and gradient.stride() == result.stride():
            self._memory[storage] = _Gradient(result, gradient, gradient.storage_offset(), True)
            return
        dtype = _adjoint_dtype(result.dtype) if storage in self._reads else result.dtype
        memory = _Gradient(result, torch.zeros(_span(result), dtype=dtype, device=result.device), 0, True)
        memory.view(result).copy_(gradient)
        self._memory[storage] = memory

    def _memory_of(self, tensor):
        storage = storage_of(tensor)
        if storage not in self._memory:
            self._memory[storage] = self._new_memory(storage, tensor)
        return self._memory[storage]

    def _new_memory(self, storage, tensor):
        if storage not in self._targets:  # scratch
            elements = tensor.untyped_storage().nbytes() // tensor.element_size()
            base = tensor.as_strided((elements,), (1,), 0)
            return _Gradient(base, torch.zeros(elements, dtype=_adjoint_dtype(base.dtype), device=base.device), 0, True)
        base, target = self._targets[storage]
        once = self._reads[storage] == 1
        if target.stride() == base.stride() and (once or target.dtype == _adjoint_dtype(target.dtype)):
            whole = tensor.numel() == base.numel() and not (tensor.numel() and _C.overlap(tensor))
            if not (once and whole):  # otherwise the launch writes every element
                target.zero_()
            return _Gradient(base, target, target.storage_offset(), not once)
        dtype = base.dtype if once else _adjoint_dtype(base.dtype)
        memory = _Gradient(base, torch.zeros(_span(base), dtype=dtype, device=base.device), 0, not once)
        self._copied.append((target, memory, base))
        return memory

    def _reverse(self, each):
        """Computes the gradients of what one launch reads."""
        results, incoming = [], []
        for i in each.traced.results:
            tensor = each.leaves[i]
            if storage_of(tensor) in self._active and storage_of(tensor) in self._memory:
                gradient = self._memory[storage_of(tensor)].view(tensor)
                results.append(i)
                incoming.append(gradient if gradient.dtype == tensor.dtype else gradient.to(tensor.dtype))
        wanted = [i for i in each.traced.inputs if storage_of(each.leaves[i]) in self._active]
        if not results or not wanted:
            return
        targets = {}
        for i in wanted:
            memory = self._memory_of(each.leaves[i])
            targets[i] = memory.view(each.leaves[i]), memory.adds
        traced, leaves = self._saved.get(each, (each.traced, each.leaves))
        traced.launch(f"{self.name}: {each.kernel.__name__}", each.grid, leaves, incoming, targets, results)
