"""Tests helpers that are not plain functions: kernels run what Python calls, wrappers included, or raise why they cannot."""

import contextlib
import dataclasses
import functools

import pytest
import tile_ops
import tile_ops.language as tl
import torch


def times(n):
    def decorate(function):
        @functools.wraps(function)
        def wrapper(*arguments, **named):
            return function(*arguments, **named) * n

        return wrapper

    return decorate


def plus_one(function):
    @functools.wraps(function)
    def wrapper(t, *rest, **named):
        return function(t, *rest, **named) + 1

    return wrapper


def swapped(function):
    """Returns a wrapper that is called by its own signature, not by that of the function it wraps."""

    @functools.wraps(function)
    def wrapper(b, a=100):
        return function(a, b)

    return wrapper


def unwrapping(function):
    """Returns a wrapper that does not call the function that it claims to wrap."""

    @functools.wraps(function)
    def wrapper(t):
        return t + 70

    return wrapper


@times(8)
def decorated(t, n=2):
    return t * n


@times(2)
@plus_one
@times(3)
def stacked(t, *, n=1):
    return t * n


@swapped
def difference(a, b):
    return a - b


@unwrapping
def never(t):
    return t @ 3


def base(t, n, m=0):
    return t * n + m


@functools.cache
def cached(t):
    return t * 3


@functools.lru_cache(maxsize=2)
@times(4)
def cached_decorated(t):
    return t * 2


@tl.function
@times(5)
def marked(t):
    return t * 2


@dataclasses.dataclass(frozen=True)
class Scale:
    by: int

    def __call__(self, t):
        return t * self.by

    @staticmethod
    @times(3)
    def static(t):
        return t + 1

    @classmethod
    def of_class(cls, t, n):
        return cls(n)(t)

    @plus_one
    def decorated(self, t):
        return self.by

    @functools.cached_property
    def twice(self):
        return self.by * 2

    @functools.cache
    def cached(self, t):
        return t * self.by

    @tl.function
    def marked(self, t):
        return t * self.by + 3

    def plain(self, t, n):
        return t * self.by * n

    partial = functools.partialmethod(plain, n=7)
    partial_first = functools.partialmethod(plain, 2)


scale = Scale(6)
bound = scale.plain
of_class = Scale.of_class
partial_of_partial = functools.partial(functools.partial(base, n=2), m=3)

# Kernels must return what Python returns for the number 5.
CASES = {
    "decorator with arguments": lambda t: decorated(t),
    "given by name": lambda t: decorated(t, n=3),
    "stacked": lambda t: stacked(t, n=2),
    "a signature of its own": lambda t: difference(t),
    "both arguments": lambda t: difference(t, 7),
    "a wrapper that does not call": lambda t: never(t),
    "partial": lambda t: partial_of_partial(t),
    "partial in a kernel": lambda t: functools.partial(base, n=4)(t, m=1),
    "partial by position": lambda t: functools.partial(base, t)(4, 1),
    "cache": lambda t: cached(t),
    "cache of a decorated one": lambda t: cached_decorated(t),
    "an object that is called": lambda t: scale(t),
    "a static method": lambda t: scale.static(t) + Scale.static(t),
    "a class method": lambda t: scale.of_class(t, 2) + Scale.of_class(t, 3) + of_class(t, 4),
    "a bound method": lambda t: bound(t, 2),
    "a decorated method": lambda t: scale.decorated(t) + 0 * t,
    "a cached property": lambda t: scale.twice * t,
    "a cached method": lambda t: scale.cached(t),
    "partial methods": lambda t: scale.partial(t) + scale.partial_first(n=t),
}
ONLY_IN_KERNELS = {
    "a function of the language": (lambda t: marked(t), 50),
    "a method of the language": (lambda t: scale.marked(t), 33),
}


def in_kernel(function):
    @tl.kernel
    def kernel(x, out):
        tl.store(out, 0, function(tl.load(x, 0, 1)))

    x, out, debugged = torch.full((1,), 5.0), torch.zeros(1), torch.zeros(1)
    kernel[1](x, out)
    kernel.debug(1, x, debugged)
    assert out.item() == debugged.item()
    return out.item()


@pytest.mark.parametrize("name", CASES)
def test_kernels_run_what_python_runs(name):
    assert in_kernel(CASES[name]) == CASES[name](5)


@pytest.mark.parametrize("name", ONLY_IN_KERNELS)
def test_functions_of_the_language(name):
    function, want = ONLY_IN_KERNELS[name]
    assert in_kernel(function) == want


def test_a_decorated_kernel():
    def logged(function):
        @functools.wraps(function)
        def wrapper(x, *rest):
            tl.store(rest[0], 1, 7.0)
            function(x, *rest)

        return wrapper

    @tl.kernel
    @logged
    def kernel(x, out, n: tl.Constant[int] = 3):
        tl.store(out, 0, tl.load(x, 0, 1) * n)

    assert kernel.parameters == ("x", "out", "n")
    for launch in (kernel[1], functools.partial(kernel.debug, 1)):
        x, out = torch.full((1,), 5.0), torch.zeros(2)
        launch(x, out)
        assert out.tolist() == [15, 7]


def test_decorated_expressions():
    @tile_ops.elementwise("wrapped::eight_times(Tensor x) -> Tensor")
    @times(8)
    def expression(x):
        return x + 1

    @tile_ops.reduction("wrapped::sum_of_twice(Tensor x) -> Tensor", "sum")
    @times(2)
    def total(x):
        return x

    assert expression(torch.full((3,), 4.0)).tolist() == [40] * 3
    assert total(torch.full((3,), 4.0)).item() == 24


@functools.singledispatch
def dispatched(t):
    return t


@dispatched.register
def _(t: int):
    return t * 2


class Callable:
    def __call__(self, t):
        return t * 2

    def method(self, t):
        return t * 2


callable_object = Callable()
bound_method = callable_object.method


@contextlib.contextmanager
def manager():
    yield 1


@functools.wraps(manager.__wrapped__)
def no_manager():
    return 1


@tl.kernel
def dispatching(x):
    dispatched(tl.load(x, 0, 1))


@tl.kernel
def calling_an_object(x):
    callable_object(tl.load(x, 0, 1))


@tl.kernel
def calling_its_method(x):
    bound_method(tl.load(x, 0, 1))


@tl.kernel
def with_no_manager(x):
    with no_manager():
        pass


ERRORS = {
    dispatching: "UnsupportedCallError: dispatched() is not supported in device code: functools.singledispatch chooses by the "
    "class of an argument, and a tile has none; write an `if` of its dtype or shape",
    calling_an_object: "UnsupportedCallError: Callable.__call__() is not supported in device code: a Callable is not a constant; "
    "write a function, or make Callable a frozen dataclass",
    calling_its_method: "UnsupportedCallError: Callable.method() is not supported in device code: its object, a Callable, is "
    "not a constant; write a function, or make Callable a frozen dataclass",
    with_no_manager: "TileTypeError: `with` takes a call of a generator marked by contextlib.contextmanager, "
    "or a frozen dataclass with __enter__ and __exit__, got Tile[int32,()]",
}


@pytest.mark.parametrize("kernel", ERRORS, ids=lambda kernel: kernel.__name__)
def test_what_kernels_cannot_call(kernel):
    with pytest.raises(tl.TileError) as raised:
        kernel[1](torch.zeros(1))
    assert f"{type(raised.value).__name__}: {raised.value}".splitlines()[0] == ERRORS[kernel]


@pytest.mark.parametrize("kind", ["singledispatchmethod"])
def test_dispatching_methods(kind):
    @dataclasses.dataclass(frozen=True)
    class Record:
        by: int

        @functools.singledispatchmethod
        def method(self, t):
            return t

    record = Record(1)
    with pytest.raises(tl.TileTypeError, match="^Record.method is a singledispatchmethod; a tile has no class to choose by\n"):
        in_kernel(lambda t: record.method(t))
