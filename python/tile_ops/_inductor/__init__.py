"""An inductor pass that folds what stands around our operators into them: enable_inductor_fusion()."""

import hashlib
import pathlib

import torch
from torch._inductor import config, custom_graph_pass

from .add_rms_norm import fold_sum
from .matmul import fold_matmul
from .norm import fold_norm

_files = sorted(pathlib.Path(__file__).parent.glob("*.py"))
_hash = hashlib.sha256(b"".join(path.read_bytes() for path in _files)).hexdigest()
_aware_of_inference = getattr(custom_graph_pass, "CustomInferenceAwareGraphPass", ())


def _as_tuple(passes):
    if passes is None:
        return ()
    return tuple(passes) if isinstance(passes, (list, tuple)) else (passes,)


class _Fusion(_aware_of_inference or custom_graph_pass.CustomGraphPass):
    """The passes that stood there before, then ours."""

    def __init__(self, before):
        self.before = before
        self.enabled = True

    def __call__(self, graph, is_inference=False):
        for each in _as_tuple(self.before):
            if _aware_of_inference and isinstance(each, _aware_of_inference):
                each(graph, is_inference=is_inference)
            else:
                each(graph)
        if not self.enabled:
            return
        # All products first: one that takes a residual along is better off than the norm behind it.
        folds = [fold_matmul, fold_norm, fold_sum]
        if config.emulate_precision_casts:  # who sets this wants the roundings between the steps
            folds = [fold_sum]
        for fold in folds:
            for node in list(graph.nodes):
                if not node._erased:
                    fold(graph, node)

    def uuid(self):
        """Returns the key of this pass in inductor's caches; None, so that nothing is cached, if an earlier pass has none."""
        before = []
        for each in _as_tuple(self.before):
            own = each.uuid() if isinstance(each, custom_graph_pass.CustomGraphPass) else None
            if not own:
                return None
            before.append(own)
        return ("tile_ops", _hash, self.enabled, torch.__version__, *before)


_active = None


def enable_inductor_fusion() -> None:
    """From now on torch.compile folds what stands around our operators into them.

    Into tile::matmul: a number times the product, a bias, an activation (relu, gelu, silu), a residual, a cast of the
    result. Into a norm: a weight or bias behind it, casts around it, silu behind group_norm. The sum that
    tile::rms_norm gets and others use too: tile::add_rms_norm. docs/torch_compile.md says which forms, and what of
    training graphs. What is folded computes in float32 what eager rounds to 16 bits between the steps, so results
    differ from eager's by less than these roundings; add_rms_norm's are the same.

    It is post_grad_custom_pre_pass of torch._inductor.config; a pass that is set there goes on running, before ours.
    What is compiled already stays as it is until torch.compiler.reset(). A second call does nothing.
    """
    global _active
    if _active is not None and _active in _as_tuple(config.post_grad_custom_pre_pass):
        return
    if _active is not None:
        _active.enabled = False  # another pass may have kept it
    _active = config.post_grad_custom_pre_pass = _Fusion(config.post_grad_custom_pre_pass)


def disable_inductor_fusion() -> None:
    """Undoes enable_inductor_fusion(), for what is compiled from now on."""
    global _active
    if _active is None:
        return
    _active.enabled = False
    present = config.post_grad_custom_pre_pass
    if present is _active:
        config.post_grad_custom_pre_pass = _active.before
    elif isinstance(present, (list, tuple)):
        rest = [each for each in present if each is not _active]
        config.post_grad_custom_pre_pass = type(present)([*_as_tuple(_active.before), *rest])
    _active = None
