"""Attention in compiled graphs: torch's forms become ours, with the gradient, where choice.py or an option wants it."""

import functools

import compiled_calls
import pytest
import torch
import torch.nn.functional as F
from attention_reference import causal_mask
from combinations import by_turns
from numerics import check, check_call
from tile_ops._compile import choice, patterns
from tile_ops._compile.active import Compile
from torch._inductor.utils import run_and_get_code
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

aten = torch.ops.aten
OURS = ("tile.attention.default", "tile._attention_saving.default", "tile.attention_backward.default")
TORCH = "aten._scaled_dot_product"
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
WAYS = {"inference": False, "training": True}
INFERENCE, TRAINING, NOTHING = (1, 0, 0), (0, 1, 1), (0, 0, 0)


@pytest.fixture(autouse=True)
def no_caches():
    with torch._inductor.config.patch(force_disable_caches=True):  # code that is found in a cache is not shown
        yield


def compiled(function, options=None, **arguments):
    return compiled_calls.compiled(function, options=options or {"attention": "tile"}, **arguments)


def calls_in(function, args):
    """Returns how often the code of a function, and of its gradient, calls each of our operators, and torch's attention."""

    def run():
        result = function(*args)
        if result.requires_grad:
            result.backward(torch.ones_like(result))

    _, codes = run_and_get_code(run)
    for each in args:
        if isinstance(each, torch.Tensor):
            each.grad = None
    code = "".join(codes)
    return tuple(code.count(f"torch.ops.{name}(") for name in OURS), code.count(f"torch.ops.{TORCH}")


def is_written_out(query, key):
    """Returns True if torch computes attention by products and a softmax, of which no call is left to replace."""
    groups = query.dtype == torch.float32 and query.shape[1] != key.shape[1]
    return query.is_cuda and (query.dtype == torch.float64 or query.shape[-1] % 4 != 0 or groups)


def agrees(function, args, calls, options=None, **kwargs):
    """Asserts how often our operators are called in the place of torch's, and the numerics rule."""
    fast = compiled(function, options, **kwargs)
    found = calls_in(fast, args)
    assert found == (calls, 0) or (is_written_out(*args[:2]) and found == (NOTHING, 0))
    check_call(fast, function, args)


def tensors(heads, key_heads, rows, keys, depth, dtype=torch.float32, trains=True, width=None, dense=False):
    def tensor(heads, length, depth):
        made = torch.randn(2, heads, length, depth) if dense else torch.randn(2, length, heads, depth).transpose(1, 2)
        return made.to(dtype).requires_grad_(trains)

    return tensor(heads, rows, depth), tensor(key_heads, keys, depth), tensor(key_heads, keys, width or depth)


@pytest.mark.parametrize(
    "dtype, dense, trains", by_turns(DTYPES, {"heads side by side": False, "dense heads": True}, WAYS, kept=2)
)
def test_a_call_and_its_gradient_become_ours(dtype, dense, trains):
    args = tensors(3, 3, 37, 37, 20, dtype, trains, dense=dense)
    agrees(F.scaled_dot_product_attention, args, TRAINING if trains else INFERENCE)


SHAPES = [(4, 4, 37, 70, 16), (4, 4, 70, 37, 16), (4, 2, 33, 33, 8), (1, 1, 1, 1, 1), (2, 2, 1, 130, 64), (2, 1, 130, 1, 3)]


@pytest.mark.parametrize("shape, is_causal, trains", by_turns(SHAPES, {"all keys": False, "causal": True}, WAYS, kept=2))
def test_lengths_and_heads_may_differ(shape, is_causal, trains):
    function = functools.partial(F.scaled_dot_product_attention, is_causal=is_causal, scale=0.3, enable_gqa=True)
    agrees(lambda *args: function(*args), tensors(*shape, trains=trains), TRAINING if trains else INFERENCE)


def masks(rows, keys):
    some = torch.rand(2, 1, rows, keys) > 0.3
    some[..., 0] = True
    return {
        "a mask of all heads": some,
        "a mask a head": torch.rand(2, 4, rows, keys) > 0.1,
        "a matrix": causal_mask(rows, keys, "top_left"),
        "padding": (torch.arange(keys) < torch.tensor([[keys], [keys // 2]]))[:, None, None],
        "expanded padding": (torch.arange(keys) < torch.tensor([[keys], [3]]))[:, None, None].expand(2, 1, rows, keys),
        "numbers": torch.randn(2, 4, rows, keys),
        "numbers of a row": torch.randn(1, keys),
        "infinite numbers": torch.zeros(rows, keys).masked_fill(~causal_mask(rows, keys, "top_left"), -float("inf")),
    }


@pytest.mark.parametrize("name, trains", by_turns(masks(1, 1).keys(), WAYS))
def test_masks_are_passed_on(name, trains):
    mask = masks(40, 37)[name]
    agrees(F.scaled_dot_product_attention, (*tensors(4, 4, 40, 37, 16, trains=trains), mask), TRAINING if trains else INFERENCE)


def test_a_row_that_sees_nothing_is_zero():
    mask = torch.ones(33, 33, dtype=torch.bool)
    mask[[3, 32]] = False
    args = tensors(2, 2, 33, 33, 16)
    result = compiled(F.scaled_dot_product_attention)(*args, mask)
    assert not result[:, :, [3, 32]].any()
    check_call(compiled(F.scaled_dot_product_attention), F.scaled_dot_product_attention, (*args, mask))


def test_a_mask_that_the_graph_makes_is_read_as_bool():
    def function(query, key, value, lengths):
        places = torch.arange(query.shape[2], device=query.device)
        mask = (places[None] <= places[:, None]) & (places < lengths[:, None, None, None])
        return F.scaled_dot_product_attention(query * 2, key, value, attn_mask=mask).sin()

    args = (*tensors(2, 2, 40, 40, 16), torch.tensor([40, 9]))
    agrees(function, args, TRAINING)
    _, codes = run_and_get_code(compiled(function), *args)
    assert "torch.bool" in codes[0] and "inf" not in codes[0].split("def call")[1]


@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("way", ["expand", "repeat_interleave"])
def test_repeated_heads_are_read_once(way, trains):
    def repeated(x):
        if way == "repeat_interleave":
            return x.repeat_interleave(3, 1)
        return x[:, :, None, :, :].expand(-1, -1, 3, -1, -1).reshape(2, -1, *x.shape[2:])

    def function(query, key, value, mask):
        return F.scaled_dot_product_attention(query, repeated(key), repeated(value), attn_mask=mask)

    args = (*tensors(6, 2, 33, 40, 16, torch.bfloat16, trains), torch.rand(33, 40) > 0.2)
    agrees(function, args, TRAINING if trains else INFERENCE)
    _, codes = run_and_get_code(lambda: compiled(function)(*args))
    assert "tile_kernel(" not in "".join(codes)


def test_repeated_heads_of_a_gradient_in_float32_stay():
    def function(query, key, value):
        return F.scaled_dot_product_attention(query, *(x.repeat_interleave(3, 1) for x in (key, value)))

    args = tensors(6, 2, 33, 40, 16)
    agrees(function, args, TRAINING)
    assert not choice.reads_heads_once(call(device="cpu", dtype=torch.float32, trains=True))


def test_repeated_heads_that_others_read_stay():
    def function(query, key, value):
        key, value = (x[:, :, None].expand(-1, -1, 2, -1, -1).reshape(2, 4, 33, 16) for x in (key, value))
        return F.scaled_dot_product_attention(query, key, value) + key.sin() * value

    agrees(function, tensors(4, 2, 33, 33, 16), TRAINING)


def test_a_model_of_two_layers_trains():
    def function(x, weight, out, positions):
        for i in range(2):
            query, key, value = (x @ weight[i]).view(2, -1, 3, 4, 8).permute(2, 0, 3, 1, 4)
            query, key = query * positions.cos(), key * positions.sin()
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + F.gelu(mixed.transpose(1, 2).reshape(2, -1, 32)) @ out[i]
        return x

    x, weight, out = torch.randn(2, 21, 32), torch.randn(2, 32, 96) / 6, torch.randn(2, 32, 32) / 6
    args = [each.requires_grad_() for each in (x, weight, out)]
    agrees(function, (*args, torch.rand(21, 8)), (0, 2, 2))


def test_a_checkpoint_computes_the_forward_twice():
    def function(query, key, value):
        def part(query, key, value):
            return F.scaled_dot_product_attention(query.sin(), key, value, is_causal=True).cos()

        return torch.utils.checkpoint.checkpoint(part, query, key, value, use_reentrant=False)

    agrees(function, tensors(2, 2, 33, 33, 16), (0, 2, 1))


def test_autocast_lowers_the_operands():
    def function(x, weight):
        with torch.autocast(x.device.type, torch.bfloat16):
            query, key, value = (x @ weight).view(2, -1, 3, 4, 8).permute(2, 0, 3, 1, 4)
            return F.scaled_dot_product_attention(query, key, value)

    x, weight = torch.randn(2, 21, 32, requires_grad=True), torch.randn(32, 96, requires_grad=True)
    fast = compiled(function)
    assert calls_in(fast, (x, weight)) == (TRAINING, 0)
    with torch.no_grad():
        check(fast(x, weight), function(x, weight), function(x.double(), weight.double()))


def test_only_the_wanted_gradients_are_computed():
    query, key, value = tensors(2, 2, 33, 33, 16, trains=False)
    function = compiled(F.scaled_dot_product_attention)
    query.requires_grad_()
    _, codes = run_and_get_code(lambda: function(query, key, value).sum().backward())
    assert "output_mask=[True, False, False, False, False]" in "".join(codes)


@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
def test_one_compile_serves_many_lengths(trains):
    count = torch._dynamo.testing.CompileCounterWithBackend("tile")
    torch._dynamo.reset()

    def function(query, key, value):
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)

    fast = torch.compile(function, backend=count, dynamic=True)
    for length in (37, 40, 129, 5):
        check_call(fast, function, tensors(4, 4, length, length, 16, trains=trains))
    assert count.frame_count == 1


def test_dropout_stays_with_torch():
    def function(query, key, value):
        return F.scaled_dot_product_attention(query, key, value, dropout_p=0.5)

    calls, _ = calls_in(compiled(function), tensors(2, 2, 33, 33, 16))
    assert calls == NOTHING


def test_options_decide_for_all_calls():
    args = tensors(2, 2, 128, 128, 16)
    for option, calls in (("torch", (NOTHING, 2)), ("tile", (TRAINING, 0))):
        assert calls_in(compiled(F.scaled_dot_product_attention, {"attention": option}), args) == calls


def test_deep_heads_stay_with_torch():
    args = tensors(1, 1, 5, 5, 300)
    assert calls_in(compiled(F.scaled_dot_product_attention), args)[0] == NOTHING
    check_call(compiled(F.scaled_dot_product_attention), F.scaled_dot_product_attention, args)


def graph_of(form, args, is_causal, scale, hidden):
    """Returns the joint graph of one of a GPU's forms, which needs no GPU. hidden: the number for keys that a mask hides."""

    def operator(name):
        return getattr(aten, f"_scaled_dot_product_{form}_attention{name}").default

    def both(query, key, value, mask, grad_out):
        bias, first = None, ()
        if mask is not None:
            bias = aten.where(mask, aten.scalar_tensor(0.0, dtype=query.dtype), aten.scalar_tensor(hidden, dtype=query.dtype))
            bias = aten.slice(aten.constant_pad_nd(bias, [0, 3]), -1, 0, key.shape[2])
            bias = bias.expand(query.shape[0], query.shape[1], query.shape[2], key.shape[2])
        if form != "flash":
            first = (bias, True)
        out, lse, *rest = operator("")(query, key, value, *first, 0.0, is_causal, scale=scale)
        if form == "flash":
            ends = (*rest[:4], 0.0, is_causal, *rest[4:6])
        elif form == "cudnn":
            ends = (*rest[4:6], bias, *rest[:4], 0.0, is_causal)
        else:
            ends = (*rest[:2], 0.0, [True, True, True, False], is_causal)
        saved = (bias, out, lse) if form == "efficient" else (out, lse)
        return (out, *operator("_backward")(grad_out, query, key, value, *saved, *ends, scale=scale)[:3])

    with FakeTensorMode(allow_non_fake_inputs=True):
        fakes = [
            None if each is None else torch.empty_strided(each.shape, each.stride(), dtype=each.dtype, device="cuda")
            for each in args
        ]
        graph = make_fx(both)(*fakes)
    return graph


@pytest.mark.parametrize("is_causal", [False, True], ids=["all keys", "causal"])
@pytest.mark.parametrize(
    "form, hidden",
    [("flash", None), ("efficient", -float("inf")), ("cudnn", -65536.0), ("cudnn", -float("inf"))],
    ids=["flash", "efficient", "cudnn", "cudnn infinity"],
)
def test_the_forms_of_a_gpu_become_ours(form, hidden, is_causal):
    masked = not is_causal and form != "flash"
    operands = tensors(4, 4, 37, 37, 16, torch.bfloat16, trains=False)
    mask = (torch.rand(2, 1, 37, 37) > 0.3) if masked else None
    grad = torch.randn(2, 37, 4, 16).to(torch.bfloat16).transpose(1, 2)
    gm = graph_of(form, (*operands, mask, grad), is_causal, 0.3, hidden)
    compile = Compile({"attention": "tile"})
    patterns.replace_all(gm.graph, compile)
    assert not compile.reasons and compile.kernels == ["attention"]
    gm.graph.eliminate_dead_code()
    gm.graph.lint()
    gm.recompile()
    assert not [node for node in gm.graph.nodes if "_scaled_dot" in str(node.target) or "where" in str(node.target)]

    def in_torch(dtype):
        leaves = [each.to(dtype).requires_grad_() for each in operands]
        out = F.scaled_dot_product_attention(*leaves, attn_mask=mask, is_causal=is_causal, scale=0.3)
        return out, *torch.autograd.grad(out, leaves, grad.to(dtype))

    results = gm(*operands, mask, grad)
    for i, triple in enumerate(zip(results, in_torch(torch.bfloat16), in_torch(torch.float64))):
        check(*triple, gradient=i > 0, incoming=grad.abs().max().item() * 4)


@pytest.mark.at_home
def test_only_the_gradient_may_read_what_a_call_saves():
    def function(query, key, value):
        out, lse, *_ = aten._scaled_dot_product_flash_attention_for_cpu(query, key, value)
        return out, lse

    args = tensors(2, 2, 33, 33, 16, trains=False)
    (out, lse), codes = run_and_get_code(compiled(function), *args)
    assert f"torch.ops.{TORCH}" in codes[0] and "torch.ops.tile" not in codes[0]
    assert torch.equal(lse, function(*args)[1])


def call(operator="flash_attention", device="cuda", dtype=torch.bfloat16, rows=1024, keys=None, depth=128, **options):
    with FakeTensorMode():
        query, key = (torch.empty(1, 8, length, depth, device=device, dtype=dtype) for length in (rows, keys or rows))
    given = {"bias": None, "is_causal": False, "trains": False, **options}
    return choice.Attention(f"_scaled_dot_product_{operator}", query, key, **given)


CUDNN = {"operator": "cudnn_attention"}
ON_CPU = {"device": "cpu", "operator": "flash_attention_for_cpu"}


@pytest.mark.parametrize(
    "given, why_not",
    [
        ({"operator": "efficient_attention", "bias": torch.bool, "depth": 40}, None),
        ({}, None),
        ({"depth": 80}, "not measured at this head dim"),
        ({"dtype": torch.float32}, "not measured in this dtype"),
        (CUDNN, "cuDNN is as fast"),
        ({**CUDNN, "bias": torch.bfloat16}, None),
        ({**CUDNN, "rows": 4096, "is_causal": True}, None),
        ({**CUDNN, "rows": 4096, "is_causal": True, "depth": 256, "trains": True}, "cuDNN is as fast"),
        (ON_CPU, None),
        ({**ON_CPU, "rows": 32}, "too few scores"),
        ({**ON_CPU, "rows": 1, "keys": 512}, None),
        ({**ON_CPU, "rows": 32, "trains": True}, None),
        ({**ON_CPU, "dtype": torch.float32}, None),
        ({**ON_CPU, "dtype": torch.float32, "rows": 197}, "too few rows for full tiles"),
        ({**ON_CPU, "dtype": torch.float32, "depth": 40}, "too few columns for full tiles"),
        ({**ON_CPU, "dtype": torch.float32, "rows": 256, "keys": 77}, None),
        ({**ON_CPU, "dtype": torch.float32, "rows": 256, "keys": 77, "trains": True}, "too few rows for full tiles"),
        ({**ON_CPU, "dtype": torch.float64}, "not measured in this dtype"),
    ],
    ids=str,
)
def test_a_call_stays_with_torch_where_ours_is_not_faster(given, why_not, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    assert choice.keeps_attention(Compile({}), call(**given)) == why_not


def test_another_gpu_keeps_torchs(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    assert choice.keeps_attention(Compile({}), call()) == "not measured on this GPU"
    assert choice.keeps_attention(Compile({"attention": "tile"}), call()) is None
