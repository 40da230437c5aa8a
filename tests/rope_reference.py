"""Rotation in plain torch: the reference of the tests of rope."""

import torch


def rotate(x, cos, sin, interleaved=False, rotary=None):
    """x rotated as the formula says, in the dtype that torch promotes to, rounded once."""
    rotary = x.shape[-1] if rotary is None else rotary
    part, rest = x[..., :rotary], x[..., rotary:]
    first, second = (part[..., ::2], part[..., 1::2]) if interleaved else part.chunk(2, -1)
    halves = first * cos - second * sin, second * cos + first * sin
    columns = torch.stack(halves, -1).flatten(-2) if interleaved else torch.cat(halves, -1)
    return torch.cat((columns.to(x.dtype), rest), -1)


def rotated(query, key, cos, sin, *, interleaved=False, rotary_dim=None, position_ids=None):
    """Returns the results of tile::rope."""
    rotary = query.shape[-1] if rotary_dim is None else rotary_dim
    wide = []
    for table in (cos, sin):
        if table.shape[-1] == rotary:
            table = table[..., ::2] if interleaved else table[..., : rotary // 2]
        table = table if table.dim() == 3 else table[None]
        if position_ids is not None:
            ids = position_ids if position_ids.dim() == 2 else position_ids[None]
            batch = max(table.shape[0], ids.shape[0])
            table = torch.stack([table[b % table.shape[0]][ids[b % ids.shape[0]].long()] for b in range(batch)])
        wide.append(table[:, None])
    return tuple(rotate(x, *wide, interleaved, rotary) for x in (query, key))


def tables(positions, width, rotary, interleaved=False, dtype=torch.float32, batch=None):
    """Cosine and sine of random angles."""
    shape = (positions, rotary // 2) if batch is None else (batch, positions, rotary // 2)
    angle = torch.rand(shape) * 7
    if width == rotary:
        angle = angle.repeat_interleave(2, -1) if interleaved else torch.cat((angle, angle), -1)
    return angle.cos().to(dtype), angle.sin().to(dtype)
