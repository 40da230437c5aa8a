"""flex_attention: what its functions compute of scores, forward and gradients, against eager in float64."""

import numerics
import pytest
import tile_ops
import torch
from combinations import by_turns, long
from compiled_calls import check, compiled
from torch.nn.attention import flex_attention as flex
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile", "ignore:return_lse")
BATCH, HEADS, ROWS, KEYS = 2, 4, 37, 53


@pytest.fixture(autouse=True)
def trains(uncached, monkeypatch):
    """Lets the public function take tensors that require a gradient on a CPU: its operator has one there, too."""
    monkeypatch.setattr(flex, "_validate_device", lambda *_: None)
    tile_ops.compile_report(reset=True)


def plain(captured):
    return None


def relative(captured):
    return lambda score, b, h, q, k: score + (q - k)


def alibi(captured):
    (slopes,) = captured
    return lambda score, b, h, q, k: score - slopes[h] * (q - k).abs()


def softcap(captured):
    return lambda score, b, h, q, k: 5 * torch.tanh(score / 5)


def clamped(captured):
    return lambda score, b, h, q, k: score.clamp(-0.5, 0.7) * (h + 1)


def causal_in_the_score(captured):
    return lambda score, b, h, q, k: torch.where(q + 20 >= k, score, -float("inf"))


def bias(captured):
    (table,) = captured
    return lambda score, b, h, q, k: score + table[b, h, q, k]


def bias_of_positions(captured):
    (table,) = captured
    return lambda score, b, h, q, k: score + table[q, k] * 0.5


def bias_of_distance(captured):
    (table,) = captured
    return lambda score, b, h, q, k: score + table[h, q - k + KEYS]


def no_text(captured):
    return lambda score, b, h, q, k: score + torch.erfinv((q - k) / 100) * 0.5


# {name: (the function of a score, shapes of what it captures)}
SCORES = {
    "plain": (plain, ()),
    "relative": (relative, ()),
    "alibi": (alibi, [(HEADS,)]),
    "softcap": (softcap, ()),
    "clamped": (clamped, ()),
    "causal in the score": (causal_in_the_score, ()),
    "bias": (bias, [(BATCH, HEADS, ROWS, KEYS)]),
    "bias of positions": (bias_of_positions, [(ROWS, KEYS)]),
    "bias of distance": (bias_of_distance, [(HEADS, ROWS + KEYS + 1)]),
    "no text": (no_text, ()),
}
DOCUMENTS = torch.arange(KEYS) // 11
LENGTHS = torch.tensor([3, 40])
MASKS = {
    "none": None,
    "causal": lambda b, h, q, k: q >= k,
    "window": lambda b, h, q, k: (q >= k) & (q - k <= 7),
    "prefix": lambda b, h, q, k: (k <= LENGTHS[b]) | (q >= k),
    "documents": lambda b, h, q, k: DOCUMENTS[q] == DOCUMENTS[k],
    "rows without keys": lambda b, h, q, k: (q > k + 4) & (h != 1),
}


def inputs(dtype=torch.float32, key_heads=HEADS, depth=16, grad=False, rows=ROWS, keys=KEYS, batch=BATCH):
    torch.manual_seed(11)
    shapes = ((batch, HEADS, rows, depth), (batch, key_heads, keys, depth), (batch, key_heads, keys, depth))
    return [torch.randn(shape, dtype=dtype).requires_grad_(grad) for shape in shapes]


def attention(score="plain", mask="none", **options):
    """Returns a function of (query, key, value, *captured)."""
    mask_mod = MASKS[mask]
    block_mask = mask_mod and create_block_mask(mask_mod, BATCH, HEADS, ROWS, KEYS, device=torch.get_default_device())

    def call(query, key, value, *captured):
        return flex_attention(query, key, value, SCORES[score][0](captured), block_mask, **options)

    return call


def captured(score, grad=False):
    torch.manual_seed(12)
    return [torch.randn(shape).requires_grad_(grad) for shape in SCORES[score][1]]


NO_TEXT = {"no text": "no text: erfinv of a score"}
FORMS = pytest.mark.parametrize("form", ["tile", "torch"])
GRADS = pytest.mark.parametrize("grad", [False, True])
MOSTLY_OURS = pytest.mark.parametrize("form", ["tile", long("torch")])
FORMS_BY_TURNS = pytest.mark.parametrize("form, grad", by_turns(["tile", "torch"], {"gradient": True, "result": False}))
PARTS = "attention", "_attention_saving", "attention_backward"
SCORED = "_attention_with_score", "_attention_with_score_saving", "_attention_with_score_backward"
OURS = {f"tile.{name}.default" for name in (*PARTS, *SCORED)}


def compare(form, call, *arguments, why=None):
    """Checks a call by our attention ("tile") or in steps ("torch"), and the report. why: ours cannot compute it."""
    check(call, *arguments, options={"attention": form})
    for graph in tile_ops.compile_report(reset=True).graphs:
        called = set(graph.called) & OURS
        if form == "tile" and why is None:
            assert called and not graph.steps
        else:
            assert not called and graph.steps in ({"flex_attention": why or "options ask for it"}, {})


IN_STEPS = ("plain", "bias of positions")  # those of `make test`


@pytest.mark.parametrize(
    "score, form",
    [(score, "tile") for score in SCORES]
    + [(score, "torch") if score in IN_STEPS else long(score, "torch") for score in SCORES],
)
def test_scores(score, form):
    compare(form, attention(score), *inputs(), *captured(score), why=NO_TEXT.get(score) if form == "tile" else None)


@pytest.mark.parametrize("mask, score, form", by_turns(MASKS.keys(), ["plain", "softcap"], ["tile", "torch"], kept=2))
def test_masks(mask, score, form):
    compare(form, attention(score, mask), *inputs())


TRAINED = [("plain", "window"), ("alibi", "causal"), ("softcap", "rows without keys"), ("bias", "prefix"), ("clamped", "none")]


@pytest.mark.parametrize(
    "score, mask, form",
    [(*each, "tile") for each in TRAINED] + [(*TRAINED[0], "torch"), *(long(*each, "torch") for each in TRAINED[1:])],
)
def test_gradients(score, mask, form):
    compare(form, attention(score, mask), *inputs(grad=True), *captured(score))


@pytest.mark.parametrize("score", ["alibi", *map(long, ("bias", "bias of positions", "bias of distance"))])
@GRADS
def test_gradients_of_what_is_captured(score, grad):
    compare("tile", attention(score, "causal"), *inputs(grad=True), *captured(score, grad=grad))


@pytest.mark.parametrize(
    "dtype, form",
    [(torch.bfloat16, "tile"), (torch.bfloat16, "torch"), (torch.float64, "tile")]
    + [long(torch.float64, "torch"), long(torch.float16, "tile"), long(torch.float16, "torch")],
)
def test_dtypes(dtype, form):
    compare(form, attention("relative", "window"), *inputs(dtype, grad=True))


@FORMS_BY_TURNS
def test_heads_that_share_keys(grad, form):
    compare(form, attention("softcap", "causal", enable_gqa=True, scale=0.3), *inputs(key_heads=2, grad=grad))


@FORMS_BY_TURNS
def test_the_logarithm_of_the_sum(grad, form):
    compare(form, attention("softcap", "causal", return_lse=True), *inputs(grad=grad))


@FORMS
def test_the_logarithm_of_the_sum_of_rows_without_keys(form):
    call = attention("softcap", "rows without keys", return_lse=True)
    arguments = inputs(grad=True)
    out, lse = compiled(call, options={"attention": form})(*arguments)
    torch.testing.assert_close((out, lse), call(*arguments))
    (torch.where(lse > -1e30, lse, 0).sum() + out.sum()).backward()
    assert all(torch.isfinite(each.grad).all() for each in arguments)


def test_the_largest_score(monkeypatch):
    monkeypatch.setattr(flex, "_apply_kernel_options", lambda *_: {"BACKEND": "AUTO"})  # else refused on a CPU
    call = attention("relative", "causal", return_aux=AuxRequest(lse=True, max_scores=True))
    out, rest = compiled(call)(*inputs())
    expected, theirs = call(*inputs())
    torch.testing.assert_close((out, *rest), (expected, *theirs))


@FORMS_BY_TURNS
def test_one_batch_of_keys_serves_all(form, grad):
    query, key, value = inputs(grad=grad)
    key, value = (each.detach()[:1].clone().requires_grad_(grad) for each in (key, value))

    compare(form, attention("relative", "causal"), query, key, value)


@MOSTLY_OURS
def test_the_result_lies_in_memory_as_the_query(form):
    query, key, value = (each.transpose(1, 2).contiguous().transpose(1, 2) for each in inputs())
    call = attention("relative")
    assert compiled(call, options={"attention": form})(query, key, value).stride() == call(query, key, value).stride()

    def merged(query, key, value):
        return call(query, key, value).transpose(1, 2).view(BATCH, ROWS, -1)

    tile_ops.compile_report(reset=True)
    compare(form, merged, query, key, value)


def by_head(query, key, value):
    return flex_attention(query, key, value, lambda score, b, h, q, k: score + (q - k) * h)


@pytest.mark.parametrize(
    "rows, keys, form",
    [(1, 1, "tile"), (1, 9, "tile"), (9, 1, "tile"), (1, 1, "torch"), long(1, 9, "torch"), long(9, 1, "torch")],
)
def test_small_sizes(rows, keys, form):
    compare(form, by_head, *inputs(rows=rows, keys=keys))


@FORMS
@pytest.mark.parametrize("rows, keys, batch", [(0, 5, 2), (5, 0, 2), (5, 3, 0)])
def test_empty_sizes(rows, keys, batch, form):
    arguments = inputs(rows=rows, keys=keys, batch=batch, grad=True)
    out = compiled(by_head, options={"attention": form})(*arguments)
    assert torch.equal(out, torch.zeros_like(arguments[0]))  # eager takes none of them
    out.sum().backward()
    assert all(torch.equal(each.grad, torch.zeros_like(each)) for each in arguments)


@MOSTLY_OURS
def test_lengths_that_vary(form):
    def call(query, key, value):
        return flex_attention(query, key, value, lambda score, b, h, q, k: torch.where(q >= k, score, -float("inf")))

    run = compiled(call, dynamic=True, options={"attention": form})
    for length in (9, 17, 34):
        arguments = inputs(rows=length, keys=length)
        numerics.check(run(*arguments), call(*arguments), call(*numerics.widen(arguments)))


@FORMS
def test_autocast(form):
    call = attention("relative", "causal")

    def lowered(query, key, value):
        with torch.autocast(query.device.type, torch.bfloat16):
            return call(query, key, value)

    ours, theirs = compiled(lowered, options={"attention": form})(*inputs()), lowered(*inputs())
    assert ours.dtype == theirs.dtype == torch.bfloat16
    numerics.check(ours, theirs, call(*inputs(torch.float64)))


@MOSTLY_OURS
def test_under_activation_checkpointing(form):
    """Eager attention has wrong gradients there."""
    call = attention("softcap", "causal")

    def plain(query, key, value):
        return call(query.sin(), key, value)

    def saved(query, key, value):
        return torch.utils.checkpoint.checkpoint(call, query.sin(), key, value, use_reentrant=False)

    numerics.check_call(compiled(saved, options={"attention": form}), plain, inputs(grad=True))


@pytest.mark.at_home
def test_the_report_gives_the_reason():
    call = attention("softcap")
    compiled(lambda *arguments: call(*arguments).relu())(*inputs())
    (graph,) = tile_ops.compile_report(reset=True).graphs
    assert graph.steps == {"flex_attention": "too few scores"}
    assert "flex_attention in steps: too few scores" in str(graph)


def test_many_scores_are_computed_by_ours():
    query, key, value = inputs(rows=128, keys=128)
    compiled(by_head)(query, key, value)
    (graph,) = tile_ops.compile_report(reset=True).graphs
    assert set(graph.called) == {"tile._attention_with_score.default"} and not graph.steps


def test_deep_heads_are_computed_in_steps():
    compare("tile", by_head, *inputs(depth=257), why="ours takes heads of at most 256")


def test_longer_tables():
    """Their first elements are read."""
    table, positions = torch.randn(HEADS + 3), torch.randn(KEYS + 5, ROWS + 9)

    def call(query, key, value, table, positions):
        return flex_attention(query, key, value, lambda score, b, h, q, k: score * table[h] + positions[k, q])

    compare("tile", call, *inputs(), table, positions)


def test_templates_of_inductor_are_refused():
    from tile_ops._compile.active import Refused
    from tile_ops._compile.scheduling import TileScheduling

    class Node:
        node = None

        def get_template_node(self):
            return self

    with pytest.raises(Refused, match="a template of inductor's, Node"):
        TileScheduling(None).codegen_template(Node(), [], [])
