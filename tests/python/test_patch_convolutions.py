"""patch: convolutions of which a forward makes sequences."""

import copy

import pytest
import tile_ops
import torch
from torch import nn


class Chained(nn.Module):
    def __init__(self, conv):
        super().__init__()
        self.conv = conv

    def forward(self, x):
        return self.conv(x).flatten(2).transpose(1, 2)


class Named(Chained):
    def forward(self, x):
        y = self.conv(x.to(x.dtype))
        rows = y.shape[-2]
        if rows:
            y = y.flatten(2).transpose(1, 2)
        return y


class Apart(Chained):
    def forward(self, x):
        x = x.flatten(2).transpose(1, 2)
        return self.conv(x.transpose(1, 2).unflatten(2, (6, 4)))


class OwnForward(nn.Conv2d):
    def forward(self, x):
        return super().forward(x) + 1


def patches(**options):
    return nn.Conv2d(3, 8, 2, 2, **options)


MODELS = {
    "a chain": lambda: Chained(patches()),
    "a name": lambda: Named(patches()),
    "no bias": lambda: Chained(patches(bias=False)),
    "patches that overlap": lambda: Chained(nn.Conv2d(3, 8, 3, 1, padding=1)),
    "padding by reflection": lambda: Chained(nn.Conv2d(3, 8, 3, 2, padding=1, padding_mode="reflect")),
    "one pixel": lambda: Chained(nn.Conv2d(3, 8, 1)),
    "groups": lambda: Chained(nn.Conv2d(3, 6, 2, 2, groups=3)),
}


def found(model, **options):
    return [(path, name) for path, name, _ in tile_ops.patch(model, **options).swapped]


@pytest.mark.parametrize("name", MODELS)
def test_sequences_are_as_before(name):
    torch.manual_seed(0)
    model = MODELS[name]().double()
    patched = copy.deepcopy(model)
    assert found(patched) == [("conv", "Conv2d")]
    x = torch.randn(2, 3, 6, 4, dtype=torch.double)
    inputs = [x.clone().requires_grad_() for _ in range(2)]
    results = [each(given) for each, given in zip((model, patched), inputs)]
    torch.testing.assert_close(results[1], results[0])
    for result in results:
        result.square().sum().backward()
    torch.testing.assert_close(inputs[1].grad, inputs[0].grad)
    for ours, theirs in zip(patched.parameters(), model.parameters()):
        torch.testing.assert_close(ours.grad, theirs.grad)
    tile_ops.unpatch(patched)
    assert type(patched.conv) is nn.Conv2d


@pytest.mark.parametrize(
    "name", [each for each in MODELS if each not in ("one pixel", "groups")]
)  # torch chooses these layouts
def test_sequences_are_dense(name):
    model, x = MODELS[name](), torch.randn(2, 3, 6, 4)
    assert not model(x).is_contiguous()
    tile_ops.patch(model)
    assert model(x).is_contiguous()


def test_no_samples():
    model = Chained(patches())
    tile_ops.patch(model)
    assert model(torch.empty(0, 3, 6, 4)).shape == (0, 6, 8)


def test_hooks_run():
    model, seen = Chained(patches()), []
    model.conv.register_forward_hook(lambda module, args, result: seen.append(result.shape))
    tile_ops.patch(model)
    model(torch.randn(1, 3, 4, 4))
    assert seen == [(1, 8, 2, 2)]


@pytest.mark.parametrize(
    "model",
    [Apart(nn.Conv2d(3, 8, 2, 2)), Chained(OwnForward(3, 8, 2, 2)), nn.Sequential(patches())],
    ids=["apart", "own", "none"],
)
def test_other_convolutions_stay(model):
    assert found(model) == []


def test_leave():
    assert found(Chained(patches()), leave="convolution") == []


def test_compiled():
    model = Chained(patches())
    x = torch.randn(2, 3, 6, 4)
    expected = model(x)
    tile_ops.patch(model)
    result = torch.compile(model, backend="aot_eager", fullgraph=True)(x)
    torch.testing.assert_close(result, expected)
