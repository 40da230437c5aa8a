"""Computes the gradients of an operator from the launches of its run, in the reverse order."""

import torch

from .. import _C
from .record import is_copy, record_rows
from .traced import traced

WAY, KERNELS = None, None  # tests set them, see _C.replay_gradients


def gradients(name, run, allocate, arguments, incoming, targets, saved=None):
    """Fills tensors with gradients of an operator.

    run(arguments, results): calls the operator's run; neither is changed. allocate(arguments): the results. arguments: a tuple.
    incoming: the gradient of each result, or None. targets: for each argument None, or the tensor that gets its gradient. saved:
    what saving.Saving.run_with has saved, or None.
    """
    arguments = _C.own_memory(arguments)
    try:
        results, launches = _recorded(name, run, allocate, arguments)
    except NotImplementedError as error:
        if not is_copy(error):
            raise
        strided = [each for each in arguments if isinstance(each, torch.Tensor) and not each.is_contiguous()]
        if not strided:
            raise
        arguments = tuple(each.contiguous() if isinstance(each, torch.Tensor) else each for each in arguments)
        results, launches = _recorded(name, run, allocate, arguments)
    _C.replay_gradients(name, launches, traced, arguments, results, incoming, targets, saved, WAY, KERNELS)


def _recorded(name, run, allocate, arguments):
    results = tuple(allocate(arguments))
    return results, record_rows(name, lambda: run(arguments, results))
