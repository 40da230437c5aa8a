"""Defines calls of every operator on small tensors, to be compared with the same calls on shards."""

import operators
import torch

OF = operators.calls("sharded")


def made(name):
    """Returns the case, with the same tensors in every process."""
    torch.manual_seed(len(name))
    return OF[name]()
