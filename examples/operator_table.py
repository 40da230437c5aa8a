"""The demo's table: each operator beside torch eager and torch.compile, with its error against float64."""

import pathlib
import sys

import torch
import torch.nn.functional as F

import tile_ops
from models import Tile, Torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "benchmarks"))
import measure  # noqa: E402


def rows():
    """Name, shape, torch's function, ours, arguments."""
    ops, randn = torch.ops.tile, torch.randn
    x, w, b = randn(2048, 1024), randn(1024), randn(1024)
    yield "softmax", "[2048,1024]", lambda x: torch.softmax(x, -1), lambda x: ops.softmax(x, -1), (x,)
    yield "rms_norm", "[2048,1024]", lambda x, w: F.rms_norm(x, [1024], w, 1e-5), lambda x, w: ops.rms_norm(x, [1024], w, 1e-5), (x, w)
    yield (
        "layer_norm", "[2048,1024]", lambda x, w, b: F.layer_norm(x, [1024], w, b),
        lambda x, w, b: ops.layer_norm(x, [1024], w, b), (x, w, b),
    )
    angle = torch.outer(torch.arange(512.0), 10000 ** (-torch.arange(0, 64, 2) / 64))
    q, k = randn(2, 16, 512, 64), randn(2, 4, 512, 64)
    yield "rope", "q[2,16,512,64] k[2,4,512,64]", Torch.rope, Tile.rope, (q, k, angle.cos(), angle.sin())
    image, scale, shift = randn(2, 128, 64, 64), randn(128), randn(128)
    yield (
        "group_norm + silu", "[2,128,64,64]", lambda x, w, b: F.silu(F.group_norm(x, 32, w, b)),
        lambda x, w, b: ops.group_norm(x, 32, w, b, activation="silu"), (image, scale, shift),
    )
    q, k, v = (randn(1, 8, 512, 64) for _ in range(3))
    yield (
        "attention, causal", "[1,8,512,64]", lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda q, k, v: ops.attention(q, k, v, is_causal=True)[0], (q, k, v),
    )
    x, w, b = randn(512, 512), randn(2048, 512), randn(2048)
    yield (
        "linear + gelu", "[512,512] x [512,2048]", lambda x, w, b: F.gelu(F.linear(x, w, b)),
        lambda x, w, b: tile_ops.linear(x, w, b, "gelu"), (x, w, b),
    )


def parts(result):
    return result if isinstance(result, tuple) else (result,)


def measure_rows(seconds=0.3, compiled=True, tick=lambda done, total: None):
    """A row of text an operator, and why torch.compile's column is empty where it is."""
    table, why = [], ""
    all_rows = list(rows())
    torch.manual_seed(0)
    for i, (name, shape, theirs, ours, arguments) in enumerate(all_rows):
        exact = parts(theirs(*(argument.double() for argument in arguments)))
        error = max((a - b).abs().max().item() for a, b in zip(parts(ours(*arguments)), exact))
        functions = {"eager": lambda: theirs(*arguments), "ours": lambda: ours(*arguments)}
        if compiled and not why:
            try:
                torch._dynamo.reset()
                function = torch.compile(theirs, dynamic=False)
                function(*arguments)
                functions["compile"] = lambda: function(*arguments)
            except Exception as problem:  # no compiler on this machine, or inductor does not know it
                why = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
        with torch.no_grad():
            times = measure.rounds_of(functions, seconds)
        show = [f"{1e3 * times[key]:.3f}" if key in times else "-" for key in ("eager", "compile", "ours")]
        table.append([name, shape, *show, f"{error:.1e}"])
        tick(i + 1, len(all_rows))
    return table, why


def text(table):
    """Aligned columns."""
    head = ["operator (float32)", "shape", "eager ms", "compile ms", "ours ms", "max error"]
    widths = [max(len(line[i]) for line in [head, *table]) for i in range(len(head))]
    lines = [head, ["-" * width for width in widths], *table]
    return "\n".join("  ".join(cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths))) for line in lines)
