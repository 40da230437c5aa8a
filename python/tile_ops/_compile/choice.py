"""Ours or torch's for a product or attention of a graph: by what was measured, so that none is slower because of us."""

import dataclasses
import math

import sympy
import torch

from .._products import FUSED, LEAST_CLASSES, LEAST_LOSS_DEPTH, LEAST_LOSSES, NO_LIMIT, PLAIN, fits, limits
from .compat import hint, size_hint


@dataclasses.dataclass(frozen=True)
class Product:
    """A product of matrices, or of batches of them, with likely sizes."""

    device: torch.device
    dtypes: tuple[torch.dtype, torch.dtype]
    rows: int
    depth: int
    columns: int
    rows_vary: bool = False


def product(input, other):
    """Returns the Product of two fake tensors."""
    sizes = map(size_hint, (*input.shape[-2:], other.shape[-1]))
    return Product(input.device, (input.dtype, other.dtype), *sizes, not isinstance(input.shape[-2], int))


def product_of_buffers(input, other):
    """Returns the Product of two buffers of inductor."""
    sizes = map(hint, (*input.get_size()[-2:], other.get_size()[-1]))
    vary = not isinstance(input.get_size()[-2], (int, sympy.Integer))
    return Product(input.get_device(), (input.get_dtype(), other.get_dtype()), *sizes, vary)


def is_ours(compile, call, kind=FUSED):
    """Returns True if a Product is to be ours. options: {"products": "tile" or "torch"} decides for all. kind: of _products."""
    wanted = compile.options.get("products", "measured")
    dtype, other = call.dtypes
    if dtype != other or dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return False
    if wanted != "measured":
        return wanted == "tile"
    # On a CPU the products of a gradient are chosen like others, each by its own sizes.
    trains = compile.trains and call.device.type != "cpu"
    found = limits(call.device, dtype, kind)
    if call.rows_vary:
        found = [each for each in found if each[0][1] == NO_LIMIT]
    return fits(found, call.rows, call.depth, call.columns, trains)


FEW_ROWS = 8  # of more rows torch's product alone takes about as long as ours


def is_ours_alone(compile, call):
    """Returns True if a Product that no operation is fused into is to be ours. options: see is_ours."""
    wanted = compile.options.get("products", "measured")
    return wanted != "torch" and not call.rows_vary and call.rows <= FEW_ROWS and is_ours(compile, call, PLAIN)


# An epilogue on a GPU may read this many matrices beside its sums. The gradient of SwiGLU would read two.
MOST_MATRICES = 1


def pays_to_fuse(compile, device, matrices):
    """Returns True if operations that read a product and this many other matrices should be its epilogue. options: see is_ours."""
    return device.type != "cuda" or compile.options.get("products", "measured") == "tile" or matrices <= MOST_MATRICES


@dataclasses.dataclass(frozen=True)
class Attention:
    """A call of torch's attention, by which of its operators. bias: of what torch's call reads, also where ours needs none."""

    operator: str
    query: torch.Tensor
    key: torch.Tensor
    bias: torch.dtype | None
    is_causal: bool
    trains: bool


def keeps_attention(compile, call):
    """Returns why a call of torch's attention stays, or None. options: {"attention": "tile" or "torch"} decides for all."""
    wanted = compile.options.get("attention", "measured")
    if wanted == "torch":
        return "options ask for torch's"
    if wanted == "tile":
        return None
    return _CPU_OR_GPU[call.query.device.type](call) if call.query.device.type in _CPU_OR_GPU else "not measured here"


def keeps_steps(compile, query, key):
    """Returns why flex_attention is computed in steps, or None if ours computes it. options: as of keeps_attention."""
    wanted = compile.options.get("attention", "measured")
    if wanted != "measured":
        return "options ask for it" if wanted == "torch" else None
    if query.device.type != "cpu":  # steps write all scores to memory
        return None
    if query.dtype == torch.float64:
        return "not measured in this dtype"
    return None if size_hint(query.shape[2]) * size_hint(key.shape[2]) >= SCORES else "too few scores"


def reads_heads_once(call):
    """Returns True if heads of keys that torch repeats are not to be repeated: gradients in float32 on a CPU are slower so."""
    return call.query.device.type != "cpu" or not call.trains or call.query.element_size() == 2


# On a CPU queries, and keys of a gradient, are computed in tiles of so many.
TILE = 128
COLUMNS = (64, 128, 256)  # of heads in a tile
EMPTY = 0.1  # a larger part of empty rows costs more than ours wins
SCORES = 8192  # with fewer a head, torch's call is shorter than ours


def _fills_tiles(length):
    length = size_hint(length)
    return -(-length // TILE) * TILE <= (1 + EMPTY) * length


def _fills_columns(depth):
    columns = next((each for each in COLUMNS if depth <= each), depth)
    return columns <= (1 + EMPTY) * depth


def _on_cpu(call):
    """Ours is faster in 16 bits, and in float32 where tiles are full; `benchmarks/run.py --only attention` compares."""
    if call.query.element_size() == 2:
        rows, keys = size_hint(call.query.shape[2]), size_hint(call.key.shape[2])
        return None if call.trains or keys >= TILE or rows * keys >= SCORES else "too few scores"
    if call.query.dtype != torch.float32:
        return "not measured in this dtype"
    if not _fills_columns(call.query.shape[3]):
        return "too few columns for full tiles"
    if not _fills_tiles(call.query.shape[2]) or (call.trains and not _fills_tiles(call.key.shape[2])):
        return "too few rows for full tiles"
    return None


def _on_gpu(call):
    query = call.query
    if query.dtype not in (torch.bfloat16, torch.float16):
        return "not measured in this dtype"
    if torch.cuda.get_device_capability(query.device) != (9, 0):
        return "not measured on this GPU"
    if call.bias is not None:  # cuDNN and FlashAttention-2 take none, and the efficient form is slower
        return None
    depth, length = query.shape[3], size_hint(query.shape[2])
    if depth not in (64, 128, 256):
        return "not measured at this head dim"
    # benchmarks/results/attention-h200.md: FlashAttention-2 takes 1.3 to 2.5 times as long as ours, and cuDNN more time than ours
    # where many keys are causal.
    if call.operator != "_scaled_dot_product_cudnn_attention":
        return None
    if call.is_causal and length >= 4096 and (depth < 256 or not call.trains):
        return None
    return "cuDNN is as fast"


_CPU_OR_GPU = {"cpu": _on_cpu, "cuda": _on_gpu}


@dataclasses.dataclass(frozen=True)
class Loss:
    """The cross entropy of a linear layer. is_early: its forward computes the gradients, so that logits are computed once."""

    input: torch.Tensor
    classes: int
    trains: bool
    is_early: bool


# On sm_90 the loss of a linear layer takes the time of torch's product and kernels (benchmarks/results/products-h200.md), and far less
# memory, if the forward computes the gradient. On a CPU in float32 it takes 0.8 of the time without a gradient.
def keeps_loss(compile, call):
    """Returns why a linear layer and its cross entropy stay two, or None. options: {"losses": "tile" or "torch"} decides for all."""
    wanted = compile.options.get("losses", "measured")
    if wanted != "measured":
        return "options ask for it" if wanted == "torch" else None
    if call.classes < LEAST_CLASSES:
        return "too few classes"
    device = call.input.device
    if math.prod(map(size_hint, call.input.shape[:-1])) < LEAST_LOSSES.get(device.type, 0):
        return "too few rows"
    if device.type == "cpu":
        return None if call.input.dtype == torch.float32 and not call.trains else "torch's products are as fast"
    if device.type != "cuda" or torch.cuda.get_device_capability(device) != (9, 0):
        return "not measured here"
    if call.input.element_size() != 2:
        return "not measured in this dtype"
    if not call.trains:
        return None
    if size_hint(call.input.shape[-1]) < LEAST_LOSS_DEPTH:
        return "too small a depth"
    return None if call.is_early else "the gradient would compute logits twice"
