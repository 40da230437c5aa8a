"""Rotation in plain torch: the reference of the tests of rope."""

import torch


def turn(x, cos, sin, interleaved=False, rotary=None):
    """x rotated as the formula says, in the dtype that torch promotes to, rounded once."""
    rotary = x.shape[-1] if rotary is None else rotary
    part, rest = x[..., :rotary], x[..., rotary:]
    first, second = (part[..., ::2], part[..., 1::2]) if interleaved else part.chunk(2, -1)
    turned = first * cos - second * sin, second * cos + first * sin
    turned = torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)
    return torch.cat((turned.to(x.dtype), rest), -1)
