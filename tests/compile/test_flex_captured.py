"""flex_attention whose functions read captured tensors at computed places, and learn them, against eager in float64."""

import copy
import math

import numerics
import pytest
import tile_ops
import torch
from combinations import long
from compiled_calls import check, compiled
from test_flex_attention import HEADS, KEYS, ROWS, compare, inputs, trains  # noqa: F401 each test needs the fixture
from tile_ops._compile import flex
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile", "ignore:return_lse")
WINDOW = 7  # as in Swin


def bias(table):
    return lambda score, b, h, q, k: score + table[h, q, k]


def bias_of_keys(table):
    return lambda score, b, h, q, k: score + table[0, h, 0, k]


def scaled_by_both(table):
    return lambda score, b, h, q, k: score * table[q, k]


def alibi(slopes):
    return lambda score, b, h, q, k: score - slopes[h] * (q - k).abs()


def softcap(caps):
    return lambda score, b, h, q, k: caps[1] * torch.tanh(score / caps[1])


def softcaps(caps):
    return lambda score, b, h, q, k: caps[h] * torch.tanh(score / caps[h])


def bucket(distance, buckets=32, most=128):
    """Returns the buckets of T5's relative positions."""
    buckets //= 2
    first = (distance > 0).to(torch.long) * buckets
    distance = distance.abs()
    exact = buckets // 2
    far = exact + (torch.log(distance.float() / exact) / math.log(most / exact) * (buckets - exact)).to(torch.long)
    return first + torch.where(distance < exact, distance, torch.min(far, torch.full_like(far, buckets - 1)))


def t5(table):
    return lambda score, b, h, q, k: score + table[bucket(k - q), h]


def clipped(table):
    return lambda score, b, h, q, k: score + table[(q - k).clamp(-8, 8) + 8, h]


def from_the_end(table):
    return lambda score, b, h, q, k: score * table[q - k]


def swin(table):
    def function(score, b, h, q, k):
        rows, columns = q // WINDOW - k // WINDOW + WINDOW, q % WINDOW - k % WINDOW + WINDOW
        return score + table[rows * (2 * WINDOW) + columns, h]

    return function


PLACES = torch.randint(0, 20, (ROWS, KEYS), generator=torch.Generator().manual_seed(3), device="cpu")
PLACES = PLACES.to(torch.get_default_device())


def by_indices(table):
    return lambda score, b, h, q, k: score + table[PLACES[q, k], h]


# {name: (the function of a score, the shape of what it learns)}
LEARNED = {
    "bias": (bias, (HEADS, ROWS, KEYS)),
    "bias of keys": (bias_of_keys, (1, HEADS, 1, KEYS)),
    "scaled by both": (scaled_by_both, (ROWS, KEYS)),
    "alibi": (alibi, (HEADS,)),
    "softcap": (softcap, (3,)),
    "softcaps": (softcaps, (HEADS,)),
    "t5": (t5, (32, HEADS)),
    "clipped": (clipped, (17, HEADS)),
    "from the end": (from_the_end, (KEYS,)),
    "swin": (swin, (4 * WINDOW * WINDOW, HEADS)),
    "by indices": (by_indices, (20, HEADS)),
}
MASKS = {"none": None, "causal": lambda b, h, q, k: q >= k, "documents": lambda b, h, q, k: q // 11 == k // 11}


def attention(score, mask="none", **options):
    """Returns a function of (query, key, value, learned)."""
    block_mask = MASKS[mask] and create_block_mask(MASKS[mask], None, None, ROWS, KEYS, device=torch.get_default_device())

    def call(query, key, value, learned):
        return flex_attention(query, key, value, LEARNED[score][0](learned), block_mask, **options)

    return call


def learned(score, grad=True, dtype=torch.float32):
    torch.manual_seed(12)
    return (torch.rand(LEARNED[score][1], dtype=dtype) + 0.5).requires_grad_(grad)


@pytest.mark.parametrize("score", ["t5", "swin", "from the end", "by indices"])
def test_without_a_gradient(score):
    compare("tile", attention(score), *inputs(), learned(score, grad=False))


@pytest.mark.parametrize("score, mask", [(score, "none") for score in LEARNED] + [("alibi", "documents"), ("t5", "causal")])
def test_gradients(score, mask):
    compare("tile", attention(score, mask), *inputs(grad=True), learned(score))


@pytest.mark.parametrize("score", ["t5", long("alibi"), long("bias"), long("softcap")])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_dtypes(score, dtype):
    """Parameters are of the model's dtype."""
    compare("tile", attention(score, "causal"), *inputs(dtype, grad=True), learned(score, dtype=dtype))


def test_learned_in_wider_floats():
    compare("tile", attention("alibi", "causal"), *inputs(torch.bfloat16, grad=True), learned("alibi"))


def test_only_what_is_learned_has_a_gradient():
    compare("tile", attention("swin"), *inputs(), learned("swin"))


@pytest.mark.parametrize("score", ["alibi", "t5"])
def test_heads_that_share_keys(score):
    compare("tile", attention(score, "causal", enable_gqa=True), *inputs(key_heads=2, grad=True), learned(score))


def test_in_steps():
    compare("torch", attention("t5"), *inputs(grad=True), learned("t5"))


def documents(query, key, value, of_query, of_key, slopes):
    def score(score, b, h, q, k):
        return torch.where(of_query[b, q] == of_key[b, k], score - slopes[h] * (q - k).abs(), -float("inf"))

    return flex_attention(query, key, value, score)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32], ids=str)
def test_document_ids(dtype):
    """Numbers beyond those that float32 holds stay apart."""
    of_query, of_key = ((torch.arange(n) // 11 + 2**30 + torch.zeros(2, 1)).to(dtype) for n in (ROWS, KEYS))
    of_key[:, ::5] = of_key[:, ::5].roll(1, 1)
    compare("tile", documents, *inputs(grad=True), of_query, of_key, learned("alibi"))


def test_one_tensor_that_is_read_in_two_ways():
    def call(query, key, value, table):
        return flex_attention(query, key, value, lambda score, b, h, q, k: score * table[q, k] + table[h, (q + k) % 9])

    table = torch.rand(ROWS, KEYS, requires_grad=True)
    compare("tile", call, *inputs(grad=True), table)


def test_some_are_learned():
    def call(query, key, value, slopes, factors, table):
        def score(score, b, h, q, k):
            return score * factors[k] - slopes[h] * (q - k).abs() + table[(q - k) % 5] * factors[k]

        return flex_attention(query, key, value, score)

    slopes, table = torch.rand(HEADS, requires_grad=True), torch.rand(5, requires_grad=True)
    compare("tile", call, *inputs(grad=True), slopes, torch.rand(KEYS), table)


@pytest.mark.parametrize("score", ["alibi", "clipped", "t5"])
def test_lengths_that_vary(score):
    def call(query, key, value, table):
        return flex_attention(query, key, value, LEARNED[score][0](table))

    run = compiled(call, dynamic=True, options={"attention": "tile"})
    for length in (9, 17, 34):
        numerics.check_call(run, call, (*inputs(rows=length, keys=length, grad=True), learned(score)))
    (graph, *_) = tile_ops.compile_report(reset=True).graphs
    assert not graph.steps


def test_learned_under_autocast():
    call = attention("t5", "causal")

    def lowered(query, key, value, table):
        with torch.autocast(query.device.type, torch.bfloat16):
            return call(query, key, value, table)

    arguments = *inputs(grad=True), learned("t5")
    numerics.check_call(compiled(lowered, options={"attention": "tile"}), lowered, arguments, reference=call)


def test_an_index_past_the_end():
    def call(query, key, value, table):
        return flex_attention(query, key, value, lambda score, b, h, q, k: score + table[k + 1])

    with pytest.raises((RuntimeError, IndexError), match="each index into a table of the score is in its range"):
        compiled(call, options={"attention": "tile"})(*inputs(), torch.rand(KEYS))


def test_a_second_derivative_is_an_error():
    arguments = *inputs(grad=True), learned("alibi")
    out = compiled(attention("alibi"), options={"attention": "tile"})(*arguments)
    with pytest.raises(RuntimeError, match="double backward"):
        torch.autograd.grad(out.sum(), arguments, create_graph=True)[3].sum().backward()


def test_modules_that_learn():
    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.slopes = torch.nn.Embedding(32, HEADS), torch.nn.Parameter(torch.rand(HEADS))

        def forward(self, query, key, value):
            table, slopes = self.table.weight, self.slopes
            return flex_attention(
                query, key, value, lambda score, b, h, q, k: score * slopes[h].exp() + table[bucket(k - q), h]
            )

    module = Attention()
    arguments = inputs(grad=True)
    exact_module, exact_arguments = copy.deepcopy(module).double(), numerics.widen(arguments)

    def gradients(call, module, arguments):
        return torch.autograd.grad(call(*arguments).square().sum(), [*arguments, *module.parameters()])

    theirs, exact = gradients(module, module, arguments), gradients(exact_module, exact_module, exact_arguments)
    ours = gradients(compiled(module, options={"attention": "tile"}), module, arguments)
    for triple in zip(ours, theirs, exact, strict=True):
        numerics.check(*triple, gradient=True)


def test_biases_are_those_of_attention():
    """A bias of each score is attention's attn_bias, whose kernels copy its tiles ahead of time."""
    check(attention("bias", "causal"), *inputs(grad=True), learned("bias"), options={"attention": "tile"})
    called = {name for graph in tile_ops.compile_report(reset=True).graphs for name in graph.called}
    assert called == {"tile._attention_saving.default", "tile.attention_backward.default"}


def test_a_number_that_is_learned():
    """Eager mode has no gradient of it."""

    def theirs(query, key, value, cap):
        scores = query @ key.mT / query.shape[3] ** 0.5
        return (torch.tanh(scores / cap) * cap).softmax(-1) @ value

    def ours(query, key, value, cap):
        return flex_attention(query, key, value, lambda score, b, h, q, k: torch.tanh(score / cap) * cap)

    cap = torch.tensor(2.0, requires_grad=True)
    numerics.check_call(compiled(ours, options={"attention": "tile"}), theirs, (*inputs(grad=True), cap))


HASHED = {
    "64 bits": lambda q, k: ((q.long() + k) * 1000003) % 63,
    "from constants": lambda q, k: (torch.where(q > k, 3, 5) * 1000000007 + q) % 63,
    "from a condition": lambda q, k: ((q > k) * 5 * 1000000007 + q) % 63,
    "a constant or another": lambda q, k: torch.where(q > k, 3, 5),
}


@pytest.mark.parametrize("place", HASHED)
def test_places_that_32_bits_do_not_count(place):
    """The divisor is no power of two, of which the low bits alone would give the right remainders."""
    torch.manual_seed(3)
    query, key, table = torch.randn(1, 1, 2304, 8), torch.randn(1, 1, 8, 8), torch.randn(63)

    def call(query, key, table):
        return flex_attention(query, key, key, lambda s, b, h, q, k: s + table[HASHED[place](q, k)])

    q, k = torch.arange(2304, dtype=torch.int32)[:, None], torch.arange(8, dtype=torch.int32)
    scores = query.double() @ key.double().mT / 8**0.5 + table.double()[HASHED[place](q, k)]
    expected = (scores.softmax(-1) @ key.double()).float()
    torch.testing.assert_close(compiled(call, options={"attention": "tile"})(query, key, table), expected, rtol=1e-5, atol=1e-5)
    (graph,) = tile_ops.compile_report(reset=True).graphs
    assert any("_attention_with_score" in name for name in graph.called)


def test_the_gradient_of_a_table_in_a_fixed_order_takes_steps_on_a_gpu():
    """Blocks of a GPU add to a table in any order, so that torch's deterministic algorithms leave it to steps."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        query, table = torch.empty(1, 2, 4, 8, device="cuda"), torch.empty(9, device="cuda", requires_grad=True)
        score = "t0 = (iq - ik); t1 = x0[t0]; t2 = (score + t1); t2", ((0, None),)

        def ours(mask=None):
            kept = torch.are_deterministic_algorithms_enabled()
            torch.use_deterministic_algorithms(True)
            try:
                return flex._ours(
                    query, query, query, mask, 1.0, {}, [table], (), (True, False, False), score, ((None, None), ())
                )
            finally:
                torch.use_deterministic_algorithms(kept)

        assert ours() == "the gradient of a table has no fixed order on a GPU"
        table.requires_grad_(False)
        assert not isinstance(ours(), str)
    assert not flex._wants_fixed_order(torch.empty(1))
