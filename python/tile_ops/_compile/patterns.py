"""Attention in torch's forms becomes ours, with its gradient: a pass over the joint graph of forward and backward.

Both are replaced or neither is, because the backward reads numbers that only its own forward saves.
"""

import dataclasses
import itertools
import operator

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from .._inductor.graph import erase_unused, fake_result, is_call, keep_strides, same_numbers, value_of
from . import choice, index_masks, ladder, report

aten = torch.ops.aten
attention = torch.ops.tile.attention.default
attention_saving = torch.ops.tile._attention_saving.default
attention_backward = torch.ops.tile.attention_backward.default

# Torch's operators, and whether a causal query may see another number of keys: some then count from the last key.
_FORMS = {
    "_scaled_dot_product_flash_attention_for_cpu": True,
    "_scaled_dot_product_flash_attention": False,
    "_scaled_dot_product_efficient_attention": True,
    "_scaled_dot_product_cudnn_attention": True,
    "_scaled_dot_product_attention_math": True,
}
_OTHER_NAMES = {"attn_mask": "attn_bias", "grad_out_": "grad_out", "log_sumexp": "logsumexp"}
_SHARED = ("query", "key", "value", "attn_bias", "dropout_p", "is_causal", "scale")
MOST_DEPTH = 256
_ALIASES = (aten.alias.default, aten.detach.default)
_OUT, _LSE = 0, 1
_GRAD_BIAS = 3


def _targets():
    found = {}
    for name in _FORMS:
        if hasattr(aten, name):
            backward = getattr(aten, name + "_backward", None)
            found[getattr(aten, name).default] = (name, backward and backward.default)
    return found


FORWARD = _targets()


def arguments(node):
    """Returns the arguments of a call by their names, which are the same for all forms."""
    given = node.target._schema.arguments
    values = {**{each.name: value for each, value in zip(given, node.args)}, **node.kwargs}
    return {_OTHER_NAMES.get(each.name, each.name): values.get(each.name, each.default_value) for each in given}


def behind_aliases(node):
    while isinstance(node, torch.fx.Node) and node.op == "call_function" and node.target in _ALIASES:
        node = node.args[0]
    return node


def _readers(node):
    """Returns the nodes that read a value or an alias of it."""
    found = []
    for user in node.users:
        if user.op == "call_function" and user.target in _ALIASES:
            found += _readers(user)
        else:
            found.append(user)
    return found


def _number(node):
    """Returns the number that a node without dimensions holds, or None."""
    value = value_of(node)
    if value is None or value.dim() != 0:
        return None
    if is_call(node, aten.scalar_tensor.default):
        return node.args[0]
    return node.args[1] if is_call(node, aten.full.default) else None


def _without_padding(node):
    """Returns what is behind a slice that undoes a padding, or None. Torch pads rows of a mask to aligned ones."""
    if not is_call(node, aten.slice.Tensor) or not is_call(node.args[0], aten.constant_pad_nd.default):
        return None
    source, pad = node.args[0].args[:2]
    _, dim, start, _, step = (*node.args, *(None, 0, 0, None, 1)[len(node.args) :])
    rank = value_of(node).dim()
    behind = len(pad) == 2 and pad[0] == 0 and dim % rank == rank - 1
    plain = start in (0, None) and step == 1 and value_of(source) is not None
    return source if behind and plain and same_numbers(value_of(source).shape, value_of(node).shape) else None


# Torch may have made numbers of a bool mask, which it adds to the scores. A key is hidden by -inf, and for the cuDNN operator by
# -65536.
_INFINITY = -float("inf")
_HIDING = {"_scaled_dot_product_cudnn_attention": (_INFINITY, -65536.0)}


def bool_mask(bias, hiding):
    """Returns the bool mask from which a bias was made, or None. The bias is 0 where the mask is True, else a number of `hiding`."""
    while True:
        bias = behind_aliases(bias)
        if is_call(bias, aten.expand.default):
            bias = bias.args[0]
        elif (source := _without_padding(bias)) is not None:
            bias = source
        else:
            break
    if not is_call(bias, aten.where.self) or len(bias.args) != 3:
        return None
    mask, shown, other = bias.args
    is_mask = value_of(mask) is not None and value_of(mask).dtype == torch.bool
    same = is_mask and same_numbers(value_of(mask).shape, value_of(bias).shape)
    return mask if same and _number(shown) == 0 and _number(other) in hiding else None


def before_repetition(node):
    """Returns the heads of which each became several neighbours, as in repeat_interleave, or None."""
    node = behind_aliases(node)
    wide = node.args[0] if is_call(node, aten.view.default) or is_call(node, aten._unsafe_view.default) else None
    wide = wide.args[0] if is_call(wide, aten.clone.default) else wide
    narrow = wide.args[0] if is_call(wide, aten.expand.default) else None
    if not is_call(narrow, aten.unsqueeze.default) or narrow.args[1] % narrow.meta["val"].dim() != 2:
        return None
    source = narrow.args[0]
    if value_of(source).dim() != 4:
        return None
    batch, heads, *rest = value_of(source).shape
    shape = value_of(wide).shape
    same = len(shape) == 5 and same_numbers((batch, heads, *rest), (*shape[:2], *shape[3:]))
    return source if same and same_numbers((batch, heads * shape[2], *rest), value_of(node).shape) else None


def _sums_of_repetition(parts, heads):
    """Returns the nodes that sum a gradient over the neighbours that were one head; None if something else reads it."""
    ends = []
    for part in parts:
        for view in part.users:
            for total in view.users:
                ends += total.users
                shape = value_of(view).shape if is_call(view, aten.view.default) else ()
                sums = is_call(total, aten.sum.dim_IntList) and total.args[1:] in (([2], True), ([2],))
                if len(shape) != 5 or not sums or not statically_known_true(shape[1] == heads):
                    return None
            if not view.users:
                return None
    return ends if all(is_call(end, aten.squeeze.dim) and end.args[1] == 2 for end in ends) else None


def _same(a, b):
    return behind_aliases(a) is behind_aliases(b) if isinstance(a, torch.fx.Node) else a == b


def is_dense(value, order, strides):
    """Returns True if strides are those of a tensor of the shape of `value` whose axes follow in this order in memory, without gaps."""
    step = 1
    for axis in reversed(order):
        if not statically_known_true(value.shape[axis] == 1) and not statically_known_true(strides[axis] == step):
            return False
        step = step * value.shape[axis]
    return True


def order_of(value, like):
    """Returns the order of axes in which a copy of `value` has the strides of `like`; () if `value` has them; or None."""
    pairs = zip(value.shape, value.stride(), like.stride())
    if all(statically_known_true(size == 1) or statically_known_true(own == other) for size, own, other in pairs):
        return ()
    orders = itertools.permutations(range(value.dim()))
    return next((order for order in orders if is_dense(value, order, like.stride())), None)


@dataclasses.dataclass
class Result:
    """A result of torch's operator, the value of ours in its place, and the order of axes of a copy of it."""

    index: int
    nodes: list
    value: torch.Tensor
    order: tuple


def _parts(call, index):
    return [user for user in call.users if user.args[1] == index and user.users]


def _results(values, ends):
    """Returns the results that are read, or None if one cannot take the place of torch's. ends: {index: nodes}."""
    found = []
    for index, nodes in ends.items():
        if nodes is None:
            return None
        if not nodes:
            continue
        old, value = value_of(nodes[0]), values[index]
        if old is None or not isinstance(value, torch.Tensor) or value.dtype != old.dtype:
            return None
        order = order_of(value, old) if same_numbers(value.shape, old.shape) else None
        if order is None:
            return None
        found.append(Result(index, nodes, value, order))
    return found


def _new(graph, target, args, kwargs, like, value):
    node = graph.call_function(target, args, kwargs)
    node.meta.update({key: each for key, each in like.meta.items() if key not in ("tensor_meta", "eager_input_vals")})
    node.meta["val"] = value
    return node


def _part(graph, call, index, like):
    return _new(graph, operator.getitem, (call, index), {}, like, call.meta["val"][index])


def _put(graph, call, results):
    """Puts results of our call in the place of torch's, with torch's strides."""
    for result in results:
        like = result.nodes[0]
        made = _part(graph, call, result.index, like)
        if result.order:
            back = [result.order.index(axis) for axis in range(len(result.order))]
            for target, args, kwargs in (
                (aten.permute.default, (list(result.order),), {}),
                (aten.clone.default, (), {"memory_format": torch.contiguous_format}),
                (aten.permute.default, (back,), {}),
            ):
                args = (made, *args)
                made = _new(graph, target, args, kwargs, like, fake_result(target, args, kwargs))
        for each in result.nodes:
            each.replace_all_uses_with(made)
            erase_unused(each)


def _gradients(node, backward, given):
    """Returns the calls of the gradient, which alone may read more than the first result; or None."""
    calls = []
    for user in node.users:
        if user.target is not operator.getitem:
            return None
        for reader in _readers(user):
            if backward is not None and is_call(reader, backward):
                calls.append(reader)
            elif user.args[1] != _OUT:
                return None
    calls = list(dict.fromkeys(calls))
    for call in calls:
        taken = arguments(call)
        if any(name in taken and not _same(taken[name], given[name]) for name in _SHARED):
            return None
        for name, index in (("out", _OUT), ("logsumexp", _LSE)):
            part = behind_aliases(taken[name])
            if not isinstance(part, torch.fx.Node) or part.target is not operator.getitem or part.args != (node, index):
                return None
        if any(user.target is not operator.getitem for user in call.users):
            return None
    return calls


def _values(tree):
    return torch.fx.node.map_arg(tree, lambda node: node.meta["val"])


def _lengths_agree(query, key):
    return statically_known_true(query.shape[2] == key.shape[2])


@dataclasses.dataclass
class Replacement:
    """Our calls for one call of torch's attention, `node`, and for its gradients."""

    node: torch.fx.Node
    operands: list
    options: dict
    values: tuple  # of our call
    results: list
    gradients: list  # of (torch's call, the incoming gradient, options, the values of our call, the results)


@dataclasses.dataclass
class Unmasked:
    """Torch's call and its gradients, which stay but need no mask."""

    calls: list
    is_causal: bool
    why: str


def _why_not(name, given, call, value, compile):
    """Returns why a call of torch's attention stays, or None."""
    if not all(statically_known_true(each.shape[3] <= MOST_DEPTH) for each in (call.query, value)):
        return f"ours takes heads of at most {MOST_DEPTH}"
    if given["dropout_p"] != 0 or given.get("dropout_mask") is not None:
        return "its random numbers are torch's"
    if given["is_causal"] and not _FORMS[name] and not _lengths_agree(call.query, call.key):
        return "the causal mask may begin at another corner"
    return choice.keeps_attention(compile, call)


def _needs_no_mask(name, options, query, key, compile):
    """Returns True if torch's own call can do what options say."""
    known = options["window"] == [-1, -1] and options["attn_bias"] is None
    corner = _lengths_agree(query, key) or (_FORMS[name] and options["causal_align"] == "top_left")
    return known and (corner or not options["is_causal"]) and compile.options.get("attention") != "torch"


def plan(node, compile, masks):
    """Returns the Replacement of a call of torch's attention, or why it stays, or Unmasked; it only adds nodes of masks."""
    name, backward = FORWARD[node.target]
    given = arguments(node)
    operands = [given[each] for each in ("query", "key", "value")]
    query, key, value = map(value_of, operands)
    if any(each is None or each.dim() != 4 for each in (query, key, value)):
        return "ours takes four dimensions"
    calls = _gradients(node, backward, given)
    if calls is None:
        return "others than its gradient read what it saves"
    wants_bias = any(_parts(call, _GRAD_BIAS) for call in calls)
    bias = given["attn_bias"] = given.get("attn_bias")
    mask = None if wants_bias else bool_mask(bias, _HIDING.get(name, (_INFINITY,)))
    options = {
        "attn_bias": bias if mask is None else mask,
        "is_causal": given["is_causal"],
        "causal_align": "top_left",
        "scale": given["scale"],
        "window": [-1, -1],
    }
    dtype = None if bias is None else value_of(options["attn_bias"]).dtype  # torch's call reads it also if options say it
    seen = None
    if bias is not None and not wants_bias and not given["is_causal"]:
        seen = masks.of(node, bias, mask, query, key)
    if seen is not None:
        options |= {**seen[0], "attn_bias": seen[1]}
    call = choice.Attention(name, query, key, dtype, options["is_causal"], bool(calls))
    why_not = _why_not(name, given, call, value, compile)
    if why_not is None:
        narrow = [before_repetition(each) if choice.reads_heads_once(call) else None for each in operands[1:]]
        if None not in narrow and statically_known_true(value_of(narrow[0]).shape[1] == value_of(narrow[1]).shape[1]):
            found = _fitting(node, calls, [operands[0], *narrow], options, wants_bias, value_of(narrow[0]).shape[1])
            if isinstance(found, Replacement):
                return found
        found = _fitting(node, calls, operands, options, wants_bias)
        if isinstance(found, Replacement):
            return found
        why_not = found
    if seen is not None and _needs_no_mask(name, options, query, key, compile):
        return Unmasked([node, *calls], options["is_causal"], why_not)
    return why_not


def _fitting(node, calls, operands, options, wants_bias, heads=None):
    """Returns the Replacement, or why its values do not fit. heads: of key and value if torch's were repetitions of them."""
    try:
        values = fake_result(attention_saving if calls else attention, tuple(operands), options)
        results = _results(values, {_OUT: _parts(node, _OUT)})
        rest = {"softcap": 0.0, "alibi_slopes": None, "sinks": None, "dropout_p": 0.0, "seed": None}
        gradients = []
        for call in calls:
            ends = {index: _parts(call, index) for index in range(4)}
            wanted = [bool(ends[index]) for index in range(3)]
            kwargs = {**options, **rest, "output_mask": [*wanted, wants_bias, False]}
            if heads is not None:
                ends.update({index: _sums_of_repetition(ends[index], heads) for index in (1, 2)})
            incoming = arguments(call)["grad_out"]
            with value_of(incoming).fake_mode:
                made = attention_backward(
                    value_of(incoming), None, *_values(operands), values[0], *values[2:], **_values(kwargs)
                )
            gradients.append((call, incoming, kwargs, made, _results(made, ends)))
    except (ValueError, TypeError) as error:
        return str(error)
    if results is None or any(each[-1] is None for each in gradients):
        return "the results have other strides"
    return Replacement(node, operands, options, values, results, gradients)


def _replace(graph, found):
    node, operands = found.node, found.operands
    with graph.inserting_before(node):
        target = attention_saving if found.gradients else attention
        ours = _new(graph, target, tuple(operands), found.options, node, found.values)
        keep_strides(ours)
        saved = [_part(graph, ours, index, node) for index in (0, 2, 3, 4)] if found.gradients else []
        _put(graph, ours, found.results)
    for call, incoming, kwargs, made, grads in found.gradients:
        with graph.inserting_before(call):
            args = (incoming, None, *operands, *saved)
            new = _new(graph, attention_backward, args, kwargs, call, made)
            keep_strides(new)
            _put(graph, new, grads)
    for call, *_ in found.gradients:
        _erase(call)
    _erase(node)


def _erase(call):
    """Removes a call whose results nothing reads any more, with what only it read."""
    if call._erased:
        return
    inputs = call.all_input_nodes
    for part in (*call.users, call):  # the call counts as random, which erase_unused keeps
        if not part.users:
            part.graph.erase_node(part)
    for each in inputs:
        erase_unused(each)


def _leave_out_mask(call, is_causal):
    new = {"attn_bias": None, "is_causal": is_causal}
    args, kwargs = list(call.args), dict(call.kwargs)
    for i, each in enumerate(call.target._schema.arguments):
        name = _OTHER_NAMES.get(each.name, each.name)
        if name in new and i < len(args):
            args[i] = new[name]
        elif name in new:
            kwargs[each.name] = new[name]
    call.args, call.kwargs = tuple(args), kwargs
    if "eager_input_vals" in call.meta:
        keep_strides(call)


@torch.no_grad()
def replace_all(graph, compile):
    """Replaces each attention that choice.py wants, and notes why the others stay; they lose masks that is_causal says."""
    masks = index_masks.Masks(graph, _new)
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in FORWARD:
            continue
        try:
            found = plan(node, compile, masks)
        except Exception as error:  # this pass runs before the graphs that ladder.py guards
            place = report.place_of(node.meta.get("stack_trace"))
            found = ladder.reason_to_stay(error, place, compile.options)
        if isinstance(found, Replacement):
            _replace(graph, found)
            compile.kernels.append("attention")
            continue
        if isinstance(found, Unmasked):
            inputs = node.all_input_nodes
            for call in found.calls:
                _leave_out_mask(call, found.is_causal)
            for each in inputs:
                erase_unused(each)
            found = found.why
        compile.reasons.setdefault(str(node.target), found)
    masks.erase_unused()
