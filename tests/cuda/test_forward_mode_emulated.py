"""Forward mode with the kernels that a GPU gets, run by the emulator: the numerics rule at small shapes."""

import pytest
import torch
from emulate_operators import Emulation
from emulated_rows import cases, compile_at_once, made
from forward_mode import reference_of, tangents_of, with_named_tangents
from numerics import check, largest, widen

NAMES = (
    "softmax",
    "softmax_of_columns",
    "layer_norm",
    "rms_norm",
    "group_norm_silu",
    "swiglu_of_halves",
    "rope",
    "cross_entropy",
    "matmul_in_stages",
    "matmul_of_batches",
    "gated_matmul",
    "attention",
    "attention_causal",
    "attention_in_stages",
    "attention_with_options",
    "attention_of_packed",
    "attention_decode",
)


def call(emulation, name, dtype):
    row, args, kwargs = made(name, dtype)
    args, kwargs = torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, (args, kwargs))
    tangents = tangents_of(args, kwargs)
    operator = getattr(torch.ops.tile, f"_{row.name}_forward_mode")
    results = emulation.operator(operator)(*args, **with_named_tangents(operator, args, kwargs, tangents))
    return row, args, kwargs, tangents, results[len(results) // 2 :]


@pytest.fixture(scope="module")
def programs(request):
    compile_at_once(request, call)


@pytest.mark.parametrize("name, dtype", cases(NAMES))
def test_tangents(name, dtype, programs):
    emulation = Emulation()
    row, args, kwargs, tangents, ours = call(emulation, name, dtype)
    assert any("forward_mode" in program["entry"] for program in emulation.programs)
    theirs = reference_of(row.reference, args, kwargs, tangents)
    wide = reference_of(row.reference, widen(args), widen(kwargs), tangents)
    incoming = max(largest(t) for t in tangents if t is not None)
    for k, (tangent, (_, its), (_, exact)) in enumerate(zip(ours, theirs, wide)):
        check(tangent, its, exact, gradient=True, incoming=incoming, what=f"{name}: tangent {k}")
