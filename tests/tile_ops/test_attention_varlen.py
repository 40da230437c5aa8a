"""Attention over packed sequences against attention of each, values and gradients; its errors."""

import contract
import pytest
import tile_ops  # noqa: F401
import torch
from attention_reference import peer
from numerics import check_call
from opinfo import DTYPES
from packed_samples import each_alone, ours, packed, starts

pytestmark = pytest.mark.usefixtures("deterministic")

varlen = torch.ops.tile.attention_varlen
LENGTHS = [
    ([3, 150, 0, 70], [130, 3, 5, 0]),
    ([70], [90]),
    ([1, 1, 1], [200, 7, 64]),
    ([129, 64, 65, 1, 0, 2], [300, 64, 63, 5, 9, 2]),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows, keys", LENGTHS)
def test_lengths(rows, keys, dtype):
    for options in ({}, {"is_causal": True}, {"window": (9, 4)}):
        check_call(ours(rows, keys), each_alone(rows, keys), packed(rows, keys, dtype=dtype), options)


def test_equals_attention_of_each_sequence():
    # With a single key the gradients are rounding noise, and the noise is equal too.
    rows, keys = [1, 70, 1, 5], [1, 90, 200, 1]
    q, k, v = packed(rows, keys)
    out, lse = ours(rows, keys)(q, k, v, is_causal=True)
    results = []
    for one in zip(q.split(rows), k.split(keys), v.split(keys)):
        each = torch.ops.tile.attention(*(x.transpose(0, 1).unsqueeze(0) for x in one), is_causal=True)
        results.append((each[0][0].transpose(0, 1), each[1][0]))
    outs, lses = torch.cat([out for out, _ in results]), torch.cat([lse for _, lse in results], 1)
    assert torch.equal(out, outs) and torch.equal(lse, lses)
    incoming = torch.randn_like(out), torch.randn_like(lse).masked_fill(lse == -torch.inf, 0)
    for mine, other in zip(
        torch.autograd.grad((out, lse), (q, k, v), incoming), torch.autograd.grad((outs, lses), (q, k, v), incoming)
    ):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("align", ["bottom_right", "top_left"])
def test_options(align):
    rows, keys = [40, 130, 7], [90, 65, 150]
    for heads, key_heads in ((4, 2), (8, 8)):
        options = {
            "causal_align": align,
            "window": (30, 10),
            "softcap": 2.0,
            "alibi_slopes": torch.rand(heads),
            "sinks": torch.randn(heads, dtype=torch.float64, requires_grad=True),
        }
        check_call(ours(rows, keys), each_alone(rows, keys), packed(rows, keys, heads, key_heads, dtype=torch.float64), options)


def test_dropout_of_packed_sequences():
    rows, keys, p, seed = [40, 70], [90, 65], 0.25, torch.tensor([5, 6])
    query = torch.zeros(110, 2, 1, dtype=torch.float64)
    key = torch.zeros(155, 2, 1, dtype=torch.float64)
    value = torch.eye(155, dtype=torch.float64)[:, None].expand(155, 2, 155)
    kept = ours(rows, keys)(query, key, value, dropout_p=p, seed=seed)[0].transpose(0, 1) != 0  # [heads, rows, keys]
    assert not kept[:, :40, 90:].any() and not kept[:, 40:, :90].any()
    fraction = (kept.sum() / (2 * (40 * 90 + 70 * 65))).item()
    assert abs(fraction - 0.75) < 0.02
    q, k, v = packed(rows, keys, 2, 2, dtype=torch.float64)

    def reference(q, k, v):
        outs = []
        for i, (r, c) in enumerate(((slice(0, 40), slice(0, 90)), (slice(40, 110), slice(90, 155)))):
            one = peer(*(x.transpose(0, 1).unsqueeze(0) for x in (q[r], k[c], v[c])), kept=kept[:, r, c].double() / (1 - p))
            outs.append(one[0][0].transpose(0, 1))
        return torch.cat(outs)

    check_call(lambda *a: ours(rows, keys)(*a, dropout_p=p, seed=seed)[0], reference, (q, k, v))


def test_layouts():
    rows, keys = [40, 30], [50, 20]
    q, k, v = packed(rows, keys)
    expected = ours(rows, keys)(q, k, v)
    transposed = [x.detach().transpose(0, 1).contiguous().transpose(0, 1) for x in (q, k, v)]
    for mine, other in zip(ours(rows, keys)(*transposed), expected):
        assert torch.equal(mine, other)
    assert ours(rows, keys)(*transposed)[0].stride()[1] > ours(rows, keys)(*transposed)[0].stride()[0]


@pytest.mark.parametrize(
    "check",
    [
        contract.opcheck,
        pytest.param(contract.gradcheck, marks=pytest.mark.slow),
        contract.compiles,
        contract.exports,
        contract.expanded_gradients,
        contract.two_threads,
        contract.deterministic,
    ],
    ids=lambda c: c.__name__,
)
def test_contract(check):
    args = packed([2, 4], [5, 6], depth=8, value_depth=8, dtype=torch.float64)
    check(varlen, (*args, starts([2, 4]), starts([5, 6]), 4, 6), {"is_causal": True})


def call(rows=(2, 3), keys=(4, 5), longest=(3, 5), shapes=None, begins=None, dtype=torch.int32):
    shapes = shapes or ((5, 4, 8), (9, 2, 8), (9, 2, 8))
    begins = begins or [starts(rows, dtype), starts(keys, dtype)]
    return varlen(*(torch.ones(shape) for shape in shapes), *begins, *longest)


@pytest.mark.parametrize(
    "make, kind, text",
    [
        (
            lambda: call(shapes=((5, 4, 8), (9, 2, 8), (8, 2, 8))),
            ValueError,
            "'key' is [9, 2, 8] but 'value' [8, 2, 8]; their rows and heads must be equal",
        ),
        (
            lambda: call(shapes=((5, 4, 7), (9, 2, 8), (9, 2, 8))),
            ValueError,
            "'query' is [5, 4, 7] but 'key' [9, 2, 8]; their head_dim must be equal",
        ),
        (lambda: call(dtype=torch.float32), TypeError, "'cu_seqlens_q' is Float; convert it to Int or Long"),
        (
            lambda: call(begins=[starts([2, 3]), torch.zeros(2, 3).int()]),
            ValueError,
            "'cu_seqlens_k' has shape [2, 3]; it must be [sequences + 1]: where each begins, and the end of the last",
        ),
        (
            lambda: call(keys=(9,)),
            ValueError,
            "'cu_seqlens_q' has 3 entries and 'cu_seqlens_k' 2; both must have one more than there are sequences",
        ),
        (
            lambda: call(shapes=((5, 4, 8), (9, 3, 8), (9, 3, 8))),
            ValueError,
            "'query' has 4 heads but 'key' 3; the heads of query must be a multiple of those of key",
        ),
        (
            lambda: call(shapes=((5, 4, 257), (9, 2, 257), (9, 2, 8))),
            NotImplementedError,
            "head_dim is 257 and the most is 256; split it over more heads",
        ),
        (
            lambda: call(shapes=((5, 4, 8), (9, 2, 8), (9, 2, 300))),
            NotImplementedError,
            "head_dim is 300 and the most is 256; split it over more heads",
        ),
    ],
)
def test_errors(make, kind, text):
    with pytest.raises(kind) as error:
        make()
    assert str(error.value).splitlines()[0] == f"tile::attention_varlen: {text}"


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: call(rows=(2, 2)), "'cu_seqlens_q' runs from 0 to 4; it must begin with 0 and end with the number of rows, 5"),
        (lambda: call(keys=(10, -1), longest=(3, 10)), "'cu_seqlens_k' falls from 10 to 9; it must not fall"),
        (
            lambda: call(longest=(2, 5)),
            "sequence 1 of 'cu_seqlens_q' has 3 rows and max_seqlen_q is 2; give the length of the longest",
        ),
        (
            lambda: call(longest=(3, 3)),
            "sequence 0 of 'cu_seqlens_k' has 4 rows and max_seqlen_k is 3; give the length of the longest",
        ),
    ],
)
def test_lengths_that_do_not_fit(make, text, device):
    if device.type == "cpu":
        with pytest.raises(ValueError) as error:
            make()
        assert str(error.value).splitlines()[0] == f"tile::attention_varlen: {text}"
    elif "max_seqlen" not in text:  # there the grid is large enough all the same
        with pytest.raises(RuntimeError, match="assertion failed: cu_seqlens_. rises from 0 to the rows of"):
            make()
            tile_ops.synchronize()
