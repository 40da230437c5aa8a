"""Formulas for torch.utils.flop_counter: our operators count as the torch functions that compute the same results."""

import importlib.util
import math
import sys

import torch


def _product(input, other):
    """Returns 2·m·n·k for each pair of matrices, summed over the batch."""
    batch = torch.broadcast_shapes(input.shape[:-2], other.shape[:-2])
    rows = input.shape[-2] if input.dim() > 1 else 1
    columns = other.shape[-1] if other.dim() > 1 else 1
    return 2 * math.prod(batch) * rows * columns * input.shape[-1]


def _matmul(input, other, *args, **kwargs):
    return _product(input, other)


def _matmul_backward(grad_out, input, other, bias, activation, alpha, pre, residual_like, output_mask, **kwargs):
    return _product(input, other) * (output_mask[0] + output_mask[1])


def _matmul_double_backward(
    to_input,
    to_other,
    to_bias,
    to_residual,
    grad_out,
    input,
    other,
    bias,
    activation,
    alpha,
    pre,
    residual_like,
    output_mask,
    **kwargs,
):
    x, y = to_input is not None, to_other is not None
    return _product(input, other) * ((x + y) * output_mask[0] + y * output_mask[1] + x * output_mask[2])


def _matmul_epilogue_backward(grad_out, input, other, *args, **kwargs):
    output_mask = args[-1] if args else kwargs["output_mask"]
    return _product(input, other) * (output_mask[0] + output_mask[1])


def _matmul_into(input, other, *args, second=None, **kwargs):
    return _product(input, other) * (1 if second is None else 2)


def _gated_matmul(input, gate_weight, *args, **kwargs):
    return 2 * _product(input, gate_weight)


def _gated_matmul_backward(grad_out, input, gate_weight, up_weight, *args, **kwargs):
    output_mask = args[-1] if args else kwargs["output_mask"]
    return _product(input, gate_weight) * (2 * output_mask[0] + output_mask[1] + output_mask[2])


def _scores(heads, queries, keys):
    return 2 * heads * queries * keys


def _attention(query, key, value, *args, **kwargs):
    # As torch counts: masks, including causal ones, do not reduce the count.
    batch, heads, queries, width = query.shape
    return batch * _scores(heads, queries, key.shape[2]) * (width + value.shape[3])


def _attention_backward(grad_out, grad_lse, query, key, value, *args, **kwargs):
    # The scores are recomputed; the gradients are of scores, value, query and key.
    batch, heads, queries, width = query.shape
    return batch * _scores(heads, queries, key.shape[2]) * (3 * width + 2 * value.shape[3])


def _numbers(tensor):
    """Returns the values of an integer tensor; None if it has no memory."""
    from torch._subclasses.fake_tensor import FakeTensor
    from torch._subclasses.functional_tensor import FunctionalTensor

    if isinstance(tensor, (FakeTensor, FunctionalTensor)) or tensor.is_meta:
        return None
    return tensor.tolist()


def _pairs(cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k):
    """Returns Σ queries·keys over the sequences. For fake tensors, each counts as the longest, as in torch."""
    queries, keys = _numbers(cu_seqlens_q), _numbers(cu_seqlens_k)
    if queries is None or keys is None:
        return (cu_seqlens_q.shape[0] - 1) * max_seqlen_q * max_seqlen_k
    return sum((queries[i + 1] - queries[i]) * (keys[i + 1] - keys[i]) for i in range(len(queries) - 1))


def _attention_varlen(query, key, value, *lengths, **kwargs):
    return _scores(query.shape[1], 1, _pairs(*lengths[:4])) * (query.shape[2] + value.shape[2])


def _attention_varlen_backward(grad_out, grad_lse, query, key, value, *lengths, **kwargs):
    return _scores(query.shape[1], 1, _pairs(*lengths[:4])) * (3 * query.shape[2] + 2 * value.shape[2])


def _attention_decode(query, key_cache, value_cache, lengths, *, block_table=None, **kwargs):
    batch, heads, queries, width = query.shape
    keys = _numbers(lengths)
    if keys is None:
        keys = [key_cache.shape[2] * (1 if block_table is None else block_table.shape[1])] * batch
    return _scores(heads, queries, sum(keys)) * (width + value_cache.shape[3])


def _linear_cross_entropy(input, weight, *args, **kwargs):
    return 2 * input.numel() * weight.shape[0]


def _linear_cross_entropy_saving(input, weight, target, *, out_val=None, **kwargs):
    early = () if out_val is None else out_val[3:5]  # gradients that the forward computes
    return _linear_cross_entropy(input, weight) * (1 + sum(each is not None for each in early))


def _linear_cross_entropy_backward(grad_out, input, weight, *args, **kwargs):
    # Recomputing the logits is not counted, because a linear layer followed by cross_entropy keeps them.
    output_mask = args[8] if len(args) > 8 else kwargs["output_mask"]
    given = [args[9 + k] if len(args) > 9 + k else kwargs.get(name) for k, name in enumerate(("input_grad", "weight_grad"))]
    products = sum(wanted and early is None for wanted, early in zip(output_mask, given))
    return _linear_cross_entropy(input, weight) * products


_formulas = {
    "matmul": _matmul,
    "_matmul_saving": _matmul,
    "matmul_backward": _matmul_backward,
    "matmul_double_backward": _matmul_double_backward,
    "matmul_epilogue": _matmul,
    "_matmul_epilogue_saving": _matmul,
    "matmul_epilogue_backward": _matmul_epilogue_backward,
    "_matmul_into": _matmul_into,
    "scaled_matmul": _matmul,
    "gated_matmul": _gated_matmul,
    "_gated_matmul_saving": _gated_matmul,
    "gated_matmul_backward": _gated_matmul_backward,
    "attention": _attention,
    "_attention_saving": _attention,
    "attention_backward": _attention_backward,
    "_attention_with_score": _attention,
    "_attention_with_score_saving": _attention,
    "_attention_with_score_backward": _attention_backward,
    "attention_varlen": _attention_varlen,
    "_attention_varlen_saving": _attention_varlen,
    "attention_varlen_backward": _attention_varlen_backward,
    "attention_decode": _attention_decode,
    "linear_cross_entropy": _linear_cross_entropy,
    "_linear_cross_entropy_saving": _linear_cross_entropy_saving,
    "linear_cross_entropy_backward": _linear_cross_entropy_backward,
}


_users = {}  # of operators made with tile_ops.op


def define(name, function, arguments, wanted) -> None:
    """Registers the formula of an operator "ns::name": a function of those of its arguments that are `wanted`."""

    def formula(*given, out_val=None, **named):
        values = {**dict(zip(arguments, given)), **named}
        for each in getattr(getattr(torch.ops, name.split("::")[0]), name.split("::")[1]).default._schema.arguments:
            values.setdefault(each.name, each.default_value)
        return function(*(values[each] for each in wanted))

    _users[name] = formula
    register_if_cheap()


def register_flop_formulas() -> None:
    """Tells torch.utils.flop_counter what our operators count. A second call does nothing.

    `import tile_ops` does this if it is cheap. If triton is installed and not loaded yet, flop_counter would load it. Then
    import torch.utils.flop_counter first, or call this function before you make a FlopCounterMode.

    Units: a product counts 2 m n k operations. Errors: it raises none.
    """
    from torch.utils.flop_counter import flop_registry, register_flop_formula

    for name, formula in _formulas.items():
        packet = getattr(torch.ops.tile, name)
        if packet not in flop_registry:
            register_flop_formula(packet, get_raw=True)(formula)
    for full, formula in _users.items():
        namespace, name = full.split("::")
        flop_registry[getattr(getattr(torch.ops, namespace), name)] = formula


def register_if_cheap() -> None:
    loaded = "torch.utils.flop_counter" in sys.modules or "triton.runtime.jit" in sys.modules
    if loaded or not importlib.util.find_spec("triton"):
        register_flop_formulas()
