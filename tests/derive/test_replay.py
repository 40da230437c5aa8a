"""Repeated gradients of operators of Python: launches that change between calls, several launches, views, and threads."""

import threading

import pytest
import tile_ops
import tile_ops.language as tl
import torch

from derive.saved_checks import saved_by
from derive.saved_products import product_outputs, silu_product_kernel


@tl.kernel
def power_kernel(x, out, P: tl.Constant[int], N: tl.Constant[int]):
    t = tl.load(x, (tl.bid(0),), (N,))
    power = t
    for _ in range(P - 1):
        power = power * t
    tl.store(out, (tl.bid(0),), power.astype(out.dtype))


@tl.kernel
def product_kernel(x, y, out, N: tl.Constant[int]):
    i = (tl.bid(0),)
    tl.store(out, i, tl.load(x, i, (N,)) * tl.load(y, i, (N,)))


def power(x, out, exponent):
    power_kernel[tl.cdiv(x.shape[0], 4)](x, out, exponent, 4)


def define(name, run, schema="(Tensor x) -> Tensor"):
    return tile_ops.op(f"replay::{name}{schema}", outputs="x", grad="auto")(run)


def random(*shape, dtype=torch.float64):
    return torch.randn(shape, dtype=dtype, requires_grad=True)


def gradient(out, *inputs):
    return torch.autograd.grad(out, inputs, torch.ones_like(out))


exponent = 2


def test_a_global_of_run_that_changes_between_calls():
    global exponent

    powers = define("powers", lambda x, out: power(x, out, exponent))
    x = random(9)
    try:
        for exponent in (2, 3, 2, 5):
            for _ in range(2):
                (ours,) = gradient(powers(x), x)
                torch.testing.assert_close(ours, exponent * x.detach() ** (exponent - 1))
    finally:
        exponent = 2


def test_a_number_of_launches_that_depends_on_values():
    def run(x, steps, out):
        before = x
        for step in range(steps):
            after = out if step == steps - 1 else torch.empty_like(x)
            power(before, after, 2)
            before = after

    repeated = define("repeated_squares", run, "(Tensor x, int steps) -> Tensor")
    x = random(7)
    for steps in (1, 3, 2, 3):
        (ours,) = gradient(repeated(x, steps), x)
        torch.testing.assert_close(ours, 2**steps * x.detach() ** (2**steps - 1))


@pytest.mark.parametrize("size", [0, 1, 5])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_tensor_that_several_launches_read(dtype, size):
    def run(x, y, out):
        square = torch.empty_like(x)
        power(x, square, 2)
        product_kernel[tl.cdiv(x.shape[0], 4)](square, y, out, 4)

    scaled = define(f"scaled_{str(dtype)[6:]}_{size}", run, "(Tensor x, Tensor y) -> Tensor")
    x, y = random(size, dtype=dtype), random(size, dtype=dtype)
    ours = gradient(scaled(x, y), x, y)
    wide_x, wide_y = x.detach().double(), y.detach().double()
    close = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 1e-6, torch.float64: 1e-12}[dtype]
    for own, exact in zip(ours, (2 * wide_x * wide_y, wide_x**2)):
        torch.testing.assert_close(own.double(), exact, rtol=close, atol=close)


def test_arguments_that_share_memory_in_some_calls_only():
    multiply = define(
        "multiply", lambda x, y, out: product_kernel[tl.cdiv(x.shape[0], 4)](x, y, out, 4), "(Tensor x, Tensor y) -> Tensor"
    )
    x, y = random(10), random(10)
    for _ in range(2):
        torch.testing.assert_close(gradient(multiply(x, y), x, y), (y.detach(), x.detach()))
        torch.testing.assert_close(gradient(multiply(x, x), x)[0], 2 * x.detach())
        torch.testing.assert_close(gradient(multiply(x[:9], x[1:]), x)[0], gradient(x[:9] * x[1:], x)[0])
        row = random(1)
        (ours,) = gradient(multiply(row.expand(10), y), row)
        torch.testing.assert_close(ours, y.detach().sum().reshape(1))


def test_an_empty_view_of_another_argument():
    squares = define("squares_beside", lambda x, y, out: power(x, out, 2), "(Tensor x, Tensor y) -> Tensor")
    x = random(5)
    for views in ((x, x[:0]), (x[:0].expand(0), x)):
        out = squares(views[0], views[1])
        (ours,) = gradient(out, x)
        torch.testing.assert_close(ours, 2 * x.detach() * bool(out.numel()))


@pytest.mark.parametrize("wanted", [(2, 0), (0, 3), (2, 3)])
@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("size", [0, 1, 5])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_results_in_one_piece_of_memory(wanted, reads, dtype, size):
    """reads: the second launch reads the first result."""

    def outputs(x):
        both = torch.empty(2, *x.shape, dtype=x.dtype, device=x.device)
        return both[0], both[1]

    def run(x, first, second):
        power(x, first, 2)
        product_kernel[tl.cdiv(x.shape[0], 4)](first if reads else x, x, second, 4)

    schema = f"replay::halves_{reads}_{str(dtype)[6:]}_{size}_{wanted[0]}{wanted[1]}(Tensor x) -> (Tensor first, Tensor second)"
    halves = tile_ops.op(schema, outputs=outputs, grad="auto")(run)
    x = random(size, dtype=dtype)
    (ours,) = torch.autograd.grad(sum(factor * each.sum() for factor, each in zip(wanted, halves(x)) if factor), x)
    exact = x.detach().double()
    second = 3 * exact**2 if reads else 2 * exact
    close = {torch.float16: 2e-3, torch.float32: 1e-6, torch.float64: 1e-12}[dtype]
    torch.testing.assert_close(ours.double(), wanted[0] * 2 * exact + wanted[1] * second, rtol=close, atol=close)


def test_errors_of_run_pass_through_the_gradient():
    fails = False

    def run(x, out):
        if fails:
            raise KeyError("a")
        power(x, out, 2)

    x = random(5)
    out = define("failing_later", run)(x)
    fails = True
    with pytest.raises(KeyError, match="'a'"):
        gradient(out, x)


def test_memory_of_two_dtypes_is_refused():
    def run(x, out):
        power(x.view(torch.float32), out.view(torch.float32), 2)

    with pytest.raises(NotImplementedError) as raised:
        define("of_two_dtypes", run)(random(8)).sum().backward()
    assert str(raised.value) == "memory of torch.float64 is also used as torch.float32, so that its gradient is not derived"


def test_threads():
    cube = define("cubes", lambda x, out: power(x, out, 3))
    failures = []

    def work(size):
        try:
            for _ in range(30):
                x = random(size)
                torch.testing.assert_close(gradient(cube(x), x)[0], 3 * x.detach() ** 2)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(size,)) for size in (3, 8, 3, 17)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failures


def test_saves_of_a_run_that_changes():
    blocks = 32

    def run(x, w, b, out):
        silu_product_kernel[tl.cdiv(x.shape[0], blocks), tl.cdiv(w.shape[1], blocks)](x, w, b, out, blocks, blocks, 16)

    operator = tile_ops.op("replay::product(Tensor x, Tensor w, Tensor b) -> Tensor", outputs=product_outputs, grad="auto")(run)
    leaves = [torch.randn(shape, requires_grad=True) for shape in ((48, 64), (64, 48), (48,))]
    reference = gradient(torch.nn.functional.silu(leaves[0] @ leaves[1] + leaves[2]), *leaves)
    assert any(each.dtype == torch.uint8 and each.numel() for each in saved_by(operator, *leaves))
    for blocks in (32, 16, 16, 32):
        out = operator(*leaves)
        for own, exact in zip(gradient(out, *leaves), reference):
            torch.testing.assert_close(own, exact, rtol=1e-4, atol=1e-4)
    out = operator(*leaves)
    blocks = 16  # between the forward and the gradient
    for own, exact in zip(gradient(out, *leaves), reference):
        torch.testing.assert_close(own, exact, rtol=1e-4, atol=1e-4)
