"""Compiles a graph of Dynamo: inductor makes the kernels with our scheduling, and refused operators are called."""

import copy
import functools
import logging
import time

import torch
from torch._inductor.decomposition import select_decomp_table

from . import cache_key, compat, flex, ladder, lowerings, pairs, patterns, report, templates
from . import options as option_rules
from .active import Compile, Refused, compiling, current
from .lowerings import KEPT, KEPT_ON_CPU
from .scheduling import TileScheduling

ATTEMPTS = 20


class _Quiet(logging.Filter):
    """Drops inductor's report of a node that we refuse: the graph is compiled again without it."""

    def filter(self, record):
        return current() is None or not str(record.msg).startswith("Error in codegen for")


@functools.cache
def _install():
    lowerings.install()
    templates.install()
    compat.note_sources(lambda text: current() and current().sources.append(text))
    compat.leave_out_scaled_softmax(lambda: current() is not None)
    compat.let_sums_into_elements_be_calls(lambda: current() is not None)
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


def _without(kept):
    return {op: of for op, of in select_decomp_table().items() if op not in kept}


# Inductor's tables without the operators that we keep. Its caches know these functions by their names.
def _decompositions_on_cpu():
    return _without((*KEPT, *KEPT_ON_CPU))


def _decompositions_on_gpu():
    return _without(KEPT)


def compile_graph(gm, example_inputs, mode, options):
    """Returns a function that computes the graph. mode, options: those of torch.compile."""
    from torch._inductor.compile_fx import compile_fx

    own, settings = option_rules.split(options)
    _install()
    graphs, place = [], report.place_of_graph(gm)
    flex.take_over(gm, own)

    def inner(gm, example_inputs, **arguments):
        compile, begun = Compile(own, on_gpu, reasons=dict(joint.reasons), steps=dict(joint.steps)), time.perf_counter()
        if "get_decomp_fn" in arguments:  # since torch 2.13; inductor's own of a table has no key in its caches
            arguments["get_decomp_fn"] = decompositions
        kind = "backward" if arguments.get("is_backward") else "inference" if arguments.get("is_inference") else "forward"
        graph = report.Graph(kind, report.place_of_graph(gm) or place)
        try:
            made = _generate(compile, gm, example_inputs, arguments)
            found = report.read(compat.source_of(made), lambda name: compile.reasons.get(name) or lowerings.reason_of(name))
            graph.kernels, graph.products, graph.called, graph.steps = found
            graph.cached = bool(graph.kernels or graph.products) and not compile.kernels
        except Exception as error:
            if ladder.passes_on(error):
                raise
            at = compile.place or graph.place
            made, graph.computed_by = ladder.computed_otherwise(_copy(gm), example_inputs, arguments, own, before, error, at)
            graph.error = ladder.described(error)
        graph.seconds = time.perf_counter() - begun
        graphs.append(graph)
        report.add(graph)
        return made

    on_gpu = any(each.device.type == "cuda" for each in example_inputs if isinstance(each, torch.Tensor))
    decompositions = _decompositions_on_gpu if on_gpu else _decompositions_on_cpu
    patches = compat.config_patches(on_gpu)
    before = compat.config_values(patches)
    patches.update(settings)
    if mode is not None:
        from torch._inductor import list_mode_options

        patches.update(list_mode_options(mode))
    begun = time.perf_counter()
    joint = Compile(own, on_gpu)
    patches = cache_key.patched(patches, own, functools.partial(patterns.replace_all, compile=joint))
    with compiling(joint):
        made = compile_fx(gm, example_inputs, inner_compile=inner, config_patches=patches, decompositions=decompositions())
    if not graphs:  # autograd's cache had them
        report.add_cached(joint.sources, place, time.perf_counter() - begun, lowerings.reason_of)
    return made
