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
        (lambda ops: ops.vector_add(torch.ones(2), torch.ones(3)), "examples::vector_add: x is [2] and y [3]; pass vectors of one length"),
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
