"""Draws results/cpu-<isa>.md as a bar chart with two bars per case: the time of eager and of torch.compile over ours.

python benchmarks/bar_chart.py [cpu-avx2.md]
"""

import math
import pathlib
import re
import sys

import report
from PIL import Image, ImageDraw, ImageFont

SCALE = 2  # drawn at twice the size, so that a page may show it at half its size
WIDTH, LEFT, RIGHT, TOP, BOTTOM = (SCALE * length for length in (1000, 390, 60, 70, 20))
ROW, BAR = 24 * SCALE, 9 * SCALE
INK, GREY, ONE, MISSED = (30, 30, 30), (218, 218, 218), (90, 90, 90), (200, 40, 50)
PEERS = {  # the column of a peer's ratio: its name and colour
    "ratio": ("eager", (30, 90, 200)),
    "ratio to compile": ("torch.compile", (230, 150, 40)),
}


def bars(rows):
    """Yields (case, [(peer, ratio or None, the bar to reach or None)]) for the rows that have a ratio."""
    for name, row in rows.items():
        found = []
        for column, (peer, _) in PEERS.items():
            wanted = re.search(rf"([\d.]+)x {re.escape(peer)}", row.get("wanted", ""))
            ratio = row.get(column)
            found.append((peer, float(ratio) if ratio else None, float(wanted[1]) if wanted else None))
        if any(ratio for _, ratio, _ in found):
            yield name, found


class Axis:
    """A logarithmic axis that maps a ratio to a pixel; it always contains 1."""

    def __init__(self, ratios):
        low, high = min([0.5, *ratios]), max([2.0, *ratios])
        self.low, self.span = math.log(low), math.log(high) - math.log(low)

    def pixel(self, ratio):
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log(ratio) - self.low) / self.span

    def ticks(self):
        for value in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500):
            if self.low <= math.log(value) <= self.low + self.span:
                yield value, self.pixel(value)


def legend(pen, font):
    x = LEFT
    for peer, colour in PEERS.values():
        pen.rectangle([x, TOP / 2 - BAR / 2, x + 2 * BAR, TOP / 2 + BAR / 2], fill=colour)
        pen.text((x + 3 * BAR, TOP / 2), f"time of {peer} / ours", fill=INK, font=font, anchor="lm")
        x += 190 * SCALE
    pen.line([(x, TOP / 2 - BAR / 2), (x, TOP / 2 + BAR / 2)], fill=INK, width=2 * SCALE)
    pen.text((x + BAR, TOP / 2), "wanted; missed in red", fill=INK, font=font, anchor="lm")


def draw(path):
    """Writes the picture into the folder of the table and returns its path."""
    lines, rows = report.read(path)
    found = list(bars(rows))
    axis = Axis([ratio for _, cells in found for _, ratio, _ in cells if ratio])
    height = TOP + ROW * len(found) + BOTTOM
    picture = Image.new("RGB", (WIDTH, height), "white")
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(12 * SCALE)
    for value, x in axis.ticks():
        pen.line([(x, TOP), (x, height - BOTTOM)], fill=GREY, width=SCALE)
        pen.text((x, TOP - 4 * SCALE), f"{value:g}", fill=INK, font=font, anchor="mb")
    colours = {peer: colour for peer, colour in PEERS.values()}
    one = axis.pixel(1)
    for i, (name, cells) in enumerate(found):
        top = TOP + ROW * i + (ROW - 2 * BAR) / 2
        pen.text((LEFT - 8 * SCALE, top + BAR), name, fill=INK, font=font, anchor="rm")
        for j, (peer, ratio, wanted) in enumerate(cells):
            y = top + BAR * j
            if ratio:
                start, end = sorted((one, axis.pixel(ratio)))
                pen.rectangle([start, y, end, y + BAR - SCALE], fill=colours[peer])
            if ratio and wanted:
                x = axis.pixel(wanted)
                pen.line([(x, y), (x, y + BAR - SCALE)], fill=INK if ratio >= wanted else MISSED, width=2 * SCALE)
    pen.line([(one, TOP), (one, height - BOTTOM)], fill=ONE, width=2 * SCALE)
    title = next((line.removeprefix("# ") for line in lines if line.startswith("# ")), "")
    pen.text((8 * SCALE, TOP / 2), title, fill=INK, font=font, anchor="lm")
    legend(pen, font)
    target = path.with_suffix(".png")
    picture.save(target, optimize=True)
    shown = target.relative_to(report.RESULTS.parent.parent) if target.is_relative_to(report.RESULTS) else target
    print(f"written: {shown}")
    return target


if __name__ == "__main__":
    names = [pathlib.Path(name).name for name in sys.argv[1:]] or sorted(path.name for path in report.RESULTS.glob("cpu-*.md"))
    for each in names:
        draw(report.RESULTS / each)
