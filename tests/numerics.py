"""The numerics rule: how far an operator's result may be from a float64 reference, measured against torch's own."""

import math

import torch

# (times torch's own error, plus units in the last place of the largest value)
RESULT = (2, 1)
GRADIENT = (3, 2)
FLOAT64_RTOL = 1e-12
# The rule compares maxima. Of a few numbers that is the luck of one draw: with fewer than FEW, the maxima are those of
# DRAWS draws, the arguments given and others of the same magnitudes. Gradients that come from few results are few, too,
# and results that come from few sums.
FEW, DRAWS = 256, 24
# A gradient below so many eps of incoming gradient times arguments has cancelled (layer_norm of one or two columns): it
# is rounding noise in every implementation, and ours must be as small.
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


def errors(ours, theirs, reference):
    """The largest errors of both, and the largest value of the reference; where all are finite."""
    ours, theirs, reference = ours.detach(), theirs.detach(), reference.detach().double()
    # The narrow dtype may overflow where the reference does not: only values finite in both count.
    finite = torch.isfinite(theirs) & torch.isfinite(reference)
    return tuple(largest(t[finite]) for t in (ours.double() - reference, theirs.double() - reference, reference))


def check(ours, theirs, reference, *, gradient=False, incoming=0.0, what="result", draws=()):
    """Asserts that `ours` obeys the rule.

    ours, theirs: the same call by us and by torch, in one dtype; reference: by torch in float64; incoming: the largest
    incoming gradient times the largest argument, where these are gradients; draws: more such triples.
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
        times, ulps = GRADIENT if gradient else RESULT
        found = [errors(ours, theirs, reference), *(errors(*draw) for draw in draws)]
        error, own, value = (max(each) for each in zip(*found))
        allowed = times * own + ulps * ulp(value, dtype)
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


def other_signs(value):
    """The same arguments with random signs where they require grad and are finite."""
    if isinstance(value, torch.Tensor):
        if not value.requires_grad or not torch.isfinite(value).all():
            return value
        signs = torch.randint(0, 2, value.shape, device=value.device).to(value.dtype) * 2 - 1
        return torch.empty_like(value).copy_(value.detach() * signs).requires_grad_()
    if isinstance(value, (list, tuple)):
        return type(value)(other_signs(each) for each in value)
    if isinstance(value, dict):
        return {name: other_signs(each) for name, each in value.items()}
    return value


def evaluate(functions, args, kwargs, grad_outputs):
    """Results and gradients of a call by us, by torch and in float64, as lists of triples; and the incoming
    gradients."""
    wide_args, wide_kwargs = widen(args), widen(kwargs)
    calls = []
    for function, a, k in zip(functions, (args, args, wide_args), (kwargs, kwargs, wide_kwargs)):
        a, k = own_leaves(a), own_leaves(k)
        results = function(*a, **k)
        calls.append((leaves(a, k), results if isinstance(results, (tuple, list)) else (results,)))
    results = list(zip(*(results for _, results in calls)))
    if not calls[1][0]:
        return results, [], None
    wanted = [i for i, result in enumerate(calls[1][1]) if result.requires_grad]
    if grad_outputs is None:
        grad_outputs = [torch.randn_like(result) for result in calls[1][1]]
    gradients = [
        torch.autograd.grad(
            [results[i] for i in wanted], inputs, [grad_outputs[i].to(results[i].dtype) for i in wanted], allow_unused=True
        )
        for inputs, results in calls
    ]
    return results, list(zip(*gradients)), max(largest(grad_outputs[i]) for i in wanted)


def check_call(ours, theirs, args, kwargs=None, *, reference=None, grad_outputs=None, sums=math.inf, what="call"):
    """Asserts the rule for a call's results, and for the gradients of every argument that requires grad.

    ours, theirs, reference: functions of the same arguments (the last in float64; by default `theirs`);
    grad_outputs: gradients that come in, one a result, or None for random ones; sums: how many there are that the
    results come from (of softmax one a row).
    """
    kwargs = kwargs or {}
    functions = (ours, theirs, reference or theirs)
    results, gradients, incoming = evaluate(functions, args, kwargs, grad_outputs)
    draws = []

    def more(kind, i, theirs):
        """Triples of further draws, made once somebody needs them."""
        count = min(theirs.numel(), sums, *([sum(result[1].numel() for result in results)] if kind else []))
        if count >= FEW or theirs.dtype == torch.float64 or not leaves(args, kwargs):
            return ()
        while len(draws) < DRAWS:
            draws.append(evaluate(functions, other_signs(args), other_signs(kwargs), grad_outputs)[:2])
        return [draw[kind][i] for draw in draws]

    for i, triple in enumerate(results):
        check_with(more, 0, i, triple, what=f"{what}: result {i}")
    if not gradients:
        return
    incoming *= max(1.0, *(largest(leaf) for leaf in leaves(args, kwargs)))
    for i, triple in enumerate(gradients):
        if triple[1] is None:
            assert triple[0] is None or not triple[0].any(), f"{what}: gradient {i} should be None or zero"
            continue
        assert triple[0] is not None, f"{what}: gradient {i} is None"
        check_with(more, 1, i, triple, gradient=True, incoming=incoming, what=f"{what}: gradient {i}")


def check_with(more, kind, i, triple, **options):
    """check(), with more draws where the first says too little to fail by."""
    try:
        check(*triple, **options)
    except AssertionError:
        draws = more(kind, i, triple[1])
        if not draws:
            raise
        check(*triple, **options, draws=draws)
