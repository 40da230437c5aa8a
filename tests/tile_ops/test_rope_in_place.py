"""tile::rope_ against torch: what it writes and what it leaves, memory that overlaps, and every way torch can call
it."""

import functools

import pytest
import tile_ops
import torch
from numerics import check_call
from opinfo import DTYPES
from rope_reference import tables, rotated
from torch.library import opcheck
from threads import with_torch_threads

rope_ = torch.ops.tile.rope_


def draw(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype)


def ours(query, key, *tables, **kwargs):
    """The operator on copies that keep their strides."""
    query, key = (torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(x) for x in (query, key))
    assert rope_(query, key, *tables, **kwargs) is None
    return query, key


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("head_dim, rotary", [(2, 2), (8, 4), (64, 64), (80, 32), (256, 200), (320, 320), (6, 0)])
def test_forms(dtype, interleaved, head_dim, rotary):
    args = draw(2, 4, 5, head_dim, dtype=dtype), draw(2, 2, 5, head_dim, dtype=dtype)
    for width in {rotary, rotary // 2}:
        cos, sin = tables(5, width, rotary, interleaved, torch.float32)
        kwargs = {"interleaved": interleaved, "rotary_dim": None if rotary == head_dim else rotary}
        check_call(ours, rotated, (*args, cos, sin), kwargs, what=f"width {width}")


@pytest.mark.parametrize(
    "batch, heads, key_heads, length",
    [(1, 1, 1, 1), (3, 17, 1, 7), (1, 2, 3, 600), (0, 2, 2, 4), (2, 0, 3, 4), (2, 3, 0, 4), (2, 3, 3, 0)],
)
def test_sizes(batch, heads, key_heads, length):
    args = draw(batch, heads, length, 16), draw(batch, key_heads, length, 16), *tables(length, 8, 16)
    check_call(ours, rotated, args)


@pytest.mark.parametrize("shape", [(5,), (2, 5)])
def test_position_ids(shape):
    args = draw(2, 3, 5, 24), draw(2, 1, 5, 24), *tables(11, 16, 16, batch=2)
    check_call(ours, rotated, args, {"rotary_dim": 16, "position_ids": torch.randint(0, 11, shape)})


LAYOUTS = {
    "positions before heads": lambda: draw(2, 6, 4, 16).transpose(1, 2),
    "head dim first": lambda: draw(2, 4, 16, 6).transpose(2, 3),
    "every second": lambda: draw(2, 4, 6, 32)[..., ::2],
    "inside of a larger one": lambda: draw(4, 7, 9, 20)[::2, 1:5, 2:8, 3:19],
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("rotary", [16, 6])
def test_only_rotated_columns_are_written(name, rotary):
    query, key = LAYOUTS[name](), draw(2, 2, 6, 16)
    base = query._base
    cos, sin = tables(6, rotary // 2, rotary)
    expected = rotated(query, key, cos, sin, rotary_dim=rotary)
    left = base.clone()
    query.new_empty(0).set_(left.untyped_storage(), query.storage_offset(), query.shape, query.stride()).copy_(expected[0])
    tile_ops.rope_(query, key, cos, sin, rotary_dim=rotary)
    for got, wanted in zip((base, key), (left, expected[1])):
        torch.testing.assert_close(got, wanted)
    assert torch.equal(query[..., rotary:], expected[0][..., rotary:])


def test_views_of_one_projection():
    """Interleaved in memory, but no element is in both."""
    for divide in (
        lambda p: p.view(2, 6, 5, 16).transpose(1, 2).split([3, 1, 1], 1),
        lambda p: p.view(2, 6, 1, 80).transpose(1, 2).split([16, 16, 48], 3),
    ):
        packed = draw(2, 6, 80)
        cos, sin = tables(6, 8, 16)
        expected = packed.clone()
        for to, result in zip(divide(expected), rotated(*divide(packed)[:2], cos, sin)):
            to.copy_(result)
        query, key, _ = divide(packed)
        results = tile_ops.rope_(query, key, cos, sin)
        assert results[0] is query and results[1] is key
        torch.testing.assert_close(packed, expected)


def test_versions():
    query, key = draw(1, 2, 5, 16), draw(1, 1, 5, 16)
    rope_(query, key, *tables(5, 8, 16))
    assert (query._version, key._version) == (1, 1)


def test_what_requires_grad():
    query, key = draw(1, 2, 5, 16).requires_grad_(), draw(1, 1, 5, 16)
    args = tables(5, 8, 16)
    for which, given in (("query", (query, key)), ("key", (key, query))):
        with pytest.raises(RuntimeError) as error:
            rope_(*given, *args)
        assert str(error.value).splitlines()[0] == (
            f"tile::rope_: writes into its arguments and has no gradient, but '{which}' requires grad; call it under "
            "torch.no_grad()"
        )
    expected = rotated(query.detach(), key, *args)
    with torch.no_grad():
        torch.testing.assert_close(tile_ops.rope_(query, key, *args), expected)


def test_opcheck():
    args = draw(2, 6, 4, 16).transpose(1, 2), draw(2, 6, 2, 16).transpose(1, 2)
    opcheck(rope_, (*args, *tables(6, 8, 16)))
    opcheck(rope_, (*args, *tables(6, 8, 16)), {"interleaved": True})
    opcheck(rope_, (*args, *tables(9, 4, 4, batch=2)), {"rotary_dim": 4, "position_ids": torch.arange(6)})
    opcheck(rope_, (args[0][:0], args[1][:0], *tables(6, 8, 16)))


def step(packed, cos, sin):
    """Writes into what it is given, and into what it makes itself."""
    query, key = packed.transpose(1, 2).split([4, 2], 1)
    own = tile_ops.rope_(query * 2, key + 1, cos, sin)
    tile_ops.rope_(query, key, cos, sin)
    return own[0].sum(1, keepdim=True) + own[1] + query[:, :1]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compile(backend):
    torch._dynamo.reset()
    # With dynamic extents torch's inductor hands an operator that writes the second view without its offset.
    compiled = torch.compile(step, fullgraph=True, dynamic=backend == "aot_eager", backend=backend)
    for length in (5, 9) if backend == "aot_eager" else (5,):
        packed = draw(2, length, 6, 16)
        args, same = tables(length, 8, 16), packed.clone()
        torch.testing.assert_close(compiled(packed, *args), step(same, *args))
        torch.testing.assert_close(packed, same)


def test_export():
    class Module(torch.nn.Module):
        def forward(self, query, key, cos, sin):
            return tile_ops.rope_(query + 0, key + 0, cos, sin)

    args = draw(2, 4, 5, 16), draw(2, 2, 5, 16), *tables(5, 8, 16)
    program = torch.export.export(Module(), args)
    torch.testing.assert_close(program.module()(*args), rotated(*args))


def test_vmap():
    query, key, (cos, sin) = draw(3, 2, 4, 5, 16), draw(2, 2, 5, 3, 16), tables(5, 8, 16)
    expected = torch.vmap(rotated, (0, 3, None, None))(query, key, cos, sin)
    torch.vmap(rope_, (0, 3, None, None), out_dims=None)(query, key, cos, sin)
    torch.testing.assert_close((query, key.movedim(3, 0)), expected)
    with pytest.raises(ValueError) as error:
        torch.vmap(rope_, (0, None, None, None), out_dims=None)(query, key[..., 0, :], cos, sin)
    assert str(error.value).splitlines()[0] == (
        "tile::rope_: vmap: 'key' is written for each sample of 'query', but has no batch extent; give it one (in_dims)"
    )


def test_threads_agree_bit_for_bit():
    args = draw(2, 6, 700, 64), draw(2, 2, 700, 64), *tables(700, 32, 64)
    assert all(torch.equal(a, b) for a, b in zip(*with_torch_threads((1, 2), lambda: ours(*args))))


def memory(count=4096):
    return torch.zeros(count)


BASE = memory()
view = functools.partial(torch.as_strided, BASE)
SIZES = (1, 2, 3, 4)
OVERLAPS = {
    "the same": (lambda: [BASE[:24].view(SIZES)] * 2, "query and key overlap in memory, which is written; clone() one of them"),
    "by one element": (
        lambda: [BASE[:24].view(SIZES), BASE[23:47].view(SIZES)],
        "query and key overlap in memory, which is written; clone() one of them",
    ),
    "crossing": (
        lambda: [view(SIZES, (0, 100, 10, 1)), view(SIZES, (0, 1, 100, 10), 113)],
        "query and key overlap in memory, which is written; clone() one of them",
    ),
    "expanded query": (
        lambda: [memory(12).view(1, 1, 3, 4).expand(SIZES), memory(24).view(SIZES)],
        "query overlaps itself in memory, and is written; clone() it",
    ),
    "windows of key": (
        lambda: [memory(24).view(SIZES), view(SIZES, (0, 12, 2, 1))],
        "key overlaps itself in memory, and is written; clone() it",
    ),
}


@pytest.mark.parametrize("name", OVERLAPS)
def test_memory_that_overlaps(name):
    make, text = OVERLAPS[name]
    with pytest.raises(ValueError) as error:
        rope_(*make(), *tables(3, 2, 4))
    assert str(error.value).splitlines()[0] == f"tile::rope_: {text}"


def test_tables_in_what_is_written():
    cos, sin = (BASE[:6].view(3, 2), memory(6).view(3, 2))
    for names, given in ((("key", "cos"), (cos, sin)), (("query", "sin"), (sin, BASE[24:30].view(3, 2)))):
        query, key = BASE[24:48].view(SIZES), BASE[:24].view(SIZES)
        with pytest.raises(ValueError) as error:
            rope_(query, key, *given)
        assert str(error.value).splitlines()[0] == (
            f"tile::rope_: {names[0]} and {names[1]} overlap in memory, which is written; clone() one of them"
        )


@pytest.mark.parametrize("seed", range(3))
def test_overlap_is_exact(seed, device):
    """Against the addresses themselves, over random strides."""
    generator = torch.Generator(device="cpu").manual_seed(seed)
    counts = {False: 0, True: 0}

    def number(low, high):
        return int(torch.randint(low, high, (), generator=generator, device="cpu"))

    def drawn():
        sizes = [1, number(1, 4), number(1, 4), 2]
        strides = [number(0, 30), number(1, 30), number(1, 30), number(1, 12)]
        return view(sizes, strides, number(0, 60))

    def addresses(x):
        grid = torch.zeros(x.shape, dtype=torch.int64, device="cpu") + x.storage_offset()
        for axis, stride in enumerate(x.stride()):
            index = torch.arange(x.shape[axis], device="cpu") * stride
            grid = grid + index.view([-1 if a == axis else 1 for a in range(4)])
        return grid.flatten().tolist()

    for _ in range(150):
        query = drawn()
        length = query.shape[2]
        key = drawn()[:, :, :1].expand(1, -1, length, -1) if length == 1 else drawn()
        if key.shape[2] != length:
            continue
        own = [addresses(query), addresses(key)]
        disjoint = all(len(set(each)) == len(each) for each in own) and not set(own[0]) & set(own[1])
        counts[disjoint] += 1
        try:
            rope_(query, key, *tables(length, 1, 2))
            assert disjoint
        except ValueError as error:
            assert not disjoint, str(error)
    assert min(counts.values()) > 5
