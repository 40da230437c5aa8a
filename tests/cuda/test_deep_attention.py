"""Gradients of attention of head dims above 128: two groups of warps divide the columns of the gradients, and one launch
computes all three of them."""

import pytest
import tile_ops
import torch
from attention_reference import inputs, peer
from emulate_operators import Emulation
from numerics import check_call

TRANSPOSED, QUERY = "kernel_attention_backward_transposed", "kernel_attention_backward_query"
long = pytest.mark.long


def paths_of_gradients(emulation):
    return {name: path for name, path in emulation.paths().items() if "backward" in name}


@pytest.mark.parametrize(
    "depth, dtype, options",
    [
        pytest.param(256, torch.bfloat16, {"is_causal": True}, marks=pytest.mark.slow),
        pytest.param(256, torch.float16, {}, marks=long),
        pytest.param(192, torch.bfloat16, {"window": (40, 10)}, marks=long),
        pytest.param(160, torch.bfloat16, {"is_causal": True, "causal_align": "bottom_right"}, marks=long),
        pytest.param(136, torch.float16, {}, marks=long),
    ],
    ids=str,
)
def test_one_launch(depth, dtype, options):
    emulation = Emulation(wgmma=True)
    check_call(emulation.operator(torch.ops.tile.attention), peer, inputs(1, 2, 1, 70, 150, depth, dtype=dtype), options)
    assert paths_of_gradients(emulation) == {TRANSPOSED: "wgmma"}


@pytest.mark.long
@pytest.mark.usefixtures("deterministic")
@pytest.mark.parametrize("depth", (256, 192))
def test_a_fixed_order_takes_two_launches(depth):
    emulation = Emulation(wgmma=True)
    args = inputs(1, 2, 2, 130, 65, depth, dtype=torch.bfloat16)
    check_call(emulation.operator(torch.ops.tile.attention), peer, args, {"is_causal": True})
    assert paths_of_gradients(emulation) == {TRANSPOSED: "wgmma", QUERY: "wgmma"}


@pytest.mark.long
def test_bits_of_a_mask():
    emulation = Emulation(wgmma=True)
    mask = torch.rand(1, 2, 140, 300) < 0.5
    args = inputs(1, 2, 1, 140, 300, 256, dtype=torch.bfloat16)
    check_call(emulation.operator(torch.ops.tile.attention), peer, args, {"attn_bias": mask})
    assert paths_of_gradients(emulation) == {TRANSPOSED: "wgmma"}


@pytest.mark.long
def test_values_of_another_depth():
    emulation = Emulation(wgmma=True)
    q, k, v = inputs(1, 2, 1, 100, 90, 256, dtype=torch.bfloat16)
    value = v.detach()[..., :72].clone().requires_grad_()
    check_call(emulation.operator(torch.ops.tile.attention), peer, (q, k, value), {})
    assert paths_of_gradients(emulation) == {TRANSPOSED: "wgmma"}


def launched(wanted):
    """The kernels for products, and their tiles' paths, of the gradients of these of query, key and value."""
    q, k, v = (
        torch.empty(1, 8, 4096, 256, dtype=torch.bfloat16, device="meta", requires_grad=name in wanted) for name in "qkv"
    )

    def gradients(q, k, v):
        out = torch.ops.tile.attention(q, k, v)[0]
        return torch.autograd.grad(out, [x for x in (q, k, v) if x.requires_grad], out.detach())

    rows = tile_ops.inspect(gradients, q, k, v, what="resources", arch=90)
    return [
        (row["kernel"].removeprefix("attention_backward_"), row["path"], row["spill_stores"]) for row in rows if row["path"]
    ][1:]


@pytest.mark.slow  # compiles the kernels
@pytest.mark.parametrize(
    "wanted, kernels",
    [("qkv", ["transposed"]), ("kv", ["transposed"]), ("v", ["transposed"]), ("q", ["query"])],
    ids=["qkv", "kv", "v", "q"],
)
def test_launches_of_some_gradients(wanted, kernels):
    assert launched(wanted) == [(name, "wgmma", 0) for name in kernels]


@pytest.mark.long
def test_a_gradient_of_key_without_one_of_value():
    emulation = Emulation(wgmma=True)
    q, k, v = inputs(1, 2, 1, 70, 150, 256, dtype=torch.bfloat16)
    check_call(emulation.operator(torch.ops.tile.attention), peer, (q, k, v.detach()), {"is_causal": True})


@pytest.mark.parametrize("arch", [86, 120])
@pytest.mark.parametrize("depth", [128, 256])
def test_float32_fits_chips_with_less_shared_memory(arch, depth):
    """A kernel that needs more shared memory than the chip has would be an error."""
    x = torch.empty(2, 4, 256, depth, device="meta", requires_grad=True)

    def gradients():
        out = torch.ops.tile.attention(x, x, x)[0]
        torch.autograd.grad(out, x, out)

    text = tile_ops.inspect(gradients, what="cuda", arch=arch)
    assert "attention_forward" in text and "attention_backward" in text
