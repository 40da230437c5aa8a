"""patch: the experts of a mixture, whose method gates the halves of a projection."""

import pytest
import tile_ops
import torch
import torch.nn.functional as F
from torch import nn


class Experts(nn.Module):
    """As transformers' experts are: the products are computed elsewhere, and call the method."""

    def __init__(self, act):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 14, 5))
        self.act_fn = act

    def _apply_gate(self, gate_up_out):
        gate, up = gate_up_out.chunk(2, dim=-1)
        return self.act_fn(gate) * up

    def forward(self, x):
        return self._apply_gate(x @ self.weight.mT)


class Clamped(Experts):
    def _apply_gate(self, gate_up_out):
        gate, up = gate_up_out.chunk(2, dim=-1)
        return self.act_fn(gate.clamp(max=1)) * up


class Interleaved(Experts):
    def _apply_gate(self, gate_up_out):
        return self.act_fn(gate_up_out[..., ::2]) * gate_up_out[..., 1::2]


ACTIVATIONS = {
    "silu": (nn.SiLU, "swiglu"),
    "gelu": (nn.GELU, "geglu"),
    "tanh": (lambda: nn.GELU(approximate="tanh"), "geglu"),
    "function": (lambda: F.silu, "swiglu"),
}


@pytest.mark.parametrize("rows", [0, 1, 4])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_values_and_gradients(name, rows):
    torch.manual_seed(0)
    act, operator = ACTIVATIONS[name]
    model, x = Experts(act()).double(), torch.randn(3, rows, 5, dtype=torch.double)
    expected = model(x)
    gradient = torch.autograd.grad(expected.square().sum(), model.weight)[0]
    report = tile_ops.patch(model)
    assert ("", "Experts", operator) in report.swapped
    result = model(x)
    assert "tile" in result.grad_fn.name()
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(torch.autograd.grad(result.square().sum(), model.weight)[0], gradient)


@pytest.mark.parametrize("kind", [Clamped, Interleaved])
def test_other_gates_stay(kind):
    model = kind(nn.SiLU())
    assert "GatedExperts" not in str([type(each).__mro__ for each in tile_ops.patch(model) and model.modules()])


def test_another_activation_later():
    model, x = Experts(nn.SiLU()), torch.randn(3, 2, 5)
    tile_ops.patch(model)
    model.act_fn = nn.Tanh()
    gate, up = (x @ model.weight.mT).chunk(2, -1)
    torch.testing.assert_close(model(x), gate.tanh() * up)


def test_hooks_of_the_activation_run():
    model, seen = Experts(nn.SiLU()), []
    tile_ops.patch(model)
    model.act_fn.register_forward_hook(lambda *_: seen.append(1))
    model(torch.randn(3, 2, 5))
    assert seen == [1]


def test_leave():
    assert not tile_ops.patch(Experts(nn.SiLU()), leave="gated_mlp").swapped
