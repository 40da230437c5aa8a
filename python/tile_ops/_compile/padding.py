"""Torch's products of larger matrices: rows that begin at multiples of 16 bytes are faster to read and to write."""

import weakref

import sympy
import torch
from torch._inductor import ir, lowering
from torch._inductor.ir import is_storage_and_layout
from torch._inductor.virtualized import V

from .._products import pays_to_pad
from .compat import concatenated, hint

aten = torch.ops.aten

# {graph: {operand's memory: (its view, the same with more rows and columns)}}: the operands of several products are padded once.
_operands = weakref.WeakKeyDictionary()


def _is_transposed(matrix):
    """Returns True if a matrix is a transposed one, of a buffer or of what is computed."""
    data = matrix.data
    if isinstance(data, ir.PermuteView):
        return list(data.dims) == [1, 0]
    return is_storage_and_layout(matrix) and V.graph.sizevars.statically_known_equals(matrix.get_stride()[0], 1)


def _memory_of(matrix):
    """Returns a key that equal views of one memory have."""
    data = matrix.data
    while isinstance(data, ir.PermuteView):
        data = data.data
    if not is_storage_and_layout(matrix):
        return id(data)
    layout = matrix.get_layout()
    return matrix.get_name(), layout.offset, *zip(layout.size, layout.stride)


def _beside_zeros(matrix, axis, count):
    """Returns a matrix with more rows or columns; where it is not in memory yet, it is computed there, so that nothing is copied."""
    if not count:
        return matrix
    sizes = list(matrix.get_size())
    sizes[axis] = count
    zeros = lowering.lowerings[aten.full.default](sizes, 0, dtype=matrix.get_dtype(), device=matrix.get_device())
    return concatenated([matrix, zeros], axis)


def _with_more(matrix, rows, columns):
    """Returns a matrix with more rows and columns, of zeros."""
    if not rows and not columns:
        return matrix
    permute = lowering.lowerings[aten.permute.default]
    if _is_transposed(matrix):
        return permute(_with_more(permute(matrix, [1, 0]), columns, rows), [1, 0])
    made = _operands.setdefault(V.graph, {})
    key = _memory_of(matrix), rows, columns
    if key not in made:
        made[key] = matrix, _beside_zeros(_beside_zeros(matrix, 0, rows), 1, columns)
    return made[key][1]


def padded(own, *operands):
    """Returns torch's product, a view of one with larger operands if that is faster, or None.

    Inductor pads products by a pass of its own, which starts programs to measure them, and we turn it off.
    """
    *bias, input, other = operands
    extents = (*input.get_size(), other.get_size()[-1])
    if len(extents) != 3 or len(other.get_size()) != 2 or any(each.get_size() != [extents[2]] for each in bias):
        return None
    fixed = [isinstance(extent, sympy.Integer) for extent in extents]
    pays = pays_to_pad(input.get_device(), input.get_dtype(), [hint(each) for each in extents])
    rows, depth, columns = (-int(extent) % 8 if each and known else 0 for extent, each, known in zip(extents, pays, fixed))
    if not (rows or depth or columns):
        return None
    if columns:
        bias = [lowering.lowerings[aten.constant_pad_nd.default](each, [0, columns], 0) for each in bias]
    product = own(*bias, _with_more(input, rows, depth), _with_more(other, depth, columns))
    for axis in (0, 1):
        if (rows, columns)[axis]:
            product = lowering.lowerings[aten.slice.Tensor](product, axis, 0, (extents[0], extents[2])[axis])
    return product
