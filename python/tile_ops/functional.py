"""Functions in torch's conventions over the operators of torch.ops.tile."""

import torch


def linear(input, weight, bias=None, activation="none"):
    """activation(input @ weight.T + bias), weight [out_features, in_features] as in torch.nn.functional.linear.

    activation: "none", "relu", "gelu", "gelu_tanh" or "silu", computed while the product is in cache.
    """
    return torch.ops.tile.matmul(input, weight.t(), bias=bias, activation=activation)


def dropout_seed(like):
    """A seed for the operators that draw: int64[2] on the device of `like`, from torch's generator there."""
    return torch.randint(2**63 - 1, (2,), device=like.device)


def gated_linear(input, gate_weight, up_weight, activation="silu"):
    """activation(input @ gate_weight.T) * (input @ up_weight.T), both weights [out_features, in_features] as in linear.

    activation: "none", "relu", "gelu", "gelu_tanh" or "silu". One launch computes both products.
    """
    return torch.ops.tile.gated_matmul(input, gate_weight.t(), up_weight.t(), activation=activation)


def dropout(input, p=0.5, training=True, inplace=False):
    """torch.nn.functional.dropout: each element is zero with probability p, the others are scaled by 1 / (1 - p).

    The mask is a function of a seed that torch draws on the input's device, and of each element's place: the memory's
    order changes nothing, and no mask is stored. Elements that are dropped are zero even where they were NaN.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: p is {p}; it must be a probability, from 0 to 1")
    if not training or p == 0:
        return input
    out = torch.ops.tile.dropout(input, p, dropout_seed(input))
    return input.copy_(out) if inplace else out  # the gradient needs the seed alone, not what is overwritten


def rope_(query, key, cos, sin, *, interleaved=False, rotary_dim=None, position_ids=None):
    """torch.ops.tile.rope in place: rotates query and key, and returns both. It has no gradient."""
    torch.ops.tile.rope_(
        query, key, cos, sin, interleaved=interleaved, rotary_dim=rotary_dim, position_ids=position_ids
    )
    return query, key


def _at_least_4d(tensor):
    while tensor.dim() < 4:
        tensor = tensor.unsqueeze(0)
    return tensor


def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    """torch.nn.functional.scaled_dot_product_attention: the same arguments, leading dimensions and alignment.

    Tensors are [..., length, width]; leading dimensions broadcast, and with enable_gqa the one before `length` of
    query may be a multiple of that of key and value. is_causal aligns at the top left. attn_mask is bool (True:
    attend) or added to the scores. dropout_p draws a seed from torch's generator of the tensors' device.
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
