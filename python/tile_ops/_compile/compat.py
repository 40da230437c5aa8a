"""Every name of inductor that differs between the versions of torch that we support, or that is private to it."""

import contextlib
import functools
import itertools
import json
import pathlib

import sympy
import torch
from torch._inductor import ir
from torch._inductor.codegen import common
from torch._inductor.codegen.common import PythonPrinter
from torch._inductor.codegen.wrapper import WrapperLine
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V

print_size = PythonPrinter().doprint
UNKNOWN_SIZE = 8192


def hint(expression):
    """Returns a likely value of a size."""
    if isinstance(expression, (int, sympy.Integer)):
        return int(expression)
    sizes = V.graph.sizevars
    if hasattr(sizes, "optimization_hint"):  # since torch 2.12
        return int(sizes.optimization_hint(expression))
    return int(sizes.size_hint(expression, fallback=UNKNOWN_SIZE))


def size_hint(size):
    """Returns a likely value of a size of a fake tensor, also before there is a graph of inductor."""
    if isinstance(size, int):
        return size
    if hasattr(V.graph, "sizevars"):
        return hint(size.node.expr)
    return int(size.node.hint) if size.node.has_hint() else UNKNOWN_SIZE


_simplified = functools.lru_cache(4096)(sympy.simplify)


def concatenated(boxes, axis):
    """Returns boxes side by side in one memory, where those are computed that are not in memory yet."""
    # Before torch 2.13 the current node must be a concatenation.
    node = torch.fx.Graph().call_function(torch.ops.aten.cat.default, ([],))
    node.meta = V.graph.current_node.meta
    with V.graph.set_current_node(node):
        return ir.TensorBox(ir.ConcatKernel.create(boxes, axis))


class GraphFacts:
    """Answers the questions of axes.py about sizes by inductor's graph."""

    def simplify(self, expression):
        if isinstance(expression, int | sympy.Integer):  # nearly all are, and sympy is slow for each
            return sympy.Integer(expression)
        return V.graph.sizevars.simplify(_simplified(expression))

    def is_multiple(self, a, b):
        return V.graph.sizevars.statically_known_multiple_of(a, b)

    def at_most(self, a, b):
        return V.graph.sizevars.statically_known_leq(a, b)

    def hint(self, expression):
        return hint(expression)


def set_scheduling(device, make):
    """make(own): returns the class or function that makes a scheduling; own: inductor's."""
    common.init_backend_registration()
    entry = common.device_codegens[device]
    entry.scheduling = make(entry.scheduling)


def storage_size(buffer):
    """Returns how many elements the memory of a buffer has."""
    return V.graph.get_buffer(buffer).get_layout().storage_size()


def real_name(buffer):
    """Returns the buffer that a mutation of this name changes."""
    scheduler = V.graph.scheduler
    return scheduler.mutation_real_name.get(buffer, buffer) if scheduler else buffer


def is_donated(buffer):
    """Returns True if a buffer is an input of a backward that nothing else has: what the forward saved.

    Torch compares it with inputs and results of the forward alone: two saved tensors may be views of one memory.
    """
    if buffer not in getattr(V.graph.scheduler, "name_to_donated_buffer", ()):
        return False
    memory = {node.name: _memory(node.meta.get("val")) for node in V.graph.graph.nodes if node.op == "placeholder"}
    own = memory.get(buffer)
    return own is not None and list(memory.values()).count(own) == 1


def _memory(value):
    return value.untyped_storage()._cdata if isinstance(value, torch.Tensor) and value.layout == torch.strided else None


PACKAGE = {"cpp_wrapper": True, "aot_inductor.package": True}  # settings of inductor under which it packs a graph


def config_patches(on_gpu, is_package=False):
    """Returns the settings of inductor under which its front makes graphs that our kernels can compute."""
    package = {
        **PACKAGE,
        "aot_inductor.use_runtime_constant_folding": False,  # its executor does not know calls of that graph
        "triton.autotune_at_compile_time": False,  # it imports Triton
    }
    patches = {
        "cpu_backend": "triton",  # "cpp" reads what only C++ kernels have
        "cpp.simdlen": None,
        "cpp.weight_prepack": False,
        "freezing": False,
        "cpp_wrapper": False,
        # A package's calls of kernels name what they read and what they write as different buffers.
        "inplace_buffers": not is_package,
        "allow_buffer_reuse": True,
        "max_autotune": False,
        "max_autotune_gemm": False,
        "max_autotune_pointwise": False,
        "triton.tiling_prevents_pointwise_fusion": False,
        "triton.tiling_prevents_reduction_fusion": False,
        "triton.cooperative_reductions": False,
        "triton.mix_order_reduction": False,
        "triton.coalesce_tiling_analysis": False,
        "triton.native_matmul": False,
        "epilogue_fusion_first": True,
        # As on a CPU: accesses then have the fewest axes. Torch 2.11 fuses an epilogue only if its axes are those of the product.
        "loop_ordering_after_fusion": False,
        # To choose a padding of products inductor starts programs, as Triton's compiler; so do its threads for compilers.
        "shape_padding": False,
        "compile_threads": 1,
        "online_softmax": False,
        "combo_kernels": False,
        # On a CPU an input of a cat is written by the kernel that computes it: masked loads are slow there.
        **({} if on_gpu else {"max_pointwise_cat_inputs": 0}),
        "split_reductions": on_gpu,
        "size_asserts": False,
        "alignment_asserts": False,
        **(package if is_package else {}),
    }
    known = config_values(patches)
    return {name: value for name, value in patches.items() if name in known}


def config_values(names):
    """Returns {name: value} of those settings of inductor that this version of torch has."""
    from torch._inductor import config

    values = {}
    for name in names:
        at = config
        for part in name.split("."):
            at = getattr(at, part, _absent)
        if at is not _absent:
            values[name] = at
    return values


_absent = object()


def has_compiler(device):
    """Returns True if inductor's own code generator has its compiler for a type of device."""
    if device != "cpu":
        from torch.utils._triton import has_triton

        return has_triton()
    from torch._inductor.cpp_builder import get_cpp_compiler

    try:
        return bool(get_cpp_compiler())
    except Exception:  # of a class that differs between versions
        return False


@contextlib.contextmanager
def noted_sources(note):
    """Calls note(text) with each module that inductor generates, or has in its caches, in the block."""
    before, own = GraphLowering.__dict__["save_output_code"], GraphLowering.save_output_code

    def save_output_code(text):
        note(text)
        if own is not None:  # another tool has set it
            own(text)

    GraphLowering.save_output_code = staticmethod(save_output_code)
    try:
        yield
    finally:
        GraphLowering.save_output_code = before


def source_of(compiled):
    """Returns the text of the module that inductor generated for a graph."""
    return getattr(compiled, "source_code", "")


def package_source_of(compiled):
    """Returns (the C++ that inductor generated for a package, the operators that its executor calls)."""

    def text(suffix):
        files = (each for each in compiled.filename if isinstance(each, str) and each.endswith(suffix))
        return next((pathlib.Path(each).read_text() for each in files), "")

    nodes = json.loads(text(".wrapper.json") or '{"nodes": []}')["nodes"]
    names = [each["node"]["target"].replace("::", ".") for each in nodes]
    return text(".wrapper.cpp"), [name if name.count(".") == 2 else f"{name}.default" for name in names]


_REDUCTIONS = frozenset("sum mean amax amin var var_mean std prod any all argmax argmin".split())


def is_reduction(node):
    """Returns True if a node of FX reduces a tensor; some versions of torch have a tag for that."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    tag = getattr(torch.Tag, "reduction", None)
    named = target.namespace == "aten" and target._schema.name.split("::")[1] in _REDUCTIONS
    return named or (tag is not None and tag in target.tags)


def is_made_of_tensors(value):
    """Returns True for a tensor of a class whose instances hold other tensors, as DTensor."""
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    return is_traceable_wrapper_subclass(value)


def storages(tree):
    """Returns a set of the memories of the strided tensors in lists and tuples; fake tensors share one as real ones would."""
    from torch.utils._pytree import tree_leaves

    tensors = (each for each in tree_leaves(tree) if isinstance(each, torch.Tensor) and each.layout == torch.strided)
    return {each.untyped_storage()._cdata for each in tensors if not is_made_of_tensors(each)}


@contextlib.contextmanager
def stand_ins(values, device):
    """Enters a mode of fake tensors of its own, and gives tensors of it that are as those among the values, on a device."""
    from torch._guards import tracing
    from torch._subclasses import FakeTensorMode

    with tracing(None), FakeTensorMode(allow_non_fake_inputs=True):
        yield [
            torch.empty([size_hint(extent) for extent in each.shape], dtype=each.dtype, device=device)
            if isinstance(each, torch.Tensor)
            else each
            for each in values
        ]


def indices_are_tensors():
    """Returns a context in which tensor[i] gathers by a tensor i of one number, as functions of attention write it."""
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

    return TransformGetItemToIndex()


def is_floating(value):
    dtype = getattr(value, "dtype", None)
    return isinstance(dtype, torch.dtype) and dtype.is_floating_point


def leave_out_scaled_softmax(is_ours):
    """Keeps inductor from computing the maximum of a scaled softmax twice, as its pattern does for infinite values.

    is_ours() -> bool: the pattern is left out where it returns True.
    """
    from torch._inductor.fx_passes import joint_graph

    for passes in joint_graph.pass_patterns:
        for entry in {id(each): each for entries in passes.patterns.values() for each in entries}.values():
            if getattr(getattr(entry, "handler", None), "__name__", "") in ("mul_softmax_pattern", "div_softmax_pattern"):
                own = entry.extra_check
                entry.extra_check = lambda match, own=own: not is_ours() and own(match)


def let_sums_into_elements_be_calls(is_ours):
    """Makes index_put with accumulate a call of torch's where is_ours() returns True: kernels have no such store."""
    from torch._inductor import lowering

    own = lowering.needs_fallback_due_to_atomic_add_limitations
    lowering.needs_fallback_due_to_atomic_add_limitations = lambda dtype: is_ours() or own(dtype)


def split_evenly(is_ours):
    """Lets inductor split a long reduction into parts of one length where is_ours() returns True: the last part is else shorter,
    and kernels read all of them under a mask."""
    own = ir.Reduction.num_splits

    def num_splits(*args, **kwargs):
        hint, parts = own(*args, **kwargs)
        length = kwargs.get("reduction_numel", args[7] if len(args) > 7 else None)
        if is_ours() and isinstance(parts, int) and parts > 1 and isinstance(length, (int, sympy.Integer)):
            parts = next((n for n in [*range(parts, 2 * parts), *range(parts - 1, parts // 2, -1)] if length % n == 0), parts)
        return hint, parts

    ir.Reduction.num_splits = staticmethod(num_splits)


def unroll_positions():
    """Lets inductor find the position of an extreme among few elements that bring their own positions; torch 2.11 fails there."""
    own = ir.Reduction._unroll_reduction_fn

    def unrolled(inner_fn, reduction_ranges, reduction_type, src_dtype):
        made = own(inner_fn, reduction_ranges, reduction_type, src_dtype)
        if reduction_type not in ("argmin", "argmax"):
            return made
        combine = ir.get_reduction_combine_fn(reduction_type, src_dtype)
        sizes = V.graph.sizevars.guard_int_seq(reduction_ranges)

        def of_index(index):
            places = itertools.product(*map(range, sizes))
            values = [inner_fn(index, [sympy.Integer(i) for i in each]) for each in places]
            return functools.reduce(combine, values)[1] if isinstance(values[0], tuple) else made(index)

        return of_index

    ir.Reduction._unroll_reduction_fn = staticmethod(unrolled)


def pad_rows_alone(is_ours):
    """Lets inductor pad the strides of rows, for which torch's products are faster, but not those of samples alone where is_ours()
    returns True: rows of all samples have then no common stride, so that a product is copied and takes no epilogue."""
    own = ir.Layout._pad_strides

    def pad_strides(strides, size, dtype):
        made = own(strides, size, dtype)
        if made is strides or not is_ours():
            return made
        inner = ir.stride_order2fill_order(ir.get_stride_order(strides))
        return made if len(inner) > 1 and made[inner[1]] != strides[inner[1]] else strides

    ir.Layout._pad_strides = staticmethod(pad_strides)


def need_no_triton(is_ours):
    """Lets inductor schedule kernels for a GPU without Triton where is_ours() returns True."""
    from torch._inductor import scheduler

    own = scheduler.has_triton
    scheduler.has_triton = lambda: is_ours() or own()


def buffer_of(name):
    """Returns the buffer of a name, without the boxes around it."""
    node = V.graph.get_buffer(name)
    while isinstance(node, (ir.TensorBox, ir.StorageBox)):
        node = node.data
    return node


def view_node(buffer, sizes, strides, offset):
    """Returns inductor's node of a view of a buffer."""
    data = buffer_of(buffer)
    layout = ir.FixedLayout(data.get_device(), data.get_dtype(), list(sizes), list(strides), offset)
    return ir.ReinterpretView(data=data, layout=layout)


class _OperatorCall(WrapperLine):
    """A call in a wrapper of C++. It is written once memory is planned, as those of inductor's own nodes are."""

    def __init__(self, wrapper, comment, operator, arguments):
        self.wrapper, self.comment, self.operator, self.arguments = wrapper, comment, operator, arguments

    def codegen(self, code):
        from torch._export.serde.schema import Node
        from torch._export.serde.serialize import GraphModuleSerializer

        given = self.arguments()
        # The executor takes integers and tensors from the call. What is serialised says how many there are.
        counted = [[0] * len(each) if _is_numbers(each) else each for each in given]
        names = [each.name for each in self.operator._schema.arguments]
        inputs = GraphModuleSerializer(None, []).serialize_inputs(self.operator, (), dict(zip(names, counted)))
        node = Node(target=self.operator.name(), inputs=inputs, outputs=[], metadata={})
        V.extern_kernel_nodes.append(ir.ExternKernelNode(name=f"tile_{len(V.extern_kernel_nodes)}", node=node))
        self.wrapper.writeline(f"// {self.comment}")
        self.wrapper.generate_fallback_kernel_with_runtime_lookup_aot(self.operator, given, [], [])


def _is_numbers(value):
    return isinstance(value, list) and all(isinstance(each, sympy.Expr) for each in value)


def write_operator_call(comment, operator, arguments):
    """Writes the call of an operator without results into a wrapper of C++.

    arguments(): a list with all arguments of the schema: inductor's nodes, expressions of sizes, texts and None.
    """
    wrapper = V.graph.wrapper_code
    wrapper.writeline(_OperatorCall(wrapper, comment, operator, arguments))


def generate_packages_at_once(is_ours):
    """Keeps inductor from running a graph of a GPU before it packs it, which is to find Triton's kernels.

    is_ours() -> bool: graphs are packed at once where it returns True, unless they contain kernels of Triton.
    """
    own = GraphLowering.codegen_with_cpp_wrapper

    def codegen_with_cpp_wrapper(graph):
        has_triton = any(isinstance(each, ir.UserDefinedTritonKernel) for each in graph.operations)
        return graph.codegen() if is_ours() and not has_triton else own(graph)

    GraphLowering.codegen_with_cpp_wrapper = codegen_with_cpp_wrapper


def package_inputs(gm, args, kwargs, settings):
    """Returns (flat inputs of an exported program's module, settings with the structures of inputs and outputs)."""
    from torch._inductor.compile_fx import _aoti_flatten_inputs

    return _aoti_flatten_inputs(gm, args, kwargs, options=settings)


def compile_package(gm, inputs, inner, patches, decompositions):
    """Returns the files of a package of a graph; as inductor's compile_fx_aot, which takes no decompositions."""
    from torch._dynamo.utils import get_metrics_context
    from torch._export.utils import _compiling_state_context
    from torch._inductor.codecache import code_hash
    from torch._inductor.compile_fx import compile_fx, unwrap_tensor_subclass_parameters

    unwrap_tensor_subclass_parameters(gm)
    patches = {**patches, "aot_inductor.output_path": code_hash(gm.code)}
    compiling = V.set_aot_compilation(True), get_metrics_context(), _compiling_state_context()
    with contextlib.ExitStack() as stack:
        for each in compiling:
            stack.enter_context(each)
        made = compile_fx(gm, inputs, inner_compile=inner, config_patches=patches, decompositions=decompositions)
    return made.filename
