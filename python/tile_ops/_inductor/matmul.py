"""Fuses a scale, bias, activation, residual and cast of the result into tile::matmul, in an inductor graph."""

import dataclasses
import math
import operator

import torch

from .activations import div, find_activation, mul
from .graph import (
    broadcasts_to,
    convert,
    fake_result,
    is_call,
    new_call,
    operands_of_add,
    part,
    replace,
    same_layout,
    value_of,
    writes_between,
)

plain = torch.ops.tile.matmul.default
saving = torch.ops.tile._matmul_saving.default

# The last stage that is fused already; a later step must be of a later stage.
PRODUCT, BIAS, ACTIVATION, RESIDUAL = range(4)


@dataclasses.dataclass(frozen=True)
class _Folded:
    """A matmul that replaces the node `end`, and also `pre` if a gradient needs the pre-activation."""

    end: torch.fx.Node
    stage: int
    dtype: torch.dtype
    options: dict
    pre: torch.fx.Node | None = None
    complete: bool = True  # False: it cannot be the last step


class _Matmul:
    """A matmul of the graph and the steps that may be fused into it."""

    def __init__(self, node, out):
        self.node, self.out = node, out
        self.value = value_of(out)
        self.operand = value_of(node.args[0]).dtype
        self.double = self.operand == torch.float64

    def start(self):
        options = dict(self.node.kwargs)
        stage = PRODUCT
        if options.get("bias") is not None:
            stage = BIAS
        if options.get("activation", "none") != "none":
            stage = ACTIVATION
        if options.get("residual") is not None:
            stage = RESIDUAL
        return _Folded(self.out, stage, self.value.dtype, options)

    def fits(self, end, dtype):
        """Returns True if a node may become the result: it has this dtype and the product's extents and strides."""
        value = value_of(end)
        return value is not None and value.dtype == dtype and same_layout(value, self.value)

    def scaled(self, state):
        if state.stage != PRODUCT or len(state.end.users) != 1:
            return None
        last = next(iter(state.end.users))
        if not (is_call(last, mul) or is_call(last, div)) or last.kwargs:
            return None
        x, number = last.args
        if x is not state.end and last.target is mul:
            x, number = number, x
        if x is not state.end or type(number) not in (int, float) or number == 0 or not math.isfinite(number):
            return None
        if not self.fits(last, state.dtype):
            return None
        alpha = state.options.get("alpha", 1.0)
        if type(alpha) not in (int, float):  # known at run time only
            return None
        alpha = alpha * number if last.target is mul else alpha / number
        # A factor near the limits of the dtype in which it is kept would be lost.
        most = 1e300 if self.double else 1e30
        if not 1 / most < abs(alpha) < most:
            return None
        return dataclasses.replace(state, end=last, options={**state.options, "alpha": float(alpha)}, complete=True)

    def added(self, state):
        if state.stage == RESIDUAL or len(state.end.users) != 1:
            return None
        last = next(iter(state.end.users))
        operands = operands_of_add(last)
        if operands is None:
            return None
        other = operands[1] if operands[0] is state.end else operands[0]
        value = value_of(other)
        if not value.is_floating_point() or value.dtype.itemsize < 2 or value.device != self.value.device:
            return None
        dtype = torch.promote_types(state.dtype, value.dtype)
        if (dtype == torch.float64) != self.double or not self.fits(last, dtype):
            return None
        if not broadcasts_to(value.shape, self.value.shape):
            return None
        name, stage = ("bias", BIAS) if state.stage == PRODUCT else ("residual", RESIDUAL)
        options = {**state.options, name: other}
        return dataclasses.replace(state, end=last, stage=stage, dtype=dtype, options=options, complete=True)

    def activated(self, state):
        if state.stage >= ACTIVATION:
            return None
        # With 16-bit inputs, all activations but relu are computed in float32.
        wide = [user for user in state.end.users if is_call(user, convert) and user.args[1] == torch.float32]
        for x in (state.end, *wide):
            found = find_activation(x)
            if found is None or not self.fits(found[1], value_of(x).dtype):
                continue
            name, last, inner = found
            inner = inner | {x}
            others = [user for user in (*state.end.users, *x.users) if user not in inner]
            pre = None
            if others:
                # A training graph passes the pre-activation to the backward graph; only the saving operator returns it.
                if self.node.target is not saving or x is not state.end and any(u not in inner for u in x.users):
                    continue
                if any(user.op != "output" for user in others):
                    continue
                pre = state.end
            options = {**state.options, "activation": name}
            dtype = value_of(last).dtype
            # With 16-bit inputs, an activation ends in a cast back.
            return dataclasses.replace(
                state,
                end=last,
                stage=ACTIVATION,
                dtype=dtype,
                options=options,
                pre=pre,
                complete=x is state.end or all(user.op == "output" for user in last.users),
            )
        return None

    def cast(self, state):
        if len(state.end.users) != 1:
            return None
        last = next(iter(state.end.users))
        if not is_call(last, convert) or not last.args[1].is_floating_point or last.args[1].itemsize < 2:
            return None
        dtype = last.args[1]
        if (dtype == torch.float64) != self.double or not self.fits(last, dtype):
            return None
        # A wider result costs more bytes. It pays off if the graph needs it or a further step follows.
        wider = dtype.itemsize > state.dtype.itemsize
        return dataclasses.replace(
            state, end=last, dtype=dtype, complete=not wider or all(user.op == "output" for user in last.users)
        )

    def best(self):
        """Returns the longest chain of steps that may be fused, or None."""
        state, best = self.start(), None
        while True:
            for step in (self.activated, self.scaled, self.added, self.cast):
                further = step(state)
                if further is not None:
                    break
            else:
                return best
            state = further
            if state.complete and self.gives_pre(state) and not writes_between(self.node, state.end):
                best = state

    def gives_pre(self, state):
        """Returns True if the operator returns the pre-activation in the dtype that the graph needs."""
        return state.pre is None or value_of(state.pre).dtype == torch.promote_types(self.operand, state.dtype)


def fold_matmul(graph, node):
    """Fuses the steps after `node` into it if it is a matmul."""
    if is_call(node, plain):
        out = node
    elif is_call(node, saving):
        # Without an activation, only the residual's extents are saved.
        parts = part(node, 0)
        if len(parts) != 1 or len(node.users) != 1:
            return
        out = parts[0]
    else:
        return
    if value_of(out) is None or len(node.args) != 2 or any(value_of(arg) is None for arg in node.args):
        return
    best = _Matmul(node, out).best()
    if best is None:
        return
    options = {name: value for name, value in best.options.items() if name != "out_dtype"}
    if best.dtype != value_of(node.args[0]).dtype:
        options["out_dtype"] = best.dtype
    with graph.inserting_before(best.end):
        if best.pre is None:
            result = new_call(graph, plain, node.args, options, best.end)
        else:
            new = new_call(graph, saving, node.args, options, best.end)
            new.meta["val"] = fake_result(saving, new.args, new.kwargs)
            result = graph.call_function(operator.getitem, (new, 0))
            pre = graph.call_function(operator.getitem, (new, 1))
            result.meta.update(best.end.meta)
            pre.meta.update(best.pre.meta)
            # The pattern's own nodes are dead after the result is replaced.
            best.pre.replace_all_uses_with(pre, delete_user_cb=lambda user: user.op == "output")
    replace(best.end, result)
