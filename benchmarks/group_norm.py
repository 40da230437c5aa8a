"""Times group_norm with SiLU on a GPU over the shapes of U-Nets and a VAE, and compares two versions of the library.

    python benchmarks/group_norm.py [--only REGEX] > before.txt
    python benchmarks/group_norm.py [--only REGEX] --against before.txt

Times are medians of CUDA graphs of 20 calls each, so that they are those of the kernels. --against prints the ratio of each
time to the earlier one, their geometric mean and the worst.
"""

import argparse
import re
import statistics

import tile_ops  # noqa: F401  registers the operators
import torch

ops = torch.ops.tile
SHAPES = [  # images, channels, height and width, groups
    (16, 320, 64, 32), (4, 128, 512, 32), (8, 512, 128, 32), (2, 1280, 16, 32),  # gpu_cases.py
    (2, 320, 64, 32), (2, 320, 96, 32), (2, 640, 32, 32), (2, 640, 48, 32), (2, 1280, 24, 32), (2, 960, 60, 32),
    (16, 320, 60, 32), (2, 1280, 60, 32),  # U-Nets
    (1, 512, 64, 32), (1, 512, 128, 32), (1, 256, 512, 32), (1, 128, 512, 32), (1, 128, 1000, 32),  # a VAE
    (1, 1280, 100, 1), (2, 1280, 60, 1),  # one group
]  # fmt: skip
CALLS, REPLAYS = 20, 15


def microseconds(function):
    """Returns the median time of a call."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        function()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(CALLS):
            function()
    times = []
    for i in range(3 + REPLAYS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / CALLS)
    return statistics.median(times[3:])


def cases():
    """Yields (name, call)."""
    for images, channels, size, groups in SHAPES:
        for layout in ("", " channels_last"):
            for dtype in (torch.bfloat16, torch.float32):
                x = torch.randn(images, channels, size, size, device="cuda", dtype=dtype)
                if layout:
                    x = x.contiguous(memory_format=torch.channels_last)
                w, b, grad = *(torch.randn(channels, device="cuda", dtype=dtype) for _ in "wb"), torch.randn_like(x)
                rows = x.float().reshape(images, groups, -1)
                mean, rstd = rows.mean(2), torch.rsqrt(rows.var(2, unbiased=False) + 1e-5)
                name = f"[{images},{channels},{size},{size}]/{groups}{layout} {str(dtype)[6:]}"
                yield f"{name} forward", lambda: ops.group_norm(x, groups, w, b, 1e-5, activation="silu")
                saved = mean, rstd, [True] * 3
                yield f"{name} backward", lambda: ops.group_norm_backward(grad, x, groups, w, b, "silu", *saved)


def times_of(path):
    with open(path) as lines:
        return {name: float(us) for name, us in re.findall(r"^(\[.*?) +([\d.]+) us", lines.read(), re.MULTILINE)}


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="", metavar="REGEX")
    options.add_argument("--against", metavar="FILE")
    given = options.parse_args()
    print(torch.cuda.get_device_name(), torch.__version__)
    earlier, ratios = times_of(given.against) if given.against else {}, {}
    for name, call in cases():
        if not re.search(given.only, name):
            continue
        us = microseconds(call)
        if name in earlier:
            ratios[name] = earlier[name] / us
        print(f"{name:62s} {us:9.2f} us" + (f"  {ratios[name]:.3f}" if name in ratios else ""), flush=True)
    if ratios:
        worst = min(ratios, key=ratios.get)
        print(f"geometric mean {statistics.geometric_mean(ratios.values()):.3f}, worst {ratios[worst]:.3f}: {worst}")


if __name__ == "__main__":
    main()
