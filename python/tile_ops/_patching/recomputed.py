"""A product of a gate that its next layer does not save: backward computes it again, from what its own gradient saves anyway."""

import torch

_WRITTEN = (
    "tile_ops.patch: the {} projection of a gated MLP was written to after the forward, and backward needs it as it was; "
    "write to a copy, or patch(model, leave='gated_mlp')"
)


class _Again:
    """A tensor that function(*operands) computes. like: the tensor, of which only the layout is kept."""

    def __init__(self, function, operands, like):
        self.function, self.operands = function, operands
        self.versions = [each._version for each in operands]
        self.sizes, self.strides = like.shape, like.stride()

    def value(self):
        for name, each, version in zip(("gate", "up"), self.operands, self.versions):
            if each._version != version:
                raise RuntimeError(_WRITTEN.format(name))
        with torch.no_grad(), torch.autocast(self.operands[0].device.type, enabled=False):
            return self.function(*self.operands).as_strided(self.sizes, self.strides)


def _can_hook():
    """Returns True if no other hooks of saved tensors are there, as those of a checkpoint, which count what is saved."""
    autograd = torch._C._autograd
    return autograd._saved_tensors_hooks_is_enabled() and autograd._top_saved_tensors_default_hooks(True) is None


def then(layer, function, gate, up):
    """Returns layer(function(gate, up)), for which the layer saves no result of the function."""
    product = function(gate, up)
    records = torch.is_grad_enabled() and product.requires_grad and not torch.compiler.is_compiling()
    if not records or type(product) is not torch.Tensor or product.numel() == 0 or not _can_hook():
        return layer(product)
    address, count, dtype, operands = product.data_ptr(), product.numel(), product.dtype, (gate.detach(), up.detach())

    def pack(saved):
        same = type(saved) is torch.Tensor and saved.dtype == dtype and saved.numel() == count and saved.data_ptr() == address
        return _Again(function, operands, saved) if same else saved

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed.value() if type(packed) is _Again else packed):
        return layer(product)
