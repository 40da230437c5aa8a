"""Draws results/gpu-<chip>.md as a roofline with one point per case, into results/gpu-<chip>.png.

    python benchmarks/roofline.py [gpu-h200.md]

Needs no GPU: the table holds the amounts, the times and the two roofs."""

import pathlib
import re
import sys

import report
from tile_ops._profile.picture import HEIGHT, INK, RIGHT, SCALE, TOP, WIDTH, Axes, begin, dot, draw_roof, draw_title  # noqa: F401

COLOURS = {
    "elementwise": (120, 120, 120),
    "softmax": (214, 120, 20),
    "log_softmax": (240, 180, 90),
    "cross_entropy": (240, 180, 60),
    "linear_cross_entropy": (200, 120, 130),
    "embedding": (60, 150, 150),
    "rms_norm": (30, 90, 200),
    "add_rms_norm": (60, 60, 150),
    "layer_norm": (90, 170, 230),
    "swiglu": (20, 150, 150),
    "geglu": (120, 190, 190),
    "rope": (150, 60, 170),
    "dropout": (200, 170, 30),
    "AdamW": (100, 100, 60),
    "group_norm": (40, 140, 60),
    "gated_matmul": (230, 110, 140),
    "matmul": (200, 40, 50),
    "attention": (110, 60, 20),
}


def family(name):
    return next((each for each in COLOURS if name.startswith(each)), "elementwise")


def points(rows):
    """Yields (case, flops per byte, TF/s) for the rows that were measured."""
    for name, row in rows.items():
        try:
            megabytes, gigaflops, microseconds = (float(row[column]) for column in ("MB", "GF", "ours us"))
        except (KeyError, ValueError):  # a row that failed
            continue
        if megabytes and gigaflops and microseconds:
            yield name, 1e3 * gigaflops / megabytes, 1e-3 * gigaflops / (1e-6 * microseconds)


def roofs(lines):
    """Returns (TB/s of a copy, TF/s of cuBLAS) from the words above the table."""
    found = re.search(r"copy moves ([\d.]+) TB/s, cuBLAS reaches ([\d.]+) TF/s", " ".join(lines))
    if not found:
        raise ValueError("the table does not name its roofs; make it again with benchmarks/gpu.py --write")
    return float(found[1]), float(found[2])


def legend(draw, font, families):
    x, y = WIDTH - RIGHT + 24 * SCALE, TOP + 10 * SCALE
    for name in families:
        dot(draw, (x, y), COLOURS[name], True)
        draw.text((x + 14 * SCALE, y), name.replace("_", " "), fill=INK, font=font, anchor="lm")
        y += 24 * SCALE
    y += 10 * SCALE
    for text, filled in (("forward", True), ("backward", False)):
        dot(draw, (x, y), INK, filled)
        draw.text((x + 14 * SCALE, y), text, fill=INK, font=font, anchor="lm")
        y += 24 * SCALE


def draw(path):
    """Writes the picture into the folder of the table and returns its path."""
    lines, rows = report.read(path)
    bandwidth, peak = roofs(lines)
    found = list(points(rows))
    picture, pen, font = begin()
    least_x, most_x = (end(x for _, x, _ in found) for end in (min, max)) if found else (1, 1)
    xs = min(least_x, 1) / 2, max(most_x, peak / bandwidth) * 2
    ys = min([y for _, _, y in found] + [bandwidth * xs[0]]) / 2, peak * 2
    axes = Axes(pen, font, xs, ys)
    draw_roof(pen, font, axes, xs, bandwidth, peak, f"copy: {bandwidth:.2f} TB/s", f"cuBLAS: {peak:.0f} TF/s")
    for name, x, y in found:
        dot(pen, axes.pixel(x, y), COLOURS[family(name)], "backward" not in name)
    present = {family(name) for name, *_ in found}
    legend(pen, font, [name for name in COLOURS if name in present])
    title = next((line.removeprefix("# ") for line in lines if line.startswith("# ")), "")
    draw_title(pen, font, f"{title}, bfloat16: TF/s over flops a byte")
    target = path.with_suffix(".png")
    picture.save(target, optimize=True)
    print(f"written: {target.relative_to(report.RESULTS.parent.parent) if target.is_relative_to(report.RESULTS) else target}")
    return target


if __name__ == "__main__":
    names = [pathlib.Path(name).name for name in sys.argv[1:]] or sorted(path.name for path in report.RESULTS.glob("gpu-*.md"))
    for each in names:
        draw(report.RESULTS / each)
