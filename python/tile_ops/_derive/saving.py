"""Lets the launches of an operator's run save tiles for its gradient: all of them in one tensor of bytes."""

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from .. import _C
from ..language.translator.stacks import on_a_new_stack
from .record import record, storage_of
from .traced import on_cpu, traced

_MOST_PLANS = 256  # of one operator
_MISSING = object()


def plan_of(launches, arguments):
    """Returns what the recorded launches of a run save, for gradients of the arguments."""
    active, plan = {storage_of(each) for each in arguments if each.is_floating_point()}, _C.SavedBytes()
    for each in launches:
        if any(storage_of(each.leaves[i]) in active for i in each.traced.inputs):
            active.update(storage_of(each.leaves[i]) for i in each.traced.results)
            plan.add(each.traced.kernel, each.grid, each.leaves, on_cpu(each.leaves))
        else:
            plan.skip()
    return plan


def _tensors(values):
    return [each for each in values if isinstance(each, torch.Tensor)]


def _key(values):
    return _C.plan_key(tuple(values)) or tuple(
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
        plan, actual = self._plan(arguments), _C.SavedBytes()
        if plan is None or not plan.fits(buffer):
            buffer.resize_(0)
            return self.run(arguments, results)

        def launch(kernel, grid, given):
            if not actual.launch(kernel, grid, given, traced, plan, buffer):
                kernel[grid](*given)

        _C.replace_launches(lambda: self.run(arguments, results), launch)
        if actual != plan:
            self._plans.pop(_key(arguments), None)
            buffer.resize_(0)

    def _plan(self, arguments):
        key = _key(arguments)
        plan = self._plans.get(key, _MISSING)
        if plan is _MISSING:
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            fake = any(isinstance(each, FakeTensor) for each in arguments)
            plan = self._plans[key] = self._made_of_fakes(key, arguments) if fake else self._made(arguments)
        return plan

    def _made(self, arguments):
        """Returns the plan; None if the gradient is refused, which backward says."""
        try:
            results = self.allocate(arguments)
            launches = record(self.name, lambda: self.run(arguments, results))
            plan = plan_of(launches, _tensors(arguments))
        except (NotImplementedError, ValueError, TypeError):  # no gradient is derived, or run raises it when it is called next
            return None
        return plan if plan.count else None

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
