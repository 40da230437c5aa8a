"""Draws loss curves and pictures as PNG files."""

from PIL import Image, ImageDraw, ImageFont

WIDTH, HEIGHT, MARGIN = 720, 420, 60
COLOURS = ((200, 80, 40), (30, 90, 200), (40, 140, 60))
INK, GREY = (30, 30, 30), (210, 210, 210)


def ticks(low, high):
    """Returns about five round numbers."""
    step = 10.0 ** len(str(int((high - low) / 5)))
    for candidate in (0.05, 0.1, 0.2, 0.25, 0.5, 1, 2, 5, 10, 20, 25, 50, 100, 200, 500):
        if (high - low) / candidate <= 6:
            step = candidate
            break
    first = int(low / step) + (low % step > 0)
    return [i * step for i in range(first, int(high / step) + 1)]


def curves(path, title, lines):
    """Draws lines, {name: losses}, over each other."""
    picture = Image.new("RGB", (WIDTH, HEIGHT), "white")
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(14)
    values = [value for losses in lines.values() for value in losses]
    low, high = min(values), max(values)
    steps = max(len(losses) for losses in lines.values())

    def pixel(step, value):
        x = MARGIN + (WIDTH - 2 * MARGIN) * step / max(steps - 1, 1)
        return x, HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * (value - low) / max(high - low, 1e-9)

    for value in ticks(low, high):
        _, y = pixel(0, value)
        draw.line([(MARGIN, y), (WIDTH - MARGIN, y)], fill=GREY)
        draw.text((MARGIN - 8, y), f"{value:g}", fill=INK, font=font, anchor="rm")
    for step in ticks(0, steps):
        x, _ = pixel(step, low)
        draw.text((x, HEIGHT - MARGIN + 8), f"{step:g}", fill=INK, font=font, anchor="mt")
    draw.text((WIDTH / 2, MARGIN / 2), title, fill=INK, font=font, anchor="mm")
    draw.text((WIDTH / 2, HEIGHT - MARGIN / 3), "step", fill=INK, font=font, anchor="mm")
    for i, (name, losses) in enumerate(lines.items()):
        colour = COLOURS[i % len(COLOURS)]
        # The first line is wide, so that it is visible under the others.
        draw.line([pixel(step, value) for step, value in enumerate(losses)], fill=colour, width=5 if i == 0 else 2)
        y = MARGIN + 10 + 20 * i
        draw.line([(WIDTH - MARGIN - 110, y), (WIDTH - MARGIN - 80, y)], fill=colour, width=5 if i == 0 else 2)
        draw.text((WIDTH - MARGIN - 72, y), name, fill=INK, font=font, anchor="lm")
    picture.save(path)


def gallery(path, rows, scale=6, gap=4):
    """Writes a picture of rows: tensors [count, 1, height, width] from -1 to 1, one per row of the picture."""
    height, width = rows[0].shape[2:]
    count = max(len(row) for row in rows)
    picture = Image.new("L", (count * (width * scale + gap) + gap, len(rows) * (height * scale + gap) + gap), 128)
    for i, row in enumerate(rows):
        for j, values in enumerate(row):
            grey = ((1 - values[0].clamp(-1, 1)) * 127.5).byte()
            small = Image.frombytes("L", (width, height), bytes(grey.flatten().tolist()))
            corner = (gap + j * (width * scale + gap), gap + i * (height * scale + gap))
            picture.paste(small.resize((width * scale, height * scale), Image.Resampling.NEAREST), corner)
    picture.save(path)
