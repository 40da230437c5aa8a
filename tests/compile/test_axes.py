"""Indices of random views become an offset and strides: torch.as_strided of these is the view."""

import math
import random

import pytest
import sympy
import torch
from tile_ops._compile.axes import Axis, Digit, Facts, affine, merge, split

FACTS = Facts()
CASES, LONG = 60, 2000


def divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


def random_view(base):
    """Returns a view of the base: some steps of permute, slice, expand, reshape and of an axis of one element."""
    view = base
    for _ in range(random.randint(0, 5)):
        kind = random.choice(["permute", "slice", "expand", "split", "join", "unsqueeze", "select"])
        if kind == "permute":
            view = view.permute(random.sample(range(view.dim()), view.dim()))
        elif kind == "slice" and view.dim():
            axis = random.randrange(view.dim())
            start = random.randrange(view.shape[axis])
            view = view[(slice(None),) * axis + (slice(start, None, random.randint(1, 3)),)]
        elif kind == "expand" and view.numel() < 400:
            view = view.expand(random.randint(1, 3), *view.shape)
        elif kind == "split" and view.dim():
            axis = random.randrange(view.dim())
            inner = random.choice(divisors(view.shape[axis]))
            view = view.unflatten(axis, (view.shape[axis] // inner, inner))
        elif kind == "join" and view.dim() > 1:
            axis = random.randrange(view.dim() - 1)
            try:
                view = view.view(*view.shape[:axis], -1, *view.shape[axis + 2 :])
            except RuntimeError:  # its memory is not one axis
                pass
        elif kind == "unsqueeze":
            view = view.unsqueeze(random.randint(0, view.dim()))
        elif kind == "select" and view.dim() > 1:
            view = view.select(0, random.randrange(view.shape[0]))
    return view


def symbols_of(sizes, space, name):
    """Returns {symbol: Digit} of the coordinates of a shape, the outermost first, as inductor numbers its points."""
    found, divisor = [], 1
    for i, size in reversed(list(enumerate(sizes))):
        found.insert(0, (sympy.Symbol(f"{name}{i}", integer=True), Digit(space, sympy.Integer(divisor), sympy.Integer(size))))
        divisor *= size
    return dict(found)


def index_of(view, symbols):
    return sum((s * symbol for s, symbol in zip(view.stride(), symbols)), sympy.Integer(view.storage_offset()))


def strided(base, axes, row, offset):
    sizes, strides = ([int(each) for each in values] for values in ([axis.extent for axis in axes], row))
    return torch.as_strided(base, sizes, strides, int(offset))


def random_base():
    return torch.arange(2 * 3 * 4 * 5 * 6).view(random.choice([(720,), (24, 30), (2, 3, 4, 5, 6), (6, 120), (8, 9, 10)]))


def count(long):
    return LONG if long else CASES


def test_an_index_of_a_view_is_an_offset_and_strides(long, seed):
    random.seed(seed)
    for _ in range(count(long)):
        base = random_base()
        view = random_view(base)
        digits = symbols_of(view.shape, "x", "p")
        offset, use = affine(index_of(view, digits), digits)
        axes, (row,) = merge(*split([use], digits, {"x": sympy.Integer(view.numel())}, FACTS), FACTS)
        assert math.prod(int(axis.extent) for axis in axes) == view.numel()
        assert torch.equal(strided(base, axes, row, offset).flatten(), view.flatten())


def test_several_views_of_a_shape_share_axes(long, seed):
    """Each view has the points of one kernel, but cut in its own way, as after a reshape."""
    random.seed(seed)
    done = 0
    while done < count(long):
        views, digits, uses, offsets = [], {}, [], []
        size = random.choice([24, 36, 60, 120])
        for k in range(random.randint(2, 4)):
            shape, rest = [], size
            while rest > 1 and len(shape) < 3:
                shape.append(random.choice(divisors(rest)))
                rest //= shape[-1]
            view = torch.arange(2 * size).view(2, size)[random.randrange(2)].view(*shape, rest)
            view = view.permute(random.sample(range(view.dim()), view.dim()))
            own = symbols_of(view.shape, "x", f"v{k}_")
            digits |= own
            offset, use = affine(index_of(view, own), own)
            views.append(view)
            uses.append(use)
            offsets.append(offset)
        made = split(uses, digits, {"x": sympy.Integer(size)}, FACTS)
        if made is None:
            continue  # these cut the points at places that do not divide one another
        done += 1
        for axes, rows in (made, merge(*made, FACTS)):
            assert math.prod(int(axis.extent) for axis in axes) == size
            assert all(axis.extent != 1 for axis in axes)
            for view, row, offset in zip(views, rows, offsets):
                assert torch.equal(strided(torch.arange(2 * size), axes, row, offset).flatten(), view.flatten())


def test_points_and_reduced_elements_stay_apart(long, seed):
    random.seed(seed)
    for _ in range(count(long)):
        base = random_base()
        view = random_view(base)
        cut = random.randint(0, view.dim())
        points, sums = view.shape[:cut], view.shape[cut:]
        digits = symbols_of(points, "x", "p") | symbols_of(sums, "r0_", "s")
        offset, use = affine(index_of(view, digits), digits)
        sizes = {"x": sympy.Integer(math.prod(points)), "r0_": sympy.Integer(math.prod(sums))}
        axes, (row,) = merge(*split([use], digits, sizes, FACTS), FACTS)
        assert [axis.space for axis in axes] == sorted((axis.space for axis in axes), reverse=True)
        for space, extent in sizes.items():
            assert math.prod(int(axis.extent) for axis in axes if axis.space == space) == extent
        assert torch.equal(strided(base, axes, row, offset).flatten(), view.flatten())


def test_merged_axes_are_as_few_as_torch_finds():
    x, y = (sympy.Symbol(name, integer=True) for name in "xy")
    digits = {x: Digit("x", sympy.Integer(6), sympy.Integer(4)), y: Digit("x", sympy.Integer(1), sympy.Integer(6))}
    sizes = {"x": sympy.Integer(24)}
    contiguous = split([{x: sympy.Integer(6), y: sympy.Integer(1)}], digits, sizes, FACTS)
    assert merge(*contiguous, FACTS) == ([Axis("x", sympy.Integer(1), sympy.Integer(24))], [[1]])
    gaps = split([{x: sympy.Integer(8), y: sympy.Integer(1)}], digits, sizes, FACTS)
    assert [int(axis.extent) for axis in merge(*gaps, FACTS)[0]] == [4, 6]
    broadcast = split([{x: sympy.Integer(1)}, {x: sympy.Integer(6), y: sympy.Integer(1)}], digits, sizes, FACTS)
    assert merge(*broadcast, FACTS)[1] == [[1, 0], [6, 1]]


def test_sizes_that_vary_stay_symbols():
    class Varying(Facts):
        def hint(self, expression):
            return int(sympy.sympify(expression).subs({n: 7}))

        def at_most(self, a, b):
            return bool(sympy.simplify(b / a).subs({n: 7}) >= 1)

        def is_multiple(self, a, b):
            return sympy.denom(sympy.simplify(a / b)) == 1

    n = sympy.Symbol("n", integer=True, positive=True)
    x, y = (sympy.Symbol(name, integer=True) for name in "xy")
    digits = {x: Digit("x", n, sympy.Integer(5)), y: Digit("x", sympy.Integer(1), n)}
    offset, use = affine(3 * n + x * n + y, digits)
    assert offset == 3 * n
    axes, rows = merge(*split([use], digits, {"x": 5 * n}, Varying()), Varying())
    assert [axis.extent for axis in axes] == [5 * n] and rows == [[1]]
    axes, rows = merge(*split([{x: sympy.Integer(1), y: sympy.Integer(5)}], digits, {"x": 5 * n}, Varying()), Varying())
    assert [axis.extent for axis in axes] == [5, n] and rows == [[1, 5]]


@pytest.mark.parametrize("text", ["x*y", "x**2", "Mod(x, 3)", "tmp0 + x", "floor(x/2)"])
def test_an_index_that_is_not_affine_has_no_strides(text):
    x, y = (sympy.Symbol(name, integer=True) for name in "xy")
    assert affine(sympy.sympify(text, {"x": x, "y": y}), {x, y}) is None


def test_cuts_that_do_not_divide_one_another_have_no_axes():
    x, y = (sympy.Symbol(name, integer=True) for name in "xy")
    digits = {x: Digit("x", sympy.Integer(4), sympy.Integer(6)), y: Digit("x", sympy.Integer(6), sympy.Integer(4))}
    assert split([{x: sympy.Integer(1)}, {y: sympy.Integer(1)}], digits, {"x": sympy.Integer(24)}, FACTS) is None
