"""Modules over the operators: Linear, Dropout, norms and attention load the state_dict of their torch twins, the block
and its parts that of a Llama layer."""

from typing import Any

import torch
from torch import Tensor
from torch.types import Device

from .functional import dropout, dropout_seed, gated_linear, linear

__all__ = [
    "AddRMSNorm",
    "Dropout",
    "GatedMLP",
    "GroupNorm",
    "LayerNorm",
    "Linear",
    "MultiheadAttention",
    "RMSNorm",
    "RotaryEmbedding",
    "SelfAttention",
    "TransformerBlock",
]


class Linear(torch.nn.Linear):
    """torch.nn.Linear with an activation: "none", "relu", "gelu", "gelu_tanh" or "silu". One launch of tile::matmul.

    Shapes: input [..., in_features]; the result is [..., out_features]. Dtypes: float16, bfloat16, float32 or float64, the
    same for input and weight. Formula, further dtypes and errors: help(tile_ops.linear).
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        activation: str = "none",
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype)
        self.activation = activation

    def forward(self, input: Tensor) -> Tensor:
        """Returns activation(input @ weight.T + bias)."""
        return linear(input, self.weight, self.bias, self.activation)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, activation={self.activation}"


class Dropout(torch.nn.Dropout):
    """torch.nn.Dropout: in training mode, zeroes elements with probability p and scales the others by 1 / (1 - p).

    Shapes: any. Dtypes: float16, bfloat16, float32 or float64. Formula and errors: help(tile_ops.dropout).
    """

    def forward(self, input: Tensor) -> Tensor:
        """Returns input with elements dropped."""
        return dropout(input, self.p, self.training, self.inplace)


class GroupNorm(torch.nn.GroupNorm):
    """torch.nn.GroupNorm with an activation: "none" or "silu". One launch if a group fits in on-chip memory.

    Shapes: input [N, num_channels, …] of 2 to 5 dimensions. Dtypes: float16, bfloat16, float32 or float64; with a 16-bit
    input, weight and bias may be float32. Formula and errors: help(tile_ops.group_norm).
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
        *,
        activation: str = "none",
    ) -> None:
        super().__init__(num_groups, num_channels, eps, affine, device=device, dtype=dtype)
        self.activation = activation

    def forward(self, input: Tensor) -> Tensor:
        """Returns the activation of the normalized input."""
        return torch.ops.tile.group_norm(input, self.num_groups, self.weight, self.bias, self.eps, activation=self.activation)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, activation={self.activation}"


class LayerNorm(torch.nn.LayerNorm):
    """torch.nn.LayerNorm. One launch.

    Shapes: input ends in normalized_shape. Dtypes: float16, bfloat16, float32 or float64; with a 16-bit input, weight and
    bias may be float32. Formula and errors: help(tile_ops.layer_norm).
    """

    def forward(self, input: Tensor) -> Tensor:
        """Returns the normalized input."""
        return torch.ops.tile.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(torch.nn.RMSNorm):
    """torch.nn.RMSNorm. One launch.

    Shapes: input ends in normalized_shape. Dtypes: float16, bfloat16, float32 or float64 for input and weight.
    Formula and errors: help(tile_ops.rms_norm).
    """

    def forward(self, input: Tensor) -> Tensor:
        """Returns the normalized input."""
        return torch.ops.tile.rms_norm(input, self.normalized_shape, self.weight, self.eps)


class AddRMSNorm(RMSNorm):
    """RMSNorm of input + residual; returns the norm and the sum, which is the next residual. One launch.

    Shapes: both end in normalized_shape. Dtypes: float16, bfloat16, float32 or float64, the same for input and residual.
    Formula and errors: help(tile_ops.add_rms_norm).
    """

    def forward(self, input: Tensor, residual: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Returns (the norm, input + residual)."""
        return torch.ops.tile.add_rms_norm(input, residual, self.normalized_shape, self.weight, self.eps)


class RotaryEmbedding(torch.nn.Module):
    """Rotates query and key by their positions: angle = position * base ** (-2 i / rotary_dim) for pair i.

    head_dim: the last extent of query and key. max_positions: how many positions the tables hold. rotary_dim: how
    much of head_dim rotates, all by default. interleaved: pairs are neighbours, instead of halves of the head dim.
    The tables are float32 (float64 after .double()) whatever dtype the module is moved to.
    Shapes: query [batch, heads, positions, head_dim], key may have another number of heads. Dtypes: float16, bfloat16,
    float32 or float64, the same for both. Errors: ValueError for an invalid rotary_dim or more positions than max_positions,
    and those of the operator (Su et al., "RoFormer", 2021): help(tile_ops.rope).
    """

    cos: Tensor
    sin: Tensor

    def __init__(
        self,
        head_dim: int,
        max_positions: int,
        base: float = 10000.0,
        rotary_dim: int | None = None,
        interleaved: bool = False,
        device: Device = None,
    ) -> None:
        super().__init__()
        self.head_dim = head_dim
        self.max_positions = max_positions
        self.base = base
        self.rotary_dim = head_dim if rotary_dim is None else rotary_dim
        self.interleaved = interleaved
        if self.rotary_dim % 2 or not 0 < self.rotary_dim <= head_dim:
            raise ValueError(
                f"RotaryEmbedding: rotary_dim is {self.rotary_dim}; it must be even, above 0 and at most head_dim {head_dim}"
            )
        self._make_tables(device, torch.float32)

    def _make_tables(self, device: Device, dtype: torch.dtype) -> None:
        # In float64: a float32 angle is wrong by 1e-3 at position 10 000.
        pair = torch.arange(0, self.rotary_dim, 2, device=device, dtype=torch.float64)
        position = torch.arange(self.max_positions, device=device, dtype=torch.float64)
        angle = position[:, None] * self.base ** (-pair / self.rotary_dim)
        self.register_buffer("cos", angle.cos().to(dtype), persistent=False)
        self.register_buffer("sin", angle.sin().to(dtype), persistent=False)

    def _apply(self, fn: Any, recurse: bool = True) -> "RotaryEmbedding":
        before = self.cos.dtype
        super()._apply(fn, recurse)
        if self.cos.dtype != before:
            wide = self.cos.dtype if self.cos.dtype == torch.float64 else torch.float32
            self._make_tables(self.cos.device, wide)
        return self

    def forward(self, query: Tensor, key: Tensor, position_ids: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """query and key: [batch, heads, positions, head_dim]; position_ids: [positions] or [batch, positions]."""
        cos, sin = self.cos, self.sin
        if position_ids is None:
            length = query.shape[-2]
            if length > self.max_positions:
                raise ValueError(
                    f"RotaryEmbedding: {length} positions, but the tables hold {self.max_positions}; raise max_positions"
                )
            cos, sin = cos[:length], sin[:length]
        return torch.ops.tile.rope(
            query, key, cos, sin, interleaved=self.interleaved, rotary_dim=self.rotary_dim, position_ids=position_ids
        )

    def extra_repr(self) -> str:
        return (
            f"{self.head_dim}, {self.max_positions}, base={self.base}, rotary_dim={self.rotary_dim}, "
            f"interleaved={self.interleaved}"
        )


class GatedMLP(torch.nn.Module):
    """down_proj(activation(gate_proj(x)) * up_proj(x)), with Llama's names of the parameters.

    Without a bias one launch computes the input of down_proj; with one it takes two linears (Shazeer, "GLU variants
    improve Transformer", 2020).
    Shapes: input and result [..., dim]. Dtypes and activations: as for Linear. Errors: help(tile_ops.gated_linear).
    """

    def __init__(
        self,
        dim: int,
        hidden: int,
        bias: bool = False,
        activation: str = "silu",
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.activation = activation
        self.gate_proj = Linear(dim, hidden, bias, device, dtype)
        self.up_proj = Linear(dim, hidden, bias, device, dtype)
        self.down_proj = Linear(hidden, dim, bias, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        """Returns down_proj of the gated product."""
        gate, up = self.gate_proj, self.up_proj
        if gate.bias is None and up.bias is None:
            hidden = gated_linear(input, gate.weight, up.weight, self.activation)
        else:
            hidden = linear(input, gate.weight, gate.bias, self.activation) * up(input)
        return self.down_proj(hidden)

    def extra_repr(self) -> str:
        return f"activation={self.activation}"


def _heads(tensor, count):
    """Returns heads, [..., count, positions, depth], of columns that lie side by side, [..., positions, count * depth]."""
    # Where a device is set for new tensors, Dynamo of torch 2.11 does not know Tensor.unflatten.
    return torch.unflatten(tensor, -1, (count, -1)).transpose(-3, -2)


class SelfAttention(torch.nn.Module):
    """Attention of a sequence to itself with rotated positions, with Llama's names of the parameters.

    kv_heads: heads of key and value, which groups of query's heads share (all of them by default). rotary: a
    RotaryEmbedding of dim // heads.
    Shapes: input and result [batch, positions, dim]. Dtypes: as for Linear. Errors: ValueError if heads does not divide dim
    or kv_heads does not divide heads, and those of the operator (Dao et al., "FlashAttention", 2022): help(tile_ops.attention).
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        rotary: RotaryEmbedding,
        kv_heads: int | None = None,
        bias: bool = False,
        causal: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        if dim % heads or heads % kv_heads:
            raise ValueError(
                f"SelfAttention: dim is {dim}, heads {heads} and kv_heads {kv_heads}; dim must be a multiple of heads, and "
                "heads of kv_heads"
            )
        self.heads, self.kv_heads, self.causal, self.rotary = heads, kv_heads, causal, rotary
        width = dim // heads
        self.q_proj = Linear(dim, heads * width, bias, device, dtype)
        self.k_proj = Linear(dim, kv_heads * width, bias, device, dtype)
        self.v_proj = Linear(dim, kv_heads * width, bias, device, dtype)
        self.o_proj = Linear(heads * width, dim, bias, device, dtype)

    def forward(self, input: Tensor, position_ids: Tensor | None = None) -> Tensor:
        """input: [batch, positions, dim]; position_ids: [positions] or [batch, positions], by default 0, 1, …."""
        query, key, value = (
            _heads(project(input), heads)
            for project, heads in ((self.q_proj, self.heads), (self.k_proj, self.kv_heads), (self.v_proj, self.kv_heads))
        )
        query, key = self.rotary(query, key, position_ids)
        out, _ = torch.ops.tile.attention(query, key, value, is_causal=self.causal)
        return self.o_proj(out.transpose(1, 2).flatten(2))

    def extra_repr(self) -> str:
        return f"heads={self.heads}, kv_heads={self.kv_heads}, causal={self.causal}"


class TransformerBlock(torch.nn.Module):
    """x + attention(norm(x)), and of that y, y + mlp(norm(y)): a layer as Llama's, whose state_dict it loads.

    hidden: of the MLP, by default 8/3 dim, rounded up to a multiple of 64. rotary: a RotaryEmbedding that blocks share, by
    default one of its own for max_positions.
    Shapes: input and result [batch, positions, dim]. Dtypes and errors: as for SelfAttention, GatedMLP and RMSNorm
    (Touvron et al., "LLaMA", 2023).
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        kv_heads: int | None = None,
        hidden: int | None = None,
        *,
        max_positions: int = 2048,
        base: float = 10000.0,
        rotary: RotaryEmbedding | None = None,
        eps: float = 1e-5,
        bias: bool = False,
        activation: str = "silu",
        causal: bool = True,
        device: Device = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        hidden = -(-8 * dim // (3 * 64)) * 64 if hidden is None else hidden
        rotary = RotaryEmbedding(dim // heads, max_positions, base, device=device) if rotary is None else rotary
        self.input_layernorm = RMSNorm(dim, eps, **made)
        self.self_attn = SelfAttention(dim, heads, rotary, kv_heads, bias, causal, **made)
        self.post_attention_layernorm = RMSNorm(dim, eps, **made)
        self.mlp = GatedMLP(dim, hidden, bias, activation, **made)

    def forward(self, input: Tensor, position_ids: Tensor | None = None) -> Tensor:
        """input: [batch, positions, dim]; position_ids as of SelfAttention."""
        input = input + self.self_attn(self.input_layernorm(input), position_ids)
        return input + self.mlp(self.post_attention_layernorm(input))


class MultiheadAttention(torch.nn.MultiheadAttention):
    """torch.nn.MultiheadAttention without the weights: need_weights is False, and the second result None.

    Shapes: query [L, N, E] ([N, L, E] with batch_first, [L, E] without a batch), key [S, N, kdim], value [S, N, vdim]; the
    result has query's shape. Dtypes: float16, bfloat16, float32 or float64, the same for all. Errors: NotImplementedError
    for need_weights=True, ValueError for shapes, and those of the operator (Dao et al., "FlashAttention", 2022):
    help(tile_ops.attention).
    """

    _linear = staticmethod(linear)  # patch chooses another

    def _project(self, query, key, value):
        bias = self.in_proj_bias
        if self._qkv_same_embed_dim and query is key and key is value:
            return self._linear(query, self.in_proj_weight, bias).chunk(3, -1)
        weights = (
            self.in_proj_weight.chunk(3)
            if self._qkv_same_embed_dim
            else (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        )
        biases = (None, None, None) if bias is None else bias.chunk(3)
        return [self._linear(*each) for each in zip((query, key, value), weights, biases)]

    def _more(self, heads, bias):
        """Keys or values, [N, heads, S, depth], and behind them those of add_bias_kv and add_zero_attn."""
        rows = [] if bias is None else [_heads(bias, self.num_heads).to(heads.dtype)]
        if self.add_zero_attn:
            rows.append(heads.new_zeros(1, 1, 1, heads.shape[-1]))
        return torch.cat([heads, *(row.expand(*heads.shape[:2], 1, -1) for row in rows)], 2) if rows else heads

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, None]:
        """As torch's; masks are bool (True: not attended) or added to the scores. is_causal alone masks the future."""
        if need_weights:
            raise NotImplementedError(
                "MultiheadAttention: need_weights=True is not implemented, the weights are never stored; pass need_weights=False"
            )
        if query.dim() not in (2, 3) or {key.dim(), value.dim()} != {query.dim()}:
            raise ValueError(
                f"MultiheadAttention: query, key and value have shapes {tuple(query.shape)}, {tuple(key.shape)} and "
                f"{tuple(value.shape)}; all must have 3 dimensions, or 2 without a batch"
            )
        single = query.dim() == 2
        batch = 0 if single or self.batch_first else 1
        same = query is key and key is value
        if single:
            query, key, value = (tensor.unsqueeze(0) for tensor in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif batch == 1:
            query, key, value = (tensor.transpose(0, 1) for tensor in (query, key, value))
        if same:
            key = value = query
        heads = [_heads(tensor, self.num_heads) for tensor in self._project(query, key, value)]
        is_causal = is_causal and attn_mask is None
        more = (self.bias_k is not None) + self.add_zero_attn
        if more and is_causal:  # every query sees the keys that are appended
            attn_mask, is_causal = torch.ones(query.shape[1], key.shape[1], device=query.device).triu(1) > 0, False
        mask = _attention_bias(key_padding_mask, attn_mask, self.num_heads, query)
        if more and mask is not None:
            mask = torch.nn.functional.pad(mask, (0, more), value=mask.dtype == torch.bool)
        dropout = self.dropout if self.training else 0.0
        out, _ = torch.ops.tile.attention(
            heads[0],
            self._more(heads[1], self.bias_k),
            self._more(heads[2], self.bias_v),
            attn_bias=mask,
            is_causal=is_causal,
            causal_align="top_left",
            dropout_p=dropout,
            seed=dropout_seed(query) if dropout > 0 else None,
        )
        out = self._linear(out.transpose(1, 2).flatten(2), self.out_proj.weight, self.out_proj.bias)
        out = out.squeeze(0) if single else out.transpose(0, batch)
        return out, None


def _attention_bias(key_padding_mask, attn_mask, num_heads, query):
    """Both masks as one attention bias, [N or 1, heads or 1, L or 1, S]: bool (True: attend) where both are bool."""
    masks = []
    if key_padding_mask is not None:
        masks.append(key_padding_mask[:, None, None, :])
    if attn_mask is not None:
        if attn_mask.dim() not in (2, 3):
            raise ValueError(
                f"MultiheadAttention: attn_mask has shape {tuple(attn_mask.shape)}; it must be [L, S] or [N * num_heads, L, S]"
            )
        masks.append(attn_mask if attn_mask.dim() == 2 else torch.unflatten(attn_mask, 0, (-1, num_heads)))
    if not masks:
        return None
    if all(mask.dtype == torch.bool for mask in masks):
        excluded = masks[0] if len(masks) == 1 else masks[0] | masks[1]
        return ~excluded
    added = [
        torch.zeros_like(mask, dtype=query.dtype).masked_fill(mask, -torch.inf) if mask.dtype == torch.bool else mask
        for mask in masks
    ]
    return sum(added[1:], added[0])
