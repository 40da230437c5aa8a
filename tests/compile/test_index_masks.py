"""Masks that places of query and key decide become options of attention; other masks stay, and all results are torch's."""

import functools
import random
import re

import attention_reference
import compiled_calls
import numerics
import pytest
import torch
import torch.nn.functional as F
from combinations import by_turns
from tile_ops._compile import index_masks, patterns
from tile_ops._compile.active import Compile
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.utils import run_and_get_code
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

aten = torch.ops.aten
CALL = re.compile(
    r"torch\.ops\.tile\.(?:_?attention\w*)\.default\(.*attn_bias=(\w+).*is_causal=(\w+), causal_align='(\w+)'"
    r".*window=\[(-?\d+), (-?\d+)\]"
)
INFINITY = float("inf")
WAYS = {"inference": False, "training": True}


@pytest.fixture(autouse=True)
def no_caches():
    with torch._inductor.config.patch(force_disable_caches=True):  # code that is found in a cache is not shown
        yield


def code_of(function, args):
    """Returns the code of a compiled function and of its gradient."""

    def run():
        results = function(*args)
        first = results[0] if isinstance(results, tuple) else results
        if first.requires_grad:
            first.backward(torch.ones_like(first))

    code = "".join(run_and_get_code(run)[1])
    for each in args:
        if isinstance(each, torch.Tensor):
            each.grad = None
    return code


def options_in(code):
    """Returns (mask is read, is_causal, causal_align, window) of each call of our attention and its gradient."""
    found = [
        (mask != "None", causal == "True", align, (int(before), int(after)))
        for mask, causal, align, before, after in CALL.findall(code)
    ]
    assert len(found) == len(re.findall(r"torch\.ops\.tile\._?attention\w*\.default\(", code))
    return found


def tensors(rows, keys, trains=True, dtype=torch.float32, batch=2, heads=4):
    shapes = (batch, heads, rows, 16), (batch, heads, keys, 16), (batch, heads, keys, 16)
    return tuple(torch.randn(shape).to(dtype).requires_grad_(trains) for shape in shapes)


def attention_with(make):
    """Returns attention whose mask is made in the graph. make(query places, key places): as [rows, 1] and [1, keys]."""

    def attention(query, key, value):
        q = torch.arange(query.shape[2], device=query.device)[:, None]
        k = torch.arange(key.shape[2], device=query.device)[None]
        mask = make(q, k)
        if query.is_cuda and not torch.compiler.is_compiling():  # torch 2.11 refuses masks whose last stride is not 1
            mask = mask.expand(*mask.shape[:-2], len(q), k.shape[1]).contiguous()
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)

    return attention


def agrees(make, args, expected):
    """Asserts the options of our calls, and the numerics rule."""
    function = attention_with(make)
    fast = compiled_calls.compiled(function, options={"attention": "tile"})
    code = code_of(fast, args)
    assert options_in(code) == [expected] * (2 if args[0].requires_grad else 1)
    assert expected[0] or "torch.bool" not in code  # no kernel makes the mask
    numerics.check_call(fast, function, args)


def hidden(condition, number=-INFINITY):
    """Returns a mask of numbers, 0 where a condition is met."""
    return torch.where(condition, 0.0, number)


def by_vmap(q, k):
    function = lambda b, h, q, k: (q >= k) & (b >= 0)  # noqa: E731
    for dims in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)):
        function = torch.vmap(function, in_dims=dims)
    return function(torch.arange(2, device=q.device), torch.arange(1, device=q.device), q[:, 0], k[0])


def packed(q, k):
    """A mask of one packed sequence, by positions that grow by 1."""
    places = q[:, 0].expand(2, -1)
    before = torch.cat([places[:, :1] - 1, places[:, :-1]], 1)
    sequence = (places - before != 1).cumsum(1)
    samples = torch.arange(2, device=q.device)[:, None, None, None]
    same = sequence[samples, q[None, None]] == sequence[samples, k[None, None]]
    return (same & (places[samples, k[None, None]] <= places[samples, q[None, None]])).expand(2, 1, -1, -1)


def padded(q, k):
    """A mask with columns behind it that are cut off again."""
    return F.pad(hidden(k <= q), (0, 3))[:, : k.shape[1]]


ALL, CAUSAL = (False, False, "top_left", (-1, -1)), (False, True, "top_left", (-1, -1))


def window(before, after):
    return (False, after == 0, "top_left", (before, -1 if after == 0 else after))


MASKS = {
    "causal": (lambda q, k: q >= k, CAUSAL),
    "not behind": (lambda q, k: ~(k > q), CAUSAL),
    "strictly before the next": (lambda q, k: k < q + 1, CAUSAL),
    "four dimensions": (lambda q, k: (q >= k)[None, None].expand(2, 1, -1, -1), CAUSAL),
    "tril": (lambda q, k: torch.ones(len(q), k.shape[1], dtype=torch.bool).tril(), CAUSAL),
    "tril of numbers": (lambda q, k: torch.ones(len(q), k.shape[1]).tril() == 1, CAUSAL),
    "triu of infinities": (lambda q, k: torch.full((len(q), k.shape[1]), -INFINITY).triu(1), CAUSAL),
    "infinite numbers": (lambda q, k: torch.zeros(len(q), k.shape[1]).masked_fill(k > q, -INFINITY), CAUSAL),
    "the least number": (lambda q, k: hidden(q >= k, torch.finfo(torch.float32).min), CAUSAL),
    "a product with the least number": (lambda q, k: (q < k).float() * torch.finfo(torch.float32).min, CAUSAL),
    "one minus": (lambda q, k: hidden((1 - (q < k).long()) != 0), CAUSAL),
    "padded and cut": (padded, CAUSAL),
    "positions of floats": (lambda q, k: q.float() >= k.float(), CAUSAL),
    "positions in steps": (lambda q, k: 2 * q + 1 >= k * 2, CAUSAL),
    "reversed twice": (lambda q, k: (40 - q) <= (40 - k), CAUSAL),
    "positions by a sum": (lambda q, k: torch.ones_like(q).cumsum(0) - 1 >= k, CAUSAL),
    "vmap": (by_vmap, CAUSAL),
    "packed": (packed, CAUSAL),
    "a permuted mask": (lambda q, k: (q <= k).t() & (q + k >= 0), CAUSAL),
    "sliding": (lambda q, k: (q >= k) & (q - k < 5), window(4, 0)),
    "sliding, by or": (lambda q, k: ~((k > q) | (q - k >= 9)), window(8, 0)),
    "around": (lambda q, k: (q - k).abs() <= 7, window(7, 7)),
    "around, by maximum": (lambda q, k: torch.maximum(q - k, k - q - 2) <= 3, window(3, 5)),
    "ahead": (lambda q, k: k <= q + 3, window(-1, 3)),
    "not before": (lambda q, k: k >= q, window(0, -1)),
    "own place": (lambda q, k: k == q, window(0, 0)),
    "a choice": (lambda q, k: torch.where(q > k, q - k < 6, q == k), window(5, 0)),
    "everything": (lambda q, k: (q >= 0) & (k >= 0), ALL),
    "one chunk": (lambda q, k: q // 64 == k // 64, ALL),
    "a wide window": (lambda q, k: (q - k).abs() < 1000, ALL),
    "zeros": (lambda q, k: torch.zeros(len(q), k.shape[1]), ALL),
    "either": (lambda q, k: (q >= k) | (q < k), ALL),
}


@pytest.mark.parametrize("name, trains", by_turns(MASKS.keys(), WAYS))
def test_masks_of_places_are_options(name, trains):
    make, expected = MASKS[name]
    agrees(make, tensors(37, 37, trains), expected)


OTHER_CORNERS = {
    "more keys, causal from the first": (33, 40, lambda q, k: q >= k, CAUSAL),
    "more keys, causal from the last": (33, 40, lambda q, k: q + 7 >= k, (False, True, "bottom_right", (-1, -1))),
    "more keys, sliding from the last": (
        33, 40, lambda q, k: (q + 7 >= k) & (q + 7 - k < 4), (False, True, "bottom_right", (3, -1))
    ),
    "more keys, between": (33, 40, lambda q, k: q + 5 >= k, window(-1, 5)),
    "fewer keys, causal from the first": (40, 33, lambda q, k: q >= k, CAUSAL),
    "fewer keys, causal from the last": (40, 33, lambda q, k: q - 7 >= k, (False, True, "bottom_right", (-1, -1))),
    "one query sees all": (1, 40, lambda q, k: q + 39 >= k, ALL),
    "one query sees the first": (1, 40, lambda q, k: q >= k, CAUSAL),
    "one query sees a few": (1, 40, lambda q, k: k >= q + 36, (False, False, "bottom_right", (3, -1))),
    "one key": (40, 1, lambda q, k: q >= k, ALL),
    "one of each": (1, 1, lambda q, k: q >= k, ALL),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER_CORNERS)
def test_lengths_may_differ(name):
    rows, keys, make, expected = OTHER_CORNERS[name]
    agrees(make, tensors(rows, keys), expected)


def places_in(dtype):
    return lambda q, k: q.to(dtype) >= k.to(dtype)


def of_each(count, like):
    """Returns 0, 1, ... as [count, 1, 1]. Torch 2.11's Dynamo does not ask the default device where the counts lie."""
    return torch.arange(count, device=like.device)[:, None, None]


# Conditions that no option says. The last item: of the options beside the mask.
OTHERS = {
    "behind alone": (300, lambda q, k: k > q, ALL[1:]),
    "an offset": (37, lambda q, k: q >= k + 3, ALL[1:]),
    "two windows": (37, lambda q, k: (q >= k) & ((q - k < 3) | (q - k > 10)), CAUSAL[1:]),
    "a mirrored triangle": (37, lambda q, k: q + k < 37, ALL[1:]),
    "a slope": (37, lambda q, k: 2 * q >= k, ALL[1:]),
    "chunks": (37, lambda q, k: (q >= k) & (q // 8 == k // 8), CAUSAL[1:]),
    "every second": (37, lambda q, k: (q >= k) & ((q - k) % 2 == 0), CAUSAL[1:]),
    "squares": (37, lambda q, k: (q >= k) & (q * k < 400), CAUSAL[1:]),
    "a column for all": (37, lambda q, k: (q >= k) | (k == 0), ALL[1:]),
    "samples that differ": (37, lambda q, k: (q >= k) & (q - k <= of_each(2, q)[:, None] + 9), CAUSAL[1:]),
    "heads that differ": (37, lambda q, k: (q >= k) & (k > of_each(4, q)[None] - 2), CAUSAL[1:]),
    "short integers that wrap": (300, places_in(torch.uint8), ALL[1:]),
    "halves": (37, lambda q, k: torch.sub(q.float(), k.float(), alpha=0.5) >= 0, ALL[1:]),
    "a step": (37, lambda q, k: torch.arange(0, 74, 2, device=q.device)[:, None] >= k, ALL[1:]),
    "a finite number": (37, lambda q, k: hidden(q >= k, -5.0), ALL[1:]),
    "a finite number for a row": (37, lambda q, k: hidden(q < k, torch.finfo(torch.float32).min), ALL[1:]),
    "nothing": (37, lambda q, k: q < 0, ALL[1:]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_masks_stay(name):
    length, make, options = OTHERS[name]
    agrees(make, tensors(length, length), (True, *options))


def test_numbers_that_look_like_places_stay():
    def function(query, key, value, places):
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=places[:, None] >= torch.arange(37, device=places.device)
        )

    args = (*tensors(37, 37), torch.arange(37))
    fast = compiled_calls.compiled(function, options={"attention": "tile"})
    assert options_in(code_of(fast, args)) == [(True, *ALL[1:])] * 2
    numerics.check_call(fast, function, args)
    other = (*args[:3], torch.randint(0, 37, (37,)))
    numerics.check_call(fast, function, other)


def test_a_mask_that_is_used_elsewhere_stays_there():
    def function(query, key, value):
        mask = torch.ones(37, 37, dtype=torch.bool).tril()
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask), mask, mask.sum()

    args = tensors(37, 37)
    fast = compiled_calls.compiled(function, options={"attention": "tile"})
    assert options_in(code_of(fast, args)) == [CAUSAL] * 2
    results, expected = fast(*args), function(*args)
    assert torch.equal(results[1], expected[1]) and results[2] == expected[2]
    numerics.check(results[0], expected[0], function(*(each.double() for each in args))[0])


def test_two_calls_share_a_mask():
    def function(query, key, value, lengths):
        places = torch.arange(40, device=query.device)
        mask = (
            (places[None] <= places[:, None])
            & (places < lengths[:, None, None, None])
            & (places >= lengths[:, None, None, None] - 39)
        )
        first = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return F.scaled_dot_product_attention(first * 2, key, value, attn_mask=mask)

    args = (*tensors(40, 40), torch.tensor([40, 31]))
    fast = compiled_calls.compiled(function, options={"attention": "tile"})
    assert options_in(code_of(fast, args)) == [(True, *CAUSAL[1:])] * 4
    numerics.check_call(fast, function, args)


PADDINGS = {
    "a row a sample": lambda seen: seen[:, None, None],
    "an index": lambda seen: seen[of_each(2, seen)[:, None], torch.arange(40, device=seen.device)[None, None, None]],
    "numbers": lambda seen: seen.long()[:, None, None] == 1,
    "one for all": lambda seen: seen[1],
    "transposed": lambda seen: seen.t()[None].permute(2, 0, 1)[:, None],
}


@pytest.mark.parametrize("way, side, trains", by_turns(PADDINGS.keys(), ["left", "right"], WAYS, kept=2))
def test_padding_stays_a_mask_beside_the_window(way, side, trains):
    def function(query, key, value, seen):
        places = torch.arange(40, device=query.device)
        mask = (places[:, None] >= places) & (places[:, None] - places < 12) & PADDINGS[way](seen)
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask.expand(2, 1, 40, 40))

    seen = torch.arange(40) < torch.tensor([[40], [23]])
    args = (*tensors(40, 40, trains), seen.flip(1) if side == "left" else seen)  # left: rows that see nothing
    fast = compiled_calls.compiled(function, options={"attention": "tile"})
    code = code_of(fast, args)
    assert options_in(code) == [(True, True, "top_left", (11, -1))] * (2 if trains else 1)
    assert "1600" not in code  # [40, 40] is nowhere in memory
    numerics.check_call(fast, function, args)


@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
def test_one_compile_serves_many_lengths(trains):
    def function(query, key, value, seen):
        q, k = (torch.arange(each.shape[2], device=each.device) for each in (query, key))
        q = q[:, None]
        shift = key.shape[2] - query.shape[2]
        causal, sliding, last = k <= q, (k - q).abs() < 6, k <= q + shift
        results = [F.scaled_dot_product_attention(query, key, value, attn_mask=mask) for mask in (causal, sliding, last)]
        both = causal & seen[:, None, None]
        return sum(results) + F.scaled_dot_product_attention(query, key, value, attn_mask=both)

    fast = compiled_calls.compiled(function, options={"attention": "tile"}, dynamic=None)
    args = (*tensors(33, 37, trains), torch.rand(2, 37) > 0.3)
    for each, dim in zip(args, (2, 2, 2, 1)):
        torch._dynamo.mark_dynamic(each, dim)
    found = options_in(code_of(fast, args))
    assert set(found) == {CAUSAL, window(5, 5), (False, True, "bottom_right", (-1, -1)), (True, *CAUSAL[1:])}
    assert len(found) == (8 if trains else 4)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for rows, keys in ((33, 37), (40, 129), (21, 5), (5, 21)):
            numerics.check_call(fast, function, (*tensors(rows, keys, trains), torch.rand(2, keys) > 0.3))


@pytest.mark.at_home  # it names torch's call on a CPU
@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
def test_torchs_own_call_loses_its_mask(trains):
    args = tensors(5, 5, trains, heads=1)  # too few for ours
    for make, is_causal in ((MASKS["causal"][0], True), (MASKS["everything"][0], False)):
        function = attention_with(make)
        code = code_of(compiled_calls.compiled(function), args)
        calls = re.findall(r"aten\._scaled_dot_product_flash_attention_for_cpu(?:_backward)?\.default\(.*", code)
        assert len(calls) == 1 + trains and all("attn_mask=None" in each and str(is_causal) in each for each in calls)
        assert "torch.bool" not in code
        numerics.check_call(compiled_calls.compiled(function), function, args)
    function = attention_with(lambda q, k: (q >= k) & (q - k < 3))
    assert "attn_mask=buf" in code_of(compiled_calls.compiled(function), args)
    numerics.check_call(compiled_calls.compiled(function), function, args)
    code = code_of(compiled_calls.compiled(attention_with(MASKS["causal"][0]), options={"attention": "torch"}), args)
    assert "attn_mask=buf" in code  # as the user asked


FORMS = ("efficient", "cudnn")


def joint_graph(form, make, length, dtype=torch.bfloat16):
    """Returns the joint graph of one of a GPU's forms, which needs no GPU."""

    def operator(name):
        return getattr(aten, f"_scaled_dot_product_{form}_attention{name}").default

    def both(query, key, value, grad_out):
        places = torch.arange(length)
        zero, infinity = (aten.scalar_tensor(each, dtype=dtype) for each in (0.0, -65536.0 if form == "cudnn" else -INFINITY))
        bias = torch.where(make(places[:, None], places[None]), zero, infinity)
        bias = aten.slice(aten.constant_pad_nd(bias, [0, 3]), -1, 0, length).expand(2, 4, length, length)
        out, lse, *rest = operator("")(query, key, value, bias, True, 0.0, False)
        if form == "cudnn":
            ends, saved = (*rest[4:6], bias, *rest[:4], 0.0, False), (out, lse)
        else:
            ends, saved = (*rest[:2], 0.0, [True, True, True, False], False), (bias, out, lse)
        return (out, *operator("_backward")(grad_out, query, key, value, *saved, *ends)[:3])

    with FakeTensorMode(allow_non_fake_inputs=True):
        args = [torch.empty(2, 4, length, 16, dtype=dtype) for _ in range(4)]
        return make_fx(both, decomposition_table=select_decomp_table())(*args)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["causal", "sliding", "everything"])
def test_the_forms_of_a_gpu_lose_their_masks(form, name):
    gm = joint_graph(form, MASKS[name][0], 37)
    compile = Compile({"attention": "tile"})
    patterns.replace_all(gm.graph, compile)
    assert compile.kernels == ["attention"] and not compile.reasons
    gm.graph.lint()
    names = {node.name.split("_")[0] for node in gm.graph.nodes}
    assert not names & {"iota", "where", "ge", "le", "bitwise", "constant"}
    _, is_causal, align, seen = MASKS[name][1]
    calls = [node for node in gm.graph.nodes if "tile." in str(node.target)]
    assert len(calls) == 2
    for call in calls:
        assert call.kwargs["attn_bias"] is None and call.kwargs["is_causal"] == is_causal
        assert call.kwargs["window"] == list(seen) and call.kwargs["causal_align"] == align


@pytest.mark.parametrize("form", FORMS)
def test_the_forms_of_a_gpu_may_stay_without_a_mask(form):
    gm = joint_graph(form, MASKS["causal"][0], 37, torch.float64)
    patterns.replace_all(gm.graph, Compile({}))
    gm.graph.lint()
    calls = [node for node in gm.graph.nodes if "_scaled_dot" in str(node.target)]
    assert len(calls) == 2
    for call in calls:
        given = patterns.arguments(call)
        assert given["attn_bias"] is None and given["is_causal"] is True
    assert not {node.name.split("_")[0] for node in gm.graph.nodes} & {"iota", "where", "ge", "le"}


# Random masks: whatever is found says the same as the mask.


def random_places(choose, length, depth=2):
    """Returns random integers that are made of places, mostly these."""
    if depth == 0 or choose.random() < 0.4:
        return torch.arange(length)
    x = random_places(choose, length, depth - 1)
    cut, number = choose.randrange(length + 1), choose.randrange(-3, 6)
    other = torch.arange(length + 8)[max(number, 0) : max(number, 0) + length]
    return [
        lambda: x + number,
        lambda: number - x,
        lambda: x * choose.choice((-1, 2, 3)),
        lambda: torch.cat([x[:cut], other[cut:] + choose.choice((0, number))]),
        lambda: torch.cat([x[:cut] + choose.choice((0, 1)), torch.full((length - cut,), number)]),
        lambda: F.pad(x[cut:], (cut, 0), value=number),
        lambda: F.pad(x[1:], (0, 1)) if length > 1 else x,
        lambda: (x - x + 1).cumsum(0) - choose.choice((0, 1)),
        lambda: torch.ones(length, dtype=torch.bool).cumsum(0) * choose.choice((1, 2)),
        lambda: ((x - x + number) != 1).cumsum(0) + x,
        lambda: x[torch.arange(length)],
        lambda: other[x.clamp(0, length - 1)],
        lambda: torch.where(x < number, x, choose.choice((x - 1, other))),
        lambda: x.abs(),
        lambda: torch.maximum(x, other) if number > 0 else torch.minimum(x, other),
        lambda: x // 4 if choose.random() < 0.5 else x // 32,
        lambda: x.int().long() if number > 0 else x.float().long(),
        lambda: (x >= number).long() + x,
        lambda: x[None].expand(3, -1)[1],
        lambda: x.view(1, -1, 1).transpose(0, 1)[:, 0, 0],
        lambda: x.flip(0),
    ][choose.randrange(21)]()


def random_mask(choose, q, k, tensors, depth=4):
    """Returns a random condition of places and of tensors."""
    parts = functools.partial(random_mask, choose, q, k, tensors, depth - 1)
    kind = choose.randrange(9 if depth > 0 else 4)
    number = choose.randrange(-6, 12)
    if kind == 0:
        return q - k >= number if choose.random() < 0.5 else k - q <= number
    if kind == 1:
        return choose.choice((q, k, q + k, 2 * q - k, (q - k).abs(), torch.maximum(q - k, k))) < number
    if kind == 2:
        return (q >= k) if choose.random() < 0.7 else k < q + 30
    if kind == 3:
        return choose.choice(tensors)
    if kind < 7:
        return parts() & parts()
    return (parts() | parts()) if kind == 7 else torch.where(parts(), parts(), ~parts())


def what_is_shown(seen, values, rows, keys):
    """Returns the mask that a Seen stands for. values: of the graph's nodes."""
    shown = torch.ones(2, 3, rows, keys, dtype=torch.bool)
    options = seen.options
    before, after = options["window"]
    plain = attention_reference.seen(rows, keys, options["is_causal"], options["causal_align"], (before, after))
    shown = shown if plain is None else shown & plain
    for node, axes in seen.masks:
        mask, names = values[node], [name for name in axes if name is not None]
        mask = mask.reshape([size for size, name in zip(mask.shape, axes) if name is not None])
        mask = mask.permute([names.index(name) for name in sorted(names, key=index_masks.INDICES.index)])
        shown = shown & mask.reshape([mask.shape[sorted(names, key=index_masks.INDICES.index).index(name)] if name in names
                                      else 1 for name in index_masks.INDICES])  # fmt: skip
    return shown


class Recorder(torch.fx.Interpreter):
    """Runs a graph and keeps the values of its nodes."""

    def __init__(self, module):
        super().__init__(module)
        self.values = {}

    def run_node(self, node):
        self.values[node] = super().run_node(node)
        return self.values[node]


@pytest.mark.parametrize("seed", range(150))
def test_random_masks_are_said_exactly(seed):
    choose = random.Random(seed)
    rows, keys = choose.choice(((9, 9), (9, 13), (13, 9), (1, 9), (9, 1), (17, 17)))
    torch.manual_seed(seed)
    given = [torch.rand(shape) > 0.4 for shape in ((2, 1, 1, keys), (rows, keys), (2, 3, 1, 1), (keys,))]

    def function(*tensors):
        own = random.Random(seed)
        q, k = (random_places(own, length) if seed % 2 else torch.arange(length) for length in (rows, keys))
        return random_mask(own, q[:, None], k[None], tensors)

    gm = make_fx(function, decomposition_table=select_decomp_table(), tracing_mode="fake")(*given)
    (result,) = next(node for node in gm.graph.nodes if node.op == "output").args
    with FakeTensorMode():
        query, key = torch.empty(2, 3, rows, 4), torch.empty(2, 3, keys, 4)
    seen = index_masks.of_bool(result, query, key)
    recorder = Recorder(gm)
    mask = recorder.run(*given)
    if seen is not None:
        assert torch.equal(what_is_shown(seen, recorder.values, rows, keys), mask.expand(2, 3, rows, keys))


def test_most_random_conjunctions_are_found():
    """The test above would also pass if nothing was found."""
    found = 0
    with FakeTensorMode():
        query, key = torch.empty(2, 3, 9, 4), torch.empty(2, 3, 13, 4)
    for before in range(-2, 6):
        for after in range(-2, 6):
            function = lambda: (  # noqa: E731
                lambda q, k: ((q - k) <= before) & ((k - q) <= after)  # noqa: B023
            )(torch.arange(9)[:, None], torch.arange(13)[None])
            gm = make_fx(function, decomposition_table=select_decomp_table(), tracing_mode="fake")()
            (result,) = next(node for node in gm.graph.nodes if node.op == "output").args
            found += index_masks.of_bool(result, query, key) is not None
    assert found >= 36


def random_mask_of_lengths(own, rows, keys, tensors):
    shift = own.choice((0, keys - rows, 2))
    q, k = torch.arange(rows) + shift, torch.arange(keys)
    if own.random() < 0.3:
        before = torch.cat([q[:1] - 1, q[:-1]])
        q = q + own.choice((1, 2)) * ((q - before) != 1).cumsum(0)
    if own.random() < 0.3:
        k = F.pad(k, (0, 3), value=7)[:keys] if own.random() < 0.5 else (k * 0 + 1).cumsum(0) - 1
    return random_mask(own, q[:, None], k[None], tensors, depth=own.choice((0, 1, 3)))


@pytest.mark.parametrize("seed", range(50))
def test_random_masks_of_lengths_that_vary(seed):
    rows, keys = random.Random(seed).choice(((9, 13), (13, 9)))

    def arguments(rows, keys):
        shapes = (2, 3, rows, 4), (2, 3, keys, 4)
        return *map(torch.randn, shapes), *(torch.rand(shape) > 0.4 for shape in ((2, 1, 1, keys), (rows, keys), (2, 3, 1, 1)))

    def function(query, key, *tensors):
        return random_mask_of_lengths(random.Random(seed), query.shape[2], key.shape[2], tensors)

    gm = make_fx(function, decomposition_table=select_decomp_table(), tracing_mode="symbolic")(*arguments(rows, keys))
    (result,) = next(node for node in gm.graph.nodes if node.op == "output").args
    inputs = [node.meta["val"] for node in gm.graph.nodes if node.op == "placeholder"]
    seen = index_masks.of_bool(result, *inputs[:2])
    for rows, keys in ((9, 13), (13, 9), (16, 16), (5, 40), (40, 5)):
        given = arguments(rows, keys)
        if seen is not None and gm.shape_env.evaluate_guards_for_args(inputs, given):
            recorder = Recorder(gm)
            mask = recorder.run(*given)
            assert torch.equal(what_is_shown(seen, recorder.values, rows, keys), mask.expand(2, 3, rows, keys))
