"""Finds out what a module of unknown class computes: its forward is run on small tensors and compared with formulas."""

import copy
import inspect

import torch
import torch.nn.functional as F

ACTIVATIONS = {"silu": F.silu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "relu": F.relu}
# The operator, with its options, that computes activation(gate) * up.
GATES = {"silu": ("swiglu", {}), "gelu": ("geglu", {}), "gelu_tanh": ("geglu", {"approximate": "tanh"})}


def _numbers(*shape, dtype=torch.float64, seed=0):
    # A separate generator, so that patching a model does not change the program's random numbers.
    generator = torch.Generator("cpu").manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=dtype, device="cpu")


def _close(ours, theirs, rtol):
    return (
        isinstance(ours, torch.Tensor)
        and isinstance(theirs, torch.Tensor)
        and ours.shape == theirs.shape
        and ours.dtype == theirs.dtype
        and torch.allclose(ours, theirs, rtol=rtol, atol=rtol)
    )


def _agree(function, formula, *args, rtol=1e-12):
    """Returns True if both return the same numbers. A function that cannot be called with these arguments does not
    match."""
    try:
        with torch.no_grad(), torch.device("cpu"), torch.autocast("cpu", enabled=False), torch.random.fork_rng(devices=[]):
            return _close(function(*args), formula(*args), rtol)
    except Exception:  # any error means that the forward does not match
        return False


def _stand_in(module, training, **parts):
    """Returns a module of the same class and attributes, with these parameters, modules and other attributes."""
    stand_in = type(module).__new__(type(module))
    stand_in.__dict__.update(module.__dict__)
    for kind, wanted in (("_parameters", torch.nn.Parameter), ("_modules", torch.nn.Module)):
        stand_in.__dict__[kind] = {name: part for name, part in parts.items() if isinstance(part, wanted)}
    stand_in.__dict__.update(
        {name: part for name, part in parts.items() if not isinstance(part, (torch.nn.Parameter, torch.nn.Module))}
    )
    stand_in.__dict__["training"] = training
    return stand_in


def _in_both_modes(module, formula, args, rtol, **parts):
    return all(_agree(_stand_in(module, training, **parts).forward, formula, *args, rtol=rtol) for training in (False, True))


def _linear(weight, bias):
    layer = torch.nn.Linear(*reversed(weight.shape), device="meta")
    layer.weight, layer.bias = torch.nn.Parameter(weight), torch.nn.Parameter(bias)
    return layer


def _range():
    return torch.cat([_numbers(251) * 3, torch.linspace(-9, 9, 37, dtype=torch.float64, device="cpu")])  # 0 among them


def activation(function):
    """Returns the name of the activation that a function or module computes, or None. Hooks are not called."""
    if isinstance(function, torch.nn.Module):
        if any(True for _ in function.parameters()) or function._buffers:
            return None
        function = function.forward
    x = _range()
    for name, formula in ACTIVATIONS.items():
        if callable(function) and _agree(function, formula, x):
            return name
    return None


def activation_module(module):
    """Returns the name of the activation that a module's forward computes in both modes, or None. Hooks are not called."""
    if module._parameters or module._modules or module._buffers:
        return None
    x = _range()
    return next((name for name, formula in ACTIVATIONS.items() if _in_both_modes(module, formula, [x], 1e-12)), None)


def rms_norm(module):
    """Returns (name of the attribute eps, whether 1 is added to weight, whether float64 is computed in float64), or
    None."""
    weight = module._parameters.get("weight")
    names = [name for name in ("variance_epsilon", "eps") if type(module.__dict__.get(name)) is float]
    if weight is None or weight.dim() != 1 or len(module._parameters) > 1 or module._modules or module._buffers:
        return None
    if len(names) != 1 or weight.numel() == 0:
        return None
    width = weight.shape[0]
    size = torch.tensor([[1e-3], [0.1], [1.0], [30.0]], dtype=torch.float64, device="cpu")
    for one in (False, True):
        for wide in (True, False):
            dtype, rtol = (torch.float64, 1e-12) if wide else (torch.float32, 2e-6)
            values = _numbers(width, dtype=dtype, seed=1)

            def formula(x):
                return F.rms_norm(x, [width], values + 1 if one else values, eps)

            for eps in (0.25, 1e-6):
                parts = {"weight": torch.nn.Parameter(values), names[0]: eps}
                if not _in_both_modes(module, formula, [(_numbers(4, width) * size).to(dtype)], rtol, **parts):
                    break
            else:
                return names[0], one, wide
    return None


# The parts of gated MLPs, and what the report calls the combined operation.
GATED = {
    ("gate_proj", "up_proj", "down_proj"): "down_proj(activation(gate_proj(x)) * up_proj(x))",
    ("gate_up_proj", "down_proj"): "down_proj(activation(gate) * up) of the halves of gate_up_proj(x)",
}
EXPERTS = "_apply_gate"  # the method by which transformers' experts gate
ACTIVATION_NAMES = ("act_fn", "act", "activation_fn")


def gated_parts(module):
    """Returns the names of GATED that a module has, or None."""
    return next(
        (names for names in GATED if all(isinstance(module._modules.get(name), torch.nn.Module) for name in names)), None
    )


def gated_mlp(module, names):
    """Returns (name of the activation's attribute, our name of the activation), or None."""
    found = [name for name in ACTIVATION_NAMES if callable(getattr(module, name, None))]
    if len(found) != 1 or set(module._modules) - {*names, found[0]} or module._parameters or module._buffers:
        return None
    name = activation(getattr(module, found[0]))
    if name is None:
        return None
    shapes = ((7, 5), (7, 5), (5, 7)) if len(names) == 3 else ((14, 5), (5, 7))
    *first, down = ((_numbers(*shape, seed=2 * i), _numbers(shape[0], seed=2 * i + 1)) for i, shape in enumerate(shapes, 1))

    def formula(x):
        gate, up = torch.cat([F.linear(x, *each) for each in first], -1).chunk(2, -1)
        return F.linear(ACTIVATIONS[name](gate) * up, *down)

    parts = {part: _linear(*values) for part, values in zip(names, (*first, down))}
    if _in_both_modes(module, formula, [_numbers(2, 3, 5)], 1e-12, **parts, **{found[0]: ACTIVATIONS[name]}):
        return found[0], name
    return None


def gated_experts(module):
    """Matches the experts of a mixture in transformers, which gate the halves of a projection in a method. Returns (name of the
    activation's attribute, our name of the activation), or None."""
    gates = callable(getattr(type(module), EXPERTS, None))
    found = [name for name in ACTIVATION_NAMES if gates and callable(getattr(module, name, None))]
    name = activation(getattr(module, found[0])) if len(found) == 1 else None
    if name not in GATES:
        return None

    def formula(x):
        gate, up = x.chunk(2, -1)
        return ACTIVATIONS[name](gate) * up

    x, parts = _numbers(3, 14), {found[0]: ACTIVATIONS[name]}
    same = all(_agree(getattr(_stand_in(module, each, **parts), EXPERTS), formula, x) for each in (False, True))
    return (found[0], name) if same else None


def projection(module):
    """Matches a module whose Linear is its `proj`, such as diffusers' GEGLU and GELU. Returns (name of the activation's
    attribute or None, our name of the activation, the half of proj(x) that is the gate or None if all of it is
    activated), or None."""
    others = [name for name in module._modules if name != "proj"]
    if not isinstance(module._modules.get("proj"), torch.nn.Linear) or len(others) > 1:
        return None
    own = [activation(getattr(module, name)) for name in others]
    if module._parameters or module._buffers or None in own:
        return None
    values = _numbers(14, 5, seed=2), _numbers(14, seed=3)
    parts = {"proj": _linear(*values), **{other: ACTIVATIONS[name] for other, name in zip(others, own)}}
    # Pairs handle an activation module that is applied to the whole projection.
    for gate in (0, 1) if others else (0, 1, None):
        for name in own or ACTIVATIONS:
            act = ACTIVATIONS[name]

            def formula(x):
                whole = F.linear(x, *values)
                return act(whole) if gate is None else act(whole.chunk(2, -1)[gate]) * whole.chunk(2, -1)[1 - gate]

            takes = gate is None or name in GATES
            if takes and _in_both_modes(module, formula, [_numbers(2, 3, 5)], 1e-12, **parts):
                return (others[0] if others else None), name, gate
    return None


def transposed_linear(module):
    """Returns True if this is a linear layer whose weight is [in, out]: transformers' Conv1D."""
    parameters = module._parameters
    if set(parameters) != {"weight", "bias"} or module._modules or module._buffers:
        return False
    weight, bias = parameters["weight"], parameters["bias"]
    if weight is None or bias is None or weight.dim() != 2 or bias.shape != weight.shape[1:] or not weight.numel():
        return False
    values, added = _numbers(*weight.shape, seed=1), _numbers(*bias.shape, seed=2)
    parts = {"weight": torch.nn.Parameter(values), "bias": torch.nn.Parameter(added)}
    return _in_both_modes(module, lambda x: x @ values + added, [_numbers(2, 3, weight.shape[0])], 1e-11, **parts)


def _codes(function):
    code = getattr(inspect.unwrap(function), "__code__", None)
    waiting = [code] if code else []
    while waiting:
        code = waiting.pop()
        yield code
        waiting += [each for each in code.co_consts if hasattr(each, "co_names")]


DISPATCH = "dispatch_attention_fn"  # diffusers' function that calls one of its table
# Names by which a forward refers to a function that is swapped. The last two are the tables of attention functions in
# transformers and diffusers.
NAMES = {"scaled_dot_product_attention", "softmax", "log_softmax", "cross_entropy", "ALL_ATTENTION_FUNCTIONS", DISPATCH}


def _names(function):
    return {name for code in _codes(function) for name in code.co_names} & NAMES


def functions(module):
    """Returns the names of NAMES in a module's forward and in that of its `processor`, which diffusers' attention
    calls."""
    return _names(type(module).forward) | functions_of_processor(module)


def functions_of_processor(module):
    processor = getattr(module, "processor", None)
    known = processor is not None and not isinstance(processor, torch.nn.Module)
    return _names(type(processor).__call__) if known else set()


def calls(module, name):
    return any(name in code.co_names for code in _codes(type(module).forward))


def _halves(x):
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


def rotates_halves(function):
    """Returns True if function(q, k, cos, sin) rotates pairs of elements that are half a head dimension apart."""

    def formula(q, k, cos, sin):
        return torch.cat([x * cos.unsqueeze(1) + _halves(x) * sin.unsqueeze(1) for x in (q, k)], 1)

    shapes = ((2, 3, 4, 6), (2, 2, 4, 6), (2, 4, 6), (2, 4, 6))
    args = [_numbers(*shape, seed=seed) for seed, shape in enumerate(shapes)]
    return _agree(lambda *each: torch.cat(function(*each), 1), formula, *args)


def tables_have_equal_halves(model):
    """Returns True if all rotary embeddings of a model give cos and sin whose halves are equal, as tile::rope takes them."""
    found = [module for module in model.modules() if "Rotary" in type(module).__name__]
    for module in found:
        try:
            with torch.no_grad(), torch.device("cpu"):
                cos, sin = copy.deepcopy(module).cpu()(torch.zeros(1, 5, 4), torch.arange(5)[None])
        except Exception:  # another signature, or no real tensors
            return False
        if not all(table.dim() == 3 and table.shape[-1] % 2 == 0 and torch.equal(*table.chunk(2, -1)) for table in (cos, sin)):
            return False
    return bool(found)


def heads(model):
    """Returns the names of the linear layers of a model of transformers that make its logits: a class for each word."""
    words, base = getattr(getattr(model, "config", None), "vocab_size", None), getattr(model, "base_model", None)
    inside = set() if base is None or base is model else set(base.modules())
    return tuple(
        name
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and module not in inside and module.out_features == words
    )
