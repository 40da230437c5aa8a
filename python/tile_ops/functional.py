"""Functions in torch's conventions over the operators of torch.ops.tile."""

from collections.abc import Mapping

import torch
from torch import Tensor

from ._sharding import of_first_device

# help(tile_ops.matmul) and so on, or docs/operators.md, describe the shapes, dtypes and errors of each operator in full.


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str = "none") -> Tensor:
    """Returns activation(input @ weight.T + bias), as torch.nn.functional.linear; one launch of torch.ops.tile.matmul.

    activation: "none", "relu", "gelu", "gelu_tanh" or "silu" (Hendrycks and Gimpel 2016), computed while the product is
    in cache.
    Shapes: input [..., in_features], weight [out_features, in_features] or [in_features], bias [out_features]; the result
    is [..., out_features].
    Dtypes: float16, bfloat16, float32 or float64, the same for input and weight, any of them for bias. Autocast lowers them.
    Errors: ValueError for shapes and activations, TypeError for dtypes.
    """
    return torch.ops.tile.matmul(input, weight.t(), bias=bias, activation=activation)


# Arguments of torch.ops.tile.matmul that an epilogue writes itself, and the text that replaces them.
_IN_THE_TEXT = {"bias": "acc + bias", "activation": "gelu(acc)", "residual": "acc + residual", "alpha": "acc * 0.5"}


def matmul(
    input: Tensor,
    other: Tensor,
    *,
    bias: Tensor | None = None,
    activation: str = "none",
    residual: Tensor | None = None,
    alpha: float = 1.0,
    out_dtype: torch.dtype | None = None,
    epilogue: str | None = None,
    operands: Mapping[str, Tensor | float] | None = None,
) -> Tensor:
    """Returns activation(alpha * (input @ other) + bias) + residual, or the value of `epilogue`; one launch.

    Without an epilogue this is torch.ops.tile.matmul, whose __doc__ describes the other arguments. With one it is
    torch.ops.tile.matmul_epilogue: a text over `acc`, which is input @ other in float32 (float64 for float64), and over
    the names of `operands`: matmul(x, w, epilogue="silu(acc + bias) * gate", operands={"bias": b, "gate": g}). The text
    has numbers, inf, + - * / **, comparisons, where(c, x, y) and the elementwise functions of tile_ops.language on floats
    (exp, tanh, sigmoid, silu, maximum, ...), also max, min, relu, gelu and gelu_tanh. Its gradient follows from it.
    Shapes: input [..., m, k] and other [..., k, n], or vectors, as torch.matmul; operands broadcast to the result
    [..., m, n]. At most six operands are tensors, and at most six are numbers.
    Dtypes: float16, bfloat16, float32 or float64, the same for input and other, any of them for operands. The result has
    input's, or without an epilogue `out_dtype`. Autocast lowers all tensors.
    Errors: ValueError for shapes and for what the text cannot be, with the column; TypeError for dtypes, and for arguments
    that an epilogue excludes; NotImplementedError for a double backward (docs/operators.md).
    Source: https://docs.pytorch.org/docs/stable/generated/torch.matmul.html for the product.
    """
    if epilogue is None:
        if operands:
            raise TypeError('matmul: operands are given without an epilogue; pass epilogue="...", a text that uses them')
        return torch.ops.tile.matmul(
            input, other, bias=bias, activation=activation, residual=residual, alpha=alpha, out_dtype=out_dtype
        )
    if bias is not None or activation != "none" or residual is not None or alpha != 1.0 or out_dtype is not None:
        raise TypeError(
            _excluded(bias=bias is not None, activation=activation != "none", residual=residual is not None, alpha=alpha != 1.0)
        )
    named, names, numbers = {}, [], {}
    for name, value in (operands or {}).items():
        if "," in name:  # it separates names below
            raise ValueError(f"matmul: an operand is named {name!r}; a name is a letter or _, then letters, digits and _")
        if isinstance(value, Tensor):
            named[f"operand{len(named)}"] = value
            names.append(name)
        elif isinstance(value, (int, float, torch.SymInt, torch.SymFloat)) and not isinstance(value, bool):
            numbers[name] = value if isinstance(value, torch.SymFloat) else torch.sym_float(value)
        else:
            raise TypeError(f"matmul: operand {name!r} is a {type(value).__name__}; pass a tensor or a number")
    if len(named) > 6:
        raise ValueError(f"matmul: {len(named)} operands are tensors, and the most is 6; combine some of them before the call")
    if numbers:  # a call with a list costs more
        named["numbers"] = list(numbers.values())
    return torch.ops.tile.matmul_epilogue(input, other, epilogue, names=",".join((*names, *numbers)), **named)


def _excluded(**given: bool) -> str:
    """Returns the error for arguments that cannot be given with an epilogue."""
    for name, text in _IN_THE_TEXT.items():
        if given[name]:
            return f'matmul: {name} and an epilogue are given; write it in the epilogue, as "{text}"'
    return "matmul: out_dtype and an epilogue are given; the result has input's dtype, convert it with .to()"


def dropout_seed(like: Tensor) -> Tensor:
    """Returns a seed for operators that draw random numbers, from torch's generator of the device of `like`.

    For a DTensor, all devices of its mesh get the seed of the first one.
    Shapes: `like` is any tensor; the result is [2]. Dtypes: int64. Errors: those of torch.randint.
    """
    seed = torch.randint(2**63 - 1, (2,), device=like.device)
    return seed if type(like) in (torch.Tensor, torch.nn.Parameter) else of_first_device(seed, like)


def gated_linear(input: Tensor, gate_weight: Tensor, up_weight: Tensor, activation: str = "silu") -> Tensor:
    """Returns activation(input @ gate_weight.T) * (input @ up_weight.T); one launch of torch.ops.tile.gated_matmul.

    This is the first half of a gated feed-forward layer (Shazeer, "GLU variants improve Transformer", 2020).
    activation: "none", "relu", "gelu", "gelu_tanh" or "silu".
    Shapes: input [..., in_features], both weights [out_features, in_features] as in linear; the result is
    [..., out_features].
    Dtypes: float16, bfloat16, float32 or float64, the same for all three. Autocast lowers them.
    Errors: ValueError for shapes and activations, TypeError for dtypes.
    """
    return torch.ops.tile.gated_matmul(input, gate_weight.t(), up_weight.t(), activation=activation)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """torch.nn.functional.dropout: each element is zero with probability p, the others are scaled by 1 / (1 - p).

    The mask (Srivastava et al., "Dropout", 2014) is a function of a seed that torch draws on the input's device, and of
    each element's index. It does not depend on the memory layout and is not stored. Dropped elements are zero even if they
    were NaN.
    Shapes: any; the result has input's. Dtypes: float16, bfloat16, float32 or float64; the result has input's.
    Errors: ValueError for p outside of [0, 1], TypeError for dtypes.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: p is {p}; it must be a probability, from 0 to 1")
    if not training or p == 0:
        return input
    out = torch.ops.tile.dropout(input, p, dropout_seed(input))
    return input.copy_(out) if inplace else out  # the gradient needs the seed alone, not what is overwritten


def rope_(
    query: Tensor,
    key: Tensor,
    cos: Tensor,
    sin: Tensor,
    *,
    interleaved: bool = False,
    rotary_dim: int | None = None,
    position_ids: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Computes torch.ops.tile.rope in place: rotates query and key, and returns both. It has no gradient.

    Each pair (x, y) of a head becomes (x cos - y sin, y cos + x sin) (Su et al., "RoFormer", 2021).
    Shapes: query [batch, heads, positions, head dim], key may have another number of heads, cos and sin [positions, width]
    or [batch, positions, width], position_ids [positions] or [batch, positions].
    Dtypes: float16, bfloat16, float32 or float64, the same for query and key; cos and sin have that dtype or float32;
    position_ids is int64 or int32.
    Errors: ValueError for shapes and overlapping memory, TypeError for dtypes.
    """
    torch.ops.tile.rope_(query, key, cos, sin, interleaved=interleaved, rotary_dim=rotary_dim, position_ids=position_ids)
    return query, key


def _at_least_4d(tensor: Tensor) -> Tensor:
    while tensor.dim() < 4:
        tensor = tensor.unsqueeze(0)
    return tensor


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Computes softmax(scale * query @ key.T) @ value, by torch.ops.tile.attention.

    Arguments, leading dimensions and alignment are those of torch.nn.functional.scaled_dot_product_attention (Dao et al.,
    "FlashAttention", 2022).
    Shapes: tensors are [..., length, width]; leading dimensions broadcast, and with enable_gqa the one before `length` of
    query may be a multiple of that of key and value. is_causal aligns at the top left. attn_mask is bool (True:
    attend) or added to the scores. dropout_p draws a seed from torch's generator of the tensors' device.
    Dtypes: float16, bfloat16, float32 or float64, the same for all three; attn_mask bool or floating. Autocast lowers them.
    Errors: ValueError for shapes, and for attn_mask together with is_causal, TypeError for dtypes, NotImplementedError for
    widths beyond 256.
    """
    name = "scaled_dot_product_attention"
    if attn_mask is not None and is_causal:
        raise ValueError(f"{name}: both attn_mask and is_causal=True are given; put the causal mask into attn_mask")
    rank = max(query.dim(), key.dim(), value.dim())
    for what, tensor in (("query", query), ("key", key), ("value", value)):
        if tensor.dim() < 2:
            raise ValueError(f"{name}: {what} has shape {tuple(tensor.shape)}; it must be [..., length, width]")

    query, key, value = (_at_least_4d(tensor) for tensor in (query, key, value))
    # Axes that must agree: all leading ones, or all but the heads.
    own = 3 if enable_gqa else 2
    leading = torch.broadcast_shapes(*(tensor.shape[:-own] for tensor in (query, key, value)))
    query, key, value = (tensor.expand(*leading, *tensor.shape[-own:]) for tensor in (query, key, value))
    batch = query.shape[:-3]
    if attn_mask is not None:
        attn_mask = _at_least_4d(attn_mask)
        if len(batch) > 1:
            attn_mask = attn_mask.expand(*batch, *attn_mask.shape[-3:]).flatten(0, -4)
    out, _ = torch.ops.tile.attention(
        *(tensor.flatten(0, -4) for tensor in (query, key, value)),
        attn_bias=attn_mask,
        is_causal=is_causal,
        causal_align="top_left",
        scale=scale,
        dropout_p=dropout_p,
        seed=dropout_seed(query) if dropout_p > 0 else None,
    )
    if len(batch) > 1:
        out = out.unflatten(0, batch)
    while out.dim() > rank:
        out = out.squeeze(0)
    return out
