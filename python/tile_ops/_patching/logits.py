"""Logits that are computed when something reads them: the loss of the linear layer before them reads none.

A model of transformers computes logits and gives them to its loss function. Its layer returns Logits instead, from which
cross_entropy takes the layer's operands, so that neither the logits nor their gradient are ever whole in memory.
"""

import contextlib
import threading
import weakref

import torch
from torch.utils import _pytree as pytree

aten = torch.ops.aten
_CHANGED = (
    "tile_ops.patch: these logits were not computed with the loss, and the layer's {} has changed since; read logits "
    "before optimizer.step(), or patch(model, leave='cross_entropy')"
)
_OF_ROWS = (torch.contiguous_format, torch.preserve_format, None)


class _Source:
    """The linear layer whose result Logits are. operands: input, weight and bias or None; product(*operands): the result."""

    def __init__(self, product, operands):
        self.product, self.operands = product, operands
        self.versions = [None if each is None else each._version for each in operands]
        self.copies = weakref.WeakSet()  # of Logits, with no values yet
        self.is_written = False  # something wrote to the logits, which are no longer the layer's result

    def check(self):
        """Raises RuntimeError if the layer would have another result now."""
        for name, each, version in zip(("input", "weight", "bias"), self.operands, self.versions):
            if each is not None and each._version != version:
                raise RuntimeError(_CHANGED.format(name))

    def compute(self):
        self.check()
        given = [None if each is None else each.detach() for each in self.operands]
        with torch.no_grad(), torch.autocast(given[0].device.type, enabled=False):
            return self.product(*given)


class Logits(torch.Tensor):
    """A tensor [..., classes] that is computed at its first use. Views of its rows, casts and a loss are no use."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, source, make, steps, like):
        """make(): the value. steps: they make the layer's input that of these rows. like: has the sizes, strides and dtype."""
        device = source.operands[0].device
        made = torch.Tensor._make_wrapper_subclass(cls, like.shape, strides=like.stride(), dtype=like.dtype, device=device)
        made.source, made.make, made.steps, made.made = source, make, steps, None
        return made

    def value(self):
        """Returns a plain tensor without a gradient, of which all uses are uses."""
        if self.made is None:
            self.made, self.make = self.make(), None
        return self.made

    def loss(self, target, **options):
        """Returns the cross entropy by our operator, or NotImplemented if these are not the layer's rows."""
        if self.source.is_written or self.dim() != 2:
            return NotImplemented
        self.source.check()
        rows, weight, bias = self.source.operands
        for step in self.steps:
            rows = step(rows)
        return torch.ops.tile.linear_cross_entropy(rows, weight, target, bias=bias, **options).to(self.dtype)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        later = _later(function, args, kwargs)
        if later is not None:
            return later
        written = _written(function, args, kwargs)
        for each in written:
            each.source.is_written = True
            for copy in list(each.source.copies):
                copy.value()
        args, kwargs = pytree.tree_map_only(Logits, Logits.value, (args, kwargs))
        result = function(*args, **kwargs)
        return next((each for each in written if result is each.made), result)

    def __repr__(self, **kwargs):
        return self.value().__repr__(**kwargs)

    def __reduce_ex__(self, protocol):
        return self.value().__reduce_ex__(protocol)

    def tolist(self):
        return self.value().tolist()

    def numpy(self, *, force=False):
        return self.value().numpy(force=force) if force or not self.requires_grad else super().numpy()


def _written(function, args, kwargs):
    """Returns the Logits that an operator writes to."""
    if not function._schema.is_mutable:
        return []
    given = function._schema.arguments
    values = {**{each.name: value for each, value in zip(given, args)}, **kwargs}
    written = [values.get(each.name) for each in given if each.alias_info is not None and each.alias_info.is_write]
    return [each for each in pytree.tree_leaves(written) if isinstance(each, Logits)]


def _later(function, args, kwargs):
    """Returns the Logits that a call makes of Logits without values, or None if it needs them."""
    logits = args[0] if args else None
    if not isinstance(logits, Logits) or logits.made is not None:
        return None
    step = _step(function, logits, args[1:], kwargs)
    if step is None:
        return None
    like = torch.empty_strided(logits.shape, logits.stride(), dtype=logits.dtype, device="meta")
    like = function(like, *args[1:], **kwargs)
    made = Logits(logits.source, lambda: function(logits.value(), *args[1:], **kwargs), (*logits.steps, step), like)
    if not function.is_view:
        logits.source.copies.add(made)
    return made


def _same(rows):
    return rows


def _step(function, logits, rest, kwargs):
    """Returns a function that makes the layer's input that of a call's rows, or None if classes are not left as they are."""
    dtype = kwargs.get("dtype", logits.dtype)
    if function is aten._to_copy.default and set(kwargs) <= {"dtype"}:
        wider = dtype.is_floating_point and dtype.itemsize >= logits.dtype.itemsize
        return _same if wider and dtype is not torch.float64 else None
    if function is aten.clone.default and kwargs.get("memory_format") in _OF_ROWS:
        return _same
    if function in (aten.view.default, aten._unsafe_view.default) and len(rest[0]) and rest[0][-1] == logits.shape[-1]:
        return lambda rows: rows.reshape(*rest[0][:-1], rows.shape[-1])
    if function is aten.slice.Tensor and not kwargs and (rest[0] if rest else 0) % logits.dim() != logits.dim() - 1:
        return lambda rows: aten.slice.Tensor(rows, *rest)
    return None


class _Product(torch.autograd.Function):
    """The layer's result as Logits, whose gradient is that of the layer."""

    @staticmethod
    def forward(ctx, product, input, weight, bias):
        ctx.save_for_backward(input, weight)
        source = _Source(product, (input, weight, bias))
        return Logits(source, source.compute, (), input.new_empty((*input.shape[:-1], weight.shape[0]), device="meta"))

    @staticmethod
    def backward(ctx, grad):
        input, weight = ctx.saved_tensors
        of_input, of_weight, of_bias = ctx.needs_input_grad[1:]
        rows = grad.reshape(-1, grad.shape[-1])
        return (
            None,
            grad @ weight if of_input else None,
            rows.t() @ input.reshape(-1, input.shape[-1]) if of_weight else None,
            rows.sum(0) if of_bias else None,
        )


def later(product, input, weight, bias):
    """Returns product(input, weight, bias), a linear layer's result, as Logits."""
    if torch.is_autocast_enabled(input.device.type):
        dtype = torch.get_autocast_dtype(input.device.type)
        input, weight, bias = (None if each is None else each.to(dtype) for each in (input, weight, bias))
    return _Product.apply(product, input, weight, bias)


_here = threading.local()


@contextlib.contextmanager
def wanted_of(layers):
    """While it is entered, these layers are asked for Logits, in this thread."""
    before, _here.layers = getattr(_here, "layers", ()), layers
    try:
        yield
    finally:
        _here.layers = before


def are_wanted_of(layer):
    return any(each is layer for each in getattr(_here, "layers", ()))
