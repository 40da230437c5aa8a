"""patch: chains of arithmetic in forwards."""

import copy
import functools
import pickle

import pytest
import tile_ops
import torch
from tile_ops._patching import arithmetic
from torch import nn


# Calls are left to Python where a mode of torch, such as that of a default device, is to see them.
pytestmark = pytest.mark.at_home


@pytest.fixture(autouse=True)
def small_tensors_too(monkeypatch):
    monkeypatch.setattr(arithmetic, "LEAST_ELEMENTS", 0)


def changed(x, shift, scale):
    return x * (1 + scale[:, None]) + shift[:, None]


def decorated(function):
    @functools.wraps(function)
    def call(*args):
        return function(*args) + 1

    return call


@decorated
def more(x):
    return x * 2 + x


class Modulated(nn.Module):
    def forward(self, x, shift, scale):
        return x * (1 + scale[:, None]) + shift[:, None]


class ByFunction(nn.Module):
    def forward(self, x, shift, scale):
        return changed(x, shift, scale)


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = 3

    def forward(self, x, shift, scale):
        return (x + scale.unsqueeze(1) * torch.tanh(x)) / self.factor - -x


MODELS = {"in a forward": Modulated, "in a function": ByFunction, "with numbers": Gated}
SHAPES = {"usual": (2, 37, 24), "no rows": (2, 0, 24), "no samples": (0, 5, 24), "one element": (1, 1, 1), "odd": (3, 7, 5)}


def inputs(shape, dtype, device="cpu"):
    torch.manual_seed(0)
    return [torch.randn(each, dtype=torch.double).to(device, dtype) for each in (shape, shape[::2], shape[::2])]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", MODELS)
def test_values(device, name, shape, dtype):
    model, values = MODELS[name](), inputs(SHAPES[shape], dtype, device)
    expected = model(*(each.double() for each in values))
    tile_ops.patch(model)
    result = model(*values)
    assert result.dtype == dtype and result.shape == values[0].shape
    bound = {torch.float32: 1e-6, torch.bfloat16: 2**-8, torch.float16: 2**-11, torch.float64: 1e-14}[dtype]
    torch.testing.assert_close(result.double(), expected, rtol=bound, atol=4 * bound)


def test_ours_computes_plain_tensors(monkeypatch, device):
    model, values = Modulated(), inputs((2, 5, 8), torch.float32, device)
    expected = model(*values)
    tile_ops.patch(model)
    model(*values)

    def refused(*values):
        raise AssertionError("computed by torch")

    for text in arithmetic._plain:
        monkeypatch.setitem(arithmetic._plain, text, refused)
    torch.testing.assert_close(model(*values), expected)
    strided = [each.transpose(0, -1).contiguous().transpose(0, -1) for each in values]
    result = model(*strided)
    torch.testing.assert_close(result, expected)
    assert result.stride() == strided[0].stride()
    with pytest.raises(AssertionError, match="computed by torch"):
        model(values[0], *(each.double() for each in values[1:]))
    with pytest.raises(AssertionError, match="computed by torch"):
        model(*(each.long() for each in values))
    monkeypatch.setattr(arithmetic, "LEAST_ELEMENTS", 81)
    with pytest.raises(AssertionError, match="computed by torch"):
        model(*values)


@pytest.mark.parametrize("name", MODELS)
def test_torch_computes_with_gradients(name):
    model, values = MODELS[name](), inputs((2, 5, 8), torch.float64)
    ours = [each.clone().requires_grad_() for each in values]
    theirs = [each.clone().requires_grad_() for each in values]
    model(*theirs).square().sum().backward()
    tile_ops.patch(model)
    result = model(*ours)
    assert "tile" not in result.grad_fn.name()
    result.square().sum().backward()
    for own, other in zip(ours, theirs):
        assert (own.grad is None) == (other.grad is None)
        if own.grad is not None:
            torch.testing.assert_close(own.grad, other.grad, rtol=0, atol=0)
    with torch.no_grad():
        torch.testing.assert_close(model(*ours), result)


class Changing(nn.Module):
    """A call that changes x behind a product of x: as it stands, the product has the values from before."""

    def change(self, x):
        return x.add_(1)

    def forward(self, x):
        return x * 2 + self.change(x)


class Texts(nn.Module):
    def forward(self, x):
        text, sizes = "a" + str(x.dim()) + "b", [1] + list(x.shape) + [2]
        return x, text, sizes


class Numbers(nn.Module):
    def forward(self, x):
        count = x.shape[0] * 2 + 1
        return x.new_zeros(count // 2 * 3 + 1), count


class Comprehended(nn.Module):
    def forward(self, x):
        return [x * i + x for i in range(3)], (lambda y: y * 2 + x)(x)


class OwnReplaced(nn.Module):
    def forward(self, x):
        self = x
        return self * 2 + x


class Decorated(nn.Module):
    def forward(self, x):
        return more(x)


class Added(nn.Module):
    def forward(self, x):
        return x + x


@pytest.mark.parametrize("kind", [Changing, Texts, Comprehended, OwnReplaced, Decorated, Added])
def test_left_as_it_is(kind):
    model, x = kind(), torch.randn(3, 4)
    expected = model(x.clone())
    report = tile_ops.patch(model)
    assert not report.swapped and type(model) is kind
    assert str(model(x)) == str(expected)


def test_numbers_stay_numbers():
    model, x = Numbers(), torch.randn(3, 4)
    assert tile_ops.patch(model).swapped == [("", "Numbers", "arithmetic")]
    zeros, count = model(x)
    assert (zeros.shape, count, type(count)) == ((10,), 7, int)


def test_report_leave_and_unpatch():
    model = nn.ModuleDict({"a": Modulated(), "b": ByFunction()})
    assert tile_ops.patch(copy.deepcopy(model), leave="arithmetic").swapped == []
    assert tile_ops.patch(model).swapped == [("a", "Modulated", "arithmetic"), ("b", "ByFunction", "arithmetic")]
    assert tile_ops.patch(model).swapped == []
    tile_ops.unpatch(model)
    assert [type(each) for each in model.values()] == [Modulated, ByFunction]


def test_pickle_and_copy():
    model, values = ByFunction(), inputs((2, 3, 4), torch.float32)
    tile_ops.patch(model)
    expected = model(*values)
    for made in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert type(made) is type(model)
        torch.testing.assert_close(made(*values), expected, rtol=0, atol=0)


def test_compiled_and_exported():
    model, values = ByFunction(), inputs((2, 3, 4), torch.float32)
    expected = model(*values)
    tile_ops.patch(model)
    torch.testing.assert_close(torch.compile(model, backend="aot_eager", fullgraph=True)(*values), expected)
    exported = torch.export.export(model, tuple(values))
    assert {str(node.target) for node in exported.graph.nodes if node.op == "call_function"} >= {
        "aten.mul.Tensor",
        "aten.add.Tensor",
    }
    torch.testing.assert_close(exported.module()(*values), expected)


def test_vmap_and_fake_tensors():
    model, values = Modulated(), inputs((2, 3, 4), torch.float32)
    tile_ops.patch(model)
    many = [each.expand(5, *each.shape) for each in values]
    torch.testing.assert_close(torch.func.vmap(model)(*many), model(*values).expand(5, -1, -1, -1))
    with torch._subclasses.FakeTensorMode() as mode:
        assert model(*(mode.from_tensor(each) for each in values)).shape == values[0].shape
