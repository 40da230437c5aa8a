"""Products whose elementwise neighbours are computed of their sums: inductor's nodes, and the calls that they become."""

import sympy
import torch
from torch._inductor import ir, lowering
from torch._inductor.utils import get_kernel_metadata
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from . import calls
from .active import Refused, current
from .choice import is_ours
from .epilogue import text_of

aten = torch.ops.aten


class TileProduct(ir.TemplateBuffer):
    """input @ other of matrices, or of batches of them."""

    def __init__(self, layout, input, other):
        super().__init__(layout=layout, inputs=[input, other], make_kernel_render=None)


def fits(template, nodes):
    """Returns True if all the nodes can be an epilogue of the template."""
    try:
        text_of(template, nodes)
    except Refused:
        return False
    return True


def _view(buffer, offset, strides, sizes):
    """Returns a view of the result's shape; an axis without stride has one element, unless it has one anyway."""
    sizes = [sympy.Integer(1) if stride == 0 else size for stride, size in zip(strides, sizes)]
    strides = [sympy.Integer(1) if stride == 0 else stride for stride in strides]
    return calls.View(buffer, offset, tuple(strides), tuple(sizes))


def call(scheduling, template_node, epilogue_nodes):
    """Writes the call of a product with its epilogue, and marks the nodes as computed."""
    template = template_node.node
    handler = text_of(template, epilogue_nodes)
    nodes = [template_node, *epilogue_nodes]
    names = OrderedSet(node.get_name() for node in nodes)
    scheduler = scheduling.scheduler
    stored = {template.get_name(): (handler.values[template.get_name()], sympy.Integer(0), tuple(template.get_stride()))}
    stored.update(handler.stored)
    for name in stored:
        if epilogue_nodes and scheduler.can_buffer_be_removed_through_fusion(name, names):
            V.graph.removed_buffers.add(name)
    kept = {name: each for name, each in stored.items() if name not in V.graph.removed_buffers}
    for node in nodes:
        node.mark_run()
    size = template.get_size()
    outs = [_view(name, offset, strides, size) for name, (_, offset, strides) in kept.items()]
    results = [str(value) for value, _, _ in kept.values()]
    text = "; ".join([*handler.lines, *results])
    operands = [_view(buffer, offset, strides, size) for buffer, offset, strides in handler.operands]
    origins = get_kernel_metadata(nodes, V.graph.wrapper_code)[0]
    calls.write_product(origins, *template.inputs, operands, outs, text)
    current().kernels.append(f"product with {len(epilogue_nodes)} nodes: {text}")
    scheduling.free_buffers_in_scheduler()


def _is_elementwise(user):
    return isinstance(user.target, torch._ops.OpOverload) and torch.Tag.pointwise in user.target.tags


def has_epilogue(node):
    """Returns True if elementwise operators use the product, perhaps after a change of its shape."""
    waiting = [(node, 0)]
    while waiting:
        at, depth = waiting.pop()
        for user in at.users:
            if _is_elementwise(user):
                return True
            if isinstance(user.target, torch._ops.OpOverload) and user.target.is_view and depth < 3:
                waiting.append((user, depth + 1))
    return False


def _lower(target, own):
    def lowered(*args, **kwargs):
        compile = current()
        if compile is None or kwargs or target in compile.fallbacks:
            return own(*args, **kwargs)
        input, other = args[-2:]
        node = V.graph.current_node
        if not has_epilogue(node) or not is_ours(compile, input, other):
            return own(*args, **kwargs)
        input, other = ir.ExternKernel.realize_input(input), ir.ExternKernel.realize_input(other)
        size = [*input.get_size()[:-1], other.get_size()[-1]]
        layout = ir.FixedLayout(input.get_device(), input.get_dtype(), size)
        made = ir.TensorBox.create(TileProduct(layout, input, other))
        return made if len(args) == 2 else lowering.lowerings[aten.add.Tensor](made, args[0])

    return lowered


def install():
    for target in (aten.mm.default, aten.addmm.default, aten.bmm.default):
        lowering.lowerings[target] = _lower(target, lowering.lowerings[target])
