"""Tests Python operators with results that are arguments, arguments that overlap themselves, or no outputs function."""

import pytest
import raised
import tile_ops
import tile_ops.language as tl
import torch
from torch._subclasses.fake_tensor import FakeTensorMode


@tl.kernel
def scale_kernel(x, out, by: float, N: tl.Constant[int]):
    i = tl.bid(0)
    tl.store(out, i, tl.load(x, i, N) * by)


def run(x, out):
    scale_kernel[tl.cdiv(x.numel(), 16)](x, out, 2.0, 16)


def error_of(function, *arguments):
    """Returns only the first line, because torch appends the location of the definition."""
    return raised.error_of(function, *arguments).splitlines()[0]


OUTPUTS = {"itself": lambda x: x, "view": lambda x: x.view(-1), "detached": lambda x: x.detach(), "part": lambda x: x[1:]}


@pytest.mark.parametrize("what", OUTPUTS)
def test_outputs_that_return_an_argument(what):
    name = f"tile_mem::returns_{what}"
    op = tile_ops.op(f"{name}(Tensor x) -> Tensor", outputs=OUTPUTS[what])(run)
    text = f"ValueError: {name}: outputs returned the memory of its argument 'x' as 'out'; return a new tensor, as empty_like(x) is"
    x = torch.ones(32)
    assert error_of(op, x) == text and torch.equal(x, torch.ones(32))
    assert error_of(op, torch.empty(32, device="meta")) == text
    with FakeTensorMode():
        fake = torch.empty(32)
    assert text.split(": ", 1)[1] in error_of(op, fake)


def test_one_of_several_results_and_of_a_list():
    op = tile_ops.op(
        "tile_mem::second(Tensor[] xs, Tensor? y=None) -> (Tensor first, Tensor rest)",
        outputs=lambda xs, y: (torch.empty_like(xs[0]), xs[1]),
    )(lambda xs, y, first, rest: None)
    assert error_of(op, [torch.ones(4), torch.ones(4)]) == (
        "ValueError: tile_mem::second: outputs returned the memory of its argument 'xs' as 'rest'; return a new tensor, as "
        "empty_like(xs) is"
    )
    fresh = tile_ops.op("tile_mem::fresh(Tensor x) -> Tensor", outputs="x")(run)
    assert torch.equal(fresh(torch.ones(32)), torch.full((32,), 2.0))


def test_saved_outputs_that_return_an_argument():
    op = tile_ops.op(
        "tile_mem::saves(Tensor x) -> Tensor", outputs="x", saves="Tensor kept", saved_outputs=lambda x: x,
        grad=lambda grad_out, kept: grad_out * kept,
    )(run)  # fmt: skip
    assert "tile_mem::saves: outputs returned the memory of its argument 'x' as 'kept'" in error_of(
        op, torch.ones(32, requires_grad=True)
    )


def test_an_expanded_argument_that_is_written():
    @tile_ops.op("tile_mem::scale_(Tensor(a!) x, Tensor(b!)[] more) -> ()")
    def scale_(x, more):
        for each in (x, *more):
            each.mul_(2)

    expanded = torch.ones(1).expand(32)
    end = " overlaps itself in memory, and is written; clone() it"
    assert error_of(scale_, expanded, []) == "ValueError: tile_mem::scale_: x" + end
    assert error_of(scale_, torch.ones(32), [torch.ones(2), expanded]) == "ValueError: tile_mem::scale_: more[1]" + end
    assert error_of(scale_, torch.zeros(8).unfold(0, 4, 1), []) == "ValueError: tile_mem::scale_: x" + end
    assert expanded.eq(1).all()
    x = torch.ones(32, 2)[:, 0]
    scale_(x, [torch.ones(1).expand(1)])
    assert x.eq(2).all()


def test_definitions_without_outputs_say_so_in_words_of_python():
    text = "tile_mem::bare: has no outputs; give op(…) outputs=, a class a function of that name, or decorate one with @bare.outputs"
    bare = tile_ops.op("tile_mem::bare(Tensor x) -> Tensor")(run)
    assert error_of(bare, torch.ones(32)) == f"RuntimeError: {text}"
    bare.outputs(lambda x: torch.empty_like(x))  # as a decorator would
    assert bare(torch.ones(32)).eq(2).all()

    def define():
        @tile_ops.op("tile_mem::classy(Tensor x) -> Tensor")
        class Classy:
            def run(x, out):
                pass

    assert error_of(define).endswith(text.replace("bare", "classy"))
