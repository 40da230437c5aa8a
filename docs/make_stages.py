"""Writes the IR of a kernel after each pass into how_the_compiler_works.md; --check: only says whether it is current."""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "how_the_compiler_works.md"
BEGIN, END = "<!-- docs/make_stages.py -->\n", "<!-- end of the stages -->\n"
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
    "after canonicalise": "One order of ops for one meaning: each stands where something with an effect first needs it.",
    "after fold": "Arithmetic of constants.",
    "after simplify": "Identities: a `where` of a mask that is always true is its second operand.",
    "after simplify_control": "Known branches, loops of no or one turn.",
    "after single_products": "Products of batches of one matrix became products of matrices.",
    "after drop_unit_axes": "Accesses of tiles without axes of extent 1 that a reshape drops or adds, where a kernel multiplies.",
    "after cse": "Equal ops became one, across nesting: inner ones use what stands outside.",
    "after licm": "What does not change in the loop left it.",
    "after simplify_masks": "Comparisons that ranges decide became constants; accesses proven to lie inside got `in_bounds`.",
    "after split_loops": "The turns in which every column is left of the diagonal got a loop of their own, in which the mask is the constant"
    " true; the rest is marked `edge`.",
    "after dce": "What nobody uses is gone: the first loop has no mask left.",
}


def stages():
    """[(title, text)] of the kernel; passes that changed nothing are left out, and source lines too."""
    environment = {**os.environ, "TILE_DUMP": "ir"}
    command = [sys.executable, "-c", RUN, str(ROOT / "examples")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr)
    parts = re.findall(r"^// (as traced|after \w+)\n(kernel causal_sum\(.*?^}\n)", done.stderr, re.MULTILINE | re.DOTALL)
    plain = [(title, re.sub(r"  // .*", "", text)) for title, text in parts]
    return [stage for i, stage in enumerate(plain) if i == 0 or stage[1] != plain[i - 1][1]]


def updated(text):
    made = "".join(
        f"<details><summary>{title}: {WHAT[title]}</summary>\n\n```text\n{ir}```\n\n</details>\n\n" for title, ir in stages()
    )
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return text[:begin] + "\n" + made + text[end:]


if __name__ == "__main__":
    text = updated(PAGE.read_text())
    if "--check" in sys.argv[1:]:
        sys.exit(0 if text == PAGE.read_text() else "how_the_compiler_works.md is not current; run docs/make_stages.py")
    PAGE.write_text(text)
