"""PyTorch's own OpInfo samples of a function, run through ours under the numerics rule, forward and gradient."""

import functools

import torch
from numerics import check_call

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


@functools.cache
def opinfo(name, variant=""):
    """The entry of torch's database of operators, by its name and variant."""
    from torch.testing._internal.common_methods_invocations import op_db

    found = [op for op in op_db if op.name == name and op.variant_test_name == variant]
    assert len(found) == 1, f"torch has {len(found)} OpInfo entries {name!r} {variant!r}"
    return found[0]


def samples(name, dtype, variant="", accept=lambda sample: True):
    """[(arguments, keyword arguments)] of every sample that `accept` takes; gradients are asked for."""
    found = []
    for sample in opinfo(name, variant).sample_inputs(str(torch.get_default_device()), dtype, requires_grad=True):
        if accept(sample):
            found.append(((sample.input, *sample.args), sample.kwargs))
    assert found, f"no sample of {name} {variant} is left"
    return found


def check_samples(ours, name, dtype, variant="", accept=lambda sample: True, reference=None):
    """Runs `ours`, a function with the signature of torch's, over the samples; returns how many there were.

    reference: what is called in float64 instead of torch's function, where a default depends on the dtype.
    """
    theirs = opinfo(name, variant).op
    run = samples(name, dtype, variant, accept)
    for i, (args, kwargs) in enumerate(run):
        shapes = [tuple(a.shape) if isinstance(a, torch.Tensor) else a for a in args]
        check_call(ours, theirs, args, kwargs, reference=reference, what=f"{name} sample {i} {shapes} {kwargs}")
    return len(run)
