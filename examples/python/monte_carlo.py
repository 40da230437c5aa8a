"""The price of a call option by simulation: antithetic pairs of random paths, with Philox numbers.

A pair draws its numbers by its own number and a step is a stream, so that the paths do not depend on the number of
blocks. A second kernel adds the blocks' sums in a fixed order. Glasserman, "Monte Carlo methods in financial
engineering", 2003."""

import math

import tile_ops
import tile_ops.language as tl
import torch


@tl.kernel
def paths_kernel(
    seed, sums, pairs: int, spot: float, strike: float, drift: float, deviation: float, steps: int,
    N: tl.Constant[int],
):  # fmt: skip
    pair = tl.bid(0) * N + tl.arange(N, dtype=tl.int64)
    key, noise = tl.load(seed, 0, ()), tl.zeros((N,), tl.float32)
    for step in range(steps):
        noise += tl.normal((N,), key, pair, stream=step)
    up, down = tl.exp(drift * steps + noise * deviation), tl.exp(drift * steps - noise * deviation)
    paid = (tl.maximum(spot * up - strike, 0) + tl.maximum(spot * down - strike, 0)) / 2
    paid = tl.where(pair < pairs, paid, 0).astype(tl.float64)
    tl.store(sums, (tl.bid(0), 0), tl.sum(paid))
    tl.store(sums, (tl.bid(0), 1), tl.sum(paid * paid))


@tl.kernel
def price_kernel(sums, price, error, pairs: int, discount: float, N: tl.Constant[int]):
    total = tl.zeros((2,), tl.float64)
    for i in range(tl.num_tiles(sums, 0, (N, 2))):
        total += tl.sum(tl.load(sums, (i, 0), (N, 2), padding_mode=tl.PaddingMode.ZERO), 0)
    mean = total.extract(0, ()) / pairs
    variance = tl.maximum(total.extract(1, ()) / pairs - mean * mean, 0)
    tl.store(price, 0, discount * mean)
    tl.store(error, 0, discount * tl.sqrt(variance / pairs))


@tile_ops.op("programs::monte_carlo(Tensor seed, float spot, float strike, float rate, float volatility, float years, "
             "int steps, int pairs) -> (Tensor price, Tensor error)")  # fmt: skip
class monte_carlo:
    """The price of a European call, and its standard error, each a float64 tensor of one element.

    The asset starts at spot and moves in steps of a geometric Brownian motion; spot, strike, volatility and years > 0;
    1 <= steps, pairs < 2^31. seed: int64, of one element; one seed gives one result. Error: ValueError otherwise."""

    def outputs(seed, spot, strike, volatility, years, steps, pairs):
        if seed.dtype != torch.int64 or seed.numel() != 1:
            raise ValueError(f"monte_carlo: seed is {seed.dtype} {list(seed.shape)}; pass int64 of one element")
        if min(spot, strike, volatility, years) <= 0 or min(steps, pairs) < 1 or max(steps, pairs) >= 1 << 31:
            raise ValueError(f"monte_carlo: spot is {spot}, strike {strike}, volatility {volatility}, years {years}, "
                             f"steps {steps} and pairs {pairs}; pass positive numbers, "
                             "the last two below 2^31")  # fmt: skip
        return tuple(seed.new_empty(1, dtype=torch.float64) for _ in range(2))

    def run(seed, spot, strike, rate, volatility, years, steps, pairs, price, error):
        n, dt = 16384 if seed.is_cpu else 1024, years / steps
        blocks = tl.cdiv(pairs, n)
        sums = price.new_empty(blocks, 2)
        step = (rate - volatility**2 / 2) * dt, volatility * math.sqrt(dt)
        paths_kernel[blocks](seed.view(1), sums, pairs, spot, strike, *step, steps, n)
        price_kernel[1](sums, price, error, pairs, math.exp(-rate * years), 1024)


def black_scholes(spot, strike, rate, volatility, years):
    """Returns the same price in closed form: Black, Scholes, "The pricing of options and corporate liabilities", 1973."""
    deviation = volatility * math.sqrt(years)
    d = (math.log(spot / strike) + rate * years) / deviation
    normal = [0.5 * math.erfc(-(d + half * deviation) / math.sqrt(2)) for half in (0.5, -0.5)]
    return spot * normal[0] - strike * math.exp(-rate * years) * normal[1]


if __name__ == "__main__":
    device = "cuda" if torch.cuda.is_available() else "cpu"
    option = 100.0, 105.0, 0.03, 0.25, 1.0  # spot, strike, rate, volatility, years
    price, error = monte_carlo(torch.tensor([2026], device=device), *option, 16, 1 << 18)
    exact = black_scholes(*option)
    assert abs(price.item() - exact) < 3 * error.item()
    print(f"a call costs {price.item():.4f} +- {error.item():.4f}, exactly {exact:.4f}")
