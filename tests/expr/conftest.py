"""Loads the operators of tests/torch/library."""

from built import load_operators

load_operators()
