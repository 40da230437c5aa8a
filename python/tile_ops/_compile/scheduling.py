"""Inductor's scheduling with our kernels: it fuses as for any SIMD kernel, and each group of nodes becomes one kernel."""

import itertools

import sympy
import torch
from torch._inductor.codegen.common import BackendFeature
from torch._inductor.codegen.simd import SIMDScheduling
from torch._inductor.utils import get_fused_kernel_name, get_kernel_metadata
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from . import ahead, calls, templates
from .active import Refused, current
from .kernel import TileKernel
from .report import place_of

MOST_ACCESSES = 56  # of a group of nodes: a kernel has at most MOST_PARAMETERS, and sizes that vary are some of them


def _fits_a_kernel(node1, node2):
    accesses = OrderedSet()
    for node in (node1, node2):
        accesses |= node.read_writes.reads | node.read_writes.writes
    return len(accesses) <= MOST_ACCESSES


class TileScheduling(SIMDScheduling):
    kernel_type = TileKernel
    count = itertools.count()

    def __init__(self, scheduler):
        super().__init__(scheduler)
        if scheduler is not None:
            ahead.compile_operators(V.graph.module.graph)

    @classmethod
    def get_backend_features(cls, device):
        features = OrderedSet([BackendFeature.INPLACE_BUFFERS])
        # Without the feature, inductor splits a long reduction into two kernels, which have work for all of a GPU.
        if torch.device(device).type == "cpu":
            features.add(BackendFeature.REDUCE_TO_SINGLE_ELEMENT)
        return features

    @classmethod
    def get_tiling_and_scores(cls, node_schedule, numel, reduction_numel=sympy.S.One, coalesce_analysis=None):
        return cls.create_tiling([numel], [reduction_numel]), None

    @classmethod
    def select_tiling(cls, node_schedule, numel, reduction_numel=sympy.S.One, coalesce_analysis=None):
        return cls.create_tiling([numel], [reduction_numel])

    def can_fuse_vertical(self, node1, node2):
        if node1.is_template():
            if not isinstance(node1.get_template_node(), templates.TileProduct) or node2.is_template():
                return False
            (template,) = (each for each in node1.get_nodes() if each.is_template())
            nodes = [each for each in (*node1.get_nodes(), *node2.get_nodes()) if each is not template]
            return templates.fits(self.scheduler, template, nodes)
        return not node2.is_template() and _fits_a_kernel(node1, node2) and super().can_fuse(node1, node2)

    def can_fuse_horizontal(self, node1, node2):
        if node1.is_template() or node2.is_template() or not _fits_a_kernel(node1, node2):
            return False
        return super().can_fuse(node1, node2)

    def codegen_template(self, template_node, epilogue_nodes, prologue_nodes, *, only_gen_src_code=False, hint_override=None):
        template = template_node.get_template_node()
        if not isinstance(template, templates.TileProduct):
            raise Refused(f"a template of inductor's, {type(template).__name__}", _targets(template_node))
        templates.call(self, template_node, epilogue_nodes)

    def codegen_node_schedule(self, kernel_features):
        try:
            return super().codegen_node_schedule(kernel_features)
        except Refused as error:
            targets = OrderedSet()
            for node in kernel_features.scheduler_nodes():
                targets |= _targets(node)
            why = str(error)  # the name of an operation, or a sentence
            named = [each for each in targets if why in str(each).split(".")[1]]
            raise Refused(why, named or targets) from error
        except Exception:
            current().place = _place(kernel_features.scheduler_nodes())
            raise

    def define_kernel(self, src_code, node_schedule, kernel):
        kernels = calls.kernels_of_module()
        known = kernels.get(src_code)
        name = known or f"tile_{get_fused_kernel_name(node_schedule, 'original_aten')}_{next(self.count)}"
        kernel.source = src_code.replace("def KERNEL(", f"def {name}(")
        if known:
            return name
        kernels[src_code] = name
        origins, _ = get_kernel_metadata(node_schedule, V.graph.wrapper_code)
        calls.write_kernel(name, kernel.source, origins)
        current().kernels.append(name)
        return name


def _targets(node):
    """Returns the torch operators of a scheduled node that can be called instead of being fused."""
    found = OrderedSet()
    for origin in node.node.get_origins() if node.node is not None else ():
        target = origin.target
        if isinstance(target, torch._ops.OpOverload) and not target.is_view:
            found.add(target)
    return found


def _place(nodes):
    """Returns the user's line of the last operator in a kernel."""
    places = [place_of(origin.meta.get("stack_trace")) for node in nodes if node.node for origin in node.node.get_origins()]
    return next(filter(None, reversed(places)), "")
