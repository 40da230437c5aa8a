"""Draws results/gpu-<chip>.md as a roofline with one point per case, into results/gpu-<chip>.png.

    python benchmarks/roofline.py [gpu-h200.md]

Needs no GPU: the table holds the amounts, the times and the two roofs."""

import math
import pathlib
import re
import sys

from PIL import Image, ImageDraw, ImageFont

import report

SCALE = 2  # drawn at twice the size, so that a page may show it at half its size
WIDTH, HEIGHT = 1000 * SCALE, 600 * SCALE
LEFT, RIGHT, TOP, BOTTOM = 80 * SCALE, 230 * SCALE, 50 * SCALE, 60 * SCALE
INK, GREY, ROOF = (30, 30, 30), (218, 218, 218), (90, 90, 90)
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


class Axes:
    """Logarithmic axes that map values to pixels, with a line for each power of ten."""

    def __init__(self, draw, font, xs, ys):
        self.xs, self.ys = (tuple(map(math.log10, ends)) for ends in (xs, ys))
        for k in range(math.ceil(self.xs[0]), math.floor(self.xs[1]) + 1):
            x, _ = self.pixel(10.0**k, ys[0])
            draw.line([(x, TOP), (x, HEIGHT - BOTTOM)], fill=GREY, width=SCALE)
            draw.text((x, HEIGHT - BOTTOM + 8 * SCALE), f"{10.0**k:g}", fill=INK, font=font, anchor="mt")
        for k in range(math.ceil(self.ys[0]), math.floor(self.ys[1]) + 1):
            _, y = self.pixel(xs[0], 10.0**k)
            draw.line([(LEFT, y), (WIDTH - RIGHT, y)], fill=GREY, width=SCALE)
            draw.text((LEFT - 8 * SCALE, y), f"{10.0**k:g}", fill=INK, font=font, anchor="rm")

    def pixel(self, x, y):
        across = (math.log10(x) - self.xs[0]) / (self.xs[1] - self.xs[0])
        up = (math.log10(y) - self.ys[0]) / (self.ys[1] - self.ys[0])
        return LEFT + (WIDTH - LEFT - RIGHT) * across, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * up


def dot(draw, centre, colour, filled):
    r = 5 * SCALE
    box = [centre[0] - r, centre[1] - r, centre[0] + r, centre[1] + r]
    draw.ellipse(box, fill=colour if filled else "white", outline=colour, width=2 * SCALE)


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
    picture = Image.new("RGB", (WIDTH, HEIGHT), "white")
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(13 * SCALE)
    least_x, most_x = (end(x for _, x, _ in found) for end in (min, max)) if found else (1, 1)
    xs = min(least_x, 1) / 2, max(most_x, peak / bandwidth) * 2
    ys = min([y for _, _, y in found] + [bandwidth * xs[0]]) / 2, peak * 2
    axes = Axes(pen, font, xs, ys)
    corner = peak / bandwidth
    pen.line(
        [axes.pixel(xs[0], bandwidth * xs[0]), axes.pixel(corner, peak), axes.pixel(xs[1], peak)], fill=ROOF, width=2 * SCALE
    )
    middle = math.sqrt(10 * corner) if corner > 10 else corner  # away from the points
    across, up = axes.pixel(middle, bandwidth * middle)
    pen.text((across - 10 * SCALE, up), f"copy: {bandwidth:.2f} TB/s", fill=ROOF, font=font, anchor="rb")
    across, up = axes.pixel(xs[1], peak)
    pen.text((across - 6 * SCALE, up - 6 * SCALE), f"cuBLAS: {peak:.0f} TF/s", fill=ROOF, font=font, anchor="rb")
    for name, x, y in found:
        dot(pen, axes.pixel(x, y), COLOURS[family(name)], "backward" not in name)
    present = {family(name) for name, *_ in found}
    legend(pen, font, [name for name in COLOURS if name in present])
    title = next((line.removeprefix("# ") for line in lines if line.startswith("# ")), "")
    pen.text((LEFT, TOP / 2), f"{title}, bfloat16: TF/s over flops a byte", fill=INK, font=font, anchor="lm")
    pen.text(((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM / 3), "flops a byte", fill=INK, font=font, anchor="mm")
    target = path.with_suffix(".png")
    picture.save(target, optimize=True)
    print(f"written: {target.relative_to(report.RESULTS.parent.parent) if target.is_relative_to(report.RESULTS) else target}")
    return target


if __name__ == "__main__":
    names = [pathlib.Path(name).name for name in sys.argv[1:]] or sorted(path.name for path in report.RESULTS.glob("gpu-*.md"))
    for each in names:
        draw(report.RESULTS / each)
