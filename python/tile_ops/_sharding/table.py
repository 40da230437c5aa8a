"""The table of sharding rules: one row for each operator of torch.ops.tile and its variant that saves for the gradient.

signature.py defines the notation. A row's results are the operator's, followed by the saved ones.
"""

from . import special, vocabulary
from .rules import Rule


def _dimensions(call, name, dim):
    """Returns the axes of a tensor of which one stays whole: "a0 A1 a2"."""
    rank = call[name].dim()
    whole = call[dim] % rank if rank else 0
    return " ".join(f"{'A' if at == whole else 'a'}{at}" for at in range(rank))


def _softmax(call):
    axes = _dimensions(call, "input", "dim")
    return f"input[{axes}] -> out[{axes}]"


def _softmax_backward(call):
    axes = _dimensions(call, "out", "dim")
    return f"grad_out[{axes}] out[{axes}] -> grad_input[{axes}]"


def _normalized(call):
    return len(call["normalized_shape"])


# Heads of query, key and value are split in the same way, so the devices must divide the number of key heads; a single key head is
# shared by all. Rows of queries can be split if their position does not matter: no causal mask, window or ALiBi slopes.
_ATTENTION = "query[b h q E] key[b h K E] value[b h K W]"
_PACKED = "query[Q h E] key[K h E] value[K h W] cu_seqlens_q[S] cu_seqlens_k[S]"
_OPTIONS = "alibi_slopes[{batch} h] sinks[h] seed[Z]"
_SHARED = ("alibi_slopes", "sinks", "seed", "cu_seqlens_q", "cu_seqlens_k", "lengths", "block_table")


def _drops_nothing(call):
    return call["dropout_p"] == 0  # the mask depends on a score's number among all scores


def _no_position(call):
    open_window = all(each < 0 for each in call["window"])
    return not call["is_causal"] and open_window and call["alibi_slopes"] is None and _drops_nothing(call)


_ATTENTION_WHEN = {"b": _drops_nothing, "h": _drops_nothing, "q": _no_position}


def _decode(call):
    pages = "P" if call["block_table"] is not None else "b"
    return (
        f"query[b h Q E] key_cache[{pages} h K E] value_cache[{pages} h K W] lengths[b] block_table[b P] "
        "alibi_slopes[b h] sinks[h] -> out[b h Q W] lse[b h Q]"
    )


def _rope(query, key, results):
    def text(call):
        rows = "T" if call["position_ids"] is not None else "s"  # looked up: any device may need any row
        tables = f"cos[{'' if call['cos'].dim() < 3 else 'b '}{rows} W] sin[{'' if call['sin'].dim() < 3 else 'b '}{rows} W]"
        names = [f"{name}[={of}]" for name, of in zip(results, (query, key))]
        return f"{query}[b h s E] {key}[b h s E] {tables} position_ids[b s] -> {' '.join(names)}"

    return Rule(text, shared=("cos", "sin", "position_ids"))


# A vector as input has no rows, a vector as other no columns.
def _matrices(call):
    vectors = call["input"].dim() == 1, call["other"].dim() == 1
    x = "K" if all(vectors) else "k"
    rows, columns = ("" if vectors[0] else "i"), ("" if vectors[1] else "n")
    left = f"input[{x}]" if vectors[0] else f"input[*r i {x}]"
    right = f"other[{x}]" if vectors[1] else f"other[*r {x} n]"
    product = " ".join(word for word in ("*r", rows, columns) if word)
    return left, right, product


def _matmul(call):
    left, right, out = _matrices(call)
    return f"{left} {right} bias[{out} ^k] residual[{out} ^k] -> out[{out} | k] pre[{out}] residual_like[=residual]"


def _matmul_backward(call):
    left, right, out = _matrices(call)
    return (
        f"grad_out[{out}] {left} {right} bias[{out} ^k] pre[{out}] residual_like[{out} ^k] -> "
        "grad_input[+input] grad_other[+other] grad_bias[+bias] grad_residual[+residual_like]"
    )


def _matmul_double_backward(call):
    left, right, out = _matrices(call)
    incoming = [
        left.replace("input[", "grad_grad_input["),
        right.replace("other[", "grad_grad_other["),
        f"grad_grad_bias[{out} ^k]",
        f"grad_grad_residual[{out} ^k]",
        f"grad_out[{out}]",
    ]
    return (
        f"{' '.join(incoming)} {left} {right} bias[{out}] pre[{out}] residual_like[{out}] -> grad_grad_out[{out} | k] "
        "grad_input[+input] grad_other[+other] grad_bias[+bias] grad_pre[...] grad_residual_like[...]"
    )


def _matmul_epilogue(call):
    left, right, out = _matrices(call)
    left, right = left.replace("k]", "K]"), right.replace("[k", "[K").replace(" k", " K")  # a text takes no partial sums
    return f"{left} {right} {_operands(out)} -> out[{out}] pre[{out}]"


def _matmul_epilogue_backward(call):
    left, right, out = _matrices(call)
    gradients = " ".join(f"grad_operand{i}[+operand{i}]" for i in range(6))
    return f"grad_out[{out}] {left} {right} {_operands(out)} pre[{out}] -> grad_input[+input] grad_other[+other] {gradients}"


def _scaled_matmul(call):
    rows, row_scales = _scaled_axis(call["input"].shape[0], call["scale_input"], 0, "i")
    columns, column_scales = _scaled_axis(call["other"].shape[1], call["scale_other"], 1, "n")
    return (
        f"input[{rows} K] other[K {columns}] scale_input[{row_scales}] scale_other[{column_scales}] bias[{columns}] -> "
        f"out[{rows} {columns}]"
    )


def _scaled_axis(extent, scales, along, name):
    """Returns the axis of a matrix and those of its scales: a block of rows or columns stays on one device."""
    if scales.numel() == 1:
        return name, "..."
    axis, of_scales = (name, name) if scales.shape[along] == extent else (name.upper(), f"{name.upper()}B")
    return axis, " ".join((of_scales, f"{name.upper()}K")[:: -1 if along else 1])


def _operands(out):
    return " ".join(f"operand{i}[{out}]" for i in range(6))


# An activation cannot be applied to partial sums.
_LINEAR = {"k": lambda call: call["activation"] == "none"}


def _loss_axes(call):
    rank = call["input"].dim()
    if rank == 1:
        return "c", ""
    return "n c *s", "n *s"


def _cross_entropy(call):
    axes, rows = _loss_axes(call)
    out = rows if call["reduction"] == "none" else f"| {rows}" if rows else ""
    return f"input[{axes}] target[{rows}] weight[c] -> out[{out}] lse[{rows} ...] divisors[T]"


def _cross_entropy_backward(call):
    axes, rows = _loss_axes(call)
    out = rows if call["reduction"] == "none" else ""
    return f"grad_out[{out}] input[{axes}] target[{rows}] weight[c] lse[{rows} ...] divisors[T] -> grad_input[=input]"


def _linear_cross_entropy(call):
    out = "*r" if call["reduction"] == "none" else "| *r"
    early = "input_grad[=input] weight_grad[+weight] bias_grad[+bias]"  # never computed of shards
    return f"input[*r D] weight[C D] target[*r] bias[C] -> out[{out}] lse[*r ...] divisors[T] {early}"


def _linear_cross_entropy_backward(call):
    out = "*r" if call["reduction"] == "none" else ""
    return (
        f"grad_out[{out}] input[*r D] weight[C D] target[*r] bias[C] lse[*r ...] divisors[T] "
        "input_grad[*r D] weight_grad[C D] bias_grad[C] -> grad_input[=input] grad_weight[+weight] grad_bias[+bias]"
    )


def _dropout(name, result):
    def text(call):
        leading = call["seed"].dim() - 1
        if leading == 0:
            return f"{name}[*r] seed[Z] -> {result}[*r]"
        # With a batch of seeds, each index of the leading axes has its own mask.
        return f"{name}[a ...] seed[a ...] -> {result}[a ...]"

    return Rule(text, shared=("seed",), special={"*r": special.dropped(name)})


TABLE = {
    "tile::softmax": Rule(_softmax),
    "tile::softmax_backward": Rule(_softmax_backward),
    "tile::log_softmax": Rule(_softmax),
    "tile::log_softmax_backward": Rule(_softmax_backward),
    "tile::layer_norm": Rule(
        "input[*r *N] weight[*N] bias[*N] -> out[*r *N] mean[*r ...] rstd[*r ...]", lengths={"N": _normalized}
    ),
    "tile::layer_norm_backward": Rule(
        "grad_out[*r *N] input[*r *N] weight[*N] bias[*N] mean[*r ...] rstd[*r ...] -> "
        "grad_input[*r *N] grad_weight[+weight] grad_bias[+bias]",
        lengths={"N": _normalized},
    ),
    "tile::rms_norm": Rule("input[*r *N] weight[*N] -> out[*r *N] rstd[*r ...]", lengths={"N": _normalized}),
    "tile::rms_norm_backward": Rule(
        "grad_out[*r *N] input[*r *N] weight[*N] rstd[*r ...] -> grad_input[*r *N] grad_weight[+weight]",
        lengths={"N": _normalized},
    ),
    "tile::add_rms_norm": Rule(
        "input[*r *N] residual[*r *N] weight[*N] -> out[*r *N] sum[*r *N] rstd[*r ...]", lengths={"N": _normalized}
    ),
    "tile::add_rms_norm_backward": Rule(
        "grad_out[*r *N] grad_sum[*r *N] sum[*r *N] weight[*N] rstd[*r ...] -> "
        "grad_input_and_residual[*r *N] grad_weight[+weight]",
        lengths={"N": _normalized},
    ),
    "tile::group_norm": Rule("input[n C *S] weight[C] bias[C] -> out[n C *S] mean[n G] rstd[n G]"),
    "tile::group_norm_backward": Rule(
        "grad_out[n C *S] input[n C *S] weight[C] bias[C] mean[n G] rstd[n G] -> "
        "grad_input[n C *S] grad_weight[+weight] grad_bias[+bias]"
    ),
    "tile::swiglu": Rule("gate[*r] up[*r] -> out[*r]"),
    "tile::swiglu_backward": Rule("grad_out[*r] gate[*r] up[*r] -> grad_gate[*r] grad_up[*r]"),
    "tile::_swiglu_backward_": Rule("grad_out[*r] grad_up[*r] gate[*r] up[*r] -> "),
    "tile::geglu": Rule("gate[*r] up[*r] -> out[*r]"),
    "tile::geglu_backward": Rule("grad_out[*r] gate[*r] up[*r] -> grad_gate[*r] grad_up[*r]"),
    "tile::_geglu_backward_": Rule("grad_out[*r] grad_up[*r] gate[*r] up[*r] -> "),
    "tile::dropout": _dropout("input", "out"),
    "tile::dropout_backward": _dropout("grad_out", "grad_input"),
    "tile::dropout_double_backward": _dropout("grad_grad_input", "grad_grad_out"),
    "tile::embedding": Rule("weight[v d] indices[*r] -> out[*r d | v]", special={"v": special.looked_up}),
    "tile::embedding_backward": Rule(
        "grad_out[*r d] weight[v d] indices[*r] -> grad_weight[+weight]", special={"v": special.looked_up_backward}
    ),
    "tile::embedding_double_backward": Rule(
        "grad_grad_weight[V d] weight[V d] indices[*r] -> grad_grad_out[*r d] grad_weight[...]"
    ),
    "tile::matmul": Rule(_matmul, when=_LINEAR),
    "tile::matmul_backward": Rule(_matmul_backward),
    "tile::matmul_double_backward": Rule(_matmul_double_backward, when=_LINEAR),
    "tile::matmul_epilogue": Rule(_matmul_epilogue),
    "tile::matmul_epilogue_backward": Rule(_matmul_epilogue_backward),
    "tile::scaled_matmul": Rule(_scaled_matmul, shared=("scale_input", "scale_other")),
    "tile::gated_matmul": Rule("input[*r K] gate_weight[K n] up_weight[K n] -> out[*r n] pre_gate[*r n] pre_up[*r n]"),
    "tile::gated_matmul_backward": Rule(
        "grad_out[*r n] input[*r k] gate_weight[k n] up_weight[k n] pre_gate[*r n] pre_up[*r n] -> "
        "grad_input[+input] grad_gate_weight[+gate_weight] grad_up_weight[+up_weight]"
    ),
    "tile::rope": _rope("query", "key", ("query_out", "key_out")),
    "tile::rope_": _rope("query", "key", ()),
    "tile::rope_backward": _rope("grad_query_out", "grad_key_out", ("grad_query", "grad_key")),
    "tile::rope_double_backward": _rope("grad_grad_query", "grad_grad_key", ("grad_grad_query_out", "grad_grad_key_out")),
    "tile::attention": Rule(
        f"{_ATTENTION} attn_bias[b h q K] {_OPTIONS.format(batch='b')} -> "
        "out[b h q W] lse[b h q] top[b h q] weight[b h q] residual[b h q ...]",
        shared=_SHARED,
        when=_ATTENTION_WHEN,
    ),
    "tile::attention_backward": Rule(
        f"grad_out[b h q W] grad_lse[b h q] {_ATTENTION} out[b h q W] top[b h q] weight[b h q] residual[b h q ...] "
        f"attn_bias[b h q K] {_OPTIONS.format(batch='b')} -> "
        "grad_query[+query] grad_key[+key] grad_value[+value] grad_attn_bias[+attn_bias] grad_sinks[+sinks]",
        shared=_SHARED,
        when=_ATTENTION_WHEN,
    ),
    "tile::attention_varlen": Rule(
        f"{_PACKED} {_OPTIONS.format(batch='B')} -> out[Q h W] lse[h Q] top[h Q] weight[h Q] residual[Q h ...]",
        shared=_SHARED,
        when={"h": _drops_nothing},
    ),
    "tile::attention_varlen_backward": Rule(
        f"grad_out[Q h W] grad_lse[h Q] {_PACKED} out[Q h W] top[h Q] weight[h Q] residual[Q h ...] "
        f"{_OPTIONS.format(batch='B')} -> grad_query[+query] grad_key[+key] grad_value[+value] grad_sinks[+sinks]",
        shared=_SHARED,
        when={"h": _drops_nothing},
    ),
    "tile::attention_decode": Rule(_decode, shared=_SHARED),
    "tile::cross_entropy": Rule(
        _cross_entropy, special={"c": vocabulary.forward, **dict.fromkeys(("n", "*s"), special.weighted_mean_loss)}
    ),
    "tile::cross_entropy_backward": Rule(_cross_entropy_backward, special={"c": vocabulary.backward}),
    "tile::linear_cross_entropy": Rule(_linear_cross_entropy, special={"*r": special.mean_loss}),
    "tile::linear_cross_entropy_backward": Rule(_linear_cross_entropy_backward),
    "tile::adamw_": Rule(whole_call=special.lists),
    "tile::_scale_gradients_": Rule(whole_call=special.lists),
}
