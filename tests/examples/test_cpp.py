"""examples/cpp: found by find_package and built, its program trains, its operators load into Python."""

import subprocess

import pytest
import torch


@pytest.fixture
def ops(examples):
    torch.ops.load_library(str(examples / "libtile_examples.so"))
    return torch.ops.examples


@pytest.mark.slow
def test_the_program_without_python_learns(examples):
    done = subprocess.run([str(examples / "train")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    losses = [float(line.split()[-1]) for line in done.stdout.splitlines() if line.startswith("step")]
    assert losses[-1] < 0.1 * losses[0]


def test_saxpy_from_a_string(examples):
    done = subprocess.run([str(examples / "saxpy")], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    said = "saxpy is right\n" if torch.cuda.is_available() else "no GPU here; for an H100 saxpy compiles, with 4 parameters\n"
    assert done.stdout == said


def matrix(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


CALLS = {
    "vector_add": (lambda x, y: x + y, lambda n, m, dtype: (matrix(n * m, dtype=dtype), matrix(n * m, dtype=dtype))),
    "row_softmax": (lambda x: torch.softmax(x, 1), lambda n, m, dtype: (matrix(n, m, dtype=dtype),)),
    "causal_sum": (lambda x: x.tril().sum(1), lambda n, m, dtype: (matrix(n, m, dtype=dtype),)),
    "running_sum": (lambda x: x.double().cumsum(0).to(x.dtype), lambda n, m, dtype: (matrix(n * m, dtype=dtype),)),
    "swiglu": (
        lambda gate, up: torch.nn.functional.silu(gate) * up,
        lambda n, m, dtype: (matrix(n, m, dtype=dtype), matrix(n, m, dtype=dtype)),
    ),
}
each = pytest.mark.parametrize("name", CALLS)


@each
@pytest.mark.parametrize("shape", [(1, 1), (0, 3), (3, 5), (65, 300), (130, 1025)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_values_and_gradients(ops, name, shape, dtype):
    reference, make = CALLS[name]
    arguments = make(*shape, dtype)
    ours, theirs = getattr(ops, name)(*arguments), reference(*arguments)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-4 if dtype == torch.float32 else 1e-12)
    grad = torch.randn_like(ours)
    gradients = (torch.autograd.grad(result, arguments, grad) for result in (ours, theirs))
    torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-5 if dtype == torch.float32 else 1e-12)


@each
def test_is_a_torch_operator(ops, name):
    reference, make = CALLS[name]
    arguments = make(7, 9, torch.float64)
    torch.library.opcheck(getattr(ops, name).default, arguments)
    assert torch.autograd.gradcheck(getattr(ops, name), arguments)


@each
def test_strided_arguments(ops, name):
    reference, make = CALLS[name]
    wide = make(12, 20, torch.float64)
    arguments = [x.detach()[::2] if x.dim() == 1 else x.detach().t()[1:, ::2] for x in wide]
    torch.testing.assert_close(getattr(ops, name)(*arguments), reference(*arguments))


@pytest.mark.parametrize(
    "call, text",
    [
        (
            lambda ops: ops.vector_add(torch.ones(2), torch.ones(3)),
            "examples::vector_add: x is [2] and y [3]; pass vectors of one length",
        ),
        (lambda ops: ops.row_softmax(torch.ones(2)), "examples::row_softmax: x is [2]; pass a matrix"),
        (lambda ops: ops.causal_sum(torch.ones(2)), "examples::causal_sum: x is [2]; pass a matrix"),
        (
            lambda ops: ops.swiglu(torch.ones(2, 3), torch.ones(3, 2)),
            "examples::swiglu: gate is [2, 3] and up [3, 2]; pass matrices of one shape",
        ),
    ],
)
def test_errors(ops, call, text):
    with pytest.raises(ValueError) as error:
        call(ops)
    assert str(error.value) == text


def test_mixed_dtypes_are_an_error_of_the_kernel_s_line(ops):
    with pytest.raises(Exception, match=r"01_vector_add\.cpp:\d+: add: .*f32.*f64"):
        ops.vector_add(torch.ones(3), torch.ones(3, dtype=torch.float64))


def test_expressions(examples):
    x = torch.randn(3, 1, 5, dtype=torch.float64, requires_grad=True)
    y = torch.ops.examples.swish(x, 2.0)
    torch.testing.assert_close(y, x * torch.sigmoid(2 * x))
    assert torch.autograd.gradcheck(torch.ops.examples.swish, (x, 2.0))
    ours = torch.ops.examples.root_mean_square(x, 0)
    torch.testing.assert_close(ours, (x * x).mean(0).sqrt())
    assert torch.autograd.gradcheck(torch.ops.examples.root_mean_square, (x, 0))


@pytest.fixture
def key():
    """The seed of random numbers."""
    return torch.tensor([2**40 + 5])


@pytest.mark.parametrize("shape", [(1, 1), (0, 3), (3, 5), (130, 1025)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_dropout(ops, key, shape, dtype):
    """The kept elements are scaled, depend only on the seed, and are those that the gradient keeps."""
    x = (torch.rand(shape, dtype=torch.float64) + 1).to(dtype).requires_grad_()
    out, kept = ops.dropout(x, 0.25, key), ops.dropout(torch.ones(shape), 0.25, key) != 0
    torch.testing.assert_close(out, torch.where(kept, x / 0.75, 0).to(dtype))
    grad = torch.randn(shape).to(dtype)
    torch.testing.assert_close(torch.autograd.grad(out, x, grad)[0], torch.where(kept, grad / 0.75, 0).to(dtype))
    assert torch.equal(ops.dropout(x.t().contiguous().t(), 0.25, key), out)  # strides do not matter
    assert torch.equal(ops.dropout(x, 0.0, key), x) and not ops.dropout(x, 1.0, key).any()
    if kept.numel() > 1000:
        assert abs(kept.double().mean().item() - 0.75) < 5 * (0.25 * 0.75 / kept.numel()) ** 0.5
        assert not torch.equal(ops.dropout(x, 0.25, key + 1), out)


def test_dropout_is_a_torch_operator(ops, key):
    x = matrix(7, 9)
    torch.library.opcheck(ops.dropout.default, (x, 0.5, key))
    assert torch.autograd.gradcheck(lambda x: ops.dropout(x, 0.5, key), (x,))
    function = lambda x, key: (ops.dropout(x.sin(), 0.5, key) * x).sum()  # noqa: E731
    compiled = torch.compile(function, fullgraph=True, dynamic=True)
    for n in (7, 20):
        x = matrix(n, 9)
        results = [torch.autograd.grad(f(x, key), x)[0] for f in (function, compiled)]
        torch.testing.assert_close(*results)


def test_dropout_of_bad_input(ops, key):
    x = torch.ones(2, 3)
    texts = {
        "x is [2]; pass a matrix": lambda: ops.dropout(x[:, 0], 0.5, key),
        "p is 1.5; pass a probability": lambda: ops.dropout(x, 1.5, key),
        "seed is Long [2]; pass int64[1], as torch.randint gives it": lambda: ops.dropout(x, 0.5, key.repeat(2)),
    }
    for text, call in texts.items():
        with pytest.raises(ValueError) as error:
            call()
        assert str(error.value) == f"examples::dropout: {text}"
