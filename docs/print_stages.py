"""Prints the IR of the kernel causal_sum of examples/cpp after each pass that changed it. Run `make examples` first."""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RUN = """
import sys
sys.path.insert(0, sys.argv[1])
import build_cpp, torch
build_cpp.load()
torch.ops.examples.causal_sum(torch.ones(2, 2))
"""
WHAT = {
    "as traced": "One op for each operation of the function, in the order in which C++ evaluated them.",
    "after expand": "Derived primitives became core ones.",
    "after canonicalise": "One order of ops for one meaning: each is where something with an effect first needs it.",
    "after fold": "Arithmetic of constants.",
    "after simplify": "Identities: a `where` of a mask that is always true is its second operand.",
    "after simplify_control": "Known branches, loops of no or one iteration.",
    "after single_products": "Products of batches of one matrix became products of matrices.",
    "after named_reductions": "Reductions with a region of one op got its name: `reduce_sum`, `reduce_max` and others.",
    "after drop_unit_axes": "Accesses of tiles without axes of extent 1 that a reshape drops or adds, where a kernel multiplies.",
    "after cse": "Equal ops became one, across nesting: inner ones use the outer result.",
    "after licm": "What does not change in the loop left it.",
    "after simplify_masks": "Comparisons that ranges decide became constants; accesses proven to lie inside got `in_bounds`.",
    "after split_loops": "The iterations in which every column is left of the diagonal got a loop of their own, in which the"
    " mask is the constant true; the rest is marked `edge`.",
    "after dce": "What nobody uses is gone: the first loop has no mask left.",
}


def stages():
    """Returns [(title, text)] of the kernel, without passes that changed nothing and without source lines."""
    environment = {**os.environ, "TILE_DUMP": "ir"}
    command = [sys.executable, "-c", RUN, str(ROOT / "examples")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr)
    parts = re.findall(r"^// (as traced|after \w+)\n(kernel causal_sum\(.*?^}\n)", done.stderr, re.MULTILINE | re.DOTALL)
    plain = [(title, re.sub(r"  // .*", "", text)) for title, text in parts]
    return [stage for i, stage in enumerate(plain) if i == 0 or stage[1] != plain[i - 1][1]]


if __name__ == "__main__":
    for title, ir in stages():
        print(f"// {title}: {WHAT[title]}\n{ir}")
