"""Compiles a graph of Dynamo: inductor makes the kernels with our scheduling, and refused operators are called."""

import copy
import functools
import logging
import time

import torch
from torch._inductor.decomposition import select_decomp_table

from . import attention_inputs, cache_key, compat, flex, ladder, linear_loss, lowerings, pairs, patterns, report, templates
from . import options as option_rules
from .active import Compile, Refused, compiling, current
from .lowerings import CALLED_OF_IMAGES, KEPT, KEPT_ON_CPU
from .scheduling import TileScheduling

aten = torch.ops.aten
ATTEMPTS = 20
FOLDING = "aot_inductor.use_runtime_constant_folding"


class _Quiet(logging.Filter):
    """Drops inductor's report of a node that we refuse: the graph is compiled again without it."""

    def filter(self, record):
        return current() is None or not str(record.msg).startswith("Error in codegen for")


@functools.cache
def _install():
    lowerings.install()
    templates.install()
    compat.leave_out_scaled_softmax(lambda: current() is not None)
    compat.let_sums_into_elements_be_calls(lambda: current() is not None)
    compat.split_evenly(lambda: current() is not None)
    compat.unroll_positions()
    compat.pad_rows_alone(lambda: current() is not None)
    compat.need_no_triton(lambda: current() is not None)
    compat.generate_packages_at_once(lambda: current() is not None)
    logging.getLogger("torch._inductor.scheduler").addFilter(_Quiet())
    for device in ("cpu", "cuda"):

        def make(own):
            return lambda scheduler: TileScheduling(scheduler) if current() else own(scheduler)

        compat.set_scheduling(device, make)


def _cause(error):
    """Returns the Refused that an error was raised from."""
    return next((each for each in ladder.causes(error) if isinstance(each, Refused)), None)


def _copy(gm):
    return torch.fx.GraphModule(gm, copy.deepcopy(gm.graph))


def _generate(compile, gm, example_inputs, arguments):
    """Returns the graph with our kernels; operators that were refused are called."""
    from torch._inductor.compile_fx import compile_fx_inner

    for _ in range(ATTEMPTS):
        try:
            with compiling(compile):
                copy = _copy(gm)
                pairs.join_all(copy, compile)
                return compile_fx_inner(copy, example_inputs, **arguments)
        except Exception as error:
            refused = _cause(error)
            if refused is None or refused.targets <= compile.fallbacks:
                raise
            for target in refused.targets:
                compile.reasons.setdefault(str(target), f"refused: {refused}")
                lowerings.let_call(target)
            compile.fallbacks |= refused.targets
    raise RuntimeError("too many operators without a kernel")


def _unless_of_images(decomposed, place):
    @functools.wraps(decomposed)
    def asked(*args, **kwargs):
        return NotImplemented if args[place].dim() == 4 else decomposed(*args, **kwargs)

    return asked


def _any_of_bytes(op):
    """Returns the decomposition of `any` of uint8, whose result is uint8 as well: inductor's is bool."""

    def decomposed(input, *args, **kwargs):
        return op(input.bool(), *args, **kwargs).to(torch.uint8) if input.dtype == torch.uint8 else NotImplemented

    return decomposed


_ANY = {op: _any_of_bytes(op) for op in (aten.any.default, aten.any.dim, aten.any.dims)}


def _without(kept):
    return {op: of for op, of in select_decomp_table().items() if op not in kept} | _ANY


# Inductor's tables without the operators that we keep. Its caches know these functions by their names.
def _decompositions_on_cpu():
    table = _without((*KEPT, *KEPT_ON_CPU))
    return table | {op: _unless_of_images(table[op], place) for op, place in CALLED_OF_IMAGES.items()}


def _decompositions_on_gpu():
    return _without(KEPT)


def _read(compile, made):
    def reason_of(name):
        return compile.reasons.get(name) or lowerings.reason_of(name)

    if compile.is_package:
        return report.read_package(*compat.package_source_of(made), reason_of)
    return report.read(compat.source_of(made), reason_of)


class _Inner:
    """Compiles each graph that inductor makes of a model, and adds it to the report."""

    def __init__(self, joint, decompositions, before, place=""):
        self.joint, self.decompositions, self.before, self.place = joint, decompositions, before, place
        self.graphs = []

    def __call__(self, gm, example_inputs, **arguments):
        joint, begun = self.joint, time.perf_counter()
        compile = Compile(
            joint.options, joint.on_gpu, reasons=dict(joint.reasons), steps=dict(joint.steps), is_package=joint.is_package
        )
        if "get_decomp_fn" in arguments:  # since torch 2.13; inductor's own of a table has no key in its caches
            arguments["get_decomp_fn"] = self.decompositions
        kind = "package" if compile.is_package else "inference" if arguments.get("is_inference") else "forward"
        kind = "backward" if arguments.get("is_backward") else kind
        compile.trains = kind in ("forward", "backward")
        graph = report.Graph(kind, report.place_of_graph(gm) or self.place)
        try:
            made = _generate(compile, gm, example_inputs, arguments)
            graph.kernels, graph.products, graph.called, graph.steps = _read(compile, made)
            graph.cached = bool(graph.kernels or graph.products) and not compile.kernels
        except Exception as error:
            if ladder.passes_on(error):
                raise
            at = compile.place or graph.place
            made, graph.computed_by = ladder.computed_otherwise(
                _copy(gm), example_inputs, arguments, compile, self.before, error, at
            )
            graph.error = ladder.described(error)
        graph.seconds = time.perf_counter() - begun
        self.graphs.append(graph)
        report.add(graph)
        return made


def _settings(joint, settings, mode=None):
    """Returns (settings of inductor, the values that they have without us, the decompositions of graphs)."""
    _install()
    patches = compat.config_patches(joint.on_gpu, joint.is_package)
    before = compat.config_values(patches)
    patches.update(settings)
    if mode is not None:
        from torch._inductor import list_mode_options

        patches.update(list_mode_options(mode))
    patches = cache_key.patched(patches, joint.options, functools.partial(patterns.replace_all, compile=joint))
    return patches, before, _decompositions_on_gpu if joint.on_gpu else _decompositions_on_cpu


def _on_gpu(inputs):
    return any(each.device.type == "cuda" for each in inputs if isinstance(each, torch.Tensor))


def compile_graph(gm, example_inputs, mode, options):
    """Returns a function that computes the graph. mode, options: those of torch.compile."""
    from torch._inductor.compile_fx import compile_fx

    own, settings = option_rules.split(options)
    place, joint = report.place_of_graph(gm), Compile(own, _on_gpu(example_inputs))
    flex.take_over(gm, own)
    attention_inputs.take_over(gm, own)
    linear_loss.take_over(gm, joint)
    patches, before, decompositions = _settings(joint, settings, mode)
    inner = _Inner(joint, decompositions, before, place)
    begun, sources = time.perf_counter(), []
    with compiling(joint), compat.noted_sources(sources.append):
        made = compile_fx(gm, example_inputs, inner_compile=inner, config_patches=patches, decompositions=decompositions())
    if not inner.graphs:  # autograd's cache had them
        report.add_cached(sources, place, time.perf_counter() - begun, lowerings.reason_of)
    return made


def compile_for_package(gm, args, kwargs, options):
    """Returns the files of an AOTInductor package. gm: the module of an exported program; options: those of torch.compile."""
    own, settings = option_rules.split(options)
    if settings.get(FOLDING):
        raise ValueError(f'options["{FOLDING}"]: kernels of tile_ops cannot run when a package is loaded; leave it out')
    inputs, settings = compat.package_inputs(gm, args, kwargs, settings)
    on_gpu = _on_gpu([*inputs, *gm.parameters(), *gm.buffers()])
    joint = Compile(own, on_gpu, is_package=True)
    flex.take_over(gm, own)
    attention_inputs.take_over(gm, own)
    linear_loss.take_over(gm, joint)
    patches, before, decompositions = _settings(joint, settings)
    # Code of inductor's own would be packed, too.
    inner = _Inner(joint, decompositions, {**before, **compat.PACKAGE}, report.place_of_graph(gm))
    with compiling(joint):
        return compat.compile_package(gm, inputs, inner, patches, decompositions())
