"""The demo's table: each operator against torch eager and torch.compile, with its error against float64."""

import pathlib
import sys

import torch
import torch.nn.functional as F

import tile_ops
from small_models import Tile, Torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "benchmarks"))
import measure  # noqa: E402

# Sizes on a CPU and on a GPU. Work of milliseconds on a CPU would be too small for a GPU, where it would only measure
# launches.
SIZES = {
    "rows": (2048, 8192),
    "columns": (1024, 4096),
    "batch": (2, 4),
    "length": (512, 4096),
    "image": ((2, 128, 64), (8, 512, 128)),
    "attended": ((1, 8, 512), (2, 16, 2048)),
    "linear": ((512, 512, 2048), (4096, 4096, 4096)),
}
DTYPES = {"cpu": torch.float32, "cuda": torch.bfloat16}


def rows(device="cpu"):
    """Yields name, shape, torch's function, ours, and the arguments."""
    ops, dtype = torch.ops.tile, DTYPES[device]
    size = {name: sizes[device == "cuda"] for name, sizes in SIZES.items()}

    def randn(*shape):
        return torch.randn(*shape, device=device).to(dtype)

    m, n = size["rows"], size["columns"]
    x, w, b = randn(m, n), randn(n), randn(n)
    yield "softmax", f"[{m},{n}]", lambda x: torch.softmax(x, -1), lambda x: ops.softmax(x, -1), (x,)
    yield (
        "rms_norm",
        f"[{m},{n}]",
        lambda x, w: F.rms_norm(x, [n], w, 1e-5),
        lambda x, w: ops.rms_norm(x, [n], w, 1e-5),
        (x, w),
    )
    yield (
        "layer_norm",
        f"[{m},{n}]",
        lambda x, w, b: F.layer_norm(x, [n], w, b),
        lambda x, w, b: ops.layer_norm(x, [n], w, b),
        (x, w, b),
    )
    batch, length = size["batch"], size["length"]
    angle = torch.outer(torch.arange(float(length)), 10000 ** (-torch.arange(0, 64, 2) / 64)).to(device)
    q, k = randn(batch, 16, length, 64), randn(batch, 4, length, 64)
    tables = angle.cos().to(dtype), angle.sin().to(dtype)
    yield ("rope", f"q[{batch},16,{length},64] k[{batch},4,{length},64]", Torch.rope, Tile.rope, (q, k, *tables))
    count, channels, side = size["image"]
    image, scale, shift = randn(count, channels, side, side), randn(channels), randn(channels)
    yield (
        "group_norm + silu",
        f"[{count},{channels},{side},{side}]",
        lambda x, w, b: F.silu(F.group_norm(x, 32, w, b)),
        lambda x, w, b: ops.group_norm(x, 32, w, b, activation="silu"),
        (image, scale, shift),
    )
    batch, heads, length = size["attended"]
    q, k, v = (randn(batch, heads, length, 64) for _ in range(3))
    yield (
        "attention, causal",
        f"[{batch},{heads},{length},64]",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda q, k, v: ops.attention(q, k, v, is_causal=True)[0],
        (q, k, v),
    )
    m, k, n = size["linear"]
    x, w, b = randn(m, k), randn(n, k) * k**-0.5, randn(n)
    yield (
        "linear + gelu",
        f"[{m},{k}] x [{k},{n}]",
        lambda x, w, b: F.gelu(F.linear(x, w, b)),
        lambda x, w, b: tile_ops.linear(x, w, b, "gelu"),
        (x, w, b),
    )


def parts(result):
    return result if isinstance(result, tuple) else (result,)


def measure_rows(seconds=0.3, compiled=True, tick=lambda done, total: None, device="cpu"):
    """Returns a row of text per operator, and the reason if the column of torch.compile is empty."""
    table, why = [], ""
    torch.manual_seed(0)
    total = sum(1 for _ in rows("cpu"))
    for i, (name, shape, theirs, ours, arguments) in enumerate(rows(device)):
        exact = parts(theirs(*(argument.double() for argument in arguments)))
        error = max((a - b).abs().max().item() for a, b in zip(parts(ours(*arguments)), exact))
        del exact
        functions = {"eager": lambda: theirs(*arguments), "ours": lambda: ours(*arguments)}
        if compiled and not why:
            try:
                torch._dynamo.reset()
                function = torch.compile(theirs, dynamic=False)
                with measure.time_limit(120):
                    function(*arguments)
                functions["compile"] = lambda: function(*arguments)
            except Exception as problem:  # no compiler on this machine, or inductor does not support it
                why = measure.reason(problem)
        with torch.no_grad():
            times = measure.rounds_of(functions, seconds, device=device)
        show = [f"{1e3 * times[key]:.3f}" if key in times else "-" for key in ("eager", "compile", "ours")]
        table.append([name, shape, *show, f"{error:.1e}"])
        tick(i + 1, total)
    return table, why


def aligned(head, table):
    """Returns lines of aligned columns; the first two columns are texts."""
    widths = [max(len(line[i]) for line in [head, *table]) for i in range(len(head))]
    lines = [head, ["-" * width for width in widths], *table]
    return "\n".join(
        "  ".join(cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths))) for line in lines
    )


def dtype_name(device):
    return str(DTYPES[device]).removeprefix("torch.")


def text(table, device="cpu"):
    return aligned([f"operator ({dtype_name(device)})", "shape", "eager ms", "compile ms", "ours ms", "max error"], table)
