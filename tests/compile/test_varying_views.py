"""Compiled views of sizes that vary, and their gradients: random chains of reshapes, permutations, slices and reductions."""

import random

import pytest
import torch
import torch.nn.functional as F
from compiled_calls import compiled

pytestmark = pytest.mark.usefixtures("uncached")
A_GRAPH, GRAPHS, LONG = 12, 2, 60
MOST_ELEMENTS, MOST_AXES = 4000, 5


def permuted(draw, x):
    axes = draw.sample(range(x.dim()), x.dim())
    return f"x.permute({axes})" if x.dim() > 1 else None


def split(draw, x):
    axis, factor = draw.randrange(x.dim()), draw.choice((2, 3))
    if x.shape[axis] % factor or x.shape[axis] == factor or x.dim() == MOST_AXES:
        return None
    sizes = draw.choice(("({0}, x.shape[{1}] // {0})", "(x.shape[{1}] // {0}, {0})", "(-1, {0})")).format(factor, axis)
    return f"x.unflatten({axis}, {sizes})"


def merged(draw, x):
    axis = draw.randrange(x.dim())
    return f"x.flatten({axis}, {axis + 1})" if axis + 1 < x.dim() else None


def repeated(draw, x):
    return f"x.repeat_interleave(2, {draw.randrange(x.dim())})"


def joined(draw, x):
    return f"torch.cat([x, x + 3], {draw.randrange(x.dim())})"


def shortened(draw, x):
    axis = draw.randrange(x.dim())
    return f"x.narrow({axis}, 1, x.shape[{axis}] - 2)" if x.shape[axis] > 2 else "x[..., ::2]"


def unfolded(draw, x):
    return "x.unfold(-1, 2, 2)" if x.shape[-1] > 3 and x.dim() < MOST_AXES else None


def padded(draw, x):
    return f"F.pad(x, ({draw.randrange(3)}, {draw.randrange(3)}))"


def summed(draw, x):
    return f"x.sum({draw.randrange(x.dim())})" if x.dim() > 1 else None


def normalized(draw, x):
    return f"x.softmax({draw.randrange(x.dim())})"


def computed(draw, x):
    return draw.choice(("x * 2 + 1", "x.sin()", "x.flip(0)"))


STEPS = (permuted, split, split, merged, repeated, joined, shortened, unfolded, padded, summed, normalized, computed)


class Chain:
    """A random program of one tensor x, line by line."""

    def __init__(self, seed):
        draw = random.Random(seed)
        self.shape = [draw.choice((2, 4, 6, 8, 12)) for _ in range(draw.choice((2, 3, 4)))]
        self.lines = []
        x = torch.zeros(self.shape)
        while len(self.lines) < 4:
            line = draw.choice(STEPS)(draw, x)
            made = x if line is None else self.value(line, x)
            if line and 0 < made.numel() <= MOST_ELEMENTS and made.dim():
                x = made
                self.lines.append(line)

    @staticmethod
    def value(line, x):
        return eval(line, {"torch": torch, "F": F}, {"x": x})  # a line of the functions above

    def function(self):
        text = "def chain(x):\n" + "".join(f"    x = {line}\n" for line in self.lines) + "    return x.contiguous() * x\n"
        space = {"torch": torch, "F": F}
        exec(text, space)
        return space["chain"]


def results(functions, arguments):
    """Returns what the functions give, and the gradients of weighted sums of it."""
    leaves = [each.clone().requires_grad_() for each in arguments]
    given = functions(leaves)
    weights = [torch.linspace(-1, 1, each.numel(), device=each.device).reshape(each.shape) for each in given]
    return given, torch.autograd.grad(sum((x * w).sum() for x, w in zip(given, weights)), leaves)


@pytest.mark.parametrize("dynamic", [True, False], ids=["varying", "fixed"])
@pytest.mark.parametrize("graph", [*range(GRAPHS), *(pytest.param(k, marks=pytest.mark.long) for k in range(GRAPHS, LONG))])
def test_views_and_their_gradients(graph, dynamic, seed):
    chains = [Chain(seed + k) for k in range(A_GRAPH)]
    functions = [chain.function() for chain in chains]

    def together(arguments):
        return [function(each) for function, each in zip(functions, arguments)]

    arguments = [torch.randn(chain.shape) for chain in chains]
    found = results(compiled(together, dynamic=dynamic), arguments)
    for kind, ours, theirs in zip(("result", "gradient"), found, results(together, arguments)):
        for chain, own, expected in zip(chains, ours, theirs):
            torch.testing.assert_close(
                own, expected, rtol=1e-3, atol=1e-4, msg=lambda text: f"{kind} of {chain.shape}, {chain.lines}: {text}"
            )


CHUNKS = {
    "repeated heads": (lambda x: x.view(*x.shape[:2], -1, 8).repeat_interleave(3, 2).sin(), (2, 8, 32)),
    "pooled chunks": (lambda x: x.view(x.shape[0], -1, 4, x.shape[2]).mean(2).repeat_interleave(4, 1) * x, (2, 8, 6)),
    "pixels of channels": (lambda x: F.pixel_shuffle(x, 2).sin(), (2, 12, 8, 10)),
    "halves": (lambda x: x.unflatten(0, (2, x.shape[0] // 2))[..., ::2].sum(0), (8, 8)),
    "pairs": (lambda x: x.unflatten(0, (-1, 2)).repeat_interleave(2, 0), (8, 6)),
}


@pytest.mark.parametrize("name", CHUNKS)
def test_sizes_that_are_divided(name, device):
    function, shape = CHUNKS[name]
    own = compiled(function, dynamic=True)
    for factor in (1, 2, 3):
        x = torch.randn(shape[0] * factor, *shape[1:], device=device)
        found, expected = (results(lambda leaves, f=f: [f(leaves[0])], [x]) for f in (own, function))
        for ours, theirs in zip(found, expected):
            torch.testing.assert_close(ours[0], theirs[0], rtol=1e-4, atol=1e-5)


def test_saved_views_of_one_memory(device):
    """The gradient may not write over one while the other is to be read: torch calls both donated."""
    function = lambda x: x.softmax(1).unfold(-1, 2, 2).sin() ** 2  # noqa: E731
    x = torch.randn(3, 8, device=device)
    found, expected = (results(lambda leaves, f=f: [f(leaves[0])], [x]) for f in (compiled(function), function))
    torch.testing.assert_close(found, expected)
