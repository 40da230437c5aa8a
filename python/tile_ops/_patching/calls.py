"""Replaces torch's functions by our operators for tensors that these accept; others go to torch's own function."""

import functools

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.overrides import TorchFunctionMode

from .. import _products, functional
from .._sharding import dtensors
from . import direct
from .logits import Logits
from .match import ACTIVATIONS, DISPATCH, GATES

ops = torch.ops.tile
# Names of the module are found sooner than attributes of torch's: every call of a layer asks them.
is_any_autocast_enabled, is_dynamo_compiling = torch._C._is_any_autocast_enabled, torch.compiler.is_dynamo_compiling
FLOATING = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
PLAIN = (torch.Tensor, torch.nn.Parameter, FakeTensor, FunctionalTensor)
DEVICES = ("cpu", "cuda", "meta")


def plain(tensor):
    """Returns True for a dense tensor on which our operators run, of no subclass that changes the meaning of calls.

    DTensors count too, because our operators have sharding rules for them.
    """
    return (
        (type(tensor) in PLAIN or type(tensor) in dtensors) and tensor.layout == torch.strided and tensor.device.type in DEVICES
    )


def taken(*tensors):
    """Returns True if all tensors are plain, floating, on one device and of one dtype (or autocast makes them so).

    None is ignored. DTensors must not be mixed with other tensors.
    """
    first, same = None, True
    for tensor in tensors:  # a loop, because this runs before every call and generators are slower
        if tensor is None:
            continue
        if not plain(tensor) or tensor.dtype not in FLOATING:
            return False
        if first is None:
            first = tensor
        elif tensor.device != first.device or (type(tensor) in dtensors) != (type(first) in dtensors):
            return False
        else:
            same = same and tensor.dtype == first.dtype
    return same or torch.is_autocast_enabled(first.device.type)


def fused_by_compiler(tensor):
    """Returns True in a graph of torch.compile on a GPU, where norms, softmaxes and gates are torch's.

    Inductor fuses them with their neighbours and computes them again in the backward pass; operators of ours would stand
    between, and keep their inputs."""
    return is_dynamo_compiling() and tensor.is_cuda


def or_torch(original):
    """Returns a decorator: if our function returns NotImplemented or raises, the call goes to `original`."""

    def decorate(ours):
        @functools.wraps(original)
        def call(*args, **kwargs):
            if torch.compiler.is_compiling():  # the error of a traced call cannot be caught
                result = ours(*args, **kwargs)
            else:
                try:
                    result = ours(*args, **kwargs)
                except (ValueError, TypeError, NotImplementedError):
                    result = NotImplemented
            return original(*args, **kwargs) if result is NotImplemented else result

        return call

    return decorate


def activated(original):
    """Returns torch's function with the further argument activation, a name of ACTIVATIONS or "none", applied to its
    result."""

    @functools.wraps(original)
    def call(*args, activation="none", **kwargs):
        result = original(*args, **kwargs)
        return result if activation == "none" else ACTIVATIONS[activation](result)

    return call


@or_torch(activated(F.linear))
def linear(input, weight, bias=None, *, activation="none"):
    if not taken(input, weight, bias) or weight.dim() != 2 or (bias is not None and bias.dim() != 1):
        return NotImplemented
    return functional.linear(input, weight, bias, activation)


def product_is_ours(products, input, weight, depth, columns, kind=_products.PLAIN):
    """Returns True if the product of an input with a layer's weight, of [depth, columns], is to be ours. products: patch's option."""
    if products != "measured":
        return products == "tile"
    if depth * columns < _products.LEAST_WEIGHTS or (type(input) not in PLAIN and type(input) not in dtensors):
        return False
    dtype = input.dtype
    if dtype is torch.float32 and is_any_autocast_enabled():
        device = "cuda" if input.is_cuda else "cpu"
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else dtype
    dynamo = is_dynamo_compiling()
    limits = (_products.traced_limits if dynamo else _products.limits)(input.device, dtype, kind)
    if not limits:
        return False
    rows = input.numel() // depth
    trains = torch.is_grad_enabled() and (weight.requires_grad or input.requires_grad)
    fits = _products.fits_for_all if dynamo or type(rows) is not int else _products.fits
    return fits(limits, rows, depth, columns, trains)


def loss_is_ours(products, input, weight, depth, classes):
    """Returns True if the loss of a layer of [depth, classes] is to be ours, without logits. products: patch's option."""
    if type(input) is not torch.Tensor or type(weight) not in PLAIN or not taken(input, weight):
        return False
    device = input.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else input.dtype
    return _products.loss_is_ours(products, input.device, dtype, input.numel() // max(depth, 1), depth, classes)


def records_alone():
    """Returns True if autograd records calls as usual: no function of torch.func runs, and no forward mode."""
    return torch._C._functorch.peek_interpreter_stack() is None and torch.autograd.forward_ad._current_level < 0


def product(products, input, weight, bias, depth, columns, activation="none"):
    """Computes activation(input @ weight.T + bias), by ours or torch's operators. The rest: see product_is_ours."""
    kind = _products.PLAIN if activation == "none" else _products.FUSED
    if product_is_ours(products, input, weight, depth, columns, kind):
        return linear(input, weight, bias, activation=activation)
    result = _product_outside_classes(products, input, weight, bias, depth, columns)
    return result if activation == "none" else ACTIVATIONS[activation](result)


def _product_outside_classes(products, input, weight, bias, depth, columns):
    if columns % 8 == 0 or is_dynamo_compiling() or not plain(input):  # inductor pads
        return F.linear(input, weight, bias)
    dtype = torch.get_autocast_dtype("cuda") if input.is_cuda and torch.is_autocast_enabled("cuda") else input.dtype
    if not _products.pays_to_pad(input.device, dtype, (input.numel() // depth, depth, columns))[2]:
        return F.linear(input, weight, bias)
    trains = torch.is_grad_enabled() and (input.requires_grad or weight.requires_grad)
    if products == "measured" and not trains:
        return linear(
            input, weight, bias
        )  # ours stores rows of any length, without a copy; measured by benchmarks/odd_columns.py
    return padded_linear(input, weight, bias)


def padded_linear(input, weight, bias):
    """Computes F.linear with zeros in more columns, up to a multiple of 8, and copies the result without them."""
    columns = weight.shape[0]
    more = -columns % 8
    bias = None if bias is None else F.pad(bias, (0, more))
    return F.linear(input, F.pad(weight, (0, 0, 0, more)), bias)[..., :columns].contiguous()


def gated(gate, up, activation):
    """Computes activation(gate) * up, in one launch if our operators take both."""
    if activation not in GATES:
        return ACTIVATIONS[activation](gate) * up
    name, options = GATES[activation]
    if not is_dynamo_compiling():
        result = getattr(direct, name)(None, gate, up, *options.values())
        if result is not NotImplemented:
            return result
    if not taken(gate, up) or gate.shape != up.shape or fused_by_compiler(gate):
        return ACTIVATIONS[activation](gate) * up
    return getattr(ops, name)(gate, up, **options)


@or_torch(F.layer_norm)
def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    if not taken(input, weight, bias) or fused_by_compiler(input):
        return NotImplemented
    return ops.layer_norm(input, normalized_shape, weight, bias, eps)


@or_torch(F.rms_norm)
def rms_norm(input, normalized_shape, weight=None, eps=None):
    if not taken(input, weight) or fused_by_compiler(input):
        return NotImplemented
    return ops.rms_norm(input, normalized_shape, weight, eps)


@or_torch(activated(F.group_norm))
def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5, *, activation="none"):
    if not taken(input, weight, bias) or not 2 <= input.dim() <= 5:
        return NotImplemented
    return ops.group_norm(input, num_groups, weight, bias, eps, activation=activation)


@or_torch(F.embedding)
def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    known = plain(input) and taken(weight) and input.dtype in (torch.int64, torch.int32) and weight.dim() == 2
    if not known or max_norm is not None or scale_grad_by_freq or sparse:
        return NotImplemented
    if padding_idx is not None and padding_idx < 0:
        padding_idx += weight.shape[0]
    return ops.embedding(weight, input, -1 if padding_idx is None else padding_idx)


@or_torch(F.dropout)
def dropout(input, p=0.5, training=True, inplace=False):
    if not taken(input) or fused_by_compiler(input):
        return NotImplemented
    return functional.dropout(input, p, training, inplace)


def _softmax(original, ours, at_once):
    @or_torch(original)
    def checked(input, dim=None, *rest, dtype=None, **unknown):
        if original in (F.softmax, F.log_softmax):
            unknown.pop("_stacklevel", None)
            rest = rest[1:]
        dtype = rest[0] if rest else dtype
        if dim is None or type(dim) is not int or len(rest) > 1 or unknown or not taken(input) or fused_by_compiler(input):
            return NotImplemented
        return ours(input, dim, dtype)

    @functools.wraps(original)
    def call(input, dim=None, *rest, dtype=None, **unknown):
        if not rest and not unknown and not is_dynamo_compiling():
            result = at_once(None, input, dim, dtype)
            if result is not NotImplemented:
                return result
        return checked(input, dim, *rest, dtype=dtype, **unknown)

    return call


softmax = _softmax(F.softmax, ops.softmax, direct.softmax)
log_softmax = _softmax(F.log_softmax, ops.log_softmax, direct.log_softmax)


@or_torch(F.cross_entropy)
def _cross_entropy(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0
):
    old = size_average is not None or reduce is not None
    options = {"ignore_index": ignore_index, "reduction": reduction, "label_smoothing": label_smoothing}
    if type(input) is Logits and not old and weight is None and plain(target) and target.dtype == torch.int64:
        return input.loss(target, **options)
    if (
        old
        or fused_by_compiler(input)
        or not taken(input)
        or not plain(target)
        or target.dtype != torch.int64
        or input.device != target.device
    ):
        return NotImplemented
    if weight is not None and not (taken(input, weight) and not weight.requires_grad):
        return NotImplemented
    return ops.cross_entropy(input, target, weight=weight, **options)


@functools.wraps(F.cross_entropy)
def cross_entropy(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0
):
    usual = weight is None and size_average is None and reduce is None and type(input) is type(target) is torch.Tensor
    if usual and not is_dynamo_compiling() and target.dtype is torch.int64:
        result = direct.cross_entropy(None, input, target, None, ignore_index, reduction, label_smoothing)
        if result is not NotImplemented:
            return result
    return _cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)


@or_torch(F.scaled_dot_product_attention)
def _attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if not taken(query, key, value) or not all(2 <= tensor.dim() for tensor in (query, key, value)):
        return NotImplemented
    if query.shape[-1] > 256 or value.shape[-1] > 256 or (attn_mask is not None and is_causal):
        return NotImplemented
    if attn_mask is not None and not (
        plain(attn_mask) and attn_mask.device == query.device and attn_mask.dtype in (torch.bool, query.dtype)
    ):
        return NotImplemented
    return functional.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


@functools.wraps(F.scaled_dot_product_attention)
def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    if not is_dynamo_compiling() and dropout_p == 0:
        result = direct.attention(query, key, value, attn_mask, is_causal, scale, enable_gqa)
        if result is not NotImplemented:
            return result
    return _attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)


FUNCTIONS = {
    F.scaled_dot_product_attention: attention,
    F.softmax: softmax,
    F.log_softmax: log_softmax,
    torch.softmax: _softmax(torch.softmax, ops.softmax, direct.softmax),
    torch.log_softmax: _softmax(torch.log_softmax, ops.log_softmax, direct.log_softmax),
    torch.Tensor.softmax: _softmax(torch.Tensor.softmax, ops.softmax, direct.softmax),
    torch.Tensor.log_softmax: _softmax(torch.Tensor.log_softmax, ops.log_softmax, direct.log_softmax),
    F.cross_entropy: cross_entropy,
}


class Functions(TorchFunctionMode):
    """While it is entered, the functions above replace torch's, in this thread only."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.Tensor.unflatten:  # Dynamo cannot trace its result when it comes through a mode
            return args[0].unflatten(*args[1:], **(kwargs or {}))
        return FUNCTIONS.get(function, function)(*args, **(kwargs or {}))


def call(function, *args, **kwargs):
    """Calls our replacement for torch's function, or torch's function if there is none."""
    ours = FUNCTIONS.get(function)
    if ours is None and getattr(function, "__name__", None) == DISPATCH:
        return within(function, *args, **kwargs)
    return (ours or function)(*args, **kwargs)


def within(function, *args, **kwargs):
    """Calls any function with torch's functions replaced by ours inside it."""
    with Functions():
        return function(*args, **kwargs)


def _rotated(q, k, cos, sin):
    """Returns what rope gives for tensors of the usual classes and dimensions, with the heads before the rows."""
    if not (type(q) is type(k) is type(cos) is type(sin) is torch.Tensor) or cos.requires_grad or sin.requires_grad:
        return NotImplemented
    if q.dim() != 4 or k.dim() != 4 or cos.dim() not in (2, 3) or cos.size(-1) != q.size(-1):
        return NotImplemented
    if cos.dim() == 3 and q.size(0) != cos.size(0) != 1:
        return NotImplemented
    return direct.rope(None, q, k, cos, sin)


def rotate(original, q, k, cos, sin, *args, **kwargs):
    """Replaces a call of a model's apply_rotary_pos_emb that rotates the halves of the head dimension."""
    if not args and not kwargs and not is_dynamo_compiling():
        result = _rotated(q, k, cos, sin)
        if result is not NotImplemented:
            return result
    axis = args[0] if args else kwargs.get("unsqueeze_dim", 1)
    known = len(args) < 2 and not set(kwargs) - {"unsqueeze_dim"} and axis in (1, 2)
    if not known or not taken(q, k) or not (plain(cos) and plain(sin)) or cos.requires_grad or sin.requires_grad:
        return original(q, k, cos, sin, *args, **kwargs)
    if q.dim() != 4 or k.dim() != 4 or cos.dim() not in (2, 3) or cos.shape[-1] != q.shape[-1]:
        return original(q, k, cos, sin, *args, **kwargs)
    if q.dtype != k.dtype or cos.dtype != q.dtype or cos.device != q.device:
        return original(q, k, cos, sin, *args, **kwargs)
    if cos.dim() == 3 and q.shape[0] != cos.shape[0] != 1:
        return original(q, k, cos, sin, *args, **kwargs)
    if axis == 2:
        q, k = q.transpose(1, 2), k.transpose(1, 2)
    q, k = ops.rope(q, k, cos, sin)
    return (q.transpose(1, 2), k.transpose(1, 2)) if axis == 2 else (q, k)
