"""Modules whose Linear is their `proj`, as diffusers' GEGLU and GELU, through tile_ops.patch."""

import copy
import os
import pickle

import pytest
import tile_ops
import torch
from patch_calls import called_modules, check_patched, close, names_of_calls, patch
from torch import nn

os.environ["HF_HUB_OFFLINE"] = "1"
theirs = pytest.importorskip("diffusers.models.activations")
FUNCTIONS = {f"aten::{name}" for name in ("silu", "gelu", "relu", "mul.Tensor")}


class GateFirst(nn.Module):
    def __init__(self, act, bias=True):
        super().__init__()
        self.proj, self.act = nn.Linear(16, 48, bias), act

    def forward(self, x):
        gate, up = self.proj(x).chunk(2, -1)
        return self.act(gate) * up


def made(name, **options):
    return getattr(theirs, name)(16, 24, **options)


PROJECTIONS = [  # (module, what the report says, its operators)
    (lambda: made("GEGLU"), "geglu", {"geglu", "matmul"}),
    (lambda: made("GEGLU", bias=False), "geglu", {"geglu", "matmul"}),
    (lambda: made("SwiGLU"), "swiglu", {"swiglu", "matmul"}),
    (lambda: GateFirst(nn.SiLU()), "swiglu", {"swiglu", "matmul"}),
    (lambda: GateFirst(nn.GELU(), bias=False), "geglu", {"geglu", "matmul"}),
    (lambda: GateFirst(nn.GELU("tanh")), "geglu", {"geglu", "matmul"}),
    (lambda: made("GELU"), "matmul, gelu", {"matmul"}),
    (lambda: made("GELU", approximate="tanh"), "matmul, gelu_tanh", {"matmul"}),
    (lambda: made("LinearActivation"), "matmul, silu", {"matmul"}),
]


@pytest.mark.parametrize("make, by, operators", PROJECTIONS)
def test_projections(make, by, operators):
    for x in (torch.randn(2, 5, 16), torch.randn(16), torch.randn(0, 16)):
        module = make()
        if x.numel():
            report = check_patched(module, [x])
            assert ("", type(module).__name__, by) in report.swapped
        else:
            patch(module)
        names = names_of_calls(module, x)
        assert {f"tile::{name}" for name in operators} <= names and not names & FUNCTIONS
        assert module(x).shape == tile_ops.unpatch(module)(x).shape


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_projections_of_16_bits(dtype):
    module, x = made("GEGLU").to(dtype), torch.randn(64, 16, dtype=dtype)
    expected = made("GEGLU").double()
    expected.load_state_dict(module.state_dict())
    own = module(x)
    patch(module)
    reference = expected(x.double())
    ours, torch_s = ((each.double() - reference).abs().max() for each in (module(x), own))
    assert module(x).dtype == dtype and ours <= 2 * torch_s


def test_what_computes_something_else_is_left():
    wide = made("ApproximateGELU")
    assert patch(wide).left == [] and type(wide) is theirs.ApproximateGELU  # its proj is swapped
    for act in (nn.ReLU(), nn.Tanh()):
        module = GateFirst(act)
        patch(module)
        assert type(module) is GateFirst
    module = GateFirst(nn.SiLU())
    module.more = nn.Identity()
    patch(module)
    assert type(module) is GateFirst


@pytest.mark.parametrize("make, kinds", [
    (lambda: made("GEGLU"), ["gated_mlp"]), (lambda: made("GELU"), ["linear", "activation"]),
    (lambda: made("LinearActivation"), ["linear", "activation"]),
], ids=["gated", "activated", "with a module behind it"])  # fmt: skip
def test_leave(make, kinds):
    def is_swapped(kind):
        return any(path == "" for path, _, _ in patch(make(), leave=kind).swapped)

    assert [kind for kind in ("linear", "gated_mlp", "activation", "softmax") if not is_swapped(kind)] == kinds


@pytest.mark.parametrize("make", [lambda: made("GEGLU"), lambda: made("GELU")], ids=["gated", "activated"])
def test_a_proj_that_changes(make):
    module, x, seen = make(), torch.randn(3, 16), []
    expected = module(x)
    patch(module)
    handle = module.proj.register_forward_hook(lambda *_: seen.append("proj"))
    close(module(x), expected)
    assert seen == ["proj"]
    handle.remove()
    module.proj = nn.Sequential(module.proj, nn.Identity())  # as an adapter has it
    close(module(x), expected)


def test_patching_draws_no_random_number_and_calls_no_hook():
    module, seen = GateFirst(nn.SiLU()), []
    module.act.register_forward_hook(lambda *_: seen.append("act"))
    dropped = GateFirst(nn.Dropout())
    before = torch.get_rng_state()
    patch(nn.ModuleList([module, dropped]))
    assert torch.equal(torch.get_rng_state(), before) and seen == []


def test_halves_of_two_and_one():
    module, x = made("GEGLU"), torch.randn(3, 16)
    module.proj = nn.Linear(16, 3)
    expected = module(x)
    patch(module)
    close(module(x), expected)


def test_an_activation_that_changes():
    module, x, seen = made("SwiGLU"), torch.randn(3, 16), []
    patch(module, leave="linear")
    handle = module.activation.register_forward_hook(lambda *_: seen.append("act"))
    assert "tile::swiglu" not in names_of_calls(module, x) and seen == ["act"]
    handle.remove()
    assert "tile::swiglu" in names_of_calls(module, x)
    module.activation = nn.Tanh()
    assert torch.equal(module(x), tile_ops.unpatch(module)(x))


def test_global_hooks_are_called():
    module, x = made("SwiGLU"), torch.randn(3, 16)
    patch(module)
    assert called_modules(module, x) == [module.proj, module.activation, module]


def test_other_arguments_are_the_module_s_own():
    module, x = made("GEGLU"), torch.randn(3, 16)
    patch(module, leave="linear")
    assert "tile::geglu" not in names_of_calls(lambda: module(hidden_states=x))
    assert torch.equal(module(hidden_states=x), tile_ops.unpatch(module)(x))


def test_a_compiled_and_copied_one():
    module, x = made("GEGLU"), torch.randn(3, 16)
    expected = module(x)
    patch(module)
    for each in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert "tile::geglu" in names_of_calls(each, x)
    close(torch.compile(module, fullgraph=True)(x), expected)
