"""examples/python: products of matrices, beside float64, with gradients; on the emulator, too."""

import pytest
import torch
from programs_reference import close, compare
from python_examples import load, on_the_emulator

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
PLAIN = ["matmul"]
needs_cpu = pytest.mark.skipif(torch.get_default_device().type == "cuda", reason="the GPU itself runs them there")


def tensors(dtype, *shapes):
    return tuple(torch.randn(shape).to(dtype) for shape in shapes)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "m, k, n", [(130, 70, 33), (1, 300, 1), (65, 1, 129), (64, 64, 64), (0, 5, 7), (5, 0, 7), (5, 7, 0)]
)
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


@needs_cpu
@pytest.mark.parametrize("name", PLAIN)
def test_product_on_the_emulator(name):
    with on_the_emulator() as ran:
        compare(getattr(load(name), name), torch.matmul, tensors(torch.float16, (70, 40), (40, 50)))
    assert "kernel" in ran


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
