"""An inductor pass that fuses the neighbours of our operators into them: enable_inductor_fusion()."""

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


class LaterPass(_aware_of_inference or custom_graph_pass.CustomGraphPass):
    """Runs the passes that were set before, then its own change(graph)."""

    def __init__(self, before):
        self.before = before

    def __call__(self, graph, is_inference=False):
        for each in _as_tuple(self.before):
            if _aware_of_inference and isinstance(each, _aware_of_inference):
                each(graph, is_inference=is_inference)
            else:
                each(graph)
        self.change(graph)

    def key(self, *own):
        """Returns the key of all in inductor's caches; None, so that nothing is cached, if an earlier pass has none."""
        before = []
        for each in _as_tuple(self.before):
            key = each.uuid() if isinstance(each, custom_graph_pass.CustomGraphPass) else None
            if not key:
                return None
            before.append(key)
        return (*own, *before)


class _Fusion(LaterPass):
    def __init__(self, before):
        super().__init__(before)
        self.enabled = True

    def change(self, graph):
        if not self.enabled:
            return
        # Products come first: if a product can absorb a residual, that saves more than a norm after it.
        folds = [fold_matmul, fold_norm, fold_sum]
        if config.emulate_precision_casts:  # with this setting, the user wants the roundings between the steps
            folds = [fold_sum]
        for fold in folds:
            for node in list(graph.nodes):
                if not node._erased:
                    fold(graph, node)

    def uuid(self):
        return self.key("tile_ops", _hash, self.enabled, torch.__version__)


_active = None


def enable_inductor_fusion() -> None:
    """Makes torch.compile fold the steps around our operators into them, from now on.

    - Into tile::matmul: a number times the product, a bias, an activation (relu, gelu, silu), a residual, and a cast of the
      result.
    - Into a norm: a weight or bias after it, casts around it, and silu after group_norm.
    - Into tile::add_rms_norm: tile::rms_norm and the sum that it gets, if others use the sum, too.

    docs/torch_compile.md lists the forms, also for training graphs. Folded steps compute in float32, where eager rounds to 16
    bits between the steps, so results differ from eager's by less than these roundings. Those of add_rms_norm are the same.

    It sets post_grad_custom_pre_pass of torch._inductor.config; a pass that is set there goes on running, before ours. What is
    compiled already stays until torch.compiler.reset(). A second call does nothing. Errors: it raises none.
    """
    global _active
    if _active is not None and _active in _as_tuple(config.post_grad_custom_pre_pass):
        return
    if _active is not None:
        _active.enabled = False  # another pass may have stored it
    _active = config.post_grad_custom_pre_pass = _Fusion(config.post_grad_custom_pre_pass)


def disable_inductor_fusion() -> None:
    """Undoes enable_inductor_fusion() for code that is compiled from now on. Errors: it raises none."""
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
