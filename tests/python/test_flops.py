"""FlopCounterMode counts our operators as torch's functions that compute the same."""

import subprocess
import sys

import operators
import pytest
import tile_ops
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode, flop_registry, sdpa_backward_flop_count, sdpa_flop_count

tile_ops.register_flop_formulas()  # done by the import where triton is not installed

ops = torch.ops.tile


def flops(function, *args):
    with FlopCounterMode(display=False) as counter:
        function(*args)
    return counter.get_total_flops()


def leaves(*shapes):
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


def repeated(query, shape):
    """Returns the shape with one key head for each query head: torch 2.11's formulas do not know shared heads."""
    return (*shape[:1], query[1], *shape[2:])


def torchs_count(query, key, value):
    return sdpa_flop_count(query, repeated(query, key), repeated(query, value))


def torchs_backward_count(grad_out, query, key, value):
    return sdpa_backward_flop_count(grad_out, query, repeated(query, key), repeated(query, value))


def both(function):
    """Forward and backward."""
    return lambda *args: function(*args).sum().backward()


@pytest.mark.parametrize(
    "x, y", [((5, 7), (7, 3)), ((2, 5, 7), (2, 7, 3)), ((2, 1, 5, 7), (4, 7, 3)), ((4, 5, 7), (7, 3)), ((0, 7), (7, 3))]
)
@pytest.mark.parametrize("grad", [(False, False), (True, False), (False, True), (True, True)])
def test_matmul(x, y, grad):
    x, y = (torch.randn(shape, requires_grad=wanted) for shape, wanted in zip((x, y), grad))
    assert flops(ops.matmul, x, y) == flops(torch.matmul, x, y)
    if any(grad):
        assert flops(both(ops.matmul), x, y) == flops(both(torch.matmul), x, y)


@pytest.mark.parametrize("x, y, expected", [((7,), (7,), 14), ((5, 7), (7,), 70), ((7,), (7, 3), 42)])
def test_matmul_of_vectors(x, y, expected):
    """torch counts nothing for its dot and mv."""
    assert flops(ops.matmul, torch.randn(x), torch.randn(y)) == expected


def test_linear_with_everything():
    x, weight, bias = leaves((2, 5, 7), (3, 7), (3,))
    ours, theirs = (both(lambda *a, f=f: F.silu(f(*a))) for f in (tile_ops.linear, F.linear))
    assert flops(ours, x, weight, bias) == flops(theirs, x, weight, bias)
    assert flops(lambda *a: tile_ops.linear(*a, "silu"), x, weight, bias) == 2 * 10 * 7 * 3


@pytest.mark.parametrize("wanted", [(0, 1, 2), (0,), (1, 2), ()])
def test_gated_matmul(wanted):
    tensors = [torch.randn(shape, requires_grad=i in wanted) for i, shape in enumerate([(2, 5, 7), (7, 3), (7, 3)])]

    def theirs(x, gate, up):
        return F.silu(x @ gate) * (x @ up)

    assert flops(ops.gated_matmul, *tensors) == flops(theirs, *tensors)
    if wanted:
        assert flops(both(ops.gated_matmul), *tensors) == flops(both(theirs), *tensors)


@pytest.mark.parametrize("wanted", [(0, 1), (0,), (1,)])
def test_matmul_double_backward(wanted):
    def second(function):
        def run(x, y):
            inputs = [(x, y)[i] for i in wanted]
            gradients = torch.autograd.grad(function(x, y).square().sum(), inputs, create_graph=True)
            sum(each.sum() for each in gradients).backward()

        return run

    x, y = leaves((5, 7), (7, 3))
    assert flops(second(ops.matmul), x, y) == flops(second(torch.matmul), x, y)


@pytest.mark.parametrize("q, k, v", [((2, 4, 5, 8), (2, 4, 6, 8), (2, 4, 6, 8)), ((2, 4, 5, 8), (2, 2, 6, 8), (2, 2, 6, 16))])
@pytest.mark.parametrize("causal", [False, True])
def test_attention(q, k, v, causal):
    args = leaves(q, k, v)
    forward = torchs_count(q, k, v)
    assert flops(lambda *a: ops.attention(*a, is_causal=causal), *args) == forward
    with torch.no_grad():
        assert flops(lambda *a: ops.attention(*a, is_causal=causal), *args) == forward
    backward = torchs_backward_count((*q[:3], v[3]), q, k, v)
    assert flops(both(lambda *a: ops.attention(*a, is_causal=causal)[0]), *args) == forward + backward


def test_attention_on_meta_tensors_against_torchs_operator():
    q, k, v = (torch.randn(2, 4, 5, 8, device="meta") for _ in range(3))
    theirs = flops(lambda *a: torch.ops.aten._scaled_dot_product_efficient_attention(*a, None, True), q, k, v)
    assert flops(ops.attention, q, k, v) == theirs > 0


def test_attention_with_a_text_of_scores():
    shape = (2, 4, 5, 8)

    def call(*args):
        return ops._attention_with_score(*args, [], score="tanh(score)")[0]

    forward = torchs_count(shape, shape, shape)
    assert flops(call, *leaves(shape, shape, shape)) == forward
    assert flops(both(call), *leaves(shape, shape, shape)) == forward + torchs_backward_count(shape, shape, shape, shape)


def test_attention_varlen():
    lengths_q, lengths_k, heads, width = (3, 5, 1), (4, 2, 6), 4, 8
    q, k, v = leaves((9, heads, width), (12, 2, width), (12, 2, width))
    cu_q, cu_k = (torch.tensor([0, *lengths]).cumsum(0).int() for lengths in (lengths_q, lengths_k))
    shapes = [((1, heads, a, width), (1, 2, b, width)) for a, b in zip(lengths_q, lengths_k)]
    forward = sum(torchs_count(a, b, b) for a, b in shapes)
    backward = sum(torchs_backward_count(a, a, b, b) for a, b in shapes)
    varlen = ops.attention_varlen
    assert flops(varlen, q, k, v, cu_q, cu_k, 5, 6) == forward
    assert flops(both(lambda *a: varlen(*a)[0]), q, k, v, cu_q, cu_k, 5, 6) == forward + backward
    meta = [each.detach().to("meta") for each in (q, k, v, cu_q, cu_k)]
    assert flops(varlen, *meta, 5, 6) == 3 * torchs_count((1, heads, 5, width), (1, 2, 6, width), (1, 2, 6, width))


@pytest.mark.parametrize("paged", [False, True])
def test_attention_decode(paged):
    q = torch.randn(2, 4, 1, 8)
    cache = torch.randn(4, 2, 16, 8) if paged else torch.randn(2, 2, 32, 8)
    table = torch.tensor([[0, 1], [2, 3]], dtype=torch.int32) if paged else None
    lengths = torch.tensor([3, 20], dtype=torch.int32)
    expected = sum(torchs_count((1, 4, 1, 8), (1, 2, n, 8), (1, 2, n, 8)) for n in (3, 20))
    assert flops(lambda *a: ops.attention_decode(*a, block_table=table), q, cache, cache, lengths) == expected
    q, cache, lengths = (each.to("meta") for each in (q, cache, lengths))
    table = table.to("meta") if paged else None
    expected = torchs_count((2, 4, 1, 8), (2, 2, 32, 8), (2, 2, 32, 8))
    assert flops(lambda *a: ops.attention_decode(*a, block_table=table), q, cache, cache, lengths) == expected


@pytest.mark.parametrize("grad", [(False, False), (True, False), (False, True), (True, True)])
def test_linear_cross_entropy(grad):
    x, weight = (torch.randn(shape, requires_grad=wanted) for shape, wanted in zip(((6, 8), (11, 8)), grad))
    target = torch.randint(11, (6,))

    def theirs(x, weight):
        return F.cross_entropy(F.linear(x, weight), target)

    def ours(x, weight):
        return ops.linear_cross_entropy(x, weight, target)

    with torch.no_grad():
        assert flops(ours, x, weight) == flops(theirs, x, weight)
    # The forward computes the gradients that are wanted, so it counts their products.
    assert flops(ours, x, weight) == flops(theirs, x, weight) * (1 + sum(grad))
    if any(grad):
        assert flops(both(ours), x, weight) == flops(both(theirs), x, weight)


@pytest.mark.parametrize("name", operators.rows_with("flops"))
def test_flops_of_the_table(name):
    function, args, expected = operators.TABLE[name].flops()
    assert flops(function, *args) == expected


def test_every_operator_that_multiplies_is_counted():
    multiplies = {name for name in operators.all_names() if "matmul" in name or "attention" in name or "linear" in name}
    assert {name for name in multiplies if getattr(ops, name) not in flop_registry} == set()
    assert multiplies & operators.TABLE.keys() == operators.rows_with("flops").keys()


@pytest.mark.slow  # starts processes
@pytest.mark.parametrize(
    "first", ["import tile_ops, torch.utils.flop_counter as f", "import torch.utils.flop_counter as f, tile_ops"]
)
def test_registered_by_the_import(first):
    code = (
        f"import importlib.util; {first}; import torch; "
        "print(torch.ops.tile.matmul in f.flop_registry or bool(importlib.util.find_spec('triton')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


def test_a_second_registration_does_nothing():
    before = dict(flop_registry)
    tile_ops.register_flop_formulas()
    assert flop_registry == before
