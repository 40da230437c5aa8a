"""The table of all operators of torch.ops.tile, from which tests take their calls. A new operator adds a row.

Each file of this folder holds the rows of a family; record.py explains the fields of a row.
"""

import importlib

import torch

import tile_ops  # noqa: F401  registers the operators
from operators.record import Operator

FAMILIES = (
    "softmax",
    "norms",
    "gated",
    "rope",
    "adamw",
    "dropout",
    "embedding",
    "matmul",
    "scaled_matmul",
    "cross_entropy",
    "attention",
)


def _rows():
    for family in FAMILIES:
        for value in vars(importlib.import_module(f"operators.{family}")).values():
            if isinstance(value, Operator):
                yield value.name, value


TABLE = dict(_rows())
# Only code that torch.compile(backend="tile") generates calls these, with plain tensors.
_SCORED = "_attention_with_score"
OF_GENERATED_CODE = {"_matmul_into", "_run_kernel", _SCORED, f"{_SCORED}_saving", f"{_SCORED}_backward"}


def all_names():
    """Returns the names of all operators of torch.ops.tile but those of generated code and the hidden ones of derivatives."""
    names = (name.split(".")[0] for name in torch._C._dispatch_get_all_op_names())
    own = {
        name.removeprefix("tile::")
        for name in names
        if name.startswith("tile::") and not name.endswith(("_forward_mode", "_reverse_mode"))
    }
    return own - OF_GENERATED_CODE


def registered():
    """Returns the names of all operators that users call: not gradients, nor the private ones that save for them."""
    return {name for name in all_names() if not name.startswith("_") and not name.endswith("_backward")}


def require_rows():
    """Raises an error if an operator has no row: each test file that reads the table would silently leave it out."""
    if missing := sorted(registered() - TABLE.keys()):
        raise LookupError(f"tests/operators has no row for {', '.join(missing)}; add one, as CONTRIBUTING.md explains")


def calls(field):
    """{name of the call: call} of one field of all rows."""
    require_rows()
    return {name: call for row in TABLE.values() for name, call in getattr(row, field).items()}


def rows_with(field):
    """{name of the operator: value} of one field of all rows that have it."""
    require_rows()
    return {name: value for name, row in TABLE.items() if (value := getattr(row, field))}
