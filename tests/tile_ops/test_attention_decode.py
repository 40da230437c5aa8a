"""Attention of few queries over a cache, whole or in pages, against torch's of each sequence; its errors."""

import contract
import pytest
import tile_ops  # noqa: F401
import torch
from attention_reference import triples
from numerics import DRAWS, FEW, check
from opinfo import DTYPES

decode = torch.ops.tile.attention_decode


def caches(batch, heads, length, depth, dtype, page=0, value_depth=None):
    """Keys and values [batch, heads, length, depth], and what the operator is given: whole caches, or pages and their
    table."""
    if not page:
        dense = [torch.randn(batch, heads, length, d).to(dtype) for d in (depth, value_depth or depth)]
        return dense, dense, None
    each = -(-length // page)
    table = torch.randperm(each * batch + 3)[: each * batch].view(batch, each)
    pages = [torch.randn(each * batch + 3, heads, page, d).to(dtype) for d in (depth, value_depth or depth)]
    dense = [p[table].transpose(1, 2).flatten(2, 3)[:, :, :length] for p in pages]
    return dense, pages, table.int()


def signed(x):
    """The same magnitudes with random signs."""
    return x * (torch.randint(0, 2, x.shape) * 2 - 1).to(x.dtype)


def run(query, lengths, cache, **options):
    """Asserts the numerics rule for every sequence."""
    rows = query.shape[1] * query.shape[2]
    others = []
    for i, (what, *triple) in enumerate(triples(decode, query, lengths, cache, options)):
        try:
            check(*triple, what=what)
        except AssertionError:
            if rows >= FEW or query.dtype == torch.float64:
                raise
            while len(others) < DRAWS:  # few sums of probabilities: the luck of one draw
                others.append([draw[1:] for draw in triples(decode, signed(query), lengths, cache, options)])
            check(*triple, what=what, draws=[draw[i] for draw in others])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("page", [0, 1, 16, 24, 48, 64, 256])
def test_lengths(page, dtype):
    for queries, length in ((1, 500), (1, 3000), (1, 1), (3, 700), (20, 300)):
        query = torch.randn(3, 8, queries, 64).to(dtype)
        run(query, [length, length // 2, length // 7], caches(3, 2, length, 64, dtype, page))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("depth, value_depth", [(16, 16), (40, 72), (128, 128), (256, 200)])
def test_head_dims(depth, value_depth, dtype):
    query = torch.randn(2, 4, 1, depth).to(dtype)
    run(query, [130, 77], caches(2, 4, 150, depth, dtype, value_depth=value_depth))


@pytest.mark.parametrize("heads, key_heads", [(1, 1), (6, 2), (40, 1), (8, 8)])
def test_heads(heads, key_heads):
    for queries in (1, 5):
        query = torch.randn(2, heads, queries, 32)
        run(query, [130, 77], caches(2, key_heads, 150, 32, torch.float32))


def test_sequences_shorter_than_their_queries():
    run(torch.randn(4, 4, 3, 32), [0, 1, 2, 3], caches(4, 2, 90, 32, torch.float32))


@pytest.mark.parametrize("page", [0, 6, 32])
@pytest.mark.parametrize("length", [300, 3000])
def test_options(length, page):
    query = torch.randn(2, 8, 2, 32)
    cache = caches(2, 2, length, 32, torch.float32, page)
    lengths = [length, length - 130]
    run(query, lengths, cache, window=(100, 0))
    run(query, lengths, cache, softcap=2.0, alibi_slopes=torch.rand(8))
    run(query, lengths, cache, alibi_slopes=torch.rand(2, 8), sinks=torch.randn(8), scale=0.3, window=(70, -1))


def test_layouts():
    (key, value), _, _ = caches(2, 2, 130, 32, torch.float32)
    query, lengths = torch.randn(2, 8, 3, 32), torch.tensor([130, 50])
    expected = decode(query, key, value, lengths)

    def transposed(x):
        return x.transpose(1, 2).contiguous().transpose(1, 2)

    out, lse = decode(transposed(query), transposed(key), transposed(value), lengths)
    assert torch.equal(out, expected[0]) and torch.equal(lse, expected[1])
    assert out.stride() == transposed(query).stride()


def test_zero_sizes():
    for batch, heads, key_heads, queries, length in ((0, 4, 2, 1, 9), (2, 0, 0, 1, 9), (2, 4, 2, 0, 9), (2, 4, 2, 1, 0)):
        out, lse = decode(
            torch.ones(batch, heads, queries, 8),
            torch.ones(batch, key_heads, length, 8),
            torch.ones(batch, key_heads, length, 8),
            torch.zeros(batch, dtype=torch.int64),
        )
        assert out.shape == (batch, heads, queries, 8) and not out.any() and torch.all(lse == -torch.inf)


@pytest.mark.parametrize("check", [contract.compiles, contract.two_threads, contract.deterministic], ids=lambda c: c.__name__)
@pytest.mark.parametrize("page", [0, 16])
def test_contract(check, page):
    _, given, table = caches(2, 2, 40, 8, torch.float64, page)
    args = torch.randn(2, 4, 1, 8, dtype=torch.float64), *given, torch.tensor([40, 3])
    check(decode, args, {} if table is None else {"block_table": table})


@pytest.mark.parametrize("page", [0, 16])
def test_opcheck_and_vmap(page):
    _, given, table = caches(2, 2, 40, 8, torch.float64, page)
    lengths, options = torch.tensor([40, 3]), {} if table is None else {"block_table": table}
    query = torch.randn(3, 2, 4, 1, 8, dtype=torch.float64)
    torch.library.opcheck(decode, (query[0], *given, lengths), options)
    each = [decode(q, *given, lengths, **options) for q in query]
    for mine, other in zip(torch.vmap(lambda q: decode(q, *given, lengths, **options))(query), zip(*each)):
        torch.testing.assert_close(mine, torch.stack(other))


def ones(*sizes, dtype=torch.float32):
    return torch.ones(sizes, dtype=dtype)


def call(query=(2, 4, 1, 8), key=(2, 2, 32, 8), value=(2, 2, 32, 8), lengths=(4, 5), table=None):
    return decode(ones(*query), ones(*key), ones(*value), torch.tensor(lengths), block_table=table)


@pytest.mark.parametrize(
    "make, kind, text",
    [
        (
            lambda: call(value=(2, 2, 31, 8)),
            ValueError,
            "'key_cache' is [2, 2, 32, 8] but 'value_cache' [2, 2, 31, 8]; only their head_dim may differ",
        ),
        (
            lambda: call(query=(2, 4, 1, 9)),
            ValueError,
            "'query' is [2, 4, 1, 9] but 'key_cache' [2, 2, 32, 8]; their head_dim must be equal",
        ),
        (
            lambda: call(query=(3, 4, 1, 8), lengths=(1, 2, 3)),
            ValueError,
            "'query' is [3, 4, 1, 8] but 'key_cache' [2, 2, 32, 8]; their batch must be equal, or give a block_table",
        ),
        (lambda: call(lengths=(1, 2, 3)), ValueError, "'lengths' has shape [3]; it must be [2], the keys of each sequence"),
        (
            lambda: call(table=ones(3, 2, dtype=torch.int32)),
            ValueError,
            "'block_table' has shape [3, 2]; it must be [2, pages of a sequence]",
        ),
        (lambda: call(table=ones(2, 2)), TypeError, "'block_table' is Float; convert it to Int or Long"),
    ],
)
def test_errors(make, kind, text):
    with pytest.raises(kind) as error:
        make()
    assert str(error.value).splitlines()[0] == f"tile::attention_decode: {text}"


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: call(lengths=(4, 33)), "lengths[1] is 33, but the cache holds 32 keys of a sequence"),
        (lambda: call(lengths=(-1, 33)), "lengths[0] is -1, but the cache holds 32 keys of a sequence"),
    ],
)
def test_lengths_that_do_not_fit(make, text, device):
    if device.type == "cpu":
        with pytest.raises(ValueError) as error:
            make()
        assert str(error.value).splitlines()[0] == f"tile::attention_decode: {text}"
    else:
        with pytest.raises(RuntimeError, match="a sequence is no longer than its cache"):
            make()
            tile_ops.synchronize()


def test_a_page_that_is_not_there():
    for page, number in ((16, 5), (16, 2**32), (12, 5), (12, -1), (12, 2**32)):
        table = torch.tensor([[0, 1], [1, number]])
        with pytest.raises(RuntimeError, match="every page of the block table is in the cache"):
            call(key=(5, 2, page, 8), value=(5, 2, page, 8), lengths=(20, 20), table=table)
            tile_ops.synchronize()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("page", [0, 5, 16])
def test_what_lies_behind_a_sequence_is_not_read(page, dtype):
    """Numbers there change nothing, not even in pages that the table names."""
    (key, value), given, table = caches(2, 2, 300, 32, dtype, page)
    lengths = [170, 3]
    query = torch.randn(2, 4, 2, 32).to(dtype)
    expected = decode(query, *given, torch.tensor(lengths), block_table=table)
    for cache in given:
        for b, length in enumerate(lengths):
            if not page:
                cache[b, :, length:] = torch.nan
                continue
            held = length // page
            cache[table[b, held].item(), :, length % page :] = torch.nan
            cache[table[b, held + 1 :].long()] = torch.nan
    if page:
        table[1, 1:] = -1
    for mine, other in zip(decode(query, *given, torch.tensor(lengths), block_table=table), expected):
        assert torch.equal(mine, other)


@pytest.mark.parametrize("page", [6, 16])
def test_caches_that_are_parts_of_others(page):
    """Keys of all pages are rows of one array, however far apart they are, also if there is one page. Where pages are not whole
    rows apart, the operator copies the cache."""
    (key, value), given, table = caches(2, 2, 40, 8, torch.float32, page)
    query, lengths = torch.randn(2, 4, 1, 8), torch.tensor([40, 3])
    expected = decode(query, *given, lengths, block_table=table)

    def interleaved(x):
        return torch.stack([x, x], 1)[:, 1]

    def of_odd_distance(x):
        return torch.nn.functional.pad(x.flatten(1), (0, 3))[:, :-3].view(x.shape)

    def keys_first(x):
        return x.transpose(1, 2).contiguous().transpose(1, 2)

    for change in (interleaved, of_odd_distance, keys_first):
        for caches_ in ([change(x) for x in given], [given[0], change(given[1])]):
            out, lse = decode(query, *caches_, lengths, block_table=table)
            assert torch.equal(out, expected[0]) and torch.equal(lse, expected[1])
    one = [x[:1] for x in given]
    zeros = torch.zeros(2, 1, dtype=torch.int32)
    out, _ = decode(query, *one, torch.tensor([page, 1]), block_table=zeros)
    torch.testing.assert_close(out, decode(query, *(x.expand(2, -1, -1, -1) for x in one), torch.tensor([page, 1]))[0])
