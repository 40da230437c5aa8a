"""Two products of one left side become one call where elementwise operators read both, with gradients and other readers."""

import compiled_calls
import pytest
import tile_ops
import torch
import torch.nn.functional as F
from combinations import by_turns
from numerics import check_call
from tile_ops._compile import pairs
from tile_ops._compile.active import Compile
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

aten = torch.ops.aten
OURS = {"products": "tile"}
WAYS = {"inference": False, "training": True}


@pytest.fixture(autouse=True)
def no_caches(uncached):
    """Code that is found in a cache is not shown."""


def calls(function, *arguments, **options):
    """Returns the epilogues of the products of the forward graph."""
    tile_ops.compile_report(reset=True)
    compiled_calls.compiled(function, options=OURS, **options)(*arguments)
    graph = tile_ops.compile_report(reset=True).graphs[0]
    assert graph.computed_by == "tile", graph
    return [each.epilogue for each in graph.products for _ in range(each.launches)]


def agrees(function, *arguments, **options):
    check_call(compiled_calls.compiled(function, options=OURS, **options), function, arguments)


def tensors(*shapes, dtype=torch.float32, trains=True):
    return [torch.randn(shape).to(dtype).requires_grad_(trains) for shape in shapes]


def swiglu(x, gate, up):
    return F.silu(x @ gate) * (x @ up)


def geglu(x, gate, up, b, c):
    return F.gelu(F.linear(x, gate.t(), b)) * F.linear(x, up.t(), c)


def kept(x, gate, up):
    """Others read the products, too."""
    one, two = x @ gate, x @ up
    return F.silu(one) * two, one.sum(0), two


SHAPES = [(33, 20, 45), (1, 1, 1), (2, 64, 70), (130, 7, 1), (1, 300, 257)]


DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize(
    "function, dtype, trains", by_turns({"swiglu": swiglu, "geglu": geglu, "kept": kept}, DTYPES, WAYS, kept=2)
)
def test_a_pair_is_one_call(function, dtype, trains):
    rows, depth, columns = SHAPES[0]
    shapes = [(3, rows, depth), (depth, columns), (depth, columns), (columns,), (columns,)]
    arguments = tensors(*shapes[: 5 if function is geglu else 3], dtype=dtype, trains=trains)
    (text,) = calls(function, *arguments)
    assert "acc2" in text and text.count(";") >= 3
    agrees(function, *arguments)


@pytest.mark.parametrize("shape, trains", by_turns(SHAPES[1:], WAYS))
def test_shapes(shape, trains):
    rows, depth, columns = shape
    arguments = tensors((rows, depth), (depth, columns), (depth, columns), (columns,), (columns,), trains=trains)
    assert 1 in shape or len(calls(geglu, *arguments)) == 1  # torch computes products of one row or column otherwise
    agrees(geglu, *arguments)


def test_no_rows():
    arguments = tensors((0, 8), (8, 5), (8, 5))
    agrees(swiglu, *arguments)


def test_any_number_of_rows():
    run = compiled_calls.compiled(swiglu, options=OURS, dynamic=True)
    gate, up = tensors((20, 45), (20, 45))
    for rows in (7, 2, 64, 129):
        check_call(run, swiglu, (*tensors((rows, 20)), gate, up))


def test_batches():
    def function(x, gate, up):
        return torch.bmm(x, gate).sigmoid() * torch.bmm(x, up) - 1

    arguments = tensors((3, 33, 20), (3, 20, 45), (3, 20, 45))
    assert len(calls(function, *arguments)) == 1
    agrees(function, *arguments)


def test_weights_of_any_strides():
    x, gate, up = tensors((33, 20), (20, 45), (45, 20))
    function = lambda x, gate, up: F.silu(x @ gate) * (x @ up.t())  # noqa: E731
    assert len(calls(function, x, gate, up)) == 1
    agrees(function, x, gate, up)


def test_a_weight_that_the_graph_computes():
    def function(x, gate, up, scale):
        one = x @ gate
        return one.relu() * (x @ (up * scale.exp())) + one

    arguments = tensors((33, 20), (20, 45), (20, 45), (45,))
    assert len(calls(function, *arguments)) == 1
    agrees(function, *arguments)


def test_several_layers_and_three_products():
    def function(x, weights):
        for gate, up, third, down in weights:
            x = x + (F.silu(x @ gate) * (x @ up) + (x @ third).tanh()) @ down
        return x

    weights = [tensors((20, 45), (20, 45), (20, 45), (45, 20)) for _ in range(2)]
    texts = calls(function, *tensors((33, 20)), weights)
    assert sum("acc2" in text for text in texts) == 2 and len(texts) == 6
    agrees(function, *tensors((33, 20)), weights)


def test_an_epilogue_that_is_no_text_reads_both_products():
    def function(x, gate, up):
        return torch.where(torch.arange(45, device=x.device) % 2 == 0, x @ gate, x @ up).softmax(-1)

    arguments = tensors((33, 20), (20, 45), (20, 45))
    agrees(function, *arguments)


def test_in_a_graph_that_others_run():
    """The pair stays inside of graphs whose code is ours."""
    x, gate, up = tensors((5, 7), (7, 3), (7, 3), trains=False)
    torch.testing.assert_close(pairs.two_products(x, gate, up), torch.stack([x @ gate, x @ up]))


STAY = {
    "other left sides": lambda x, y, a, b: (x @ a) * (y @ b),
    "one weight depends on the other product": lambda x, y, a, b: (lambda h: h.relu() * (x @ (b + h[:20, :]))[:, :45])(x @ a),
    "other widths": lambda x, y, a, b: (x @ a)[:, :5] * (x @ b[:, :5]),
    "nothing reads both": lambda x, y, a, b: ((x @ a).relu(), (x @ b).relu()),
    "a sum reads both": lambda x, y, a, b: torch.cat([x @ a, x @ b]).sum(0),
}


@pytest.mark.parametrize("name", STAY)
def test_what_stays(name):
    arguments = tensors((33, 20), (33, 20), (20, 45), (20, 45))
    assert not any("acc2" in text for text in calls(STAY[name], *arguments))
    agrees(STAY[name], *arguments)


def joined(function, *shapes, options=OURS):
    """Returns how many pairs of a graph are joined, and the targets of its calls."""
    with FakeTensorMode() as mode:
        gm = make_fx(function)(*(mode.from_tensor(torch.empty(shape)) for shape in shapes))
    count = pairs.join_all(gm, Compile(options))
    return count, [node.target for node in gm.graph.nodes if node.op == "call_function"]


SQUARE = [(8, 8)] * 3


def test_the_graph_computes_a_later_weight_first():
    count, targets = joined(lambda x, a, b: x.mm(a).relu() * x.mm(b.t().exp()), *SQUARE)
    assert count == 1
    assert targets[:4] == [aten.t.default, aten.exp.default, pairs.two_products, aten.select.int]
    assert aten.mm.default not in targets


def test_equal_views_are_one_left_side():
    count, _ = joined(
        lambda x, a, b: x.view(8, 8).mm(a).view(4, 16).relu() * x.view(8, 8).mm(b).view(4, 16), (64,), *SQUARE[1:]
    )
    assert count == 1
    count, _ = joined(lambda x, a, b: x.view(8, 8).mm(a) * x.view(8, 8).t().mm(b), (64,), *SQUARE[1:])
    assert count == 0


def test_biases_are_added_behind_both():
    count, targets = joined(lambda x, a, b, c: torch.addmm(c, x, a) * torch.addmm(c, x, b), *SQUARE, (8,))
    assert count == 1 and targets.count(aten.add.Tensor) == 2


def test_scaled_biases_stay():
    assert joined(lambda x, a, b, c: torch.addmm(c, x, a, beta=2) * torch.addmm(c, x, b), *SQUARE, (8,))[0] == 0


def test_nothing_is_moved_across_a_write():
    def function(x, a, b):
        one = x.mm(a)
        x.add_(1)
        return one * x.mm(b)

    assert joined(function, *SQUARE)[0] == 0


def test_random_numbers_are_drawn_in_their_order():
    assert joined(lambda x, a, b: x.mm(a).bernoulli() * x.mm(b.bernoulli()), *SQUARE)[0] == 0


def test_choice_decides():
    assert joined(lambda x, a, b: x.mm(a) * x.mm(b), *SQUARE, options={})[0] == 0
    assert joined(lambda x, a, b: x.mm(a) * x.mm(b), *SQUARE, options={"products": "torch"})[0] == 0
    double = FakeTensorMode()
    with double:
        gm = make_fx(lambda x, a, b: x.mm(a) * x.mm(b))(*(torch.empty(8, 8, dtype=torch.float64) for _ in range(3)))
    assert pairs.join_all(gm, Compile(OURS)) == 0
