"""The numerics rule: how far an operator's result may be from a float64 reference, measured against torch's own."""

import math

import torch

# (times torch's own error, plus units in the last place of the largest value)
RESULT = (2, 1)
GRADIENT = (3, 2)
FLOAT64_RTOL = 1e-12
# A gradient below so many eps of incoming gradient times arguments has cancelled (layer_norm of one or two columns): it is rounding noise in
# every implementation, and ours must be as small.
NOISE = 64


def ulp(value, dtype):
    """The spacing of `dtype` at a magnitude."""
    info = torch.finfo(dtype)
    if not math.isfinite(value) or abs(value) < info.smallest_normal:
        return info.smallest_normal * info.eps
    return info.eps * 2.0 ** math.floor(math.log2(abs(value)))


def largest(tensor):
    """The largest finite magnitude, 0 of an empty tensor."""
    finite = tensor.detach().double()[torch.isfinite(tensor)]
    return finite.abs().max().item() if finite.numel() else 0.0


def compare_specials(ours, expected, what):
    """NaN equals NaN; an infinity must be the same one."""
    for name, where in (("NaN", torch.isnan), ("inf", lambda t: t == math.inf), ("-inf", lambda t: t == -math.inf)):
        a, b = where(ours), where(expected)
        assert torch.equal(a, b), f"{what}: {int(a.sum())} values are {name}, expected {int(b.sum())}"


def check(ours, theirs, reference, *, gradient=False, incoming=0.0, what="result"):
    """Asserts that `ours` obeys the rule.

    ours, theirs: the same call by us and by torch, in one dtype; reference: by torch in float64; incoming: the largest
    incoming gradient times the largest argument, where these are gradients.
    """
    assert ours.shape == theirs.shape, f"{what}: shape {tuple(ours.shape)}, expected {tuple(theirs.shape)}"
    assert ours.dtype == theirs.dtype, f"{what}: dtype {ours.dtype}, expected {theirs.dtype}"
    if not ours.dtype.is_floating_point:
        assert torch.equal(ours, theirs), f"{what}: differs from torch"
        return
    ours, theirs, dtype = ours.detach(), theirs.detach(), ours.dtype
    compare_specials(ours, theirs, what)
    finite = torch.isfinite(theirs)
    if dtype == torch.float64:
        error, allowed = largest((ours - theirs)[finite]), FLOAT64_RTOL * max(largest(theirs), incoming)
    else:
        reference = reference.detach().double()
        # Where the narrow dtype overflows the reference does not: only values finite in both count.
        finite &= torch.isfinite(reference)
        times, ulps = GRADIENT if gradient else RESULT
        error = largest((ours.double() - reference)[finite])
        own = largest((theirs.double() - reference)[finite])
        allowed = times * own + ulps * ulp(largest(reference[finite]), dtype)
    noise = NOISE * torch.finfo(dtype).eps * incoming
    if gradient and largest(theirs[finite]) <= noise:
        allowed = noise
    assert error <= allowed, f"{what}: error {error:.3g} of {dtype}, allowed {allowed:.3g} (largest {largest(theirs):.3g})"


def widen(value):
    """A call's argument for the float64 reference: floating tensors and dtypes become float64."""
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.detach().double().requires_grad_(value.requires_grad)
    if isinstance(value, torch.dtype) and value.is_floating_point:
        return torch.float64
    if isinstance(value, (list, tuple)):
        return type(value)(widen(each) for each in value)
    if isinstance(value, dict):
        return {name: widen(each) for name, each in value.items()}
    return value


def own_leaves(value):
    """The same arguments with leaves of their own, layouts kept, so that three calls do not share gradients."""
    if isinstance(value, torch.Tensor):
        if not value.requires_grad:
            return value
        return value.detach().requires_grad_()
    if isinstance(value, (list, tuple)):
        return type(value)(own_leaves(each) for each in value)
    if isinstance(value, dict):
        return {name: own_leaves(each) for name, each in value.items()}
    return value


def leaves(*values):
    """The tensors that require grad among arguments, in order."""
    found = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found += [value] if value.requires_grad else []
        elif isinstance(value, (list, tuple)):
            found += leaves(*value)
        elif isinstance(value, dict):
            found += leaves(*value.values())
    return found


def check_call(ours, theirs, args, kwargs=None, *, reference=None, grad_outputs=None, what="call"):
    """Asserts the rule for a call's results, and for the gradients of every argument that requires grad.

    ours, theirs, reference: functions of the same arguments (the last in float64; by default `theirs`);
    grad_outputs: gradients that come in, one a result, or None for random ones.
    """
    kwargs = kwargs or {}
    wide_args, wide_kwargs = widen(args), widen(kwargs)
    calls = []
    for function, a, k in ((ours, args, kwargs), (theirs, args, kwargs), (reference or theirs, wide_args, wide_kwargs)):
        a, k = own_leaves(a), own_leaves(k)
        results = function(*a, **k)
        calls.append((leaves(a, k), results if isinstance(results, (tuple, list)) else (results,)))
    for i, results in enumerate(zip(*(results for _, results in calls))):
        check(*results, what=f"{what}: result {i}")
    if not calls[1][0]:
        return
    wanted = [i for i, result in enumerate(calls[1][1]) if result.requires_grad]
    if grad_outputs is None:
        grad_outputs = [torch.randn_like(result) for result in calls[1][1]]
    incoming = max(largest(grad_outputs[i]) for i in wanted) * max(1.0, *(largest(leaf) for leaf in leaves(args, kwargs)))
    gradients = []
    for inputs, results in calls:
        gradients.append(
            torch.autograd.grad(
                [results[i] for i in wanted],
                inputs,
                [grad_outputs[i].to(results[i].dtype) for i in wanted],
                allow_unused=True,
            )
        )
    for i, grads in enumerate(zip(*gradients)):
        if grads[1] is None:
            assert grads[0] is None or not grads[0].any(), f"{what}: gradient {i} should be None or zero"
            continue
        assert grads[0] is not None, f"{what}: gradient {i} is None"
        check(*grads, gradient=True, incoming=incoming, what=f"{what}: gradient {i}")
