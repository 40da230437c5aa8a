# Made by docs/stubs/make.py.
"""Tile kernels as torch operators: loads libtile_ops.so and forwards names to torch.ops.tile."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import torch
from torch import Tensor

from . import functional as functional
from . import nn as nn
from . import optim as optim
from . import cutile as cutile
from . import language as language
from ._cuda_kernel import CudaKernel as CudaKernel
from ._cuda_kernel import cuda_kernel as cuda_kernel
from ._doctor import doctor as doctor
from ._flops import register_flop_formulas as register_flop_formulas
from ._inductor import disable_inductor_fusion as disable_inductor_fusion
from ._inductor import enable_inductor_fusion as enable_inductor_fusion
from ._inspect import inspect as inspect
from ._operators import TorchOp as TorchOp
from ._patching import patch as patch
from ._patching import unpatch as unpatch
from ._synchronize import synchronize as synchronize
from .functional import dropout as dropout
from .functional import gated_linear as gated_linear
from .functional import linear as linear
from .functional import rope_ as rope_
from .functional import scaled_dot_product_attention as scaled_dot_product_attention
from .language import kernel as kernel

__version__: str
cmake_prefix_path: str

@overload
def elementwise(function: Callable[..., Any], /) -> TorchOp: ...
@overload
def elementwise(schema: str | None = None) -> Callable[[Callable[..., Any]], TorchOp]:
    """Makes a torch operator of a function of scalars: @elementwise("ns::name(Tensor x, float a=1.0) -> Tensor").

    The function is written in tile_ops.language and is given tiles; it may use what works on each element alone.
    Tensors of any shapes and strides are broadcast and promoted as torch's are (bool stays bool); float16 and bfloat16
    are computed in float32. Parameters are Tensor, float, int, Scalar, bool and str; the last two are known when it is
    compiled. A result has the promoted dtype, or that of the expression where it is another, as bool of a comparison;
    several results are a tuple. The gradient is made of the expression's derivative.

    @elementwise alone takes the schema from the signature: tensors without annotation, the module as namespace.

    Gives a TorchOp. Errors: TypeError for a schema that expressions do not have; those of kernels at the first call.
    """

@overload
def reduction(source: Callable[..., Any], /) -> TorchOp: ...
@overload
def reduction(
    schema: str | None = None,
    combine: Literal["sum", "prod", "max", "min"] | Callable[..., Any] | None = None,
    *,
    map: Callable[..., Any] | None = None,
    finish: Callable[..., Any] | None = None,
    identity: Any = None,
) -> Callable[[Callable[..., Any]], TorchOp]:
    """Makes a torch operator that reduces axes: @reduction("ns::name(Tensor x) -> Tensor", "sum").

    Of a function it is the part map: from the elements of the tensors, which are broadcast and promoted, to what is
    combined, a tile or several. A class may have the parts

    map: as above; without it the elements of the one tensor.
    combine: "sum", "prod", "max", "min", or a function of two values (of N + N) that gives one (N); associative and
    commutative. identity: the number (the tuple of N) that it changes nothing with.
    finish: from the totals, and the number of elements if it has a parameter `count`, to the results.

    The operator has the further arguments dim=None (an axis, several, or all) and keepdim=False. Sums and products of
    integers are int64; max and min keep NaN. A sum has a gradient.

    Gives a TorchOp. Errors: TypeError for parts that do not fit; ValueError where max or min have no elements.
    """

def op(
    schema: str,
    *,
    saves: str = "",
    autocast: str | tuple[str, str] = "keep",
    leading: str | Sequence[str] = (),
    fold: str | Sequence[str] = (),
    sums: str | Sequence[str] = (),
    outputs: str | Callable[..., Any] | None = None,
    saved_outputs: Callable[..., Any] | None = None,
    grad: str | type | Callable[..., Any] | None = None,
    flops: Callable[..., int] | None = None,
) -> Callable[[Callable[..., Any]], TorchOp]:
    """Makes a torch operator of a class or function: @op("ns::name(Tensor x, float a=1.0) -> Tensor").

    The schema is torch's; results without a name are out, or out0, out1, ... A class has these parts; each function
    takes what it names of the operator's values:

    outputs: from the arguments to the results, freshly allocated; a tensor, or a tuple. It also runs on fake tensors.
    "x" for results like x.
    run: fills the results; its parameters may be arguments, results and saved results. It launches kernels.
    grad: the gradient. A function of torch operations, from grad_<result>, arguments, results and saved results to a
    tuple with a gradient for each tensor argument, or None; or a class with outputs and run (and grad) of its own, that
    fill grad_<argument>; or the name of an operator so made.
    saves, saved_outputs: further results for the gradient, "Tensor mean, Tensor rstd", and their allocation; they are
    computed when a gradient is wanted.
    autocast: "keep", "lower", "fp32", or a pair for CPU and CUDA. leading, fold: arguments whose leading extents, or
    whose extent 0, vmap's batch may join (sums: results that then add up over it). flops: what it counts.

    A function is the part run; the others are arguments of op, or given by decorators of the result.

    Gives a TorchOp. Errors: TypeError and ValueError for parts that do not fit the schema, with the names that do.
    """

def adamw_(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    steps: Sequence[Tensor],
    *,
    max_exp_avg_sqs: Sequence[Tensor] | None = None,
    lr: float = 0.001,
    beta1: float = 0.90000000000000002,
    beta2: float = 0.999,
    eps: float = 1e-08,
    weight_decay: float = 0.01,
    maximize: bool = False,
    lr_tensor: Tensor | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
) -> None:
    """tile::adamw_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, Tensor[] steps, *, Tensor(d!)[]? max_exp_avg_sqs=None, float lr=0.001, float beta1=0.90000000000000002, float beta2=0.999, float eps=1e-08, float weight_decay=0.01, bool maximize=False, Tensor? lr_tensor=None, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()"""

def add_rms_norm(
    input: Tensor,
    residual: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> tuple[Tensor, Tensor]:
    """tile::add_rms_norm(Tensor input, Tensor residual, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> (Tensor out, Tensor sum)"""

def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    attn_bias: Tensor | None = None,
    is_causal: bool = False,
    causal_align: str = "bottom_right",
    scale: float | None = None,
    window: Sequence[int] | int = -1,
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    sinks: Tensor | None = None,
    dropout_p: float = 0.0,
    seed: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """tile::attention(Tensor query, Tensor key, Tensor value, *, Tensor? attn_bias=None, bool is_causal=False, str causal_align="bottom_right", float? scale=None, int[2] window=-1, float softcap=0., Tensor? alibi_slopes=None, Tensor? sinks=None, float dropout_p=0., Tensor? seed=None) -> (Tensor out, Tensor lse)"""

def attention_decode(
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    lengths: Tensor,
    *,
    block_table: Tensor | None = None,
    scale: float | None = None,
    window: Sequence[int] | int = -1,
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    sinks: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """tile::attention_decode(Tensor query, Tensor key_cache, Tensor value_cache, Tensor lengths, *, Tensor? block_table=None, float? scale=None, int[2] window=-1, float softcap=0., Tensor? alibi_slopes=None, Tensor? sinks=None) -> (Tensor out, Tensor lse)"""

def attention_varlen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    *,
    is_causal: bool = False,
    causal_align: str = "bottom_right",
    scale: float | None = None,
    window: Sequence[int] | int = -1,
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    sinks: Tensor | None = None,
    dropout_p: float = 0.0,
    seed: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """tile::attention_varlen(Tensor query, Tensor key, Tensor value, Tensor cu_seqlens_q, Tensor cu_seqlens_k, SymInt max_seqlen_q, SymInt max_seqlen_k, *, bool is_causal=False, str causal_align="bottom_right", float? scale=None, int[2] window=-1, float softcap=0., Tensor? alibi_slopes=None, Tensor? sinks=None, float dropout_p=0., Tensor? seed=None) -> (Tensor out, Tensor lse)"""

def cross_entropy(
    input: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
) -> Tensor:
    """tile::cross_entropy(Tensor input, Tensor target, *, Tensor? weight=None, int ignore_index=-100, str reduction="mean", float label_smoothing=0., float z_loss=0.) -> Tensor out"""

def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
) -> Tensor:
    """tile::embedding(Tensor weight, Tensor indices, int padding_idx=-1) -> Tensor out"""

def gated_matmul(
    input: Tensor,
    gate_weight: Tensor,
    up_weight: Tensor,
    *,
    activation: str = "silu",
) -> Tensor:
    """tile::gated_matmul(Tensor input, Tensor gate_weight, Tensor up_weight, *, str activation="silu") -> Tensor out"""

def geglu(
    gate: Tensor,
    up: Tensor,
    *,
    approximate: str = "none",
) -> Tensor:
    """tile::geglu(Tensor gate, Tensor up, *, str approximate="none") -> Tensor out"""

def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    *,
    activation: str = "none",
) -> Tensor:
    """tile::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05, *, str activation="none") -> Tensor out"""

def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """tile::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1.0000000000000001e-05) -> Tensor out"""

def linear_cross_entropy(
    input: Tensor,
    weight: Tensor,
    target: Tensor,
    *,
    bias: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    z_loss: float = 0.0,
) -> Tensor:
    """tile::linear_cross_entropy(Tensor input, Tensor weight, Tensor target, *, Tensor? bias=None, int ignore_index=-100, str reduction="mean", float label_smoothing=0., float z_loss=0.) -> Tensor out"""

def log_softmax(
    input: Tensor,
    dim: int,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """tile::log_softmax(Tensor input, int dim, ScalarType? dtype=None) -> Tensor out"""

def matmul(
    input: Tensor,
    other: Tensor,
    *,
    bias: Tensor | None = None,
    activation: str = "none",
    residual: Tensor | None = None,
    alpha: float = 1.0,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """tile::matmul(Tensor input, Tensor other, *, Tensor? bias=None, str activation="none", Tensor? residual=None, float alpha=1., ScalarType? out_dtype=None) -> Tensor out"""

def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """tile::rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor out"""

def rope(
    query: Tensor,
    key: Tensor,
    cos: Tensor,
    sin: Tensor,
    *,
    interleaved: bool = False,
    rotary_dim: int | None = None,
    position_ids: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """tile::rope(Tensor query, Tensor key, Tensor cos, Tensor sin, *, bool interleaved=False, SymInt? rotary_dim=None, Tensor? position_ids=None) -> (Tensor query_out, Tensor key_out)"""

def softmax(
    input: Tensor,
    dim: int,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """tile::softmax(Tensor input, int dim, ScalarType? dtype=None) -> Tensor out"""

def swiglu(
    gate: Tensor,
    up: Tensor,
) -> Tensor:
    """tile::swiglu(Tensor gate, Tensor up) -> Tensor out"""
