"""NumPy programs under torch.compile(backend="tile"): heat, option prices, k-means, the Mandelbrot set; compared and timed.

    python examples/numpy_programs.py [heat …]

Each function below is plain NumPy. A loop calls compiled steps, as it would call NumPy's functions. With Pillow, the Mandelbrot
set is output/mandelbrot.png; without it, letters on the terminal."""

import argparse
import functools
import pathlib
import time

import numpy as np
import tile_ops
import torch

PICTURE = pathlib.Path("output", "mandelbrot.png")


def heated(plate, r):
    """Returns the inner points after an explicit step of the heat equation; r = a dt / dx^2."""
    middle = plate[1:-1, 1:-1]
    around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
    return middle + r * (around - 4 * middle)


def normal_cdf(x):
    """Returns the normal distribution function: a polynomial by Abramowitz and Stegun, 26.2.17, off by 7.5e-8 at most."""
    t = 1 / (1 + 0.2316419 * np.abs(x))
    series = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = np.exp(-0.5 * x * x) * 0.3989422804014327 * series
    return np.where(x >= 0, 1 - tail, tail)


def option_prices(spot, strike, years, rate, volatility):
    """Returns the prices of European calls and puts by Black and Scholes."""
    deviation = volatility * np.sqrt(years)
    d = (np.log(spot / strike) + (rate + 0.5 * volatility * volatility) * years) / deviation
    present = strike * np.exp(-rate * years)
    call = spot * normal_cdf(d) - present * normal_cdf(d - deviation)
    return call, call - spot + present


def nearest(points, centres):
    """Returns the number of each point's nearest centre."""
    return ((points[:, None, :] - centres[None, :, :]) ** 2).sum(-1).argmin(1)


def means(points, owner, count):
    """Returns the mean of each centre's points."""
    belongs = np.where(owner[:, None] == np.arange(count)[None, :], 1.0, 0.0)
    return belongs.T @ points / np.maximum(belongs.sum(0), 1)[:, None]


def escaped(x, y, real, imaginary, count):
    """Returns z and the number of steps inside of the circle after a step z^2 + c of the points that are still there."""
    squares = real * real, imaginary * imaginary
    inside = squares[0] + squares[1] <= 4
    after = squares[0] - squares[1] + x, 2 * real * imaginary + y
    return np.where(inside, after[0], real), np.where(inside, after[1], imaginary), count + inside


def heat(compiled, scale=1):
    """Returns the temperatures of a plate with a hot edge after 20 steps."""
    plate = np.zeros((1024 // scale, 1024 // scale), np.float32)
    plate[0] = 1
    step = compiled(heated)
    for _ in range(20):
        plate[1:-1, 1:-1] = step(plate, 0.2)
    return (plate,)


def black_scholes(compiled, scale=1):
    """Returns the prices of many options."""
    random = np.random.default_rng(0)
    count = 1_000_000 // scale
    spot, strike, years = (random.uniform(low, high, count) for low, high in ((5, 30), (1, 100), (0.25, 10)))
    return compiled(option_prices)(spot, strike, years, 0.02, 0.3)


def kmeans(compiled, scale=1):
    """Returns the centres after five steps, and the owners of the points."""
    random = np.random.default_rng(1)
    points = random.standard_normal((100_000 // scale, 3)) + 4 * random.integers(0, 2, (100_000 // scale, 3))
    centres = points[:8].copy()
    find, average = compiled(nearest), compiled(means)
    for _ in range(5):
        owner = find(points, centres)
        centres = average(points, owner, len(centres))
    return centres, owner


def mandelbrot(compiled, scale=1):
    """Returns for each point how many of 50 steps it stays inside of the circle."""
    x, y = np.meshgrid(np.linspace(-2.1, 0.6, 900 // scale), np.linspace(-1.2, 1.2, 800 // scale))
    real, imaginary, count = np.zeros_like(x), np.zeros_like(x), np.zeros(x.shape, np.int64)
    step = compiled(escaped)
    for _ in range(50):
        real, imaginary, count = step(x, y, real, imaginary, count)
    return (count,)


PROGRAMS = {"heat": heat, "black_scholes": black_scholes, "kmeans": kmeans, "mandelbrot": mandelbrot}


def tile(function):
    return torch.compile(function, backend="tile", dynamic=False)


def timed(program, compiled, scale):
    start = time.perf_counter()
    results = program(compiled, scale)
    return results, time.perf_counter() - start


def difference(ours, theirs):
    """Returns the largest difference, divided by the largest number."""
    return max(
        np.abs(one.astype(np.float64) - other).max() / max(1, np.abs(other).max())
        for one, other in zip(ours, theirs, strict=True)
    )


def draw(count):
    """Draws the Mandelbrot set into PICTURE, or as letters; returns where it is."""
    shade = np.log1p(count.astype(np.float64)) / np.log1p(count.max())
    try:
        from PIL import Image
    except ImportError:
        rows = shade[:: max(1, len(shade) // 30), :: max(1, shade.shape[1] // 70)]
        print("\n".join("".join(" .:-=+*#%@"[int(9 * each)] for each in row) for row in rows))
        return "the terminal"
    PICTURE.parent.mkdir(exist_ok=True)
    colours = np.stack([255 * shade, 255 * shade**3, 120 * (1 - shade)], -1).astype(np.uint8)
    Image.fromarray(colours).save(PICTURE)
    return PICTURE


def main():
    parser = argparse.ArgumentParser(description="NumPy programs, compiled by tile_ops and run by NumPy")
    parser.add_argument("programs", nargs="*", help=f"of {', '.join(PROGRAMS)}; all if none is named")
    parser.add_argument("--scale", type=int, default=1, help="divides the sizes")
    arguments = parser.parse_args()
    if unknown := [each for each in arguments.programs if each not in PROGRAMS]:
        parser.error(f"no program {unknown[0]}; the programs are {', '.join(PROGRAMS)}")
    for name in arguments.programs or PROGRAMS:
        program, compiled = PROGRAMS[name], functools.cache(tile)
        _, first = timed(program, compiled, arguments.scale)
        ours, seconds = timed(program, compiled, arguments.scale)
        theirs, numpy = timed(program, lambda function: function, arguments.scale)
        print(
            f"{name}: NumPy {1e3 * numpy:.1f} ms, compiled {1e3 * seconds:.1f} ms (first call {first:.1f} s); "
            f"they differ by {difference(ours, theirs):.1e}"
        )
        if name == "mandelbrot":
            print(f"mandelbrot is in {draw(ours[0])}")
    print(tile_ops.compile_report())


if __name__ == "__main__":
    main()
