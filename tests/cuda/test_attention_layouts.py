"""Attention of strided tensors, with the kernels that a GPU gets: what no tensor map describes is copied, so that the same
kernels run as for contiguous tensors, with the same results."""

import pytest
import torch
from attention_reference import inputs, peer
from emulate_operators import Emulation
from numerics import check_call
from tile_ops import _C

attention = torch.ops.tile.attention


def contiguous(x):
    return x.detach().contiguous().requires_grad_(x.requires_grad)


def spread(x):
    """Every second element of each axis."""
    memory = torch.full([2 * extent for extent in x.shape], torch.nan, dtype=x.dtype, device=x.device)
    view = memory[:, ::2, ::2, ::2][: x.shape[0]]
    view.copy_(x.detach())
    return view.requires_grad_(x.requires_grad)


def misaligned(x):
    memory = torch.empty(x.numel() + 1, dtype=x.dtype, device=x.device)
    return memory[1:].view(x.shape).copy_(x.detach()).requires_grad_(x.requires_grad)


def transposed(x):
    return x.detach().transpose(1, 2).contiguous().transpose(1, 2).requires_grad_(x.requires_grad)


def column_major(x):
    return x.detach().mT.contiguous().mT.requires_grad_(x.requires_grad)


def expanded(x):
    return x.detach()[:1, :1].expand(x.shape).requires_grad_(x.requires_grad)


def kernels(layout, rows, keys, depth=64, batch=2, key_heads=2, grad_layout=contiguous, **options):
    """(name, path, text) of the kernels of a call and of its gradients; layout: of query, key and value."""
    q, k, v = (
        torch.empty(batch, heads, length, depth, dtype=torch.bfloat16, device="meta", requires_grad=True)
        for heads, length in ((4, rows), (key_heads, keys), (key_heads, keys))
    )

    def call():
        given = [layout(x) for x in (q, k, v)]
        out = attention(*given, **options)[0]
        torch.autograd.grad(out, given, grad_layout(torch.empty_like(out)))

    return [(row["kernel"], row["path"], row["text"]) for row in _C.inspect("usual", 90, 0, call)]


def paths(*args, **options):
    return [path for name, path, _ in kernels(*args, **options) if name.endswith(("forward", "transposed", "query", "keys"))]


@pytest.mark.parametrize("layout", [spread, misaligned, transposed, expanded])
def test_strided_tensors_run_the_kernels_of_contiguous_ones(layout):
    expected = kernels(contiguous, 300, 260)
    assert [path for _, path, _ in expected] == ["wgmma", "", "wgmma", ""]
    assert kernels(layout, 300, 260) == kernels(contiguous, 300, 260, grad_layout=layout) == expected


@pytest.mark.parametrize("keys", [90, 320])  # columns of 90 begin anywhere, those of 320 at multiples of 16 bytes
def test_columns_run_on_warpgroup_instructions(keys):
    assert paths(column_major, keys, keys, grad_layout=column_major) == ["wgmma", "wgmma"]


def test_head_dims_that_are_not_whole_vectors_run_on_warpgroup_instructions():
    for depth in (1, 59, 111):
        assert paths(contiguous, 70, 90, depth) == ["wgmma", "wgmma"]


def test_what_would_not_pay_is_not_copied():
    assert paths(spread, 1, 4096) == paths(spread, 64, 4096) == ["mma.sync", "mma.sync"]
    assert paths(spread, 64, 4096, key_heads=1) == ["wgmma", "wgmma"]  # a head of keys has four of queries


def test_options_do_not_keep_tensors_from_being_copied():
    seed = torch.empty(2, dtype=torch.int64, device="meta")
    for options in ({"dropout_p": 0.1, "seed": seed}, {"softcap": 30.0}):
        assert paths(spread, 256, 256, **options) == paths(contiguous, 256, 256, **options) == ["wgmma", "wgmma"]


def test_copies_have_a_bound():
    """At most 40 MiB are copied: three tensors of the forward have 32 MiB, and the four of the gradient 48."""
    assert paths(spread, 8192, 8192, batch=4, grad_layout=spread) == ["wgmma", "mma.sync"]
    assert paths(spread, 8192, 8192, batch=6, grad_layout=spread) == ["mma.sync", "mma.sync"]


@pytest.mark.parametrize("layout", [spread, column_major])
def test_results_are_those_of_contiguous_tensors(layout):
    args = [x.detach() for x in inputs(1, 2, 1, 128, 192, 64, dtype=torch.bfloat16)]
    emulation = Emulation(wgmma=True)
    operator = emulation.operator(attention)
    results = [operator(*map(each, args), is_causal=True) for each in (layout, contiguous)]
    assert [program["path"] for program in emulation.programs] == ["wgmma", "wgmma"]
    assert all(torch.equal(*pair) for pair in zip(*results))


@pytest.mark.parametrize("layout, depth", [(spread, 40), (contiguous, 111)])
def test_values_and_gradients(layout, depth):
    args = [layout(x) for x in inputs(1, 2, 1, 70, 150, depth, dtype=torch.bfloat16)]
    emulation = Emulation(wgmma=True)
    grad = layout(torch.randn(1, 2, 70, depth).bfloat16())
    check_call(emulation.operator(attention), peer, args, {"is_causal": True}, grad_outputs=[grad, torch.zeros(1, 2, 70)])
    assert [program["path"] for program in emulation.programs if program["path"]] == ["wgmma", "wgmma"]
