"""Writes benchmarks/results/README.md: an index of the tables there and some rows of the CPU's; --check: only compares."""

import pathlib
import sys

from report import read

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE = RESULTS / "README.md"
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
    return "\n".join(lines) + "\n" if files else ""


def index():
    """Returns a line for each table: its file, its title, and what it was measured on."""
    lines = ["| table | subject | measured on |", "|---|---|---|"]
    for path in sorted(RESULTS.glob("*.md")):
        if path != PAGE:
            title, where = [line for line in path.read_text().splitlines() if line][:2]
            lines.append(f"| [{path.name}]({path.name}) | {title.lstrip('# ')} | {where.split('. ')[0].rstrip('.')} |")
    return "\n".join(lines) + "\n"


def page():
    """Returns the text of the page."""
    return f"""# Results

Made by `benchmarks/results_page.py` from the tables in this folder; [docs/measuring.md](../../docs/measuring.md) lists the
scripts that measure them. A table is committed with chip, driver and torch version.

{index()}
## CPU: eager's time / ours

One process, interleaved rounds, medians. [benchmarks/cases.py](../cases.py) defines each row.

{table()}"""


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit(0 if PAGE.read_text() == page()
                 else "benchmarks/results/README.md differs from the tables; run benchmarks/results_page.py")
    PAGE.write_text(page())
