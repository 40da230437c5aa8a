"""Writes benchmarks/results/README.md, an index of the tables there, and prints README.md's table; --check: only compares."""

import re
import statistics
import sys

from report import RESULTS, digits, read, records

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
    # One table for each instruction set; tables of further machines, such as cpu-avx2-xeon.md, are only linked.
    results = {path.stem.removeprefix("cpu-"): read(path)[1] for path in files if path.stem.count("-") == 1}
    head = ["case"] + [f"{name}: {column}" for name in results for column in ("eager ms", "ours ms", "ratio")]
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    for case in ROWS:
        cells = [
            result.get(case, {}).get(column, "") for result in results.values() for column in ("eager ms", "ours ms", "ratio")
        ]
        if any(cells):
            lines.append("| " + " | ".join([case, *cells]) + " |")
    return "\n".join(lines) + "\n" if files else ""


def _numbers(rows, column, pattern=r"([\d.]+)$"):
    """Returns the numbers of a column; `pattern` finds one in a cell, and cells without one are left out."""
    found = (re.search(pattern, row.get(column, "")) for row in rows)
    return [float(match[1]) for match in found if match]


def _two_decimals(value):
    return f"{value:.2f}"


def _range(numbers, text=digits):
    low, high = text(min(numbers)), text(max(numbers))
    return low if low == high else f"{low} to {high}"


def _cpu(rows):
    eager, compiled = _numbers(rows, "ratio"), _numbers(rows, "ratio to compile")
    faster, middles = sum(ratio > 1 for ratio in eager), [digits(statistics.median(each)) for each in (eager, compiled)]
    return [
        f"{faster} of {len(eager)} cases are faster than eager; the median is {middles[0]} times as fast, "
        f"and {middles[1]} times as fast as `torch.compile`"
    ]


def _memory_bound(rows):
    return [row for row in rows if float(row["GF"]) < 0.05 * float(row["MB"])]  # fewer than 50 operations per byte


def _operator(row):
    return re.match(r"attention decode|[a-z]+ (?:add|of)|[\w+]+", row["case"])[0].removesuffix(" of")


def _gpu(rows):
    if fractions := _numbers(_memory_bound(rows), "of copy"):
        yield (
            f"{len(fractions)} memory-bound cases reach {_range(fractions, _two_decimals)} of a copy's speed; the median is "
            f"{_two_decimals(statistics.median(fractions))}"
        )
    yield from _against(rows, "cuBLAS", "FlashAttention-2")


def _against(rows, *peers):
    for name in peers:
        if speeds := _numbers(rows, "other peers", rf"{name} ([\d.]+)"):
            yield f"{len(speeds)} cases reach {_range(speeds)} of {name}'s speed"


def _variants(rows):
    return _against(rows, "FlexAttention", "torch's varlen")


def _attention(rows):
    ratios = _numbers(rows, "other peers", r"FlashAttention-2 ([\d.]+)")
    return [f"{len(ratios)} cases of attention reach {_range(ratios, _two_decimals)} of FlashAttention-2's speed"]


def _products(rows):
    if speeds := _numbers(rows, "other peers", r"cuBLAS ([\d.]+)"):
        yield f"{len(speeds)} products reach {_range(speeds)} of cuBLAS' speed; the median is {_two_decimals(statistics.median(speeds))}"


def _one_row(rows):
    """Returns the outcome of products alone, and of those with neighbours that are fused into them."""
    yield from _products(rows)
    if speeds := _numbers(rows, "eager"):
        yield f"{len(speeds)} products with an activation or a gate are {_range(speeds, _two_decimals)} times as fast as eager"


def _tiles(rows):
    best = [max(float(cell) for name, cell in row.items() if cell and name not in ("m x n x k", "cuBLAS us")) for row in rows]
    return [f"the best tiles of {len(best)} products reach {_range(best)} of cuBLAS' speed"]


def _host(rows):
    us = {row["call"]: row["us"] for row in rows}
    return [f"`softmax` from Python takes {us['Python: ours, softmax']} us, `torch.add` {us['Python: torch.add']} us"]


def _patched(rows):
    missed = [row["call"] for row in rows if row["bar"].endswith("missed")]
    reached = f"{len(rows) - len(missed)} of {len(rows)} patched modules and models take the host no longer than their bars"
    return [reached + (f"; not {', '.join(missed)}" if missed else "")]


def _python(rows):
    for name, attention in (("attention", True), ("other kernels", False)):
        some = [row for row in rows if row["C++ / Python"] and row["case"].startswith("attention") == attention]
        yield (
            f"{name}: {_range(_numbers(some, 'Triton / Python'))} times as fast as Triton's, "
            f"{_range(_numbers(some, 'C++ / Python'))} times as fast as ours in C++"
        )


def _expressions(rows):
    eager, compiled = (_numbers(rows, f"{peer} / ours") for peer in ("eager", "torch.compile"))
    return [f"{_range(eager)} times as fast as eager, {_range(compiled)} times as fast as `torch.compile`"]


def _derivatives(rows):
    kinds = {"gradients": "our own ones", "forward mode": "the operator alone"}
    for kind, peer in kinds.items():
        some = [row for row in rows if row["case"].startswith(kind.rstrip("s"))]
        yield f"{kind}: {_range(_numbers(some, 'peer / derived'))} of the speed of {peer}"


def _kept(rows):
    each, segments = (_numbers(rows, f"{name} MiB") for name in ("each", "segments"))
    more = [a / b for a, b in zip(each, segments)]
    times = _range(_numbers(rows, "each / segments"))
    return [f"segments are {times} times as fast; values of each iteration take {_range(more)} times as much memory"]


def _compiled(rows):
    kinds = {"small graphs": "graph: ", "models": ", (inference|training)$"}
    for kind, pattern in kinds.items():
        some = [row for row in rows if re.search(pattern, row["case"])]
        for peer in ("inductor", "eager"):
            if ratios := _numbers(some, f"{peer} / ours"):
                yield (
                    f"{len(ratios)} {kind} reach {_range(ratios, _two_decimals)} of {peer}'s speed; the geometric mean is "
                    f"{_two_decimals(statistics.geometric_mean(ratios))}"
                )


def _models(rows):
    for way in ("inference", "training", "decoding"):
        for name in ("patched", "patched, graph", "patched + compile", "backend=tile"):
            some = [row for row in rows if row["case"].endswith(f", {way}") and row["variant"] == name]
            if ratios := _numbers(some, "of peers"):
                yield (
                    f"{way}, {name}: {len(ratios)} models reach {_range(ratios, _two_decimals)} of the fastest peer's speed; "
                    f"the geometric mean is {_two_decimals(statistics.geometric_mean(ratios))}"
                )


def _suite(rows):
    return [
        f"{sum(row['failed'] == '0' for row in rows)} of {len(rows)} runs pass; the others have "
        f"{sum(int(row['failed']) for row in rows)} failures, which the page explains"
    ]


def by_operator():
    """Returns a table of the memory-bound cases on GPUs: for each operator the fractions of a copy's speed."""
    files = sorted(RESULTS.glob("gpu-*.md"))
    heads = [f"{path.stem.split('-')[1].upper()}, {way}" for path in files for way in ("forward", "backward")]
    lines = ["| operator | " + " | ".join(heads) + " |", "|---" + "|---:" * len(heads) + "|"]
    columns = [
        [row for row in _memory_bound(records(path)) if ("backward" in row["case"]) == backward]
        for path in files
        for backward in (False, True)
    ]
    names = dict.fromkeys(_operator(row) for column in columns for row in column)
    for name in names:
        fractions = [_numbers([row for row in column if _operator(row) == name], "of copy") for column in columns]
        lines.append(f"| {name} | " + " | ".join(_range(each, _two_decimals) if each else "" for each in fractions) + " |")
    return "\n".join(lines) + "\n"


KINDS = {  # by the first word of a file's name: what it measures, and the outcome of its rows
    "cpu": ("time of each case against torch eager and `torch.compile`", _cpu),
    "gpu": ("time of each case against a copy, torch and other libraries", _gpu),
    "attention": ("attention against FlashAttention-2 and cuDNN", _attention),
    "variants": ("attention with a bias, packed samples, a cache or a user's kernel", _variants),
    "products": ("products against cuBLAS, torch eager and `torch.compile`", _products),
    "one_row": ("products of one row, as of a decoded token", _one_row),
    "tiles": ("products in tiles of many sizes against cuBLAS", _tiles),
    "host": ("the host's time of a call", _host),
    "patched": ("the host's time of patched modules", _patched),
    "python": ("kernels in Python against Triton, C++ and torch", _python),
    "expressions": ("operators of one expression against torch", _expressions),
    "derivatives": ("gradients and tangents by the compiler", _derivatives),
    "kept": ("what loops keep for their gradients", _kept),
    "compiled": ('`torch.compile(backend="tile")` against inductor and eager', _compiled),
    "models": ("models unchanged, compiled and patched", _models),
    "suite": ("the test suite", _suite),
}


def _column(name, pattern=r"([\d.]+)$"):
    return lambda rows: _numbers(rows, name, pattern)


def _medians(rows):
    return [statistics.median(_numbers(rows, "ratio"))]


STATUS = [  # (state, work, compared with, tables, cases, numbers of a table's rows): README.md shows these lines
    ("ahead", "104 cases on two CPUs with AVX2 and two with AVX-512, medians", "torch eager", "cpu-avx*", "", _medians),
    (
        "ahead",
        "GroupNorm + SiLU, forward and backward, H200",
        "`torch.compile`",
        "gpu-h200",
        "group_norm",
        _column("torch.compile"),
    ),
    ("ahead", "AdamW, H200", "torch's fused AdamW", "gpu-h200", "AdamW", _column("eager")),
    (
        "equal",
        "softmax, RMSNorm, LayerNorm, SwiGLU, RoPE, forward, H100",
        "a copy",
        "gpu-h100*",
        "(softmax|rms_norm|layer_norm|swiglu|rope).*(forward|in place)",
        _column("of copy"),
    ),
    (
        "ahead",
        "attention, forward and backward, H200",
        "FlashAttention-2",
        "attention-h200",
        r"attention \[",
        _column("other peers", r"FlashAttention-2 ([\d.]+)"),
    ),
    *(
        (
            "behind",
            f"attention, {direction}, H200",
            "cuDNN",
            "attention-h200",
            rf"attention \[.*{direction}",
            _column("other peers", r"cuDNN ([\d.]+)"),
        )
        for direction in ("forward", "backward")
    ),
    ("behind", "GroupNorm + SiLU, H100", "a copy", "gpu-h100*", "group_norm", _column("of copy")),
    (
        "behind",
        "gradients of the other norms, H100",
        "a copy",
        "gpu-h100*",
        "(add_rms|rms|layer)_norm.*backward",
        _column("of copy"),
    ),
    (
        "equal",
        "bfloat16 products of 1024³ to 8192x28672x8192, H200",
        "cuBLAS",
        "products-h200",
        "matmul (1024|2048|4096|8192|16384)x",
        _column("other peers", r"cuBLAS ([\d.]+)"),
    ),
    *(
        (state, f"bfloat16 products of {rows}, H200", "cuBLAS", tables, cases, _column("other peers", r"cuBLAS ([\d.]+)"))
        for state, rows, cases, tables in (
            ("ahead", "1 row", "matmul 1x(?!3072x768)", "one_row-h200"),
            ("behind", "1 row, 3072 columns, inner extent 768", "matmul 1x3072x768", "one_row-h200"),
            ("behind", "16 rows", "matmul 16x", "products-h200"),
        )
    ),
    ("behind", "gated products, backward, H200", "torch eager", "products-h200", "gated_matmul.*backward", _column("eager")),
    ("behind", "attention in Python, H100", "Triton", "python-h100*", "attention", _column("Triton / Python")),
    ("ahead", "linear + cross entropy, H200", "torch eager", "products-h200", "linear_cross_entropy", _column("eager")),
    ("behind", "attention on a CPU without AVX2", "torch eager", "cpu-baseline*", "attention", _column("ratio")),
]


def status():
    """Returns the lines of README.md's table: the other's time divided by ours, as a range over the cases."""
    for state, work, peer, tables, cases, numbers in STATUS:
        found = []
        for path in sorted(RESULTS.glob(f"{tables}.md")):
            found += numbers([row for row in records(path) if re.match(cases, row["case"])])
        yield f"| {state} | {work} | {peer} | {_range(found, _two_decimals)} |"


def index():
    """Returns a line for each table: its file, the chip, what it measures, and the outcome."""
    lines = ["| table | chip | subject | outcome |", "|---|---|---|---|"]
    for path in sorted(RESULTS.glob("*.md")):
        if path != PAGE:
            title, where = [line for line in path.read_text().splitlines() if line][:2]
            subject, outcome = KINDS.get(path.stem.split("-")[0], (title.lstrip("# "), lambda rows: ["see the table"]))
            chip = title.lstrip("# ") if where.startswith("Driver") else re.split(r"\. |, driver|, tile_ops", where)[0]
            chip = f"{chip}, {title.split(', ')[1]}" if path.stem.startswith("cpu-") else chip
            lines.append(f"| [{path.name}]({path.name}) | {chip} | {subject} | {'; '.join(outcome(records(path)))} |")
    return "\n".join(lines) + "\n"


def page():
    """Returns the text of the page."""
    return f"""# Results

`benchmarks/results_page.py` makes this page from the tables in this folder, and computes each outcome from the rows.
[docs/measuring.md](../../docs/measuring.md) lists the scripts that measure. The first lines of each table name chip, driver and
torch version.

{index()}
The tables are from different versions of the library. `attention-h200.md`, `compiled-h200.md`,
`products-h200.md` and `variants-h200.md` are the newest. `gpu-h100-80gb-hbm3.md` measures a version in which a kernel begins
while the kernel before it ends. `python-h200.md` and `gpu-h200.md`, except its rows of add_rms_norm, measure earlier versions.

## GPU: the share of a copy's speed

The rows are the memory-bound cases in bfloat16, and AdamW in float32 too. A range covers all shapes that were measured.

{by_operator()}
## CPU: eager's time / ours

The times are medians of interleaved rounds in one process. [benchmarks/cases.py](../cases.py) defines each row.

{table()}"""


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit(
            0
            if PAGE.read_text() == page()
            else "benchmarks/results/README.md differs from the tables; run benchmarks/results_page.py"
        )
    PAGE.write_text(page())
    print(*status(), sep="\n")
