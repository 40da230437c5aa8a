"""Functions that a patched forward calls and that call torch's: rewritten where their source is there, else under a mode."""

import copy

import pytest
import tile_ops
import torch
import torch.nn.functional as F
from patch_calls import close, names_of_calls
from tile_ops._patching import called, calls
from torch import nn


def scores(x):
    return F.softmax(x, -1)


def through_a_helper(module, x):
    return scores(x) + F.softmax(x, 0)


def direct_only(module, x):
    """A function of a table."""
    return torch.nn.functional.softmax(x, dim=-1), None


def held(module, x):
    own = F.softmax  # used in another way than by a call
    return own(x, -1)


def without_any(module, x):
    return x + 1


class Processor:
    def __call__(self, attn, x, *, more=1.0):
        q = attn.to_q(x)[:, None]
        return F.scaled_dot_product_attention(q, q, q, scale=None)[:, 0] + more


class ByMethod:
    def __call__(self, attn, x):
        return F.softmax(attn.get_scores(x), dim=-1)


def dispatch_attention_fn(query, key, value):
    """Has the name of diffusers' function that calls one of a table."""
    return F.scaled_dot_product_attention(query, key, value)


class Dispatched:
    def __call__(self, attn, x):
        q = attn.to_q(x)[:, None]
        return dispatch_attention_fn(q, q, q)[:, 0] + F.softmax(x, -1)


class ModuleProcessor(nn.Module):
    def forward(self, attn, x):
        return F.softmax(attn.to_q(x), dim=-1)


class Attn(nn.Module):
    def __init__(self, processor):
        super().__init__()
        self.to_q, self.processor = nn.Linear(8, 8), processor

    def get_scores(self, x):
        return F.log_softmax(self.to_q(x), -1)

    def forward(self, x, **options):
        return self.processor(self, x, **options)


@pytest.fixture
def modes(monkeypatch):
    """The number of modes that are entered."""
    entered = []
    enter = calls.Functions.__enter__
    monkeypatch.setattr(calls.Functions, "__enter__", lambda self: entered.append(self) or enter(self))
    return entered


@pytest.mark.parametrize(
    "function, entered", [(direct_only, 0), (without_any, 0), (through_a_helper, 1), (held, 1), (len, None)]
)
def test_functions_of_tables(function, entered, modes):
    made = called.interface(function)
    if entered is None:
        return
    x = torch.randn(3, 5)
    expected, ours = function(None, x), made(None, x)
    for one, other in zip(ours if isinstance(ours, tuple) else [ours], expected if isinstance(expected, tuple) else [expected]):
        assert one is other is None or torch.allclose(one, other)
    assert len(modes) == entered
    assert ("tile::softmax" in names_of_calls(made, None, x)) == (function is not without_any)
    assert called.interface(function)(None, x) is not None and function(None, x) is not None


def test_a_rewritten_function_is_like_the_original():
    made = called.interface(direct_only)
    assert made is called.interface(direct_only) and made.__name__ == "direct_only"
    assert made.__doc__ == direct_only.__doc__ and made.__globals__ is direct_only.__globals__
    assert made.__code__.co_firstlineno == direct_only.__code__.co_firstlineno
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        made(None)


@pytest.mark.parametrize(
    "make, entered, operators",
    [
        (Processor, 0, {"tile::attention"}),
        (ByMethod, 1, {"tile::softmax", "tile::log_softmax"}),
        (Dispatched, 1, {"tile::attention", "tile::softmax"}),
        (ModuleProcessor, 1, {"tile::softmax"}),
    ],
)
def test_processors(make, entered, operators, modes):
    model, x = Attn(Processor()), torch.randn(3, 5, 8)
    theirs = copy.deepcopy(model)
    tile_ops.patch(model)
    model.processor = theirs.processor = make()  # after patch
    close(model(x), theirs(x))
    assert len(modes) == entered
    assert names_of_calls(model, x) >= operators


def test_a_forward_that_dispatches(modes):
    class Head(nn.Module):
        def forward(self, x):
            return dispatch_attention_fn(x, x, x)

    model, x = Head(), torch.randn(2, 3, 5, 8)
    expected = model(x)
    assert tile_ops.patch(model).swapped == [("", "Head", "attention")]
    close(model(x), expected)
    assert len(modes) == 1 and "tile::attention" in names_of_calls(model, x)


def test_options_of_a_processor():
    model, x = Attn(Processor()), torch.randn(3, 5, 8)
    expected = model(x, more=2.0)
    tile_ops.patch(model)
    close(model(x, more=2.0), expected)
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        model(x, other=1)


def test_a_compiled_processor():
    model, x = Attn(Processor()), torch.randn(3, 5, 8)
    expected = model(x)
    tile_ops.patch(model)
    close(torch.compile(model, backend="aot_eager", fullgraph=True)(x), expected)
