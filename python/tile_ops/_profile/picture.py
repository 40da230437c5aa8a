"""Draws rooflines with Pillow: operations a second over operations a byte."""

import math

try:
    from PIL import Image, ImageDraw, ImageFont
except ImportError as error:
    raise ImportError("a roofline is drawn with Pillow, which is not installed; `pip install 'pillow>=10.1'`") from error

SCALE = 2  # drawn at twice the size, so that a page may show it at half its size
WIDTH, HEIGHT = 1000 * SCALE, 600 * SCALE
LEFT, RIGHT, TOP, BOTTOM = 80 * SCALE, 230 * SCALE, 50 * SCALE, 60 * SCALE
INK, GREY, ROOF = (30, 30, 30), (218, 218, 218), (90, 90, 90)
OURS, OTHERS = (30, 90, 200), (214, 120, 20)
MOST = 12  # operators in the legend of a report


class Axes:
    """Logarithmic axes that map values to pixels, with a line for each power of ten."""

    def __init__(self, draw, font, xs, ys, right=RIGHT):
        self.right = right
        self.xs, self.ys = (tuple(map(math.log10, ends)) for ends in (xs, ys))
        for k in range(math.ceil(self.xs[0]), math.floor(self.xs[1]) + 1):
            x, _ = self.pixel(10.0**k, ys[0])
            draw.line([(x, TOP), (x, HEIGHT - BOTTOM)], fill=GREY, width=SCALE)
            draw.text((x, HEIGHT - BOTTOM + 8 * SCALE), f"{10.0**k:g}", fill=INK, font=font, anchor="mt")
        for k in range(math.ceil(self.ys[0]), math.floor(self.ys[1]) + 1):
            _, y = self.pixel(xs[0], 10.0**k)
            draw.line([(LEFT, y), (WIDTH - right, y)], fill=GREY, width=SCALE)
            draw.text((LEFT - 8 * SCALE, y), f"{10.0**k:g}", fill=INK, font=font, anchor="rm")

    def pixel(self, x, y):
        across = (math.log10(x) - self.xs[0]) / (self.xs[1] - self.xs[0])
        up = (math.log10(y) - self.ys[0]) / (self.ys[1] - self.ys[0])
        return LEFT + (WIDTH - LEFT - self.right) * across, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * up


def dot(draw, centre, colour, filled):
    r = 5 * SCALE
    box = [centre[0] - r, centre[1] - r, centre[0] + r, centre[1] + r]
    draw.ellipse(box, fill=colour if filled else "white", outline=colour, width=2 * SCALE)


def begin():
    """Returns an empty picture, its pen and its font."""
    picture = Image.new("RGB", (WIDTH, HEIGHT), "white")
    return picture, ImageDraw.Draw(picture), ImageFont.load_default(13 * SCALE)


def draw_roof(pen, font, axes, xs, bandwidth, peak, slope, ceiling):
    """Draws the roof of a bandwidth, in TB/s, and a peak, in TF/s, with a text at either."""
    corner = peak / bandwidth
    pen.line(
        [axes.pixel(xs[0], bandwidth * xs[0]), axes.pixel(corner, peak), axes.pixel(xs[1], peak)], fill=ROOF, width=2 * SCALE
    )
    middle = math.sqrt(10 * corner) if corner > 10 else corner  # away from the points
    across, up = axes.pixel(middle, bandwidth * middle)
    pen.text((across - 10 * SCALE, up), slope, fill=ROOF, font=font, anchor="rb")
    across, up = axes.pixel(xs[1], peak)
    pen.text((across - 6 * SCALE, up - 6 * SCALE), ceiling, fill=ROOF, font=font, anchor="rb")


def draw_title(pen, font, title, right=RIGHT):
    pen.text((LEFT, TOP / 2), title, fill=INK, font=font, anchor="lm")
    pen.text(((LEFT + WIDTH - right) / 2, HEIGHT - BOTTOM / 3), "flops a byte", fill=INK, font=font, anchor="mm")


def points_of(report):
    """Returns (row, operations a byte or None, TF/s or TB/s) of the operators whose bytes are known, the longest first."""
    known = [row for row in report.operators if row.bytes and row.seconds]
    return [(row, row.flops / row.bytes, row.tflop_per_s) if row.flops else (row, None, row.tb_per_s) for row in known]


def draw_report(report, path):
    """Operators without counted operations stand at the left, as far below the roof as their bytes a second are."""
    right = 330 * SCALE
    found = points_of(report)[:MOST]
    picture, pen, font = begin()
    bandwidth = (report.bandwidth or 1e12) / 1e12
    peaks = {dtype: peak / 1e12 for dtype, peak in report.peaks.items()} or {None: bandwidth * 100}
    intensities = [x for _, x, _ in found if x]
    without = sum(x is None for _, x, _ in found)
    least = min(intensities + [1.0]) / 2
    low = least / 10 if without else least  # a decade for those without operations
    places, heights, beside = [], [], 0
    for _, x, y in found:
        if x is None:
            beside += 1
            x = low * 10 ** (beside / (without + 1) * 0.95)
            y *= x
        places.append(x)
        heights.append(y)
    xs = low, max(intensities + [max(peaks.values()) / bandwidth]) * 2
    ys = min(heights + [bandwidth * low]) / 2, max([*peaks.values(), *heights]) * 2
    axes = Axes(pen, font, xs, ys, right)
    for dtype, peak in peaks.items():
        if dtype is not None:
            ceiling = f"{str(dtype).removeprefix('torch.')}: {peak:.3g} TF/s"
            draw_roof(pen, font, axes, xs, bandwidth, peak, f"memory: {bandwidth:.3g} TB/s", ceiling)
    if not report.peaks:
        pen.line([axes.pixel(xs[0], bandwidth * xs[0]), axes.pixel(xs[1], bandwidth * xs[1])], fill=ROOF, width=2 * SCALE)
    if without:
        edge, _ = axes.pixel(low * 10**0.95, ys[0])
        pen.line([(edge, TOP), (edge, HEIGHT - BOTTOM)], fill=ROOF, width=SCALE)
        pen.text(((LEFT + edge) / 2, TOP + 4 * SCALE), "bytes alone", fill=ROOF, font=font, anchor="mt")
    x, y = WIDTH - right + 20 * SCALE, TOP + 10 * SCALE
    for number, ((row, *_), place, height) in enumerate(zip(found, places, heights), 1):
        colour = OURS if row.ours else OTHERS
        across, up = axes.pixel(place, height)
        dot(pen, (across, up), colour, True)
        pen.text((across + 8 * SCALE, up), str(number), fill=INK, font=font, anchor="lm")
        dot(pen, (x, y), colour, True)
        roof = "" if row.roof is None else f", {100 * row.roof:.0f} % of the roof"
        name = row.name.removeprefix("aten::").removeprefix("tile::")[:28]
        pen.text((x + 14 * SCALE, y - 9 * SCALE), f"{number} {name}", fill=INK, font=font, anchor="lm")
        pen.text(
            (x + 14 * SCALE, y + 9 * SCALE), f"{100 * row.share:.0f} % of the time{roof}", fill=ROOF, font=font, anchor="lm"
        )
        y += 40 * SCALE
    for text, colour, at in (("ours", OURS, 0), ("others", OTHERS, 90)):
        dot(pen, (x + at * SCALE, TOP / 2), colour, True)
        pen.text((x + (at + 12) * SCALE, TOP / 2), text, fill=INK, font=font, anchor="lm")
    title = f"{report.device}: TF/s over flops a byte, {1e3 * report.seconds:.2f} ms a call"
    draw_title(pen, font, title, right)
    picture.save(path, optimize=True)
