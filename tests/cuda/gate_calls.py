"""The calls whose kernels have gates: every operator with its gradient, at shapes of benchmarks/gpu.py, which choose
the tiles."""

import pathlib
import sys

import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import operators  # noqa: E402

f32, f16, bf16, f64 = torch.float32, torch.float16, torch.bfloat16, torch.float64


# Each call in DOUBLE adds minutes of compiling and kernels that few run. VARIANTS are kernels of other calls with something
# more: the usual ones of bfloat16 tell what it costs.
DOUBLE, VARIANTS = operators.calls("gates_in_double"), operators.calls("gate_variants")
CALLS = operators.calls("gates") | DOUBLE | VARIANTS
ARCHS, OTHER_ARCHS = (80, 90), (89, 100, 120)


def call(name, dtype):
    """The call and its gradient."""
    with_gradient(CALLS[name], dtype)


def with_gradient(function, dtype):
    results = function(dtype)
    results = [x for x in (results if isinstance(results, tuple) else (results,)) if x.requires_grad]
    if results:
        torch.autograd.backward(results, [torch.empty_like(x) for x in results])


def jobs():
    """(chip, dtype, name) of all calls. On other chips float16 and float32 would add little but time."""
    for name in CALLS:
        if name in VARIANTS:
            yield from ((arch, bf16, name) for arch in ARCHS)
            continue
        dtypes = (f32, f16, bf16) + ((f64,) if name in DOUBLE else ())
        yield from ((arch, dtype, name) for arch in ARCHS for dtype in dtypes)
        yield from ((arch, bf16, name) for arch in OTHER_ARCHS)


def in_all_configurations(job):
    """Returns True if the job's kernels have a gate in every configuration, not only in those that run."""
    arch, dtype, name = job
    return arch in ARCHS and dtype == bf16 and name not in VARIANTS
