"""tile_ops.patch: an activation behind a Linear or GroupNorm of a Sequential, what is one call and what is not."""

import copy
import pickle

import pytest
import tile_ops
import torch
from numerics import check
from patch_calls import FUSED_BEFORE, activations, called_modules, close, patch, results
from torch import nn


def model():
    return nn.Sequential(
        nn.Linear(8, 12), nn.GELU(), nn.Linear(12, 12), nn.ReLU(inplace=True), nn.Linear(12, 8), nn.GELU("tanh"), nn.SiLU()
    )


def image_model():
    return nn.Sequential(nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, 8, 3, padding=1))


def test_the_report():
    both = nn.ModuleDict({"text": model(), "image": image_model()})
    report = patch(both)
    assert report.swapped[-6:] == [
        ("text", "Sequential", "activations in matmul and group_norm"),
        ("image", "Sequential", "activations in matmul and group_norm"),
        ("text.1", "GELU", FUSED_BEFORE),
        ("text.3", "ReLU", FUSED_BEFORE),
        ("text.5", "GELU", FUSED_BEFORE),
        ("image.1", "SiLU", FUSED_BEFORE),
    ]
    assert report.left == [("text.6", "SiLU", "no operator for it"), ("image.2", "Conv2d", "no operator for it")]
    again = patch(both)
    assert again.swapped == [] and ("text.1", "GELU", "patched already") in again.left
    assert len(again.left) == len(report.swapped) + len(report.left)


@pytest.mark.parametrize("make, shape", [(model, (3, 8)), (image_model, (2, 8, 5, 6))])
def test_results_and_gradients(make, shape):
    module, x = make(), torch.randn(shape)
    expected, before = results(module, x), activations(module, x)
    patch(module)
    close(results(module, x), expected)
    assert (before, activations(module, x)) == ((4, 1) if make is model else (1, 0))
    tile_ops.unpatch(module)
    assert all(type(each).__module__.startswith("torch.nn.") for each in module.modules())
    assert activations(module, x) == before


def test_copies_state_and_slices():
    module, x = model(), torch.randn(3, 8)
    names = list(module.state_dict())
    patch(module)
    expected = module(x)
    assert list(module.state_dict()) == names and isinstance(module, nn.Sequential)
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(other(x), expected) and activations(other, x) == 1
        assert type(tile_ops.unpatch(other)) is nn.Sequential
    assert activations(module[:2], x) == 0
    close(module[1:](module[:1](x)), expected)


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("kind", ["forward", "forward_pre", "full_backward"])
def test_hooks_are_called(which, kind):
    module, x, seen = model(), torch.randn(3, 8), []
    expected = results(module, x)
    patch(module)
    handle = getattr(module[which], f"register_{kind}_hook")(lambda *_: seen.append(which))
    close(results(module, x), expected)
    assert seen == [which] and activations(module, x) == 2
    handle.remove()
    assert activations(module, x) == 1


def test_global_hooks_are_called():
    module, x = model(), torch.randn(3, 8)
    patch(module)
    assert len(called_modules(module, x)) == 8


def test_replaced_modules():
    module, x = model(), torch.randn(3, 8)
    patch(module)
    module[1] = nn.Tanh()
    module[2].forward = lambda x: x - 1
    module[4].compile(backend="eager")
    ours = module(x)
    del module[2].forward
    tile_ops.unpatch(module)
    module[2].forward = lambda x: x - 1
    close(ours, module(x))


def test_an_activation_used_twice():
    act = nn.SiLU()
    module, x = nn.Sequential(nn.Linear(4, 4), act, act, nn.Linear(4, 4), nn.Dropout(0.0), act), torch.randn(3, 4)
    expected = module(x)
    patch(module)
    close(module(x), expected)
    assert activations(module, x) == 2


class Twice(nn.Sequential):
    def forward(self, input):
        return super().forward(super().forward(input))


class Called(nn.Linear):
    def __call__(self, input):
        return 2 * super().__call__(input)


def test_what_is_left():
    x = torch.randn(3, 4)
    for module in (
        Twice(nn.Linear(4, 4), nn.ReLU()),
        nn.Sequential(Called(4, 4), nn.ReLU()),
        nn.Sequential(nn.Linear(4, 4), nn.LeakyReLU()),
        nn.Sequential(nn.LayerNorm(4), nn.ReLU()),
        nn.Sequential(nn.GroupNorm(2, 4), nn.ReLU()),
        nn.Sequential(nn.ReLU(), nn.Linear(4, 4)),
    ):
        expected, own = module(x), type(module)
        report = patch(module)
        assert type(module) is own and len(report.swapped) == 1
        close(module(x), expected)


def test_leave():
    module = model()
    report = patch(module, leave="activation")
    assert [row[1] for row in report.swapped] == ["Linear"] * 3 and ("1", "GELU", "as asked") in report.left
    module = model()
    assert patch(module, leave="linear").swapped == []
    assert type(module) is nn.Sequential


def test_inputs_that_our_operators_refuse_are_torch_s():
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    messages = []
    for change in (tile_ops.unpatch, tile_ops.patch):
        change(module)
        with pytest.raises(RuntimeError) as error:
            module(torch.randn(2, 5))
        messages.append(str(error.value))
    assert messages[0] == messages[1]
    x = torch.randn(3, 4).double()
    close(module.double()(x), tile_ops.unpatch(module)(x))


def test_compile():
    module, x = model(), torch.randn(3, 8)
    expected = results(module, x)
    patch(module)
    torch._dynamo.reset()
    close(results(torch.compile(module, backend="aot_eager", fullgraph=True), x), expected)


def test_autocast():
    module, x = model(), torch.randn(3, 8)
    reference = copy.deepcopy(module).double()(x.double())
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        theirs = module(x)
        patch(module)
        ours = module(x)
    assert ours.dtype == theirs.dtype
    check(ours, theirs, reference)
