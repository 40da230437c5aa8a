"""Rows of what has a test file of its own: atomic operations, print, scaled products."""

import itertools

import atomic_cases
import scaled_cases
from prims.ir_programs import DTYPES, NUMBERS, run, same, values
from random_meaning import FLOATS, INTEGERS
from tile_ops import _C

EVERY = list(DTYPES)


def atomic(name):
    def row(dtype):
        for scalar, flat, passes in itertools.product((False, True), repeat=3):
            case = atomic_cases.case(name, dtype, DTYPES[dtype], scalar=scalar, flat=flat)
            _C.run_ir(case.text, (1, 1, 1), case.arguments, passes)
            atomic_cases.check(case, case.arguments)

    return row


def printed(dtype):
    """Its text: test_print.py."""
    conversion = "%g" if dtype in FLOATS else "%d"
    pad = "0.0" if dtype in FLOATS else "0"
    run(
        f"""%t: {dtype}[3] = load %a, %z {{pad={pad}, shape=[3], steps=[3]}}
print %t {{format="{conversion}\\n"}}""",
        [values(dtype, 3)],
    )


def scaled(dtype):
    """All of it: test_scaled_products.py."""
    text, arguments, expected = scaled_cases.case(dtype, dtype, (16, 8, 64), 32)
    _C.run_ir(text, (1, 1, 1), arguments)
    same(arguments[-1], expected)


ROWS = {
    **{f"atomic_{name}": (atomic(f"atomic_{name}"), NUMBERS) for name in ("add", "max", "min")},
    **{f"atomic_{name}": (atomic(f"atomic_{name}"), ["bool", *INTEGERS]) for name in ("and", "or", "xor")},
    **{f"atomic_{name}": (atomic(f"atomic_{name}"), EVERY) for name in ("load", "store", "xchg", "cas")},
    "print": (printed, EVERY),
    "mma_scaled": (scaled, list(scaled_cases.TORCH)),
}
