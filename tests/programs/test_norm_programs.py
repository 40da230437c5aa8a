"""examples/python: the norms, against float64, with gradients; on the emulator, too."""

import contextlib

import pytest
import torch
import torch.nn.functional as F
from programs_reference import close, compare
from python_examples import load, on_the_emulator

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def layer_norm(x, w, b):
    return F.layer_norm(x, x.shape[-1:], w, b)


def tensors(shape, dtype):
    return (torch.randn(shape).mul(2).add(0.3).to(dtype), torch.randn(shape[-1]).to(dtype), torch.randn(shape[-1]).to(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 64), (3, 2, 100), (300, 33), (7, 1), (1, 513), (9,), (0, 8)])
def test_layer_norm(shape, dtype):
    compare(load("layer_norm").layer_norm, layer_norm, tensors(shape, dtype))


def test_layer_norm_of_strided_rows():
    x, w, b = tensors((6, 50), torch.float32)
    compare(load("layer_norm").layer_norm, layer_norm, (torch.stack([x, x], -1)[..., 0].mT.contiguous().mT, w, b))


def rms_norm(x, w, eps=1e-6):
    return F.rms_norm(x, x.shape[-1:], w, eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 64), (3, 2, 100), (300, 33), (7, 1), (1, 513), (9,), (0, 8)])
def test_rms_norm(shape, dtype):
    compare(load("rms_norm").rms_norm, rms_norm, tensors(shape, dtype)[:2])


def group_norm(x, groups, w, b):
    return F.group_norm(x, groups, w, b)


GROUPS = [((2, 6, 5, 7), 3), ((3, 8, 50), 8), ((1, 4, 3000), 1), ((4, 6), 2), ((2, 4, 1, 1), 2), ((5, 12, 2, 3, 4), 4)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "groups"), GROUPS)
def test_group_norm(shape, groups, dtype):
    x, w, b = torch.randn(shape).mul(2).add(0.3), torch.randn(shape[1]), torch.randn(shape[1])
    program = load("group_norm").group_norm
    compare(lambda x, w, b: program(x, groups, w, b), lambda x, w, b: group_norm(x, groups, w, b),
            (x.to(dtype), w.to(dtype), b.to(dtype)))  # fmt: skip


def test_group_norm_of_channels_last_and_of_no_images():
    program = load("group_norm").group_norm
    x, w, b = torch.randn(2, 6, 5, 7).contiguous(memory_format=torch.channels_last), torch.randn(6), torch.randn(6)
    torch.testing.assert_close(program(x, 3, w, b), group_norm(x, 3, w, b), rtol=1e-5, atol=1e-5)
    assert program(x[:0], 3, w, b).shape == (0, 6, 5, 7)


@pytest.mark.at_home
def test_norms_on_the_emulator():
    x, w, b = tensors((5, 100), torch.float16)
    with on_the_emulator() as ran:
        compare(load("layer_norm").layer_norm, layer_norm, (x, w, b))
        compare(load("rms_norm").rms_norm, rms_norm, (x, w))
        compare(lambda x, w, b: load("group_norm").group_norm(x, 2, w, b), lambda x, w, b: group_norm(x, 2, w, b),
                (torch.randn(2, 4, 70), torch.randn(4), torch.randn(4)))  # fmt: skip
    kernels = ["forward_kernel", "backward_kernel", "sum_kernel", "forward_kernel", "backward_kernel", "sum_kernel",
               "forward_kernel", "input_kernel", "channel_kernel"]  # fmt: skip
    assert ran == kernels


@pytest.mark.at_home
@pytest.mark.parametrize("together", [1, 2, 4])
def test_layer_norm_of_rows_of_one_iteration(together):
    """As on a GPU; the last iteration has fewer rows, and the last block fewer iterations."""
    program, rows, columns = load("layer_norm"), 23, 100
    x, w, b = tensors((rows, columns), torch.float32)
    grad, mean = torch.randn(rows, columns), x.mean(1)
    rstd = 1 / (x.var(1, correction=0) + 1e-5).sqrt()
    given = [each.double().requires_grad_() for each in (x, w, b)]
    wanted = torch.autograd.grad(layer_norm(*given), given, grad.double())
    for target in (contextlib.nullcontext(), on_the_emulator()):
        results = grad_x, grad_w, grad_b = [torch.full_like(each, 7) for each in (x, w, b)]
        partial_sums = torch.full((2, 3, columns), 7.0)
        with target:
            program.backward_kernel[3](grad, x, w, mean, rstd, grad_x, partial_sums, together, 128)
            program.sum_kernel[4, 2](partial_sums, grad_w, grad_b, 2, 32)
        for got, want in zip(results, wanted):
            close(got, want)


@pytest.mark.at_home
@pytest.mark.parametrize("together", [2, 4])
def test_rms_norm_of_rows_of_one_iteration(together):
    program, rows, columns = load("rms_norm"), 23, 100
    x, w, _ = tensors((rows, columns), torch.float32)
    grad, rstd = torch.randn(rows, columns), 1 / (x.square().mean(1) + 1e-6).sqrt()
    given = [each.double().requires_grad_() for each in (x, w)]
    wanted = torch.autograd.grad(rms_norm(*given), given, grad.double())
    results = grad_x, grad_w = [torch.full_like(each, 7) for each in (x, w)]
    partial_sums = torch.full((3, columns), 7.0)
    with on_the_emulator():
        program.backward_kernel[3](grad, x, w, rstd, grad_x, partial_sums, together, 128)
        program.sum_kernel[4](partial_sums, grad_w, 2, 32)
    for got, want in zip(results, wanted):
        close(got, want)


def test_layer_norm_is_an_operator():
    x, w, b = (each.requires_grad_() for each in tensors((4, 30), torch.float32))
    program = load("layer_norm").layer_norm
    torch.library.opcheck(program.overload, (x, w, b))
    with pytest.raises(ValueError) as error:
        program(x, w, b[:5])
    assert ("layer_norm: x is [4, 30], weight [30], bias [5]; pass [..., columns] of up to 16384 columns, [columns] and "
            "[columns]") in str(error.value)  # fmt: skip


def test_rms_norm_is_an_operator():
    x, w = (each.requires_grad_() for each in tensors((4, 30), torch.float32)[:2])
    program = load("rms_norm").rms_norm
    torch.library.opcheck(program.overload, (x, w))
    with pytest.raises(ValueError) as error:
        program(x, w[:5])
    text = "rms_norm: x is [4, 30], weight [5]; pass [..., columns] of up to 16384 columns and [columns]"
    assert text in str(error.value)


def test_group_norm_is_an_operator():
    x, w, b = (torch.randn(*size, requires_grad=True) for size in ((2, 6, 5), (6,), (6,)))
    program = load("group_norm").group_norm
    torch.library.opcheck(program.overload, (x, 3, w, b))
    with pytest.raises(ValueError) as error:
        program(x, 4, w, b)
    assert ("group_norm: x is [2, 6, 5], groups 4, weight [6], bias [6]; pass [images, channels, ...], a divisor of "
            "channels, and [channels] twice") in str(error.value)  # fmt: skip
