"""examples/python: products of matrices, against float64, with gradients; on the emulator, too."""

import pytest
import torch
from programs_reference import close, compare
from python_examples import load, on_the_emulator

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
PLAIN = ["matmul", "matmul_persistent", "matmul_split_k"]  # [m, k] and [k, n]
LEADING = [
    ((3, 2), (3, 2)), ((2,), ()), ((), (2,)), ((2, 1, 2), (3, 1)), ((1, 2), (2, 2, 1)), ((0, 2), (2,)), ((1,), (1,)),
]  # fmt: skip


def tensors(dtype, *shapes):
    return tuple(torch.randn(shape).to(dtype) for shape in shapes)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m, k, n", [(130, 70, 33), (1, 300, 1), (65, 1, 129), (64, 64, 64), (0, 5, 7), (5, 0, 7), (5, 7, 0)])
@pytest.mark.parametrize("name", PLAIN)
def test_product(name, m, k, n, dtype):
    compare(getattr(load(name), name), torch.matmul, tensors(dtype, (m, k), (k, n)))


@pytest.mark.parametrize("name", PLAIN)
def test_product_of_strided_matrices(name):
    a, b = tensors(torch.float32, (70, 90, 2), (40, 70))
    compare(getattr(load(name), name), torch.matmul, (a[..., 1].mT, b.mT))
    row, column = tensors(torch.float32, (1, 20), (30, 1))
    compare(getattr(load(name), name), torch.matmul, (column.expand(30, 20), row.mT.expand(20, 9)))


@pytest.mark.parametrize("name", PLAIN)
def test_product_of_many_tiles(name):
    a, b = tensors(torch.float32, (1200, 10), (10, 700))
    close(getattr(load(name), name)(a, b), a.double() @ b.double())


@pytest.mark.parametrize("name", PLAIN)
def test_product_is_differentiable_twice(name):
    a, b = (each.requires_grad_() for each in tensors(torch.float32, (5, 6), (6, 5)))
    program = getattr(load(name), name)

    def second(product, a, b):
        (grad,) = torch.autograd.grad(product(a, b).pow(2).sum(), a, create_graph=True)
        return torch.autograd.grad(grad.pow(2).sum(), b)[0]

    close(second(program, a, b), second(torch.matmul, *(each.detach().double().requires_grad_() for each in (a, b))))


@pytest.mark.at_home
@pytest.mark.parametrize("name", PLAIN)
def test_product_on_the_emulator(name):
    with on_the_emulator() as ran:
        compare(getattr(load(name), name), torch.matmul, tensors(torch.float16, (70, 40), (40, 50)))
    assert "matmul_kernel" in ran


@pytest.mark.parametrize("name", PLAIN)
def test_product_is_an_operator(name):
    a, b = (each.requires_grad_() for each in tensors(torch.float32, (4, 30), (30, 5)))
    program = getattr(load(name), name)
    torch.library.opcheck(program.overload, (a, b))
    with pytest.raises(ValueError) as error:
        program(a, b.mT)
    assert f"{name}: a is [4, 30], b [5, 30]; pass [m, k] and [k, n]" in str(error.value)
    with pytest.raises(ValueError) as error:
        program(a, b.double())
    text = f"{name}: a is torch.float32, b torch.float64; pass one of float32, float16 and bfloat16"
    assert text in str(error.value)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("first, second", LEADING)
def test_products_of_batches(first, second, dtype):
    compare(load("matmul_batched").matmul_batched, torch.matmul, tensors(dtype, (*first, 70, 20), (*second, 20, 33)))


@pytest.mark.parametrize("m, k, n", [(1, 300, 1), (0, 5, 7), (5, 0, 7), (5, 7, 0), (65, 1, 129)])
def test_products_of_batches_of_odd_extents(m, k, n):
    program = load("matmul_batched").matmul_batched
    compare(program, torch.matmul, tensors(torch.float32, (m, k), (k, n)))
    compare(program, torch.matmul, tensors(torch.float32, (3, m, k), (k, n)))


def test_products_of_strided_batches():
    a, b = tensors(torch.float32, (20, 3, 2, 35), (2, 3, 20, 30))
    compare(load("matmul_batched").matmul_batched, torch.matmul, (a.permute(2, 1, 3, 0), b[:1].expand(2, 3, 20, 30)))


@pytest.mark.at_home
def test_products_of_batches_on_the_emulator():
    with on_the_emulator() as ran:
        compare(load("matmul_batched").matmul_batched, torch.matmul, tensors(torch.bfloat16, (2, 1, 20, 40), (2, 40, 30)))
    assert ran == ["matmul_kernel"] * 3


def test_products_of_batches_are_an_operator():
    a, b = (each.requires_grad_() for each in tensors(torch.float32, (2, 1, 4, 30), (3, 30, 5)))
    program = load("matmul_batched").matmul_batched
    torch.library.opcheck(program.overload, (a, b))
    fix = "; pass [..., m, k] and [..., k, n], leading extents equal, 1 or missing"
    for x, y, text in (
        (a, b.mT, f"a is [2, 1, 4, 30], b [3, 5, 30]{fix}"),
        (b, a[0, 0, :, :5].mT.expand(2, 5, 4), f"a is [3, 30, 5], b [2, 5, 4]{fix}"),
        (a, b[..., 0, 0], f"a is [2, 1, 4, 30], b [3]{fix}"),
        (a, b.half(), "a is torch.float32, b torch.float16; pass one of float32, float16 and bfloat16"),
    ):
        with pytest.raises(ValueError) as error:
            program(x, y)
        assert f"matmul_batched: {text}" in str(error.value)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("processors", [1, 2, 7, 100])
def test_splits_of_a_long_sum_are_added_in_order(monkeypatch, processors, dtype):
    program = load("matmul_split_k")
    monkeypatch.setattr(program, "processors", lambda x: processors)
    compare(program.matmul_split_k, torch.matmul, tensors(dtype, (20, 900), (900, 90)))
    a, b = tensors(dtype, (20, 900), (900, 90))
    assert torch.equal(program.matmul_split_k(a, b), program.matmul_split_k(a, b))


@pytest.mark.parametrize("blocks", [1, 3, 1000])
def test_blocks_that_make_many_tiles(monkeypatch, blocks):
    program = load("matmul_persistent")
    monkeypatch.setattr(program, "processors", lambda x: blocks)
    compare(program.matmul_persistent, torch.matmul, tensors(torch.float32, (700, 20), (20, 300)))


@pytest.mark.at_home
def test_many_splits_and_many_tiles_on_the_emulator(monkeypatch):
    for name, processors, shapes in (
        ("matmul_split_k", 3, ((20, 400), (400, 30))),
        ("matmul_persistent", 2, ((150, 30), (30, 150))),
    ):
        monkeypatch.setattr(load(name), "processors", lambda x: processors)
        a, b = tensors(torch.float16, *shapes)
        with on_the_emulator():
            close(getattr(load(name), name)(a, b), a.double() @ b.double())


def moe(x, weights, chosen, routing):
    terms = [((routing * (chosen == e)).sum(1, keepdim=True) * (x @ weights[e])) for e in range(len(weights))]
    return torch.stack(terms).sum(0)


def mixture(dtype, rows, k, n, experts, top):
    routing, chosen = torch.randn(rows, experts).softmax(1).topk(top)
    return torch.randn(rows, k).to(dtype), torch.randn(experts, k, n).to(dtype), chosen, routing.to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "rows, k, n, experts, top",
    [(100, 40, 50, 8, 2), (300, 65, 129, 3, 3), (1, 1, 1, 1, 1), (70, 20, 30, 40, 1), (5, 0, 7, 2, 2), (5, 7, 0, 2, 1),
     (0, 7, 5, 3, 2), (6, 7, 5, 3, 0)],
)  # fmt: skip
def test_mixture_of_experts(rows, k, n, experts, top, dtype):
    compare(load("moe").moe, moe, mixture(dtype, rows, k, n, experts, top))


def test_mixture_of_strided_tensors_where_experts_have_none_or_a_row_twice():
    x, weights, _, routing = mixture(torch.float32, 80, 40, 30, 6, 4)
    chosen = torch.tensor([[4, 1, 4, 4], [1, 1, 1, 4]]).repeat(40, 1)
    compare(load("moe").moe, moe, (x.mT.contiguous().mT, weights[..., ::2], chosen, routing.mT.contiguous().mT))


def test_mixture_of_experts_does_not_depend_on_timing():
    arguments = mixture(torch.float32, 200, 30, 40, 5, 3)
    assert torch.equal(load("moe").moe(*arguments), load("moe").moe(*arguments))


@pytest.mark.at_home
def test_mixture_of_experts_on_the_emulator():
    with on_the_emulator() as ran:
        compare(load("moe").moe, moe, mixture(torch.float16, 40, 20, 30, 3, 2))
    assert ran == ["product_kernel", "product_kernel", "weight_kernel"]


def test_mixture_of_experts_is_an_operator():
    x, weights, chosen, routing = mixture(torch.float32, 4, 6, 5, 3, 2)
    program = load("moe").moe
    torch.library.opcheck(
        program.overload, [each if each is chosen else each.requires_grad_() for each in (x, weights, chosen, routing)]
    )
    with pytest.raises(ValueError) as error:
        program(x, weights, chosen[:3], routing)
    text = ("moe: x is [4, 6], weights [3, 6, 5], chosen [3, 2], routing [4, 2]; pass [rows, k], [experts, k, n] and "
            "twice [rows, top]")  # fmt: skip
    assert text in str(error.value)
    with pytest.raises(ValueError) as error:
        program(x, weights, chosen.int(), routing)
    text = ("moe: x is torch.float32, weights torch.float32, chosen torch.int32, routing torch.float32; pass "
            "torch.int64 as chosen, the others of one of float32, float16 and bfloat16")  # fmt: skip
    assert text in str(error.value)
