"""Makes the tensors of the table of operators."""

import math

import torch
from torch._subclasses.fake_tensor import FakeTensor

from operators.record import Sharded

X = (1, 2, 3, 4)
ROWS, COLUMNS = 5000, 4096  # 80 MB of float32


def f(*sizes, dtype=torch.float32, device=None):
    return torch.ones(sizes, dtype=dtype, device=device)


def f64(*sizes):
    return f(*sizes, dtype=torch.float64)


def bf(*sizes):
    return f(*sizes, dtype=torch.bfloat16)


def i64(*sizes):
    return f(*sizes, dtype=torch.int64)


def meta(*sizes):
    return f(*sizes, device="meta")


def double(*sizes):
    return torch.randn(sizes, dtype=torch.float64)


def grad(*sizes):
    """Returns ones that want a gradient."""
    return torch.ones(sizes, requires_grad=True)


def zeros(*sizes):
    return torch.zeros(sizes, dtype=torch.int64)


def between(*sizes):
    """Returns a tensor on the CPU whose elements begin at no multiple of their size."""
    count = math.prod(sizes)
    views = (torch.frombuffer(bytearray(4 * count + 2), dtype=torch.float32, count=count, offset=i) for i in (1, 2))
    return next(x for x in views if x.data_ptr() % 4).reshape(sizes)


def followed(function, *more, **options):
    """Returns a function of tensors that passes `more` after them."""
    return lambda *tensors: function(*tensors, *more, **options)


def targets():
    """Returns 300 classes of 1000, some of them equal."""
    return torch.arange(300) ** 2 % 1000


ALIGNED, UNALIGNED = torch.ones(2, 3, device="cpu"), between(2, 3)


def large_rows(count=1):
    """Returns tensors of 80 MB."""
    return [torch.randn(ROWS, COLUMNS) for _ in range(count)]


def rotation(positions, width=64):
    """Returns cosine and sine of random angles, [positions, width]."""
    angle = torch.rand(positions, width) * 7
    return angle.cos(), angle.sin()


def meta_leaf(dtype, *shape):
    return torch.empty(*shape, dtype=dtype, device="meta").requires_grad_()


def twice(run, *names, **tensors):
    """Returns a case of second derivatives, taken of the squared first ones. names: the differentiable tensors."""

    def both(*given):
        given = [each.detach().requires_grad_(name in names) for name, each in zip(tensors, given)]
        with torch.enable_grad():
            out = run(*given)
            wanted = [each for each in given if each.requires_grad]
            total = sum((each * each).sum() for each in (out if isinstance(out, tuple) else (out,)))
            first = torch.autograd.grad(total, wanted, create_graph=True)
            return torch.autograd.grad(sum((each * each).sum() for each in first), wanted)

    return Sharded({name: each.double() if each.is_floating_point() else each for name, each in tensors.items()}, both)


def leaf(dtype, *shape):
    return torch.randn(*shape).to(dtype).requires_grad_()


def transposed(x):
    return x.detach().transpose(0, 1).requires_grad_()


def integers(*numbers):
    return torch.tensor(numbers, dtype=torch.int64)


def wide(x):
    """Returns x in float32, or in float64 if it has that."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def autocast_indices(x, *shape, dtype=torch.int64):
    """Returns a fake tensor with the mode and device of the fake tensor x."""
    return FakeTensor(x.fake_mode, torch.empty(shape, dtype=dtype, device="meta"), x.device)


def autocast_weight(x):
    return autocast_indices(x, 5, 8, dtype=x.dtype)
