"""Tests that exceptions raised by a user's code during a launch keep their class, message and traceback."""

import traceback

import pytest
import tile_ops
import tile_ops.language as tl
import torch


class Mine(Exception):
    def __init__(self, first, second):
        super().__init__(first, second)


def fail(*_, **__):
    raise Mine("first", 2)


class Failing:
    """Raises when one particular attribute or method is accessed."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        if name == self.__dict__["_name"]:
            fail()
        raise AttributeError(name)


class FailingIndex:
    __index__ = fail


class FailingDlpack:
    __dlpack__ = fail
    __dlpack_device__ = fail


class FailingSubclass(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, function, kinds, arguments=(), named=None):
        fail()


@tl.kernel
def kernel(x, out, N: tl.Constant[int] = 4):
    tl.store(out, 0, tl.load(x, 0, N))


def raised_by(function, *arguments, **named):
    with pytest.raises(Mine) as raised:
        function(*arguments, **named)
    assert raised.value.args == ("first", 2)
    frames = traceback.extract_tb(raised.value.__traceback__)
    assert frames[-1].name == "fail"


X = torch.ones(4, device="cpu")
LAUNCHES = {
    "a grid that is a function": lambda: kernel[fail](X, X),
    "an axis of the grid": lambda: kernel[(1, FailingIndex())](X, X),
    "a grid of one axis": lambda: kernel[FailingIndex()](X, X),
    "a stream": lambda: kernel.launch(1, X, X, stream=Failing("cuda_stream")),
    "a stream's other attribute": lambda: kernel.launch(1, X, X, stream=Failing("ptr")),
    "an array of DLPack": lambda: kernel[1](FailingDlpack(), X),
    "an array interface": lambda: kernel[1](Failing("__array_interface__"), X),
    "an array interface of a GPU": lambda: kernel[1](Failing("__cuda_array_interface__"), X),
    "debug's grid": lambda: kernel.debug(fail, X, X),
    "debug's axis": lambda: kernel.debug(FailingIndex(), X, X),
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_classes_stay(name):
    raised_by(LAUNCHES[name])


def test_parts_of_operators():
    operator = tile_ops.op("raising::run(Tensor x) -> Tensor", outputs="x")(lambda x, out: kernel[fail](x, out))
    raised_by(operator, X)
    operator = tile_ops.op("raising::outputs(Tensor x) -> Tensor", outputs=lambda x: fail())(lambda x, out: None)
    raised_by(operator, X)


def test_static_eval_says_what_was_raised():
    @tl.kernel
    def evaluating(x):
        tl.static_eval(fail())

    with pytest.raises(tl.TileStaticEvalError) as raised:
        evaluating[1](X)
    assert raised.value.message == "Exception was raised inside static_eval() (Mine: ('first', 2))"
    assert type(raised.value.__cause__) is Mine


def test_interrupts_stay_interrupts():
    def interrupt(*_):
        raise KeyboardInterrupt

    @tl.kernel
    def evaluating(x):
        tl.static_eval(interrupt())

    for launch in (lambda: kernel[interrupt](X, X), lambda: evaluating[1](X)):
        with pytest.raises(KeyboardInterrupt):
            launch()
