"""Products whose elementwise neighbours are computed of their sums: inductor's nodes, and the calls that they become."""

import sympy
import torch
from torch._inductor import dependencies, ir, lowering
from torch._inductor.utils import get_kernel_metadata, sympy_product
from torch._inductor.virtualized import V, ops
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils._ordered_set import OrderedSet

from .._inductor.graph import is_call, value_of
from . import ahead, calls
from .active import Refused, current
from .choice import is_ours, is_ours_alone, pays_to_fuse, product_of_buffers
from .compat import hint, is_reduction
from .epilogue import MOST_RESULTS, Sum, kept_results, text_of
from .padding import padded
from .pairs import MOST_STEPS, is_elementwise, is_view, two_products

aten = torch.ops.aten


class TileProduct(ir.TemplateBuffer):
    """input @ other of matrices, or of batches of them; with `second`, input @ second lies behind it in memory."""

    def __init__(self, input, other, second=None):
        inputs = [ir.ExternKernel.realize_input(each) for each in (input, other, second) if each is not None]
        size = [*inputs[0].get_size()[:-1], inputs[1].get_size()[-1]]
        layout = ir.FixedLayout(
            inputs[0].get_device(), inputs[0].get_dtype(), [sympy.Integer(2), *size] if second is not None else size
        )
        super().__init__(layout=layout, inputs=inputs, make_kernel_render=None)
        self.is_pair = second is not None

    def matrix(self):
        """Returns the extents of a product."""
        return self.get_size()[1:] if self.is_pair else self.get_size()

    def sums(self):
        """Returns a Sum for each product."""
        strides = tuple(self.get_stride())
        if not self.is_pair:
            return [Sum("acc", sympy.Integer(0), strides)]
        return [Sum("acc", sympy.Integer(0), strides[1:]), Sum("acc2", strides[0], strides[1:])]

    def extract_read_writes(self, normalize=False):
        """Returns what is read and written: a pair writes two matrices, each of which an elementwise node reads."""
        found = super().extract_read_writes(normalize=normalize)
        if not self.is_pair:
            return found
        indexer = self.get_layout().make_indexer()

        def store_both(index, _):
            for which in range(2):
                ops.store(self.get_name(), indexer([sympy.Integer(which), *index]), "sum")

        made = dependencies.extract_read_writes(store_both, self.matrix(), (), normalize=normalize)
        made.reads |= found.reads
        return made


def _matrices_beside(template_node):
    """Returns how many other matrices of its size the readers of a product read, all together."""
    template = template_node.node
    own, size = template.get_name(), sympy_product(template.matrix())
    users = [user.node for output in template_node.get_outputs() for user in output.users]
    reads = [dep for user in users if hasattr(user, "read_writes") for dep in user.read_writes.reads]
    matrices = OrderedSet(
        dep.name
        for dep in reads
        if isinstance(dep, dependencies.MemoryDep)
        and dep.name != own
        and V.graph.sizevars.statically_known_leq(size, dep.get_numel())
    )
    return len(matrices)


def fits(scheduler, template_node, nodes):
    """Returns True if all the nodes can be an epilogue of the template."""
    if not pays_to_fuse(current(), template_node.node.get_device(), _matrices_beside(template_node)):
        return False
    try:
        handler = text_of(template_node.node, nodes)
    except Refused:
        return False
    return len(kept_results(scheduler, handler, [template_node, *nodes])) <= MOST_RESULTS


def _axes(strides, sizes):
    one = sympy.Integer(1)
    return [one if stride == 0 else size for stride, size in zip(strides, sizes)], [stride or one for stride in strides]


def _view(buffer, offset, strides, sizes):
    """Returns a view of the result's shape; an axis without stride has one element, unless it has one anyway."""
    sizes, strides = _axes(strides, sizes)
    return calls.View(buffer, offset, tuple(strides), tuple(sizes))


def call(scheduling, template_node, epilogue_nodes):
    """Writes the call of a product with its epilogue, and marks the nodes as computed."""
    template = template_node.node
    handler = text_of(template, epilogue_nodes)
    nodes = [template_node, *epilogue_nodes]
    kept = kept_results(scheduling.scheduler, handler, nodes)
    V.graph.removed_buffers |= OrderedSet(each.buffer for each in handler.stored) - OrderedSet(each.buffer for each in kept)
    for node in nodes:
        node.mark_run()
    size = template.matrix()
    outs = [_view(each.buffer, each.offset, each.strides, size) for each in kept]
    text = "; ".join([*handler.lines, *(str(each.value) for each in kept)])
    operands = [_view(buffer, offset, strides, size) for buffer, offset, strides in handler.operands]
    origins = get_kernel_metadata(nodes, V.graph.wrapper_code)[0]
    calls.write_product(origins, template.inputs, operands, outs, text)
    _compile_ahead(template, handler.operands, [(each.buffer, each.offset, each.strides) for each in kept], text)
    current().kernels.append(f"product with {len(epilogue_nodes)} nodes: {text}")
    scheduling.free_buffers_in_scheduler()


def _compile_ahead(template, operands, outs, text):
    def place(dtype, offset, strides, sizes):
        return dtype, hint(offset), tuple(map(hint, sizes)), tuple(map(hint, strides))

    def view(buffer, offset, strides):
        sizes, strides = _axes(strides, template.matrix())
        return place(V.graph.get_dtype(buffer), offset, strides, sizes)

    inputs = (place(each.get_dtype(), each.get_layout().offset, each.get_stride(), each.get_size()) for each in template.inputs)
    views = (tuple(view(*each) for each in arrays) for arrays in (operands, outs))
    ahead.compile_product(template.get_device(), text, tuple(inputs), *views)


def has_epilogue(node):
    """Returns True if elementwise operators use the product, perhaps after a change of its shape."""
    waiting = [(node, 0)]
    while waiting:
        at, depth = waiting.pop()
        for user in at.users:
            if is_elementwise(user):
                return True
            if is_view(user) and depth < 3:
                waiting.append((user, depth + 1))
    return False


def _adds_a_matrix(added):
    """Returns True if what addmm adds is no row: torch's product copies it first, ours reads it."""
    size = added.get_size()
    return len(size) == 2 and not V.graph.sizevars.statically_known_equals(size[0], 1)


def _lower(target, own):
    def lowered(*args, **kwargs):
        compile = current()
        if compile is None or kwargs or target in compile.fallbacks:
            return own(*args, **kwargs)
        input, other = args[-2:]
        node = V.graph.current_node
        fused = has_epilogue(node) or (len(args) == 3 and _adds_a_matrix(args[0]))
        if not (is_ours if fused else is_ours_alone)(compile, product_of_buffers(input, other)):
            return padded(own, *args) or own(*args, **kwargs)
        made = ir.TensorBox.create(TileProduct(input, other))
        return made if len(args) == 2 else lowering.lowerings[aten.add.Tensor](made, args[0])

    return lowered


def _is_reduced(node):
    """Returns True if elementwise operators and views lead from the node to a reduction."""
    elements, seen, waiting = value_of(node).numel(), set(), [node]
    while waiting and len(seen) < MOST_STEPS:
        for user in waiting.pop().users:
            if user in seen:
                continue
            seen.add(user)
            if is_reduction(user):
                return True
            made = value_of(user)
            if made is not None and (is_elementwise(user) or is_view(user)) and statically_known_true(made.numel() == elements):
                waiting.append(user)
    return False


def _adds_a_product(value):
    """Returns True if a sum that is not in memory reads a product of ours, of which it has as many elements."""
    for name in value.get_read_names():
        buffer = V.graph.name_to_buffer.get(name)
        if isinstance(buffer, TileProduct):
            count = sympy_product(buffer.matrix())
            return V.graph.sizevars.statically_known_equals(count, sympy_product(value.get_size()))
    return False


def _is_added_alone(node):
    """Returns True if the one use of a sum is another sum, perhaps after changes of its shape: a bias before a residual."""
    for _ in range(MOST_STEPS):
        if len(node.users) != 1:
            return False
        (node,) = node.users
        if not is_view(node):
            return is_call(node, aten.add.Tensor)
    return False


def _keep_sum(own):
    """A sum that a reduction reads is stored by the product; kernels would else add its operands again, each of them."""

    def lowered(*args, **kwargs):
        result = own(*args, **kwargs)
        node = V.graph.current_node
        if current() is not None and is_call(node, aten.add.Tensor) and value_of(node) is not None:
            if _adds_a_product(result) and _is_reduced(node) and not _is_added_alone(node):
                result.realize()
        return result

    return lowered


def install():
    for target in (aten.mm.default, aten.addmm.default, aten.bmm.default):
        lowering.lowerings[target] = _lower(target, lowering.lowerings[target])
    lowering.lowerings[aten.add.Tensor] = _keep_sum(lowering.lowerings[aten.add.Tensor])
    lowering.lowerings[two_products] = lambda *args: ir.TensorBox.create(TileProduct(*args))
