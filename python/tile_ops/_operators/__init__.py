"""Torch operators defined in Python."""

from .elementwise import elementwise, reduction
from .torch_op import TorchOp, op

__all__ = ["TorchOp", "elementwise", "op", "reduction"]
