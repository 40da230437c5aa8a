"""Gradients of kernels by the compiler."""

from .derivative import Derivative, derive

__all__ = ["Derivative", "derive"]
