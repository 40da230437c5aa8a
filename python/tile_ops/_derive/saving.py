"""Lets the launches of an operator's run save tiles for its gradient: all of them in one tensor of bytes."""

import math

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from .. import _C
from ..language.core.dtypes import of_ir
from ..language.translator.stacks import on_a_new_stack
from .record import Launch, record, storage_of

_ALIGNMENT = 256
_MOST_PLANS = 256  # of one operator
_MOST_TAG = (1 << 62) - 1


class Saved:
    """The tiles that one launch saves. traced: of the kernel that stores them. arrays: (dtype, shape, first byte) each. tag: of
    the plan up to this launch."""

    def __init__(self, traced, arrays, tag):
        self.traced, self.arrays, self.tag = traced, arrays, tag

    def views(self, buffer):
        """Returns the arrays in the tensor of bytes."""
        flat = buffer.view(-1)
        return tuple(
            flat[start : start + dtype.itemsize * math.prod(shape)].view(dtype).view(shape)
            for dtype, shape, start in self.arrays
        )


class Plan:
    """The tiles that a run saves. launches: a Saved, or None, for each launch. bytes: the size of all. tag: a hash of the kernels
    that save, their grids and their tiles."""

    def __init__(self):
        self.launches, self.bytes, self.tag = [], 0, 0

    def add(self, launch, needed=True):
        """Appends what a launch saves; nothing if no gradient needs it."""
        traced = launch.traced.saving(launch.grid, launch.leaves) if needed else None
        arrays, blocks = [], math.prod(launch.grid)
        for name, shape, _ in traced.kernel.saved if traced else ():
            dtype = of_ir(name).torch
            arrays.append((dtype, (blocks, *shape), self.bytes))
            self.bytes += -(-dtype.itemsize * math.prod(arrays[-1][1]) // _ALIGNMENT) * _ALIGNMENT
        if arrays:
            tiles = [(dtype.itemsize, *shape) for dtype, shape, _ in arrays]
            self.tag = hash((self.tag, len(self.launches), launch.traced.tag, *launch.grid, *tiles)) & _MOST_TAG
        self.launches.append(Saved(traced, tuple(arrays), self.tag) if arrays else None)

    def allocated(self, like):
        """Returns the memory for the tiles, on the device of a tensor. Its first extent is 1, so that its first stride may be any
        number: the tag. A copy may lose it, and is then not used."""
        return like.new_empty_strided((1, self.bytes), (self.tag, 1), dtype=torch.uint8)

    def fits(self, buffer):
        """Returns true if memory was allocated for the same launches."""
        return buffer.dim() == 2 and buffer.shape[1] == self.bytes and buffer.stride(0) == self.tag


def plan_of(launches, arguments):
    """Returns the Plan of the recorded launches of a run, for gradients of the arguments."""
    active, plan = {storage_of(each) for each in arguments if each.is_floating_point()}, Plan()
    for each in launches:
        needed = any(storage_of(each.leaves[i]) in active for i in each.traced.inputs)
        if needed:
            active.update(storage_of(each.leaves[i]) for i in each.traced.results)
        plan.add(each, needed)
    return plan


def _tensors(values):
    return [each for each in values if isinstance(each, torch.Tensor)]


def _key(values):
    return tuple(
        (type(each), tuple(map(int, each.shape)), tuple(map(int, each.stride())), each.dtype, _device(each))
        if isinstance(each, torch.Tensor)
        else (type(each), tuple(each) if isinstance(each, list) else each)
        for each in values
    )


def _device(tensor):
    return tensor.fake_device if isinstance(tensor, FakeTensor) else tensor.device


class Saving:
    """Plans what the calls of an operator save.

    run(arguments, results): calls the operator's run. allocate(arguments): the results. Equal plans are made of fake tensors,
    so that a compiled graph knows how much is saved.
    """

    def __init__(self, name, run, allocate):
        self.name, self.run, self.allocate = name, run, allocate
        self._plans = {}

    def allocated(self, arguments):
        """Returns the memory for what a call saves, which may have no bytes."""
        plan, like = self._plan(arguments), _tensors(arguments)[0]
        return plan.allocated(like) if plan else like.new_empty(0, dtype=torch.uint8)

    def run_with(self, arguments, results, buffer):
        """Runs the operator, and saves. The memory has no bytes afterwards if the launches are not those of the plan."""
        plan, actual = self._plan(arguments), Plan()
        if plan is None or not plan.fits(buffer):
            buffer.resize_(0)
            return self.run(arguments, results)

        def launch(kernel, grid, given):
            at = len(actual.launches)
            planned = plan.launches[at] if at < len(plan.launches) else None
            if planned is None:
                actual.launches.append(None)
                return kernel[grid](*given)
            launched = Launch(kernel, grid, given)
            actual.add(launched)
            saved = actual.launches[at]
            if saved is None or saved.tag != planned.tag:
                return kernel[grid](*given)
            saved.traced.kernel.run(grid, (*launched.leaves, *saved.views(buffer)), kernel, given)

        _C.replace_launches(lambda: self.run(arguments, results), launch)
        if len(actual.launches) != len(plan.launches) or actual.tag != plan.tag:
            self._plans.pop(_key(arguments), None)
            buffer.resize_(0)

    def _plan(self, arguments):
        key = _key(arguments)
        if key not in self._plans:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            fake = any(isinstance(each, FakeTensor) for each in arguments)
            self._plans[key] = self._made_of_fakes(key, arguments) if fake else self._made(arguments)
        return self._plans[key]

    def _made(self, arguments):
        """Returns the Plan; None if the gradient is refused, which backward says."""
        try:
            results = self.allocate(arguments)
            launches = record(self.name, lambda: self.run(arguments, results))
            plan = plan_of(launches, _tensors(arguments))
        except (NotImplementedError, ValueError, TypeError):  # no gradient is derived, or run raises it when it is called next
            return None
        return plan if plan.bytes else None

    def _made_of_fakes(self, key, arguments):
        """Does the same for fake tensors, with others on the devices that they represent. A new thread has none of the modes of
        torch that they are called in."""

        def like(known, argument):
            if not isinstance(argument, torch.Tensor):
                return argument
            _, shape, strides, dtype, device = known
            return torch.empty_strided(shape, strides, dtype=dtype, device=device)

        def plan():
            with FakeTensorMode():
                return self._made([like(known, each) for known, each in zip(key, arguments)])

        return on_a_new_stack(plan)
