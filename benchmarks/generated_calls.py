"""Calls of generated code, which host.py times: a sum of two matrices as inductor's wrapper calls its kernel, and as it
would call ours. Each allocates the result and checks the arguments."""

import tile_ops.language as tl
import torch
from tile_ops import _C

SIDE = 64


@tl.kernel
def add(x, y, out):
    tl.store(out, (0, 0), tl.load(x, (0, 0), (SIDE, SIDE)) + tl.load(y, (0, 0), (SIDE, SIDE)))


def inductors(x, y):
    """Compiles the sum with inductor and returns a call of its wrapper."""
    from torch._inductor.codecache import PyCodeCache

    known = len(PyCodeCache.modules)
    with torch.no_grad():
        torch.compile(lambda x, y: x + y, fullgraph=True)(x, y)
    (module,) = PyCodeCache.modules[known:]
    return lambda: module.call([x, y])


def with_kernel(x, y, launch):
    """Returns a call that does what inductor's wrapper does, with launch(x, y, out) for its kernel."""
    guards = torch._C._dynamo.guards
    check, empty = guards.assert_size_stride, guards._empty_strided_cuda if x.is_cuda else guards._empty_strided_cpu

    def call(arguments):
        x, y = arguments
        arguments.clear()
        check(x, (SIDE, SIDE), (SIDE, 1), "input")
        check(y, (SIDE, SIDE), (SIDE, 1), "input")
        out = empty((SIDE, SIDE), (SIDE, 1), torch.float32)
        launch(x, y, out)
        return (out,)

    return lambda: call([x, y])


def compiled_call(x, y):
    entries = [("array", tensor, 0, (SIDE, SIDE), (SIDE, 1)) for tensor in range(3)]
    return with_kernel(x, y, _C.CompiledCall(add, (*entries, (1, 1, 1))))


def with_run_time_sizes(x, y):
    entries = [("array", tensor, 0, ("n0", "n1"), ("n1", 1)) for tensor in range(3)]
    launch = _C.CompiledCall(add, (*entries, (1, 1, 1)))
    return with_kernel(x, y, lambda x, y, out: launch(x, y, out, SIDE, SIDE))


def plain_launch(x, y):
    return with_kernel(x, y, lambda x, y, out: add[1](x, y, out))
