"""The algorithms of examples/cpp/kernels, called as torch operators and compared with torch, NumPy or formulas.

    python examples/kernels.py                              # all of them, on the GPU if there is one
    python examples/kernels.py fft top_k --device cpu

Each function is an example: it makes data, calls torch.ops.kernels.<name>, checks the result, and returns a line of
figures. `scale` divides the sizes."""

import argparse
import math
import time

import build_cpp
import torch
import torch.nn.functional as F
from PIL import Image

ops = torch.ops.kernels
PICTURE = build_cpp.FOLDER / "heat.png"


def milliseconds(function, device):
    """Returns the time of a call after the first, which compiles."""
    function()
    best = math.inf
    for _ in range(3):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, 1e3 * (time.perf_counter() - start))
    return best


def error(ours, exact):
    """Returns the largest difference, relative to the largest value."""
    return ((ours - exact).abs().max() / exact.abs().max()).item()


def require(condition, text):
    if not condition:
        raise AssertionError(text)


def colours(values):
    """Maps 0 to 1 to dark blue, red, yellow and white."""
    stops = torch.tensor([[10, 10, 60], [150, 20, 90], [240, 110, 30], [255, 250, 220]], dtype=torch.float32, device="cpu")
    position = values.clamp(0, 1).float().cpu() * (len(stops) - 1)
    low = position.long().clamp(max=len(stops) - 2)
    return torch.lerp(stops[low], stops[low + 1], (position - low).unsqueeze(-1)).byte().numpy()


def heat(device, scale=1):
    """A plate with a hot edge and a hot ring, and a wave whose decay is known."""
    n, steps, r = 512 // scale, 2000 // scale, 0.2
    y, x = torch.meshgrid(*2 * [torch.linspace(-1, 1, n, device=device)], indexing="ij")
    plate = ((x**2 + y**2).sqrt() - 0.6).abs().lt(0.08).float()
    plate[-1] = 1
    took = milliseconds(lambda: ops.heat(plate, r, steps), device)
    pictures = [ops.heat(plate, r, steps * i // 8) for i in (0, 1, 8)]
    Image.fromarray(colours(torch.cat(pictures, 1))).save(PICTURE)

    # sin(pi x) sin(pi y) keeps its form; each step multiplies it by 1 - 8 r sin(pi / 2(n - 1))^2.
    side = torch.linspace(0, math.pi, n, device=device, dtype=torch.float64).sin()
    side[-1] = 0
    wave = side[:, None] * side
    expected = wave * (1 - 8 * r * math.sin(math.pi / (2 * n - 2)) ** 2) ** steps
    wrong = error(ops.heat(wave, r, steps), expected)
    require(wrong < 1e-10, f"the wave is wrong by {wrong}")
    return f"{n} x {n} points, {steps} steps: {took:.0f} ms; wave within {wrong:.0e}; {PICTURE}"


def normal_cdf(x):
    return 0.5 * math.erfc(-x / math.sqrt(2))


def black_scholes(spot, strike, rate, volatility, years, growth=None):
    """Returns a call's price. `growth` is the mean of log(price / spot), if it is not that of the asset."""
    growth = (rate - volatility**2 / 2) * years if growth is None else growth
    deviation = volatility * math.sqrt(years)
    d = (math.log(spot / strike) + growth) / deviation
    forward = spot * math.exp(growth + deviation**2 / 2)
    return math.exp(-rate * years) * (forward * normal_cdf(d + deviation) - strike * normal_cdf(d))


def option_price(device, scale=1):
    """A European call against Black and Scholes, and a call on the mean price, whose geometric form has a closed price."""
    pairs, steps, option = 2**20 // scale, 64, dict(spot=100.0, strike=105.0, rate=0.03, volatility=0.25, years=1.0)
    seed = torch.tensor([2026], device=device)

    def price(kind):
        return ops.option_price(seed, **option, steps=steps, pairs=pairs, kind=kind).tolist()

    took = milliseconds(lambda: price("asian"), device)
    prices = {kind: price(kind) for kind in ("european", "asian", "geometric_asian")}
    # The log of a geometric mean of `steps` prices is normal: its mean and variance are sums over the steps.
    years = option["years"] * (steps + 1) / (2 * steps)
    variance = option["years"] * (steps + 1) * (2 * steps + 1) / (6 * steps**2)
    growth, discount = (option["rate"] - option["volatility"] ** 2 / 2) * years, option["rate"] * option["years"]
    geometric = black_scholes(option["spot"], option["strike"], 0, option["volatility"], variance, growth)
    exact = {"european": black_scholes(**option), "geometric_asian": math.exp(-discount) * geometric}
    deviations = {kind: (prices[kind][0] - exact[kind]) / prices[kind][1] for kind in exact}
    require(all(abs(each) < 3 for each in deviations.values()), f"{deviations} standard errors from the exact price")
    require(prices["geometric_asian"][0] < prices["asian"][0] < prices["european"][0], f"prices are {prices}")
    said = ", ".join(f"{kind} {found:.4f} +- {deviation:.4f}" for kind, (found, deviation) in prices.items())
    return f"{said}; exact {exact['european']:.4f}; {2 * pairs * steps / took / 1e6:.2f} billion steps a second"


def histogram(device, scale=1):
    """Counts of normal numbers, with NaN and numbers outside of the bins."""
    n, bins, low, high = 2**24 // scale, 300, -3.0, 3.0
    x = torch.randn(n, device=device)
    x[::1001], x[1], x[2] = math.nan, low, high
    took = milliseconds(lambda: ops.histogram(x, bins, low, high), device)
    inside = x[(x >= low) & (x <= high)].cpu()  # torch rounds the division differently on a GPU
    index = ((inside - low) / (high - low) * bins).long().clamp(max=bins - 1)
    counts = ops.histogram(x, bins, low, high)
    require(torch.equal(counts.cpu(), torch.bincount(index, minlength=bins)), "counts differ")
    return f"{n} numbers, {bins} bins: {took:.1f} ms, {n / took / 1e6:.2f} billion a second; {counts.sum()} inside"


def prefix_sum(device, scale=1):
    """Prefix sums of integers exactly, of floats against float64."""
    n = 2**24 // scale + 17
    integers, x = torch.randint(-100, 100, (n,), device=device), torch.randn(n, device=device)
    require(torch.equal(ops.prefix_sum(integers), integers.cumsum(0)), "sums of integers differ")
    took = milliseconds(lambda: ops.prefix_sum(x), device)
    wrong = error(ops.prefix_sum(x), x.double().cumsum(0))
    require(wrong < 2**-23, f"sums are wrong by {wrong}")
    return f"{n} numbers: {took:.1f} ms, {12 * n / took / 1e6:.1f} GB/s; float32 within {wrong:.0e}"


def transpose(device, scale=1):
    """Transposes of matrices that no tile divides."""
    x = torch.randn(3, 2049 // scale, 1537 // scale, device=device)
    took = milliseconds(lambda: ops.transpose(x), device)
    require(torch.equal(ops.transpose(x), x.transpose(1, 2)), "elements differ")
    theirs = milliseconds(lambda: x.transpose(1, 2).contiguous(), device)
    return f"{list(x.shape)}: {took:.2f} ms, {8 * x.numel() / took / 1e6:.1f} GB/s; torch {theirs:.2f} ms"


def top_k(device, scale=1):
    """The largest elements of long rows. Equal numbers come in row order, and NaN first."""
    rows, columns, k = 64 // scale, 100_003, 100
    x = torch.randn(rows, columns, device=device)
    x[0, ::2], x[-1, 77] = 1.5, math.nan
    took = milliseconds(lambda: ops.top_k(x, k), device)
    values, indices = ops.top_k(x, k)
    sorted_values, order = x.sort(dim=1, descending=True, stable=True)
    torch.testing.assert_close(values, sorted_values[:, :k], rtol=0, atol=0, equal_nan=True)
    require(torch.equal(indices, order[:, :k]), "indices differ")
    theirs = milliseconds(lambda: torch.topk(x, k), device)
    return f"{k} of {columns} in {rows} rows: {took:.1f} ms; torch {theirs:.1f} ms"


def fft(device, scale=1):
    """FFT against torch.fft in double precision."""
    x = torch.randn(512 // scale, 4096, dtype=torch.complex64, device=device)
    exact = torch.fft.fft(x.to(torch.complex128))
    took = milliseconds(lambda: ops.fft(x, False, False), device)
    spectrum = ops.fft(x, False, False)
    wrong, theirs, rounded = (error(y, exact) for y in (spectrum, torch.fft.fft(x), ops.fft(x, False, True)))
    back = error(ops.fft(spectrum, True, False), x)
    require(wrong < 1e-6 and back < 1e-6 and rounded < 2e-3, f"errors are {wrong}, {back} and, of tf32, {rounded}")
    return (
        f"{len(x)} signals of 4096: {took:.1f} ms; error {wrong:.1e} of the largest (torch {theirs:.1e}), "
        f"there and back {back:.1e}, with tf32 {rounded:.1e}"
    )


def plain_attention(q, k, v, change):
    scores = change(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]))
    return scores.softmax(-1).to(v.dtype) @ v


def attention(device, scale=1):
    """Attention with soft-capped scores and a bias for distances in a picture, and with distances in a text (ALiBi)."""
    height, width, heads, cap = 48 // scale, 40 // scale, 4, 20.0
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    q, k, v = torch.randn(3, 2, heads, height * width, 64, device=device).to(dtype)
    bias = torch.randn(heads, 2 * height - 1, 2 * width - 1, device=device)
    slope = 2.0 ** -torch.arange(1, heads + 1, device=device)
    token = torch.arange(height * width, device=device)
    y, x = token // width, token % width
    distance = token - token[:, None]

    def in_picture(scores):
        by_distance = bias[:, y[:, None] - y + height - 1, x[:, None] - x + width - 1]
        return cap * torch.tanh(scores / cap) + by_distance

    def in_text(scores):
        return (scores + slope[:, None, None] * distance).masked_fill(distance > 0, -math.inf)

    def picture():
        return ops.picture_attention(q, k, v, bias, 0.125, cap)

    exact = [plain_attention(q.double(), k.double(), v.double(), change) for change in (in_picture, in_text)]
    ours = picture(), ops.slope_attention(q, k, v, slope, 0.125)
    wrong = max(error(found.double(), e) for found, e in zip(ours, exact))
    require(wrong < (1e-2 if dtype == torch.bfloat16 else 2e-6), f"results are wrong by {wrong}")
    took, theirs = milliseconds(picture, device), milliseconds(lambda: plain_attention(q, k, v, in_picture), device)
    return (
        f"{heads} heads of {height} x {width} cells, {str(dtype)[6:]}: {took:.1f} ms; error {wrong:.1e}; "
        f"plain torch {theirs:.1f} ms"
    )


def quantised_matmul(device, scale=1):
    """A linear layer with weights of 8 and of 4 bits."""
    m, n, k = 256 // scale, 1000, 2048 // scale
    x, weight = torch.randn(m, k, device=device).bfloat16(), torch.randn(n, k, device=device) / math.sqrt(k)
    parts = []
    for bits in (8, 4):
        quantised, by = ops.quantise(weight, bits)
        integers = quantised
        if bits == 4:  # a byte holds one number of its group's first half, and one of the second
            integers = torch.cat([each.unflatten(1, (-1, 32)) for each in (quantised & 15, quantised >> 4)], 2).int() - 8
        held = (integers.unflatten(1, (-1, 64)) if bits == 8 else integers).double() * by.double().unsqueeze(2)
        exact = x.double() @ held.flatten(1).T
        wrong = error(ops.quantised_matmul(x, quantised, by).double(), exact)
        require(wrong < 1e-2, f"products of {bits} bits are wrong by {wrong}")
        lost = error(exact, x.double() @ weight.double().T)
        took = milliseconds(lambda: ops.quantised_matmul(x, quantised, by), device)
        parts.append(f"{bits} bits {took:.1f} ms, error {wrong:.1e}, of the rounded weights {lost:.1e}")
    theirs = milliseconds(lambda: F.linear(x, weight.bfloat16()), device)
    return f"[{m}, {k}] x [{k}, {n}]: {'; '.join(parts)}; torch in bfloat16 {theirs:.1f} ms"


EXAMPLES = {
    each.__name__: each
    for each in (heat, option_price, histogram, prefix_sum, transpose, top_k, fft, attention, quantised_matmul)
}


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("names", nargs="*", metavar="name", help=", ".join(EXAMPLES))
    options.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    options = options.parse_args()
    unknown = set(options.names) - set(EXAMPLES)
    if unknown:
        raise SystemExit(f"there is no example {', '.join(sorted(unknown))}; these are: {', '.join(EXAMPLES)}")
    build_cpp.load("tile_kernels")
    torch.manual_seed(0)
    for name in options.names or EXAMPLES:
        print(f"{name}: {EXAMPLES[name](options.device)}", flush=True)


if __name__ == "__main__":
    main()
