"""Gradients of gradients with the kernels that a GPU gets, run by the emulator at small shapes."""

import contextlib

import pytest
import torch
import torch._refs
from double_backward import second_gradients
from emulate_operators import Emulation, on_host, running, to_gpu, to_host
from emulated_rows import cases, compile_at_once, made
from numerics import largest, widen

CONSTANTS = {"rope": ("cos", "sin"), "attention": ("alibi_slopes",)}
NAMES = (
    "softmax",
    "softmax_of_columns",
    "layer_norm",
    "rms_norm",
    "group_norm_silu",
    "swiglu_of_halves",
    "cross_entropy",
    "matmul_of_batches",
    "gated_matmul",
    "attention",
    "attention_causal",
    "attention_in_stages",
    "attention_with_options",
)


def computed(function, of_shapes):
    """The function of meta tensors that have values; outside of an emulation they have none, and of_shapes is called."""

    def call(*args, **kwargs):
        if not running:
            return of_shapes(*args, **kwargs)
        values = [to_host(x) if isinstance(x, torch.Tensor) and x.is_meta else x for x in args]
        return to_gpu(function(*values, **kwargs))

    return call


def add_in_place(meta, other, alpha=1):
    if running:
        on_host(meta).add_(on_host(other), alpha=alpha)
    return meta


def total(x, dim, keepdim=False, *, dtype=None):
    return torch.sum(x, dim, keepdim, dtype=dtype)


# Those by which torch adds up gradients.
SUMS = {
    "add.Tensor": computed(torch.add, torch._refs.add),
    "add_.Tensor": add_in_place,
    "sum.dim_IntList": computed(total, torch._refs.sum),
    "mul.Tensor": computed(torch.mul, torch._refs.mul),
    "neg": computed(torch.neg, torch._refs.neg),
}


@contextlib.contextmanager
def summed_by_autograd():
    """Sums and products of meta tensors have values."""
    with torch.library._scoped_library("aten", "IMPL") as library:
        for name, function in SUMS.items():
            library.impl(name, function, "Meta", allow_override=True)
        yield


def call(emulation, name, dtype):
    row, args, kwargs = made(name, dtype)
    names = [argument.name for argument in getattr(torch.ops.tile, row.name).default._schema.arguments]
    values = {**dict(zip(names, args)), **kwargs}
    constants = [values[each] for each in CONSTANTS.get(row.name, ()) if each in values]
    operator = getattr(torch.ops.tile, row.name)
    with summed_by_autograd():
        ours = emulation.call(lambda: second_gradients(operator, args, kwargs, constants=constants, place=to_gpu))
    return row, args, kwargs, constants, [to_host(each.detach()) for each in ours]


@pytest.fixture(scope="module")
def programs(request):
    compile_at_once(request, call)


@pytest.mark.parametrize("name, dtype", cases(NAMES))
def test_second_gradients(name, dtype, programs):
    emulation = Emulation()
    row, args, kwargs, constants, ours = call(emulation, name, dtype)
    if "matmul" not in name:  # whose gradients are products
        assert any(program["entry"].count("backward") > 1 for program in emulation.programs)
    positions = [i for i, x in enumerate(args) if any(x is each for each in constants)]
    named = [key for key, x in kwargs.items() if any(x is each for each in constants)]
    wide_args, wide_kwargs = widen(args), widen(kwargs)
    wide = [wide_args[i] for i in positions] + [wide_kwargs[key] for key in named]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        exact = second_gradients(row.reference, wide_args, wide_kwargs, constants=wide)
    most, eps = max(largest(each) for each in exact), torch.finfo(dtype).eps
    for k, (own, right) in enumerate(zip(ours, exact, strict=True)):
        error = (own.double() - right).abs().max().item() if own.numel() else 0
        assert error <= 16 * eps * max(most, 1), f"{name}: gradient {k} is off by {error:.3g}, the largest is {most:.3g}"
