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
from . import packs as packs
from ._compile.package import aoti_compile_and_package as aoti_compile_and_package
from ._compile.report import compile_report as compile_report
from ._cuda_kernel import CudaKernel as CudaKernel
from ._cuda_kernel import cuda_kernel as cuda_kernel
from ._derive import Derivative as Derivative
from ._derive import derive as derive
from ._doctor import doctor as doctor
from ._flops import register_flop_formulas as register_flop_formulas
from ._inductor import disable_inductor_fusion as disable_inductor_fusion
from ._inductor import enable_inductor_fusion as enable_inductor_fusion
from ._inspect import inspect as inspect
from ._operators import TorchOp as TorchOp
from ._patching import patch as patch
from ._patching import unpatch as unpatch
from ._profile import profile as profile
from ._sharding import register_sharding as register_sharding
from ._synchronize import synchronize as synchronize
from .functional import dropout as dropout
from .functional import gated_linear as gated_linear
from .functional import linear as linear
from .functional import matmul as matmul
from .functional import rope_ as rope_
from .functional import scaled_dot_product_attention as scaled_dot_product_attention
from .language import kernel as kernel

__version__: str
cmake_prefix_path: str

@overload
def elementwise(function: Callable[..., Any], /) -> TorchOp: ...
@overload
def elementwise(schema: str | None = None) -> Callable[[Callable[..., Any]], TorchOp]:
    """Makes a torch operator from a function of scalars: @elementwise("ns::name(Tensor x, float a=1.0) -> Tensor").

    The function is written in tile_ops.language and gets tiles. It may use what works on each element alone. The
    derivative
    of the expression gives the gradient. @elementwise without a schema takes it from the signature: parameters without
    an
    annotation are tensors, and the module is the namespace.

    Shapes: tensors of any shapes and strides broadcast as torch's do; several results are a tuple.
    Dtypes: tensors promote as torch's do, and bool stays bool. A result has the promoted dtype, or that of the
    expression if
    it is another, such as bool for a comparison. float16 and bfloat16 are computed in float32. Other parameters are
    float,
    int, Scalar, bool and str; bool and str are known when the kernel is compiled.
    Errors: TypeError for a schema that an expression cannot have. Errors in the function are raised at the first call.

    Returns a TorchOp.
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

    A decorated function is the part `map`. A class may have these parts:

    map: gets the elements of the tensors and returns what is combined, a tile or several. Without it the elements of
    the one
    tensor are combined.
    combine: "sum", "prod", "max", "min", or an associative and commutative function of two values (of N + N) that gives
    one
    (N).
    identity: the number, or the tuple of N, that changes nothing when it is combined.
    finish: gets the totals, and the number of elements if it has a parameter `count`, and returns the results.

    The operator has the further arguments dim=None (an axis, several, or all) and keepdim=False. A sum has a gradient.

    Shapes: tensors broadcast as torch's do; the result lacks the axes in dim, or has extent 1 there with keepdim.
    Dtypes: tensors promote as torch's do. Sums and products of integers are int64. max and min keep NaN.
    Errors: TypeError for parts that do not fit, ValueError if max or min get no elements.

    Returns a TorchOp.
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
    sharding: str | Callable[..., str] | None = None,
) -> Callable[[Callable[..., Any]], TorchOp]:
    """Makes a torch operator from a class or function: @op("ns::name(Tensor x, float a=1.0) -> Tensor").

    The schema has torch's form; results without a name are out, or out0, out1, ... A class has the following parts.
    Each function takes the operator's values that its parameters name:

    outputs: takes the arguments and returns the results, freshly allocated; a tensor, or a tuple. It also runs on fake
    tensors. "x" allocates results like x.
    run: fills the results by launching kernels; its parameters may be arguments, results and saved results.
    grad: the gradient. A function of torch operations that takes grad_<result>, arguments, results and saved results,
    and returns a tuple with a gradient, or None, for each tensor argument; or a class with its own outputs and run (and
    grad), which fill grad_<argument>; or the name of an operator that does so; or "auto", which derives it from the
    kernels in Python that run launches.
    saves, saved_outputs: further results for the gradient, "Tensor mean, Tensor rstd", and their allocation; they are
    computed if a gradient is wanted. With grad="auto" the compiler saves what is expensive to compute again;
    saves=False
    saves nothing, for less memory.
    autocast: "keep", "lower", "fp32", or a pair for CPU and CUDA. leading, fold: arguments whose leading extents, or
    whose extent 0, may absorb vmap's batch (sums: results that then add up over it). flops: the number of
    floating-point operations.
    sharding: how it runs on DTensors: "pointwise", "rows", "whole", a string or a function, as in register_sharding. A
    gradient class has its own, or the rule that follows from the operator's.

    A decorated function is the part run; the other parts are arguments of op, or decorators of the result.

    Returns a TorchOp. Errors: TypeError and ValueError for parts that do not fit the schema; the message lists the
    valid names.
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
    """tile::adamw_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, Tensor[] steps, *, Tensor(d!)[]? max_exp_avg_sqs=None, float lr=0.001, float beta1=0.9, float beta2=0.999, float eps=1e-08, float weight_decay=0.01, bool maximize=False, Tensor? lr_tensor=None, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()

    One step of AdamW (Loshchilov and Hutter, "Decoupled Weight Decay Regularization", 2019) for each
    parameter `p` with its gradient `g`, `m` of exp_avgs, `v` of exp_avg_sqs and `t` of steps, which
    already counts this step:

        g = -g if maximize                      g = g / grad_scale
        m = beta1 m + (1 - beta1) g             v = beta2 v + (1 - beta2) g²          w = v, with AMSGrad max(w, v)
        p = (1 - lr weight_decay) p - lr / (1 - beta1^t) · m / (sqrt(w) / sqrt(1 - beta2^t) + eps)

    `tile_ops.optim.AdamW` has the signature of `torch.optim.AdamW`, of which it replaces only the step:
    states, `state_dict` (each loads that of the other), param groups, schedulers, closures, GradScaler
    and `torch.compile` are torch's. It counts the steps. `foreach`, `fused` and `capturable` change
    nothing: there is one implementation, and it is always capturable. A sparse gradient, a complex
    parameter and `differentiable=True` are errors. The step updates the local shards of parameters that
    are DTensors (distributed.md (docs/distributed.md)).

    - Lists. As many tensors in each; a parameter's have its shape. max_exp_avg_sqs asks for AMSGrad
      (Reddi et al., 2018). Steps: one element each. lr_tensor replaces lr. Where found_inf is not 0
      nothing is written. lr_tensor, grad_scale and found_inf have one element and are read by the
      kernel: nothing waits for a GPU. Gradients are not written, while torch's fused step takes the
      scale off them.
    - Dtypes. Params: any floating dtype, one a call; gradients and states that of params, or float32
      where these have 16 bits. Steps and lr_tensor: float32 or float64; grad_scale and found_inf:
      float32. Computed in float32, of float64 in float64; the corrections of the bias in float64 (`1 -
      beta^t` cancels).
    - Memory. Tensors that are dense and of one stride order are read as they lie. Others are copied
      into the parameter's order (with gaps in it: a contiguous one), and what is written is copied
      back. Whatever shares memory with a tensor that is written is an error: `tile::adamw_: params[1]
      and exp_avgs[1] overlap in memory, which is written; clone() one of them`.
    - Launches. On a CPU one, whose blocks of 32768 elements find in a table where theirs are. On a GPU
      one for each 16 parameters, which are passed as arguments; blocks have 16384 elements, and
      parameters whose memory does not begin at 16 bytes, or whose numbers of elements are no multiple
      of a vector's, are in launches of their own. Kernels: one for each number of 1, 4 and 16
      parameters.
    - Errors. ValueError for lists of different lengths, shapes, numbers out of range and memory that
      overlaps; TypeError for dtypes. With no tensor at all there is no device, and torch's dispatcher
      refuses the call.
    - Gradient: none; call it under `torch.no_grad()`. vmap: every written tensor needs the batch
      extent; samples are computed one by one.
    - Determinism: results do not depend on the number of threads.
    """

def add_rms_norm(
    input: Tensor,
    residual: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> tuple[Tensor, Tensor]:
    """tile::add_rms_norm(Tensor input, Tensor residual, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> (Tensor out, Tensor sum)

    sum = input + residual, rounded to their dtype, and out = sum · rstd · weight with rstd = 1 /
    √(mean(sum²) + eps) over the last dimensions (Zhang and Sennrich 2019
    (https://arxiv.org/abs/1910.07467)); of the sum as it is rounded, so `out` is what `rms_norm(sum,
    …)` gives.

    - Shapes: `input` and `residual` have one shape, which ends in `normalized_shape`; `weight` has
      `normalized_shape`.
    - Dtypes: floating, `input` and `residual` the same, and both results; `weight` any. Autocast as of
      `rms_norm`.
    - `eps=None`: the epsilon of the dtype that is computed in, as in torch.
    - Results: both in the stride order of `input`. `sum` is a tensor of its own, never a view.
    - Backward: `add_rms_norm_backward(grad_out, grad_sum, sum, normalized_shape, weight, rstd,
      output_mask)`; either incoming gradient may be missing. With g = grad_out · weight: grad = rstd ·
      (g - sum · rstd² · mean(g · sum)) + grad_sum, one tensor that is the gradient of `input` and of
      `residual`; grad_weight = Σ grad_out · sum · rstd over the rows. Without `grad_out` the gradient
      is `grad_sum` as it is, and `weight` has none. `sum`, `weight` and rstd (float32; float64 for
      float64) are saved.
    - Errors: ValueError for shapes, TypeError for dtypes.
    - One launch forward. Deterministic: parts of grad_weight are added in a fixed order.
    """

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
    """tile::attention(Tensor query, Tensor key, Tensor value, *, Tensor? attn_bias=None, bool is_causal=False, str causal_align="bottom_right", float? scale=None, int[2] window=[-1, -1], float softcap=0.0, Tensor? alibi_slopes=None, Tensor? sinks=None, float dropout_p=0.0, Tensor? seed=None) -> (Tensor out, Tensor lse)

    Softmax attention in one pass over the keys (Dao et al., "FlashAttention", 2022): `out =
    softmax(scores) value`, with `scores = scale * query @ key^T`, `scale` 1/sqrt(head dim) by default;
    `lse`, [batch, heads, length], float32 (float64 for float64), is the logarithm of the sum of the
    scores' exponentials.

    - Shapes: `query` [batch, heads, length, head dim], `key` [batch, key heads, keys, head dim],
      `value` [batch, key heads, keys, width]; heads are a multiple of key heads, neighbours share one.
      Head dim and width are at most 256. With a head dim of 0 all scores are 0, and a row of `out` is
      the mean of the values that it sees. `out` has the stride order of `query`.
    - Dtypes: floating, the same for `query`, `key`, `value` and `out`. Autocast lowers them, as it does
      for torch's attention.
    - A query's own place is that of the last key for the last query (`causal_align="bottom_right"`), or
      of the first for the first (`"top_left"`). `is_causal` hides keys behind it. `window=[before,
      after]` shows that many keys before and after it, -1 all; with `is_causal`, `after` is 0. Tiles of
      keys that no query of a tile sees are not read; from 128 queries and 256 keys on, also those that
      `attn_bias` hides (False, or -inf; on a CPU, if four heads or samples share it): it is summed up
      by blocks once a call, in one byte for 32 x 32 scores and, on a GPU, a bit a score if these take
      up to 40 MiB. A mask then runs on warpgroup instructions of sm_90; a floating one is read where it
      has other numbers than 0 and -inf; without bits, and for gradients of heads of 65 to 128, also
      where it hides a part. On warpgroup instructions a floating one that differs between heads, or
      whose gradient is wanted, is not summed up: all its numbers are read.
    - `softcap` > 0 makes a score `softcap * tanh(score / softcap)` (Gemma 2). Then comes `attn_bias`,
      bool (True: attend) or floats, of any shape that broadcasts to [batch, heads, length, keys], and
      ALiBi's `-slope * |distance to the own place|` (Press et al., 2022), `alibi_slopes` [heads] or
      [batch, heads]. The bias is no part of what `softcap` bends.
    - `sinks`, [heads], in query's dtype or float32, is one score more in each row, of a key without a
      value (Xiao et al., 2023); `lse` counts it.
    - `dropout_p` zeroes so large a fraction of the probabilities and scales the others by 1/(1 -
      dropout_p), drawn from `seed`, int64[2], and each score's place: `torch.randint(2**63 - 1, (2,))`.
      `lse` is that of all. `tile_ops.scaled_dot_product_attention` draws the seed.
    - CPU with AVX-512: where a key head has up to 8 rows (its query heads' queries, up to 7 of each),
      as in a step of decoding, a tile holds the rows of several key heads, unless there is dropout. The
      bits are those of any other tile.
    - GPU: where a key head has up to 32 rows and nothing is saved for gradients, as in a step of
      decoding over a static cache, several blocks share the keys of a head, as in
      `tile::attention_decode`, unless there is dropout. A bias that is the same for all queries and
      heads is read once for all rows of a key head. The number of parts depends on the shapes only.
    - sm_90: tensors of 16 bits that the copy unit cannot read, because rows or columns do not begin at
      multiples of 16 bytes or a stride is 0, are copied first, if the copies and a mask's bits take up
      to 40 MiB, and if 256 queries share each key or there are at most 256 keys. Otherwise they are
      read as they are, without warpgroup instructions, which takes longer. A bias of numbers is copied
      likewise, if it takes up to 40 MiB.
    - A row that sees nothing gives 0, its `lse` is -inf, its gradients are 0.
    - Errors: ValueError for shapes and options (`'query' has 6 heads but 'key' 4; the heads of query
      must be a multiple of those of key`, `dropout_p is 0.1 and there is no seed; pass
      torch.randint(2**63 - 1, (2,)), on the device of query`), TypeError for dtypes,
      NotImplementedError for a head dim beyond 256 (`head_dim is 512 and the most is 256; split it over
      more heads`).

    Gradients: query, key, value, a floating `attn_bias` (summed over what it broadcasts), sinks. Saved
    for them: query, key, value, out, three numbers a row, and of 16-bit tensors what rounding took from
    out. On a GPU the gradient of query is summed up by atomic adds in no fixed order, unless
    `torch.use_deterministic_algorithms(True)`; everything else is the same in each run. vmap: folded
    into the batch; with slopes, sinks or dropout one sample after the other.

    These sums are float32. For 16-bit tensors they need memory in addition to the result: 62 MiB at
    most, and less than 64 MiB with the numbers that a launch keeps for each row. A launch takes as many
    heads as fit. If key heads with all their query heads made fewer than 512 blocks, each a tile of 64
    or 128 keys, a launch takes some query heads of each key head. With 8 key heads, 32 heads, 8192 keys
    and a head dim of 128 it takes one, and there are four launches. The gradients of key and value are
    then rounded once in each launch. If there would still be fewer than 132 blocks, or if the sums of a
    single head need more memory, query's gradient has its own kernel, as under
    `torch.use_deterministic_algorithms(True)`.
    """

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
    """tile::attention_decode(Tensor query, Tensor key_cache, Tensor value_cache, Tensor lengths, *, Tensor? block_table=None, float? scale=None, int[2] window=[-1, -1], float softcap=0.0, Tensor? alibi_slopes=None, Tensor? sinks=None) -> (Tensor out, Tensor lse)

    Attention of a few queries of each sequence over its cache, for generating text. Several blocks
    share the keys of a head, and a second kernel combines their results in a fixed order (Dao et al.,
    "Flash-Decoding", 2023; paged caches: Kwon et al., 2023). No gradient.

    - Shapes: `query` [batch, heads, queries, head dim], the caches [batch, key heads, capacity, head
      dim] in any order of strides, `lengths` [batch], the number of keys of each sequence, of which the
      last belong to the queries; the mask is causal. With `block_table` [batch, pages of a sequence],
      the caches are [pages, key heads, page size, head dim], of any page size. If the distance from
      page to page in memory is not a multiple of that from key to key, caches are copied first, unless
      the page size is a multiple of 16 (in 16 bits on a GPU: of 64, or of 32 above a head dim of 128).
      Keys behind the end of a sequence, and entries of `block_table` behind its last page, are not
      used. `window[1]` is ignored.
    - Dtypes: as in `tile::attention`; `lengths` and `block_table` int32 or int64.
    - Errors: as in `tile::attention`. A length beyond the cache is a ValueError on the CPU and a failed
      assertion on a GPU. A page that does not exist is a failed assertion on both.
    """

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
    """tile::attention_varlen(Tensor query, Tensor key, Tensor value, Tensor cu_seqlens_q, Tensor cu_seqlens_k, SymInt max_seqlen_q, SymInt max_seqlen_k, *, bool is_causal=False, str causal_align="bottom_right", float? scale=None, int[2] window=[-1, -1], float softcap=0.0, Tensor? alibi_slopes=None, Tensor? sinks=None, float dropout_p=0.0, Tensor? seed=None) -> (Tensor out, Tensor lse)

    `tile::attention` (Dao et al., "FlashAttention", 2022) for sequences of different lengths, packed
    one after another. The options and gradients are those of attention, without `attn_bias`.

    - Shapes: `query` [all rows, heads, head dim], `key` and `value` [all rows, key heads, …], `out` as
      `query` with the width of `value`, `lse` [heads, all rows]. Sequence i has the rows from
      cu_seqlens[i] to cu_seqlens[i + 1]; the first entry is 0, the last is the number of rows.
      `max_seqlen_*` is at least the longest length.
    - Dtypes: as in `tile::attention`; `cu_seqlens_*` int32 or int64.
    - Errors: as in `tile::attention`. Lengths that do not fit are a ValueError on the CPU; on a GPU a
      failed assertion of the kernel.
    - vmap: the samples are computed one by one.
    """

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
    """tile::cross_entropy(Tensor input, Tensor target, *, Tensor? weight=None, int ignore_index=-100, str reduction="mean", float label_smoothing=0.0, float z_loss=0.0) -> Tensor out

    of each row of logits x with target y, C classes, weights w (1 without) and s = `label_smoothing`,
    with lse = log Σ exp(x):

        loss = (1 - s) w[y] (lse - x[y]) + s / C Σ w[c] (lse - x[c]) + z_loss lse²

    which is torch's cross_entropy
    (https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.cross_entropy.html) of class
    indices and the auxiliary loss of PaLM (Chowdhery et al. 2022 (https://arxiv.org/abs/2204.02311),
    section 5).

    - Shapes: `input` [C], [N, C] or [N, C, d1, ...]; `target` without the axis of classes; `weight`
      [C]. `out` has the shape of `target` for `reduction="none"`, else it is a scalar.
    - Dtypes: `input` floating; `target` int64 or int32; `weight` that of `input`, or float32. `out` has
      that of `input`. Autocast: float32, as torch's.
    - Rows whose target is `ignore_index` have neither loss nor gradient, and are not counted. `"mean"`
      divides the first two terms by the sum of w[y] over the rows that are counted, as torch does, and
      the third by their number, whatever the weights. Where no row is counted it is NaN, as in torch.
    - A target that is no class and not `ignore_index`: ValueError on the CPU, with its place and value;
      on a GPU the row's loss and its gradient are NaN, and nothing outside the arrays is touched.
    - Backward: `cross_entropy_backward`, one launch (and one for Σ w[c], with smoothing and weights);
      `weight` has no gradient. lse of each row is saved, and for `"mean"` its divisor: float32, float64
      for float64. For float32 logits the rounding error of lse is saved as well, [..., 2], so that the
      gradient is as exact if lse is large.
    - Errors: ValueError for shapes and options, TypeError for dtypes, NotImplementedError for
      probabilities of classes as `target`.
    - Logits are read once. On a GPU rows of more than 8192 classes are read in a loop, with a maximum
      and a sum for every 16 bytes of a tile, which stay in one thread; they meet once a row. Sums over
      rows are added in float64 by one more launch, in a fixed order; the host waits for nothing.
      Deterministic.
    """

def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
) -> Tensor:
    """tile::embedding(Tensor weight, Tensor indices, int padding_idx=-1) -> Tensor out

    out[..., :] = weight[indices[...], :], what torch.nn.functional.embedding
    (https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.embedding.html) computes.

    - Shapes: `weight` [V, d], `indices` any; `out` has d behind these. Dtypes: `weight` floating,
      `indices` int64 or int32.
    - `padding_idx`: the row without a gradient; -1: none. `max_norm`, `scale_grad_by_freq` and sparse
      gradients do not exist.
    - An index that is no row: ValueError on the CPU, with its place and value; on a GPU its row of
      `out` is NaN, and it adds to no gradient.
    - Backward: `embedding_backward(grad_out, weight, indices, padding_idx)`: each row is the sum of its
      rows of grad_out, in float32 (float64 for float64) and in the order of the indices, or where parts
      are added up (below) in the order of the parts; rows nobody looked up are 0. The order is always
      the same: deterministic.
    - Two launches, and on a GPU two more from 512 indices on, for long bins. The first divides the
      table into about 1024 bins of whole blocks' rows; a block for each reads all N indices twice and
      lists, in order, the positions of those in its bin. In the second a block has 8 rows by 1024
      columns (4 by 4096 on a CPU), reads the list of its bin, adds the rows of grad_out that are its
      own, and writes. For V=128256, N=8192, d=4096 in bfloat16: 1002 blocks read 2 x 64 KB of indices
      each, counted, not measured: 131 MB; then 64128 blocks read a list of about 8 entries (8 bytes
      each), 67 MB of grad_out once, and write 1.05 GB. If an index comes k times, its k rows are added
      in order, and four are loaded at once.
    - On a GPU, from 512 indices on, a long bin, as of a table where one row is named very often, is
      divided into parts of at least 256 entries. One launch between the two sums each part in blocks of
      8 rows by 1024 columns; one after them adds these sums in order. The sums take at most 32 MiB, 64
      MiB for float64. If there are at least 128 indices for each row of the table, all indices are
      divided into parts, without bins.
    - float32 and float64 on a CPU: 64 bins; in the second launch a block clears its bin's rows and adds
      to them in memory.
    - Errors: ValueError for shapes and `padding_idx`, TypeError for dtypes.
    """

def gated_matmul(
    input: Tensor,
    gate_weight: Tensor,
    up_weight: Tensor,
    *,
    activation: str = "silu",
) -> Tensor:
    """tile::gated_matmul(Tensor input, Tensor gate_weight, Tensor up_weight, *, str activation="silu") -> Tensor out

    `out = activation(input @ gate_weight) * (input @ up_weight)`, the first half of a gated
    feed-forward layer (Shazeer, "GLU variants improve Transformer", 2020), in one launch.
    `tile_ops.gated_linear(input, gate_weight, up_weight, activation="silu")` takes weights as
    `torch.nn.Linear` holds them, `[n, k]`; `tile_ops.nn.GatedMLP` is the whole layer.

    - Shapes, dtypes. Input `[..., k]`, both weights `[k, n]`, out `[..., n]`, all of one floating dtype
      and of any strides: `weight.t()` costs nothing. activation: `none`, `relu`, `gelu`, `gelu_tanh` or
      `silu`.
    - Errors as of `tile::matmul`: ValueError for shapes and activations, TypeError for dtypes.
    - Gradient. Saved are the arguments and both products before the activation, in input's dtype. One
      kernel makes the gradients of both products, three products those of the arguments, each only
      where it is wanted; input's gradient is one sum over both halves, rounded once.
    - vmap: a batched input is one more leading axis; batched weights are a loop.
    - autocast lowers all three arguments, as torch's matmul.
    - Determinism: sums are taken in one order, whatever the threads.
    """

def geglu(
    gate: Tensor,
    up: Tensor,
    *,
    approximate: str = "none",
) -> Tensor:
    """tile::geglu(Tensor gate, Tensor up, *, str approximate="none") -> Tensor out

    out = gelu(gate) · up, with gelu as `torch.nn.functional.gelu` has it: "none" is x/2 · (1 +
    erf(x/√2)), "tanh" is x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))) (Hendrycks and Gimpel 2016
    (https://arxiv.org/abs/1606.08415), Shazeer 2020 (https://arxiv.org/abs/2002.05202)).

    - Shapes: `gate` and `up` have equal shapes of any rank; nothing is broadcast.
    - Dtypes: floating, both the same. Autocast keeps them.
    - Backward: as in `tile::swiglu`, with the derivative of gelu.
    - Errors: ValueError if the shapes differ and for any other `approximate`, TypeError for dtypes.
      Deterministic.
    """

def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
    *,
    activation: str = "none",
) -> Tensor:
    """tile::group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, *, str activation="none") -> Tensor out

    in each sample and group of neighbouring channels x̂ = (input - mean) / √(var + eps), then x̂ ·
    weight + bias by channel, then `activation`, "none" or "silu" (Wu and He 2018
    (https://arxiv.org/abs/1803.08494)).

    - Shapes: `input` [N, C, …] of 2 to 5 dimensions; `weight` and `bias` [C]; num_groups divides C.
      channels_last in is channels_last out, without copies.
    - Dtypes: floating; `weight` and `bias` as of `layer_norm`. Autocast: on a GPU float32, as torch's.
    - Backward: `group_norm_backward(grad_out, input, num_groups, weight, bias, activation, mean, rstd,
      output_mask)`; the activation's gradient is computed from `input` again. Saved: `input`, mean and
      rstd [N, groups], float32 (float64 for float64).
    - Errors: ValueError (`'input' has 1 dimensions; it must have 2 to 5: [N, C, …]`, `num_groups is 0;
      it must be at least 1`, `'input' has 6 channels, which num_groups=4 does not divide; give a
      divisor`, `activation is 'relu'; it must be 'none' or 'silu'`, `'weight' has sizes [3], but the
      channels of 'input' are [6]; they must be equal`), TypeError for dtypes.
    - Without elements the gradients of `weight` and `bias` are 0, as sums of no terms; torch's gradient
      of `weight` is NaN if only a spatial extent is 0.
    - vmap: the batch is folded into N.
    - A group that fits the memory on chip is read once, by one launch; longer ones by a launch for the
      statistics, one that merges them (on a CPU two), and one that applies them. Deterministic. On an
      H200 with silu in bfloat16 0.25 to 0.82 of a copy's speed, its gradient 0.22 to 0.65.
    """

def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-05,
) -> Tensor:
    """tile::layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> Tensor out

    out = (input - mean) · rstd · weight + bias with rstd = 1 / √(var + eps), mean and variance (of the
    population) over the last dimensions (Ba, Kiros and Hinton 2016 (https://arxiv.org/abs/1607.06450)).

    - Shapes: `input` ends in `normalized_shape`; `weight` and `bias` have that shape; each may be
      missing.
    - Dtypes: floating; `weight` and `bias` that of `input`, or float32 with a 16-bit input, both the
      same. Autocast: on a GPU float32, as torch's.
    - The variance is that of the differences from the mean, not a difference of squares, so that a
      large mean costs no digits.
    - Backward: `layer_norm_backward(grad_out, input, normalized_shape, weight, bias, mean, rstd,
      output_mask)`. With x̂ = (input - mean) · rstd and g = grad_out · weight: grad_input = rstd · (g -
      mean(g) - x̂ · mean(g · x̂)), grad_weight = Σ grad_out · x̂ and grad_bias = Σ grad_out over the
      rows. Saved: `input`, mean and rstd of each row, float32 (float64 for float64).
    - Errors: ValueError for shapes (`normalized_shape is [3], but 'input' has sizes [2, 4]; it must be
      the sizes of the last dimensions`, `normalized_shape is empty; …`, `'weight' has sizes [3], but
      normalized_shape is [4]; they must be equal`), TypeError for dtypes (`'input' is Int; it must be
      Half, BFloat16, Float or Double, convert it with .to()`, `'weight' is Half and 'bias' Float;
      convert one of them`).
    - vmap: `input` has one more leading axis; where a batched gradient of the parameters is wanted,
      samples one by one.
    - One launch forward. Deterministic: parts of the parameters' gradients are added in a fixed order.
      On an H200 in bfloat16 0.91 to 1.00 of a copy's speed, its gradient 0.76 to 0.83.
    """

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
    """tile::linear_cross_entropy(Tensor input, Tensor weight, Tensor target, *, Tensor? bias=None, int ignore_index=-100, str reduction="mean", float label_smoothing=0.0, float z_loss=0.0) -> Tensor out

    cross_entropy of input @ weight.T + bias, whose logits are in memory in parts only (as Liger
    (https://arxiv.org/abs/2410.10989) and Wijmans et al. 2024 (https://arxiv.org/abs/2411.09009) do).

    - Shapes: `input` [..., d], `weight` [C, d], `bias` [C], `target` [...].
    - Dtypes: `input`, `weight` and `bias` of one floating dtype; `target` int64 or int32. `out` is
      float32 (float64 for float64), as that of torch under autocast; autocast lowers the operands.
      Logits of 16-bit operands stay in float32, except that more than 59 MiB of them together with
      their gradient are bfloat16, as torch's are, where the forward computes gradients.
    - Options, targets that are no class, errors: as of `cross_entropy`. A row of NaN reaches the
      gradient of `weight` and `bias` in all classes.
    - With gradients: a mean or a sum computes the gradients that are wanted in the forward, from the
      same logits, so that they exist from then on. Backward multiplies them by that of `out`: in place,
      and by 1 at no cost, unless the graph is kept, compiled or differentiated once more. Call it under
      `torch.no_grad()` where no gradient is needed. Logits are whole rows, in 59 MiB or, for a gradient
      of `weight` whose rows are as long as there are rows of `input`, in the memory of that gradient,
      which replaces them in the end. Of more logits, groups of rows follow each other, whose parts of
      the gradient of `weight` are added up in float32: in the gradient, or beside one of 16 bits, if
      these sums take 24 MiB, or 4 times the bytes of `input`, at most.
    - The other cases, which are `reduction="none"`, float16 (whose small gradients are lost unless the
      factor of `out` comes first), and a gradient of `weight` whose sums are too large, have a forward
      and a backward of their own:
    - Forward: logits of at most 4096 rows and of so many classes that they take 32 MiB; of each row a
      maximum and a sum are carried on. lse is saved, as of `cross_entropy`, and what a mean divides by.
    - Backward: logits are made again in parts; their gradient has the operands' dtype. A part of all
      rows has 512 classes at least, in 16 MiB or 4 times the bytes of `input`, else it has 4096 rows.
      Each part gives its slice of the gradient of `weight` and of `bias`, which parts of some rows add
      up in float32. The gradient of `input` is a float32 sum over the parts: in place where it is
      float32. Without a gradient of `weight`, 24 MiB of sums serve groups of rows one after another.
    - Memory: less than 64 MiB, or 8 times the bytes of `input` if these are more, beyond arguments,
      results, gradients and what is saved, whatever the sizes (`input` and `target` with gaps between
      rows are not copied). Deterministic.
    """

def log_softmax(
    input: Tensor,
    dim: int,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """tile::log_softmax(Tensor input, int dim, ScalarType? dtype=None) -> Tensor out

    out = d - log(Σ exp(d)) with d = input - max(input), maximum and sum along `dim`: what
    torch.log_softmax
    (https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.log_softmax.html) computes.

    - Shapes: any; `dim` may count from the end. A scalar has one axis of extent 1.
    - Dtypes: real; the result, which is floating, has that of `dtype` or of `input`, into which the
      input is converted first. Autocast: on a GPU the result is float32, as torch's.
    - A row with NaN, with +inf, or of nothing but -inf becomes NaN, as in torch.
    - Backward: `log_softmax_backward(grad_out, out, dim)`: grad_input = grad_out - exp(out) · Σ
      grad_out. `out` is saved.
    - Errors: ValueError where `dim` is out of range, TypeError for dtypes that it is not computed in.
    - One launch; rows longer than a tile are read in a loop. Deterministic.
    """

def matmul_epilogue(
    input: Tensor,
    other: Tensor,
    epilogue: str,
    *,
    operand0: Tensor | None = None,
    operand1: Tensor | None = None,
    operand2: Tensor | None = None,
    operand3: Tensor | None = None,
    operand4: Tensor | None = None,
    operand5: Tensor | None = None,
    numbers: Sequence[float] = [],
    names: str = "",
) -> Tensor:
    """tile::matmul_epilogue(Tensor input, Tensor other, str epilogue, *, Tensor? operand0=None, Tensor? operand1=None, Tensor? operand2=None, Tensor? operand3=None, Tensor? operand4=None, Tensor? operand5=None, float[] numbers=[], str names="") -> Tensor out

    `out` is the value of the text `epilogue`, in the last launch of the product. `tile_ops.matmul`
    takes the operands by name:

        import torch, tile_ops

        x, w, b, g = torch.randn(30, 20), torch.randn(20, 40), torch.randn(40), torch.randn(30, 40)
        out = tile_ops.matmul(x, w, epilogue="silu(acc * scale + bias) * gate", operands={"bias": b, "gate": g, "scale": 0.5})
        torch.testing.assert_close(out, torch.nn.functional.silu(x @ w * 0.5 + b) * g, rtol=1e-4, atol=1e-4)

    In C++ it is `tile::matmul(x, w, tile::ProductEpilogue{"acc + bias", {{"bias", b}}})` of
    `tile/matmul.h`.

    - The text has `acc`, which is input @ other in float32 (float64 for float64), the names of the
      operands, numbers, `inf`, `nan`, `+ - * / **`, one of `< <= > >= == !=` between two values,
      parentheses and calls, with the precedence of Python. `where(c, x, y)` chooses by a comparison;
      `&`, `|`, `^` and `~` combine comparisons. Functions are the elementwise ones of the kernel
      language (docs/language/README.md) on floats, and `max`, `min` (`maximum` and `minimum`, which
      ignore a NaN; `maximum_nan` and `minimum_nan` keep it), `relu`, which keeps NaN, `gelu` and
      `gelu_tanh`. `bfloat16(x)`, `float16(x)` and `float32(x)` round to a dtype, and make 1 or 0 of a
      comparison; `bool(x)` is `x != 0`. Squares and cubes are products. `int32(x)` and `int64(x)` are
      integers, without the fraction, which `float(i)` makes numbers again. `h = acc + bias; silu(h) *
      h` names a part of the text, so that it is written and computed once.
    - Shapes of input, other and out as of `tile::matmul`, any strides. Operands broadcast to out.
    - Operands. `operand0` to `operand5` are given in order, and `numbers` has at most six; `names` has
      the names of these tensors, then of the numbers, separated by commas. The text uses each of them.
      Other numbers do not compile another kernel, another text does.
    - Dtypes. Input and other of one floating dtype, operands any; out has input's. Everything is
      computed in that of `acc`, and rounded once.
    - Errors. ValueError for shapes, for operands, and for a text, with the column (`epilogue 'acc +
      bais', column 7: there is no 'bais'; the names are acc, bias`, `epilogue 'acc' does not use the
      operand 'bias'; use it, or do not give it`), TypeError for dtypes.
    - Gradient. Input, other and operands that are tensors, each only where it is wanted, by the
      derivative of the text: one kernel, two products, and sums over what was broadcast. Saved: the
      arguments, and where a derivative reads `acc`, that in input's dtype.
    - vmap: one more leading axis of all tensors; vectors in a loop. autocast lowers all tensors, as
      torch's matmul.
    - Determinism: sums are taken in one order, whatever the threads.
    """

def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
) -> Tensor:
    """tile::rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor out

    out = input · rstd · weight with rstd = 1 / √(mean(input²) + eps) over the last dimensions (Zhang
    and Sennrich 2019 (https://arxiv.org/abs/1910.07467)).

    - Shapes: `input` ends in `normalized_shape`, which `weight` has.
    - Dtypes: floating; `weight` any of these. Autocast as of torch's rms_norm: kept, or float32 where
      the installed torch does that.
    - `eps=None`: the epsilon of the dtype that is computed in, as in torch: 2^-23, for float64 2^-52.
    - Backward: `rms_norm_backward(grad_out, input, normalized_shape, weight, rstd, output_mask)`. With
      g = grad_out · weight: grad_input = rstd · (g - input · rstd² · mean(g · input)), grad_weight = Σ
      grad_out · input · rstd over the rows. Saved: `input` and rstd (float32; float64 where `input` or
      `weight` is).
    - Errors as of `layer_norm`.
    - One launch forward. Deterministic. On an H200 in bfloat16 0.97 to 1.04 of a copy's speed, its
      gradient 0.85 to 0.87.
    """

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
    """tile::rope(Tensor query, Tensor key, Tensor cos, Tensor sin, *, bool interleaved=False, SymInt? rotary_dim=None, Tensor? position_ids=None) -> (Tensor query_out, Tensor key_out)

    Rotary positions of query and key in one launch (Su et al., "RoFormer", 2021): each pair (x, y) of a
    head becomes (x cos - y sin, y cos + x sin). Pairs are the columns i and i + rotary_dim / 2 (as
    GPT-NeoX and Llama), or with `interleaved` 2i and 2i + 1 (as GPT-J).

    - Shapes. Query `[batch, heads, positions, head dim]`, key with heads of its own, any strides. cos
      and sin `[positions, width]` or `[batch, positions, width]`, the width `rotary_dim` or half of it;
      of the whole width the first half is read (interleaved: every second column). `rotary_dim`, even,
      is the head dim by default; further columns pass through. With `position_ids`, `[positions]` or
      `[batch, positions]`, int64 or int32, rows of the tables are looked up.
    - Dtypes. Query and key of one floating dtype, cos and sin float32 or that one. Autocast keeps them.
    - Errors. ValueError for shapes, each with what it is and must be (`rotary_dim is 7; it must be even
      and from 0 to the head dim 16`, `cos and sin have 6 positions and query has 5; slice them, or pass
      position_ids`), TypeError for dtypes. A position that the tables do not have: ValueError on the
      CPU, with its place and value; NaN on a GPU.
    - Gradient. The rotation back; saved are cos, sin and the positions, neither query nor key. It has a
      gradient itself. cos and sin have none: one that requires grad is an error.
    - vmap: the batch is folded into query's; tables and positions without a batch of their own are
      shared.
    - Determinism: no sums. On an H200 in bfloat16 0.97 to 0.99 of a copy's speed.
    """

def scaled_matmul(
    input: Tensor,
    other: Tensor,
    scale_input: Tensor,
    scale_other: Tensor,
    *,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    fast_accum: bool = False,
) -> Tensor:
    """tile::scaled_matmul(Tensor input, Tensor other, Tensor scale_input, Tensor scale_other, *, Tensor? bias=None, ScalarType? out_dtype=None, bool fast_accum=False) -> Tensor out

    `out = (input * scale_input) @ (other * scale_other) + bias` of 8-bit floats, where a scale is
    repeated for the elements that share it: what `torch.nn.functional.scaled_mm` computes. Scales along
    k as in DeepSeek-V3 (2024 (https://arxiv.org/abs/2412.19437)). No gradient: call it under
    `torch.no_grad()` or on detached tensors.

    - Shapes. `input` [m, k], `other` [k, n], out [m, n]. `scale_input` has one element, or is [m, 1],
      [m, k/128] or [m/128, k/128]; `scale_other` has one element, or is [1, n], [k/128, n] or [k/128,
      n/128], each quotient rounded up. Any of the first go with any of the second. `bias` [n].
    - Dtypes. `input` and `other` float8_e4m3fn or float8_e5m2, also mixed; scales float32; `bias` and
      `out_dtype` float16, bfloat16 or float32. out is bfloat16 if `out_dtype` is not given. autocast
      keeps all of them.
    - Strides. Any. On sm_90 the tensor cores multiply 8-bit floats that are contiguous along k, in rows
      of a multiple of 16 bytes, so `input` is row-major and `other` the transpose of a row-major
      tensor. Other operands of up to 43 MiB together are copied if the result has at least 256 rows and
      columns, else multiplied as 16-bit floats, which takes longer.
    - Accuracy. Products of 8-bit floats are exact in float32. The tensor cores of sm_90 keep about 14
      bits of their sums, so a sum of 128 products is added to another one in float32, as
      `use_fast_accum=False` of torch does. With `fast_accum` only the tensor cores add, which is faster
      and loses more the longer k is; scales that change along k, and other processors, ignore it.
    - Errors. TypeError for dtypes (`input is bfloat16; it must be float8_e4m3fn or float8_e5m2`),
      ValueError for shapes (`scale_input has shape [2, 1] for input [300, 3]; it must have one element,
      or be [300, 1] or [3, 1]`), NotImplementedError if a gradient is wanted: `has no gradient; call it
      under torch.no_grad() or on detached tensors`.
    - vmap: the samples are computed one by one.
    - Determinism: sums are taken in one order; on a GPU blocks may add up parts of the inner extent,
      which another launch adds in order.
    """

def softmax(
    input: Tensor,
    dim: int,
    dtype: torch.dtype | None = None,
) -> Tensor:
    """tile::softmax(Tensor input, int dim, ScalarType? dtype=None) -> Tensor out

    out = exp(d) / Σ exp(d) with d = input - max(input), maximum and sum along `dim`: what torch.softmax
    (https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softmax.html) computes.

    - Shapes: any; `dim` may count from the end. A scalar has one axis of extent 1.
    - Dtypes: real; the result, which is floating, has that of `dtype` or of `input`, into which the
      input is converted first. Autocast: on a GPU the result is float32, as torch's.
    - A row with NaN, with +inf, or of nothing but -inf becomes NaN, as in torch.
    - Backward: `softmax_backward(grad_out, out, dim)`: grad_input = (grad_out - Σ grad_out · out) ·
      out. `out` is saved.
    - Errors: ValueError where `dim` is out of range (`tile::softmax: dim 2 is out of range for 'input'
      of rank 2; give one in [-2, 1]`), TypeError for dtypes that it is not computed in (`tile::softmax:
      'input' is Long; softmax is computed in Half, BFloat16, Float or Double, pass
      dtype=torch.float32`) and for complex input.
    - vmap: one more leading axis; a batch of scalars in a loop.
    - One launch; a row that fits a tile (16384 elements on a CPU, 32768 on a GPU) is read once, a
      longer one three times. Deterministic. On an H200 at 8192² in bfloat16 1.00 of a copy's speed, its
      gradient 1.04.
    """

def swiglu(
    gate: Tensor,
    up: Tensor,
) -> Tensor:
    """tile::swiglu(Tensor gate, Tensor up) -> Tensor out

    out = silu(gate) · up, with silu(x) = x / (1 + exp(-x)) (Shazeer 2020
    (https://arxiv.org/abs/2002.05202)).

    - Shapes: `gate` and `up` have one shape, of any rank; nothing is broadcast. The halves of one
      tensor, `x.chunk(2, -1)`, are read where they are.
    - Dtypes: floating, both the same. Autocast keeps them.
    - Results: `out` in the stride order of `gate`.
    - Backward: `swiglu_backward(grad_out, gate, up, output_mask)` gives both gradients in one launch,
      from `gate` and `up`, which are saved: grad_gate = grad_out · up · s · (1 + gate · (1 - s)) with s
      = 1 / (1 + exp(-gate)), grad_up = grad_out · silu(gate).
    - Errors: ValueError where the shapes differ, TypeError for other dtypes or two different ones.
    - Deterministic.
    """
