"""The classes of patched modules: subclasses of their original classes that add no state and only override forward."""

import copyreg
import functools
import operator
import types

import torch
import torch.nn.functional as F
from torch.nn.modules import module as torch_module

from .. import _products, nn
from ..functional import gated_linear
from . import arithmetic, called, calls, direct, match, recomputed, redirect, source_rewrite
from . import logits as logit_rules

is_dynamo_compiling = torch.compiler.is_dynamo_compiling  # found sooner than an attribute of torch's


class Swapped:
    """Base of all swapped classes: the class name, pickle and copy are those of the original class."""

    tile_original = None
    tile_key = None
    tile_activations = ()  # the activations that tile_activated can apply to its result
    tile_products = "measured"  # patch's option, of the classes that have products

    def _get_name(self):
        return f"tile.{type(self).__name__}"

    def __reduce_ex__(self, protocol):
        made = super().__reduce_ex__(protocol)
        if made[0] not in (copyreg.__newobj__, copyreg.__newobj_ex__):
            return made
        return (_new, (self.tile_original, self.tile_key), *made[2:])


def _new(original, key):
    made = swapped_class(original, key)
    return made.__new__(made)


class Linear(Swapped):
    tile_activations = tuple(match.ACTIVATIONS)

    def forward(self, input):
        if not is_dynamo_compiling():  # here, too: most calls have no activation, and a call less is felt
            result = direct.linear(self, input, "none", self.tile_products)
            if result is not NotImplemented:
                return result
        return self.tile_activated(input, "none")

    def tile_activated(self, input, activation):
        if not is_dynamo_compiling():
            result = direct.linear(self, input, activation, self.tile_products)
            if result is not NotImplemented:
                return result
        weight, bias, depth, columns = self.weight, self.bias, self.in_features, self.out_features
        return calls.product(self.tile_products, input, weight, bias, depth, columns, activation)


class Head(Linear):
    """The last layer of a model with a Loss, which asks it for Logits."""

    def forward(self, input):
        if not torch.compiler.is_compiling() and logit_rules.are_wanted_of(self) and self._leaves_logits(input):
            return logit_rules.later(self._product, input, self.weight, self.bias)
        return super().forward(input)

    def _leaves_logits(self, input):
        depth, classes = self.in_features, self.out_features
        ours = calls.loss_is_ours(self.tile_products, input, self.weight, depth, classes)
        return ours and only_forward(self) and not _has_global_hooks()

    def _product(self, input, weight, bias):
        return calls.product(self.tile_products, input, weight, bias, self.in_features, self.out_features)


class TransposedLinear(Swapped):
    tile_activations = tuple(match.ACTIVATIONS)

    def forward(self, input):
        return self.tile_activated(input, "none")

    def tile_activated(self, input, activation):
        if not is_dynamo_compiling():
            result = direct.transposed_linear(self, input, activation, self.tile_products)
            if result is not NotImplemented:
                return result
        kind = _products.PLAIN if activation == "none" else _products.FUSED
        ours = calls.product_is_ours(self.tile_products, input, self.weight, *self.weight.shape, kind)
        if ours and calls.taken(input, self.weight, self.bias):
            return calls.linear(input, self.weight.t(), self.bias, activation=activation)
        result = super().forward(input)
        return result if activation == "none" else match.ACTIVATIONS[activation](result)


class LayerNorm(Swapped):
    def forward(self, input):
        if isinstance(input, torch.Tensor) and not input.is_contiguous():
            input = (
                input.contiguous()
            )  # torch's result is contiguous, and the next product is faster then; ours has input's order
        if not is_dynamo_compiling():
            result = direct.layer_norm(self, input)
            if result is not NotImplemented:
                return result
        return calls.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Swapped):
    def forward(self, input):
        if not is_dynamo_compiling():
            result = direct.rms_norm(self, input)
            if result is not NotImplemented:
                return result
        return calls.rms_norm(input, self.normalized_shape, self.weight, self.eps)


class GroupNorm(Swapped):
    tile_activations = ("silu",)

    def forward(self, input):
        return self.tile_activated(input, "none")

    def tile_activated(self, input, activation):
        if not is_dynamo_compiling():
            result = direct.group_norm(self, input, activation)
            if result is not NotImplemented:
                return result
        return calls.group_norm(input, self.num_groups, self.weight, self.bias, self.eps, activation=activation)


class SequenceConv2d(Swapped):
    """A convolution whose result becomes a sequence: the channels of a position are adjacent in memory, as those of the sequence
    are to be."""

    def forward(self, input):
        if is_dynamo_compiling():  # a compiler chooses the layout
            return super().forward(input)
        return self._conv_forward(input, self.weight.contiguous(memory_format=torch.channels_last), self.bias)


class Embedding(Swapped):
    def forward(self, input):
        padding = -1 if self.padding_idx is None else self.padding_idx
        if not is_dynamo_compiling() and self.max_norm is None and not self.scale_grad_by_freq and not self.sparse:
            result = direct.embedding(self, input, padding) if padding >= -1 else NotImplemented
            if result is not NotImplemented:
                return result
        return calls.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )


class Dropout(Swapped):
    def forward(self, input):
        if (not self.training or self.p == 0) and type(input) in calls.PLAIN and 0 <= self.p <= 1:
            return input
        return calls.dropout(input, self.p, self.training, self.inplace)


class Softmax(Swapped):
    def forward(self, input):
        if not is_dynamo_compiling():
            result = direct.softmax_module(self, input)
            if result is not NotImplemented:
                return result
        return calls.softmax(input, self.dim) if self.dim is not None else super().forward(input)


class LogSoftmax(Swapped):
    def forward(self, input):
        if not is_dynamo_compiling():
            result = direct.log_softmax_module(self, input)
            if result is not NotImplemented:
                return result
        return calls.log_softmax(input, self.dim) if self.dim is not None else super().forward(input)


class CrossEntropyLoss(Swapped):
    def forward(self, input, target):
        return calls.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class OtherRMSNorm(Swapped):
    """An RMSNorm defined by the model; its class has tile_eps, tile_one and tile_wide, as match.rms_norm found them."""

    def forward(self, x):
        if not is_dynamo_compiling() and not self.tile_one and type(x) in calls.PLAIN and x.dim():
            if self.tile_wide or x.dtype is not torch.float64:
                result = direct.other_rms_norm(self, x, (x.size(-1),), getattr(self, self.tile_eps))
                if result is not NotImplemented:
                    return result
        weight, width = self.weight, x.shape[-1]
        if not calls.taken(x, weight) or weight.dtype != x.dtype or weight.shape[0] != width or calls.fused_by_compiler(x):
            return super().forward(x)
        if x.dtype == torch.float64 and not self.tile_wide:  # torch sums in float32 there, ours would sum in float64
            return super().forward(x)
        if self.tile_one:
            weight = 1 + (weight if x.dtype == torch.float64 else weight.float())
        return torch.ops.tile.rms_norm(x, [width], weight, getattr(self, self.tile_eps))


def _bare(linear):
    """Returns True if a call only computes the product: no hooks, no overridden forward."""
    return (
        (type(linear) is torch.nn.Linear or getattr(type(linear), "tile_original", None) is torch.nn.Linear)
        and not _has_hooks(linear)
        and "forward" not in linear.__dict__
    )


def _has_hooks(module):
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks)


def _has_global_hooks():
    return not torch.compiler.is_compiling() and torch_module._has_any_global_hook()


class GatedMLP(Swapped):
    """A gated MLP with the parts of match.GATED. Its first half is one launch if it has no biases and the products are ours."""

    def forward(self, x):
        *first, down = (getattr(self, name) for name in self.tile_parts)
        same = _is_as_found(getattr(self, self.tile_act), self.tile_act_kind)
        if _has_global_hooks() or not same or not all(_bare(each) and each.bias is None for each in first):
            return super().forward(x)
        if len(first) == 2 and not is_dynamo_compiling():
            halves = self._halves_of_torch(x, *first)
            if halves is not None:
                return self._gated(down, *halves)
        gate, up = (each.weight for each in first) if len(first) == 2 else first[0].weight.chunk(2)
        if not calls.taken(x, gate, up) or gate.shape != up.shape:
            return super().forward(x)
        if calls.product_is_ours(self.tile_products, x, gate, *reversed(gate.shape), _products.PAIR):
            return down(gated_linear(x, gate, up, self.tile_activation))
        if len(first) == 2:
            gate, up = F.linear(x, gate), F.linear(x, up)
        else:
            gate, up = F.linear(x, first[0].weight).chunk(2, -1)
        return self._gated(down, gate, up)

    def _gated(self, down, gate, up):
        return recomputed.then(down, functools.partial(calls.gated, activation=self.tile_activation), gate, up)

    def _halves_of_torch(self, x, gate, up):
        """Returns gate(x) and up(x) if all is plain and their products are torch's, otherwise None."""
        if direct.is_product_ours(gate, x, _products.PAIR, self.tile_products) is not False:
            return None
        halves = direct.linear(gate, x, "none", "torch"), direct.linear(up, x, "none", "torch")
        return None if any(each is NotImplemented for each in halves) else halves


class GatedExperts(Swapped):
    """The experts of a mixture: the halves of a projection are gated in one launch."""

    def _apply_gate(self, gate_up_out):
        same = isinstance(gate_up_out, torch.Tensor) and gate_up_out.dim() and gate_up_out.size(-1) % 2 == 0
        if not same or not _is_as_found(getattr(self, self.tile_act), self.tile_act_kind) or _has_global_hooks():
            return super()._apply_gate(gate_up_out)
        gate, up = gate_up_out.chunk(2, -1)
        return calls.gated(gate, up, self.tile_activation)


class GatedProjection(Swapped):
    """One half of a projection, activated, times the other half, in one launch: diffusers' GEGLU and SwiGLU."""

    def forward(self, *args, **kwargs):
        act = getattr(self, self.tile_act) if self.tile_act else None
        same = act is None or (_is_as_found(act, self.tile_act_kind) and not _has_global_hooks())
        if len(args) != 1 or kwargs or not same:
            return super().forward(*args, **kwargs)
        halves = self.proj(args[0]).chunk(2, -1)
        return calls.gated(halves[self.tile_gate], halves[1 - self.tile_gate], self.tile_activation)


class ActivatedProjection(Swapped):
    """An activation of a projection, computed by the product: diffusers' GELU."""

    def forward(self, *args, **kwargs):
        if len(args) != 1 or kwargs or not _computes(self.proj, self.tile_activation):
            return super().forward(*args, **kwargs)
        return self.proj.tile_activated(args[0], self.tile_activation)


class Activation(Swapped):
    """An activation defined by the model; its class has tile_activation, as match.activation_module found it."""


_FUNCTIONS = ((F.silu, "silu"), (F.gelu, "gelu"), (F.relu, "relu"), (torch.relu, "relu"))
_GELU = {"none": "gelu", "tanh": "gelu_tanh"}


def activation_of(following):
    """Returns the name of the activation that a module or a function of torch computes, or None."""
    kind = type(following)
    if kind is torch.nn.GELU:
        return _GELU.get(following.approximate)
    if kind is torch.nn.SiLU:
        return "silu"
    if kind is torch.nn.ReLU:
        return "relu"
    if issubclass(kind, Activation):
        return kind.tile_activation
    for function, name in _FUNCTIONS:
        if following is function:
            return name
    return None


def only_forward(module):
    """Returns True if a call of this module is a call of its class's forward and nothing else."""
    return (
        type(module).__call__ is torch.nn.Module.__call__
        and "forward" not in module.__dict__
        and module._compiled_call_impl is None
        and not _has_hooks(module)
    )


def _computes(module, activation):
    """Returns True if a swapped module can apply this activation to its result, which nothing else reads."""
    taken = getattr(type(module), "tile_activations", ())
    return activation in taken and only_forward(module) and not _has_global_hooks()


def activation_behind(module, following):
    """Returns the activation of `following` if the swapped module can apply it to its result, otherwise None."""
    activation = activation_of(following) if isinstance(module, Swapped) else None
    if not _computes(module, activation):
        return None
    return activation if not isinstance(following, torch.nn.Module) or only_forward(following) else None


def _pair(module, following, input):
    """Computes following(module(input)), in one call if the result is the same."""
    activation = activation_behind(module, following)
    return following(module(input)) if activation is None else module.tile_activated(input, activation)


class Pairs(Swapped):
    """A module's own forward, in which tile_pair replaces a module's call and the activation after it, and tile_chain chains of
    arithmetic."""


class Sequential(Swapped):
    """Runs its modules in order. A Linear or GroupNorm and the activation after it are one call."""

    def forward(self, input):
        modules = list(self)
        done = 0
        while done < len(modules):
            following = modules[done + 1 : done + 2]
            activation = activation_behind(modules[done], following[0]) if following else None
            if activation is None:
                input = modules[done](input)
                done += 1
            else:
                input = modules[done].tile_activated(input, activation)
                done += 2
        return input


def _kind_of(act):
    if isinstance(act, Activation):
        return act.tile_original
    return type(act) if isinstance(act, torch.nn.Module) else act


def _is_as_found(act, kind):
    """Returns True if an activation is still of its kind and a call of it does nothing else."""
    return _kind_of(act) == kind and (not isinstance(act, torch.nn.Module) or only_forward(act))


class MultiheadAttention(Swapped):
    """Runs projections and attention if no weights are requested, as tile_ops.nn.MultiheadAttention does."""

    _project, _more = nn.MultiheadAttention._project, nn.MultiheadAttention._more

    def _linear(self, input, weight, bias):
        return calls.product(self.tile_products, input, weight, bias, *reversed(weight.shape))

    def forward(
        self,
        query,
        key,
        value,
        key_padding_mask=None,
        need_weights=True,
        attn_mask=None,
        average_attn_weights=True,
        is_causal=False,
    ):
        masks = [mask for mask in (key_padding_mask, attn_mask) if mask is not None]
        ours = not need_weights and calls.taken(query, key, value, self.out_proj.weight)
        ours = ours and all(calls.plain(mask) and mask.dtype in (torch.bool, query.dtype) for mask in masks)
        original = functools.partial(
            super().forward, query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal
        )
        if not ours or self.head_dim > 256 or (is_causal and attn_mask is None) or not self._rest_is_plain():
            return original()
        return nn.MultiheadAttention.forward(
            self, query, key, value, key_padding_mask, False, attn_mask, average_attn_weights, is_causal
        )

    def _rest_is_plain(self):
        """Returns True if out_proj, whose weights are read without a call of it, is as torch made it."""
        out = self.out_proj
        return isinstance(out, torch.nn.modules.linear.NonDynamicallyQuantizableLinear) and not _has_hooks(out)


class Calls(Swapped):
    """A module's own forward, in which our functions replace torch's, and apply_rotary_pos_emb if it is known."""


class Redirected(Calls):
    """A forward with available source: its calls of torch's functions, of attention functions that it looks up and of its
    processor come here."""

    tile_call, tile_rotate = staticmethod(calls.call), staticmethod(calls.rotate)

    tile_interface, tile_through_processor = staticmethod(called.interface), staticmethod(called.processor)


class Entered(Calls):
    """Any other forward: a mode checks each call for a function to replace."""

    def forward(self, *args, **kwargs):
        with calls.Functions():
            return self.tile_forward(*args, **kwargs)


class Loss(Swapped):
    """A model of transformers whose loss function is called with torch's functions swapped.

    Its class has tile_heads, the names of layers that may leave their logits to the loss.
    """

    def _tile_heads(self):
        """Returns these layers, as far as they are still there."""
        found = [operator.attrgetter(name)(self) for name in self.tile_heads]
        return tuple(each for each in found if isinstance(each, Head))


def _forward_with_loss(original):
    """Returns a forward that lets the layers before the loss leave their logits to it, where there will be one."""

    @functools.wraps(original.forward)
    def forward(self, *args, **kwargs):
        is_asked = kwargs.get("labels") is not None and torch.is_grad_enabled() and not torch.compiler.is_compiling()
        if not is_asked or not calls.records_alone():
            return original.forward(self, *args, **kwargs)
        with logit_rules.wanted_of(self._tile_heads()):
            return original.forward(self, *args, **kwargs)

    return forward


def _loss_of(original):
    """Returns a property loss_function whose function runs with torch's functions swapped."""
    found = original.loss_function

    def loss_function(self):
        return functools.partial(calls.within, found.fget(self))

    return property(loss_function, found.fset, found.fdel, found.__doc__)


def _with_rotation(forward):
    """Returns the same function with another apply_rotary_pos_emb among its globals; other functions are not affected."""
    names = forward.__globals__
    ours = functools.partial(calls.rotate, names["apply_rotary_pos_emb"])
    made = types.FunctionType(
        forward.__code__, {**names, "apply_rotary_pos_emb": ours}, forward.__name__, forward.__defaults__, forward.__closure__
    )
    made.__kwdefaults__ = forward.__kwdefaults__
    return made


def _calls_of(original, options, changes):
    """Returns (base class, attributes) for a module that calls torch's functions: by rewriting its source, else by a mode."""
    forward, rotation = original.forward, options["rotation"]
    names = match.NAMES | ({"apply_rotary_pos_emb"} if rotation else set())
    if options["processor"]:
        names |= {redirect.PROCESSOR}
    if not options["processor"] or called.calls_only_directly(forward, original):
        redirected = source_rewrite.changed(forward, [*changes, redirect.redirect(names)])
        if redirected:
            return Redirected, {"forward": redirected}
    forward = source_rewrite.changed(forward, changes) or forward
    return Entered, {"tile_forward": _with_rotation(forward) if rotation else forward}


@functools.cache
def swapped_class(original, key):
    """Returns the subclass of `original` for key = (name of a class above, its options as pairs)."""
    name, options = key
    space = {
        "__module__": original.__module__,
        "__qualname__": original.__qualname__,
        "__doc__": original.__doc__,
        "tile_original": original,
        "tile_key": key,
    }
    for option, value in options:  # a function would become a method
        space[f"tile_{option}"] = staticmethod(value) if isinstance(value, types.FunctionType) else value
    base, known = globals()[name], dict(options)
    changes = [source_rewrite.pairs(lambda *names: names in known["pairs"])] if "pairs" in known else []
    if changes:
        space["tile_pair"] = staticmethod(_pair)
    if "chains" in known:
        space |= arithmetic.methods(original.forward)
        changes.append(arithmetic.change(known["chains"]))
    if name == "Pairs":
        space["forward"] = source_rewrite.changed(original.forward, changes) or original.forward
    if name == "Calls":
        base, more = _calls_of(original, known, changes)
        space |= more
    if name == "Loss":
        space["loss_function"] = _loss_of(original)
        if known["heads"]:
            space["forward"] = _forward_with_loss(original)
    return type(original)(original.__name__, (base, original), space)


def uses_rotation(module):
    """Returns True if this module's forward calls an apply_rotary_pos_emb of its file that rotates halves."""
    forward = type(module).forward
    if "apply_rotary_pos_emb" not in getattr(getattr(forward, "__code__", None), "co_names", ()):
        return False
    function = forward.__globals__.get("apply_rotary_pos_emb")
    return function is not None and match.rotates_halves(function)
