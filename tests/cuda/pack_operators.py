"""Makes the pack of the built-in operators: their usual calls and gradients in the usual types, for all chips.

    python tests/cuda/pack_operators.py [--arch sm_80,sm_90a] [--out FILE]

It needs NVRTC and no GPU. The calls are those of gate_calls.py and usual_calls.py. What the disk cache holds is not compiled again."""

import argparse
import functools
import os
import pathlib
import sys
import time

os.environ["TILE_PACKS"] = "none"  # an older pack may be of another NVRTC

import gate_calls
import usual_calls
from tile_ops import __main__ as commands
from tile_ops import packs

ARCHS = (80, 86, 89, 90, 100, 120)
DTYPES = (gate_calls.bf16, gate_calls.f16, gate_calls.f32)
OUT = pathlib.Path(packs.__file__).parent / "operators.pack"
MOST_BYTES = 40 * 2**20


def calls():
    """Each call and its gradient; variants only in bfloat16, in which they are usual."""
    for name in gate_calls.CALLS:
        for dtype in DTYPES[:1] if name in gate_calls.VARIANTS else DTYPES:
            yield functools.partial(gate_calls.call, name, dtype)
    for name, function in usual_calls.CALLS.items():
        # In float32 these are rarer, and large.
        rare = name.startswith(("linear", "group_norm", "add_rms_norm"))
        for dtype in DTYPES[:2] if rare else DTYPES:
            yield functools.partial(gate_calls.with_gradient, function, dtype)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--arch", default=",".join(map(str, ARCHS)), help="the chips")
    options.add_argument("--out", default=str(OUT), help="the pack to write")
    options.add_argument("--from", dest="sources", nargs="+", default=[], metavar="FILE", help="further records and packs")
    options.add_argument("--jobs", type=int, help="how many kernels are compiled at once; by default one a core")
    options = options.parse_args()
    began = time.monotonic()
    made = packs.make(
        options.out,
        options.sources,
        calls=calls(),
        archs=options.arch.split(","),
        jobs=options.jobs,
        progress=commands.show_progress(),
    )
    commands.show_pack(made)
    print(f"made in {time.monotonic() - began:.0f} s")
    if made["failures"] or made["bytes"] > MOST_BYTES:
        sys.exit(f"{made['path']}: kernels are missing, or it is larger than {MOST_BYTES} bytes; it must be neither")


if __name__ == "__main__":
    main()
