"""The cross entropy of a linear layer becomes one operator, which keeps no logits, if nothing else reads them.

Between the two may stand casts, views that leave the classes last, slices of the rows, and a transposition before the loss.
"""

import dataclasses
import inspect
import operator

import torch
import torch.nn.functional as F
from torch.fx.experimental.symbolic_shapes import statically_known_true as known

from .._inductor.graph import same_numbers
from . import choice
from .active import Refused
from .compat import size_hint, stand_ins, storages
from .dynamo_graph import arguments, change_all, example, is_tensor, name_of, new_call

aten = torch.ops.aten
CALLS = (F.cross_entropy, aten.cross_entropy_loss.default)
NAME = "linear_cross_entropy"
_REDUCTIONS = ("none", "mean", "sum")  # the numbers of torch's operator are places here
_CASTS = ("float", "half", "bfloat16", "double", "to", "type", "_to_copy")
_SAME = ("contiguous", "clone", "alias")
_FLAT = ("view", "reshape", "flatten", "_unsafe_view")
_SWAPPED = ("transpose", "permute", "movedim", "swapaxes")
_CUT = ("getitem", "slice", "select")
_BETWEEN = (*_CASTS, *_SAME, *_FLAT, *_SWAPPED, *_CUT)
_WHOLE = slice(None, None, None)


@dataclasses.dataclass
class Head:
    """The linear layer in front of a loss. weight: [classes, depth], or with is_transposed the other way round."""

    node: torch.fx.Node
    input: torch.fx.Node
    weight: torch.fx.Node
    bias: torch.fx.Node | None
    is_transposed: bool

    def operands(self):
        return [each for each in (self.input, self.weight, self.bias) if each is not None]


def _head_of(node):
    """Returns the Head of a node, or None."""
    name = name_of(node)
    if name == "linear":
        given = arguments(node, aten.linear.default._schema)
        return Head(node, given["input"], given["weight"], given["bias"], False)
    if name == "matmul" and len(node.args) == 2 and not node.kwargs:
        weight = example(node.args[1])
        return Head(node, *node.args, None, True) if is_tensor(weight) and weight.dim() == 2 else None
    return None


def _loss_arguments(node):
    """Returns the arguments of a loss as those of F.cross_entropy; raises Refused."""
    if node.target is F.cross_entropy:
        bound = inspect.signature(F.cross_entropy).bind(*node.args, **node.kwargs)
        bound.apply_defaults()
        given = bound.arguments
        if given["size_average"] is not None or given["reduce"] is not None:
            raise Refused("size_average or reduce is given")
    else:
        given = arguments(node, aten.cross_entropy_loss.default._schema)
        given["reduction"] = _REDUCTIONS[given["reduction"]]
    if given["weight"] is not None:
        raise Refused("classes have weights")
    numbers = isinstance(given["ignore_index"], int) and isinstance(given["label_smoothing"], (int, float))
    if not numbers or given["reduction"] not in _REDUCTIONS:
        raise Refused("an option varies")
    target = example(given["target"])
    if not is_tensor(target) or target.dtype != torch.int64:
        raise Refused("the targets are no int64 tensor")
    return given


def _is_swap(before, after):
    """Returns True if a view only moved the classes from the last axis to the second."""
    if before.dim() < 3 or before.dim() != after.dim():
        return False
    same = before.movedim(-1, 1)
    pairs = zip((*same.shape, *same.stride()), (*after.shape, *after.stride()))
    # Axes of one size and stride are the same to each other.
    return all(known(a == b) for a, b in pairs)


def _rows_at(node, classes):
    """Returns the index of a slice that leaves the classes whole; raises Refused."""
    index = node.args[1] if isinstance(node.args[1], tuple) else (node.args[1],)
    if any(isinstance(each, bool) or not isinstance(each, (int, slice, type(Ellipsis))) for each in index):
        raise Refused("logits are chosen by a tensor")
    rank = example(node.args[0]).dim()
    if (Ellipsis in index and index[-1] is not Ellipsis) or len(index) >= rank + (Ellipsis in index):
        if index[-1] != _WHOLE:
            raise Refused("classes are chosen")
    if not known(example(node).shape[-1] == classes):
        raise Refused("classes are chosen")
    return index


def _cut(node):
    """Returns True if an operator takes a part of rows, not of classes."""
    rank = example(node.args[0]).dim()
    return len(node.args) > 1 and isinstance(node.args[1], int) and node.args[1] % rank != rank - 1


def _step(node, before, after, exact):
    """Returns what to do with the rows of the linear layer's input in the place of an operator of logits, or None for nothing."""
    name, classes = name_of(node), before.shape[-1]
    if name in _CASTS:
        if not known(after.dim() == before.dim()) or not after.dtype.is_floating_point or after.device != before.device:
            raise Refused("logits become no floats")
        if after.dtype == torch.float64 and not exact:
            raise Refused("logits become float64")
        return None
    if after.dtype != before.dtype:
        raise Refused("a view changes the dtype")
    if name in _SAME:
        return None
    if name in _FLAT:
        if len(after.shape) == len(before.shape) and all(known(a == b) for a, b in zip(after.shape, before.shape)):
            return None
        if after.dim() != 2 or not known(after.shape[-1] == classes):
            raise Refused("a view mixes rows and classes")
        return "flat"
    if name == "getitem":
        return operator.getitem, _rows_at(node, classes)
    if name in ("slice", "select") and isinstance(node.target, torch._ops.OpOverload) and _cut(node) and not node.kwargs:
        return node.target, *node.args[1:]
    raise Refused(f"{name or 'another operator'} is between")


def _asserts(node):
    """Returns True for what exported programs say of a tensor."""
    return name_of(node) == "_assert_tensor_metadata"


def _path(logits):
    """Returns (the Head, the steps from its result to the loss, their nodes), or None without such a layer; raises Refused."""
    found, node = [], logits
    while (head := _head_of(node)) is None:
        if node.op not in ("call_function", "call_method") or not node.args or not isinstance(node.args[0], torch.fx.Node):
            return None
        if not is_tensor(example(node)) or name_of(node) not in _BETWEEN:
            return None
        found.append(node)
        node = node.args[0]
    chain = [head.node, *reversed(found)]
    if any(len([user for user in each.users if not _asserts(user)]) != 1 for each in chain):
        raise Refused("others read the logits")
    if not all(is_tensor(example(each)) for each in chain):
        raise Refused("logits are no plain tensor")
    exact, steps, swapped = example(head.node).dtype == torch.float64, [], False
    for before, node in zip(chain, chain[1:]):
        if swapped:
            if name_of(node) not in (*_CASTS, *_SAME):
                raise Refused("a view mixes rows and classes")
        elif name_of(node) in _SWAPPED:
            if not _is_swap(example(before), example(node)):
                raise Refused("a view mixes rows and classes")
            swapped = True
            continue
        step = _step(node, example(before), example(node), exact)
        if step is not None:
            steps.append(step)
    if example(logits).dim() > 2 and not swapped:
        raise Refused("the classes are the second axis")
    return head, steps, chain


# Functions that only read their arguments. Methods and functions whose names end with _ write.
_PURE = (operator.getitem, operator.add, operator.mul, operator.sub, operator.truediv, F.linear, torch.matmul)


def _only_reads(node):
    if isinstance(node.target, torch._ops.OpOverload):
        return not node.target._schema.is_mutable
    if node.op == "call_method":
        return not node.target.endswith("_")
    return node.target in _PURE or node.target in CALLS


def _memory(nodes):
    return storages([example(node) for node in nodes])


def _check_between(head, chain, loss):
    """Raises Refused if the layer's operands may be others at the loss, or the context is: the layer is computed there."""
    operands = _memory(head.operands())
    node = head.node.next
    while node is not loss:
        if node.op in ("call_function", "call_method", "call_module"):
            if example(node) is None and node.target is not operator.setitem and not _asserts(node):
                raise Refused("the context changes between")
            reads = operands & _memory(node.all_input_nodes)
            if node not in chain and (node.op == "call_module" or (reads and not _only_reads(node))):
                raise Refused("something may write to the operands")
        node = node.next


def _check_operands(head, loss):
    values = [example(each) for each in head.operands()]
    if not all(map(is_tensor, (*values, example(loss), example(head.node)))):
        raise Refused("an operand is no plain tensor")
    sizes = values[1].shape
    if values[0].dim() == 0 or not all(known(each > 0) for each in sizes):
        raise Refused("a size may be 0")
    if len(values) == 3 and values[2].dim() != 1:
        raise Refused("the bias is no row")


def _asked(head, values, loss, given):
    """Returns the choice.Loss of the tensors that our operator would get. Sizes that vary get no guards here."""
    trains, early = example(loss).requires_grad, False
    if trains:
        wanted = [each is not None and example(each).requires_grad for each in (head.input, head.weight, head.bias)]
        with stand_ins(values, values[0].device) as (rows, weight, target, bias):
            saved = torch.ops.tile._linear_cross_entropy_saving(
                rows, weight, target, bias=bias, reduction=given["reduction"], gradients_wanted=wanted
            )
        early = any(isinstance(each, torch.Tensor) for each in saved[3:])
    return choice.Loss(values[0], size_hint(values[1].shape[0]), trains, early)


def _ours(compile, make, head, steps, loss, given):
    """Makes the nodes of our operator and returns the last; raises Refused if it does not fit or is slower."""
    dtype = example(head.node).dtype

    def lowered(node):  # as autocast lowers the operands of the layer
        return node if node is None or example(node).dtype == dtype else make("to", (node, dtype))

    rows = head.input
    for step in steps:
        if step == "flat":
            step = ("flatten", 0, -2) if example(rows).dim() > 1 else ("unsqueeze", 0)
        rows = make(step[0], (rows, *step[1:]))
    rows, weight, bias = map(lowered, (rows, make("t", (head.weight,)) if head.is_transposed else head.weight, head.bias))
    values = [None if each is None else example(each) for each in (rows, weight, given["target"], bias)]
    why = choice.keeps_loss(compile, _asked(head, values, loss, given))
    if why is not None:
        raise Refused(why)
    options = {name: given[name] for name in ("ignore_index", "reduction")}
    options |= {"bias": bias, "label_smoothing": float(given["label_smoothing"])}
    end = make(torch.ops.tile.linear_cross_entropy.default, (rows, weight, given["target"]), **options)
    if not same_numbers(example(end).shape, example(loss).shape):
        raise Refused("the loss has another shape")
    return end if example(end).dtype == example(loss).dtype else make("to", (end, example(loss).dtype))


def _tried(compile, graph, *arguments, loss):
    """As _ours(), but leaves no nodes behind an error."""
    made = []

    def make(target, args, **kwargs):
        made.append(new_call(graph, target, args, loss, **kwargs))
        return made[-1]

    try:
        with graph.inserting_before(loss):
            return _ours(compile, make, *arguments)
    except Exception as error:
        for node in reversed(made):
            graph.erase_node(node)
        if isinstance(error, (ValueError, TypeError)):
            raise Refused(str(error)) from error
        raise


def _change(compile, module, loss):
    logits = loss.args[0] if loss.args else loss.kwargs.get("input", loss.kwargs.get("self"))
    try:
        path = _path(logits) if isinstance(logits, torch.fx.Node) else None
        if path is None:
            return False
        head, steps, chain = path
        given = _loss_arguments(loss)
        _check_operands(head, loss)
        _check_between(head, chain, loss)
        end = _tried(compile, module.graph, head, steps, loss, given, loss=loss)
    except Refused as error:
        compile.steps.setdefault(NAME, str(error))
        return False
    loss.replace_all_uses_with(end)
    for node in (loss, *reversed(chain)):
        for user in list(node.users):  # assertions
            module.graph.erase_node(user)
        module.graph.erase_node(node)
    return True


def take_over(gm, compile):
    """Makes each cross entropy of a linear layer in a graph of Dynamo, and in the graphs in it, a call of ours where it is faster."""
    change_all(gm, CALLS, lambda module, node: _change(compile, module, node), compile.options, "cross entropy")
