"""Attention whose operands torch's fused forms do not take: it becomes ours all the same, with its gradient."""

import pytest
import tile_ops  # noqa: F401 registers the backend
import torch
import torch.nn.functional as F
from combinations import by_turns
from numerics import check_call
from test_attention_patterns import INFERENCE, NOTHING, TRAINING, agrees, calls_in, compiled, no_caches, tensors  # noqa: F401
from tile_ops._compile import attention_inputs, patterns
from tile_ops._compile.active import Compile
from tile_ops._compile.dynamo_graph import arguments, example
from torch._inductor.decomposition import select_decomp_table
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

WAYS = {"inference": False, "training": True}
TRAINS = pytest.mark.parametrize("trains", WAYS.values(), ids=WAYS)
aten = torch.ops.aten


# Masks whose keys do not lie side by side, as functions of (batch, rows, keys, device).
MASKS = {
    "rows of nothing": lambda b, q, k, device: (torch.arange(q, device=device)[None, None, :, None] >= 0).expand(b, -1, -1, k),
    "some rows": lambda b, q, k, device: (torch.arange(q, device=device)[None, None, :, None] % 3 > 0).expand(b, -1, -1, k),
    "a number": lambda b, q, k, device: torch.ones(1, 1, dtype=torch.bool, device=device).expand(q, k),
    "transposed": lambda b, q, k, device: (torch.arange(k * q, device=device) % 5 > 0).view(k, q).t(),
    "every second": lambda b, q, k, device: (torch.arange(2 * q * k, device=device) % 7 > 1).view(q, 2 * k)[:, ::2],
    "floats": lambda b, q, k, device: torch.sin(torch.arange(b * k * q, device=device).float()).view(b, 1, k, q).mT,
}


@pytest.mark.parametrize("name, shape, trains", by_turns(MASKS.keys(), [(40, 37), (33, 1), (1, 21), (1, 1)], WAYS, kept=2))
def test_keys_of_a_mask_need_not_lie_side_by_side(name, shape, trains):
    def function(query, key, value):
        mask = MASKS[name](2, *shape, query.device)
        if mask.is_floating_point():
            mask = mask.to(query.dtype)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=0.4)

    agrees(function, tensors(4, 4, *shape, 16, trains=trains), TRAINING if trains else INFERENCE)


@TRAINS
def test_heads_of_groups_may_have_a_mask(trains):
    def function(query, key, value, mask):
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, enable_gqa=True)

    mask = torch.rand(2, 1, 33, 40) > 0.3
    agrees(function, (*tensors(6, 2, 33, 40, 16, torch.bfloat16, trains), mask), TRAINING if trains else INFERENCE)


@TRAINS
def test_heads_of_groups_may_be_causal_with_more_keys(trains):
    def function(query, key, value):
        return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)

    agrees(function, tensors(4, 2, 33, 40, 16, torch.bfloat16, trains), TRAINING if trains else INFERENCE)


def batches(count, rows, keys, depth, trains=True, dtype=torch.float32):
    return [torch.randn(count, length, depth, dtype=dtype).requires_grad_(trains) for length in (rows, keys, keys)]


@pytest.mark.parametrize(
    "mask, trains", by_turns(["none", "causal", "matrix", "one a batch", "of all batches", "floats"], WAYS)
)
def test_three_dimensions_become_ours(mask, trains):
    given = {
        "matrix": torch.rand(40, 37) > 0.3,
        "one a batch": torch.rand(5, 40, 37) > 0.3,
        "of all batches": torch.rand(1, 40, 37) > 0.3,
        "floats": torch.randn(5, 40, 37),
    }.get(mask)

    def function(query, key, value, given):
        out = F.scaled_dot_product_attention(query, key, value, attn_mask=given, is_causal=mask == "causal", scale=0.3)
        return out.view(-1, out.shape[-1]) * 2

    agrees(function, (*batches(5, 40, 37, 16, trains), given), TRAINING if trains else INFERENCE)


@pytest.mark.parametrize("shape", [(0, 3, 4, 8), (2, 0, 4, 8), (2, 3, 0, 8), (1, 1, 1, 1), (3, 1, 9, 8)], ids=str)
def test_three_dimensions_of_any_size(shape):
    args = batches(*shape)
    check_call(compiled(F.scaled_dot_product_attention), F.scaled_dot_product_attention, args)


def test_batches_that_broadcast_stay_as_they_are():
    args = (batches(5, 9, 7, 8)[0], *batches(1, 9, 7, 8)[1:])
    check_call(compiled(F.scaled_dot_product_attention), F.scaled_dot_product_attention, args)


def test_dropout_stays_as_it_is():
    def function(query, key, value):
        return F.scaled_dot_product_attention(query, key, value, dropout_p=0.5)

    assert calls_in(compiled(function), batches(2, 9, 7, 8))[0] == NOTHING


def test_three_dimensions_of_lengths_that_vary():
    torch._dynamo.reset()
    count = torch._dynamo.testing.CompileCounterWithBackend("tile")

    def function(query, key, value):
        mask = (torch.arange(query.shape[1], device=query.device)[:, None] >= 0).expand(-1, key.shape[1])
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)

    fast = torch.compile(function, backend=count, dynamic=True)
    for length in (37, 40, 129):
        check_call(fast, function, batches(4, length, length, 16))
    assert count.frame_count == 1


def test_attention_in_a_vmap_stays_as_it_is():
    def one(query, key, value):
        return F.scaled_dot_product_attention(query, key, value)

    def function(*args):
        return torch.vmap(one)(*args)

    args = [torch.randn(3, 2, 9, 8) for _ in range(3)]
    check_call(compiled(function), function, args)


def test_an_exported_program_has_three_dimensions():
    class Model(torch.nn.Module):
        def forward(self, query, key, value):
            return F.scaled_dot_product_attention(query, key, value, is_causal=True)

    args = batches(3, 20, 20, 16, trains=False)
    program = torch.export.export(Model(), tuple(args)).module()
    assert calls_in(compiled(program), args)[0] == INFERENCE
    check_call(compiled(program), Model(), args)


# A GPU's choice of a form needs a GPU; that its operands fit is seen without.


def changed(function, *tensors):
    """Returns Dynamo's graph of a function as for a GPU, after the change of its operands."""
    found = []

    def catch(gm, _):
        found.append(gm)
        return gm.forward

    torch._dynamo.reset()
    torch.compile(function, backend=catch, dynamic=False)(*tensors)
    (gm,) = found
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    for node in gm.graph.nodes:
        value = example(node)
        if isinstance(value, torch.Tensor):
            layout = value.contiguous() if node.target in attention_inputs.CALLS else value  # torch's written out product
            with mode:
                node.meta["example_value"] = torch.empty_strided(
                    layout.shape, layout.stride(), dtype=value.dtype, device="cuda"
                )
    attention_inputs.take_over(gm, {"fallback": "error"})
    return gm


def call_of(gm):
    return next(node for node in gm.graph.nodes if node.target in attention_inputs.CALLS)


def argument(gm, name):
    """Returns the fake tensor that the call gets, or what else it gets."""
    return example(arguments(call_of(gm), attention_inputs.SCHEMA)[name])


@pytest.mark.parametrize("shape", [(40, 37), (33, 1), (1, 1)], ids=str)
@pytest.mark.parametrize("name", MASKS)
def test_a_gpu_gets_a_dense_mask_with_the_same_numbers(name, shape):
    def function(query, key, value):
        return F.scaled_dot_product_attention(query, key, value, attn_mask=MASKS[name](2, *shape, query.device))

    args = [torch.randn(2, 4, length, 16) for length in (shape[0], shape[1], shape[1])]
    gm = changed(function, *args)
    mask = argument(gm, "attn_mask")
    assert mask.stride(-1) == 1
    torch.testing.assert_close(gm(*args)[0], function(*args))


def test_a_mask_that_is_repeated_is_stored_once():
    def function(query, key, value):
        mask = (torch.arange(query.shape[2], device=query.device)[None, None, :, None] >= 0).expand(2, 4, -1, key.shape[2])
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)

    gm = changed(function, *[torch.randn(2, 4, 17, 16) for _ in range(3)])
    mask = argument(gm, "attn_mask")
    assert mask.shape == (2, 4, 17, 17) and mask.stride() == (0, 0, 17, 1)


@pytest.mark.parametrize("masked", [False, True], ids=["causal", "masked"])
def test_a_gpu_gets_repeated_heads(masked):
    def function(query, key, value, mask):
        return F.scaled_dot_product_attention(
            query, key, value, mask if masked else None, is_causal=not masked, enable_gqa=True
        )

    args = [torch.randn(2, heads, length, 16) for heads, length in ((6, 33), (2, 40), (2, 40))]
    args.append(torch.rand(33, 40) > 0.3)
    gm = changed(function, *args)
    assert argument(gm, "enable_gqa") is False
    assert [argument(gm, name).shape[1] for name in ("query", "key", "value")] == [6, 6, 6]
    torch.testing.assert_close(gm(*args[: 3 + masked])[0], function(*args))


@pytest.mark.parametrize("enable_gqa", [False, True])
def test_a_gpu_keeps_operands_that_fit(enable_gqa):
    def function(query, key, value):
        return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=enable_gqa)

    gm = changed(function, *[torch.randn(2, heads, 33, 16) for heads in ((6, 2, 2) if enable_gqa else (2, 2, 2))])
    assert [node.op for node in gm.graph.nodes].count("call_method") == 0


@pytest.mark.parametrize(
    "use, restored",
    [
        (lambda x: x.transpose(1, 2).contiguous().view(2, 17, -1), False),
        (lambda x: x.reshape(2, -1, 17, 16).transpose(1, 2).contiguous(), False),
        (lambda x: F.linear(x.transpose(1, 2).reshape(2, 17, -1), torch.ones(3, 64)), False),
        (lambda x: x.view(2, -1), True),
        (lambda x: x.transpose(1, 2).reshape(2, 17, -1), True),
        (lambda x: x + 1, True),
        (lambda x: (x.contiguous(), x + 1), True),
    ],
    ids=["copied", "reshaped and copied", "multiplied", "viewed", "reshaped", "added", "read twice"],
)
def test_strides_are_restored_where_something_may_read_them(use, restored):
    def function(query, key, value):
        return use(F.scaled_dot_product_attention(query, key, value, attn_mask=MASKS["some rows"](2, 17, 17, query.device)))

    args = [torch.randn(2, 4, 17, 16) for _ in range(3)]
    gm = changed(function, *args)
    (user,) = call_of(gm).users
    assert (user.target == "contiguous") == restored
    results = gm(*args)
    torch.testing.assert_close(results if len(results) > 1 else results[0], function(*args))


def test_the_mask_of_a_vision_model_is_left_out_on_a_gpu():
    """Models of transformers compare one index of a query and expand that to all keys."""

    def both(query, key, value, grad_out):
        mask = (torch.arange(37)[None, None, :, None] >= 0).expand(2, -1, -1, 37)
        mask = mask.narrow(0, 0, 1).clone(memory_format=torch.contiguous_format).expand_as(mask)
        zero, infinity = (aten.scalar_tensor(each, dtype=torch.bfloat16) for each in (0.0, -float("inf")))
        bias = aten.slice(aten.constant_pad_nd(torch.where(mask, zero, infinity), [0, 3]), -1, 0, 37).expand(2, 4, 37, 37)
        out, lse, *rest = aten._scaled_dot_product_efficient_attention(query, key, value, bias, True, 0.0, False)
        saved = (bias, out, lse, *rest[:2], 0.0, [True, True, True, False], False)
        return (out, *aten._scaled_dot_product_efficient_attention_backward(grad_out, query, key, value, *saved)[:3])

    with FakeTensorMode(allow_non_fake_inputs=True):
        args = [torch.empty(2, 4, 37, 16, dtype=torch.bfloat16) for _ in range(4)]
        gm = make_fx(both, decomposition_table=select_decomp_table())(*args)
    compile = Compile({"attention": "tile"})
    patterns.replace_all(gm.graph, compile)
    assert compile.kernels == ["attention"] and not compile.reasons
    calls = [node for node in gm.graph.nodes if "tile." in str(node.target)]
    assert len(calls) == 2 and all(call.kwargs["attn_bias"] is None for call in calls)
    assert not {node.name.split("_")[0] for node in gm.graph.nodes} & {"iota", "where", "ge", "expand"}
