"""Puts the chosen rows of benchmarks/results into README.md, between its markers; --check: only says whether it is
so."""

import pathlib
import sys

from report import read

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
BEGIN, END = "<!-- benchmarks/readme_table.py -->\n", "<!-- end of the table -->\n"
ROWS = [
    "add 2^24 float32 (a user's kernel)",
    "softmax 4096x4096 float32",
    "rms_norm 4096x4096 float32",
    "rms_norm 4096x4096 bfloat16",
    "layer_norm 4096x4096 float32",
    "RoPE q[1,32,2048,128] k[1,8,2048,128] float32",
    "GroupNorm+SiLU [4,320,64,64] NCHW float32",
    "GroupNorm+SiLU [4,320,64,64] channels_last float32",
    "attention [1,16,1024,64] full float32",
    "attention [1,16,1024,64] causal float32",
    "attention backward [1,16,1024,64] causal float32",
    "attention [1,16,1024,64] full bfloat16",
    "attention backward [1,16,1024,64] full bfloat16",
    "matmul 1024^3 float32",
    "matmul 1024^3 bfloat16",
    "linear+gelu 1024x1024x4096 float32",
]


def table():
    files = sorted(RESULTS.glob("cpu-*.md"))
    # A table for each instruction set; one more machine's, such as cpu-avx2-xeon.md, is linked only.
    results = {path.stem.removeprefix("cpu-"): read(path)[1] for path in files if path.stem.count("-") == 1}
    head = ["case"] + [f"{name}: {column}" for name in results for column in ("eager ms", "ours ms", "ratio")]
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    for case in ROWS:
        cells = [result.get(case, {}).get(column, "") for result in results.values()
                 for column in ("eager ms", "ours ms", "ratio")]
        if any(cells):
            lines.append("| " + " | ".join([case, *cells]) + " |")
    links = ", ".join(f"[{path.relative_to(ROOT)}]({path.relative_to(ROOT)})" for path in files)
    return "\n".join([*lines, "", f"All cases, and the machines: {links}."]) + "\n" if files else ""


def updated(text):
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    return text[:begin] + table() + text[end:]


if __name__ == "__main__":
    readme = ROOT / "README.md"
    text = updated(readme.read_text())
    if "--check" in sys.argv[1:]:
        sys.exit(0 if text == readme.read_text()
                 else "README.md's table is not that of benchmarks/results; run benchmarks/readme_table.py")
    readme.write_text(text)
