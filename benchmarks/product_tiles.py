"""Compares a product that a user's kernel computes in tiles of many sizes with cuBLAS. tile_ops/products/tiles.cpp chooses
among these tiles.

    python benchmarks/product_tiles.py [--write]

One process, interleaved rounds of CUDA graphs, medians, random data in bfloat16. --write: writes results/tiles-<chip>.md."""

import argparse
import statistics
import sys

import tile_ops.language as tl
import torch
from gpu import captured
from report import Table, digits, driver, file_name

SHAPES = [
    (1024, 1024, 1024),
    (2048, 2048, 2048),
    (128, 4096, 4096),
    (16, 4096, 4096),
    (1, 4096, 4096),
    (256, 4096, 4096),
    (512, 4096, 4096),
    (4096, 4096, 512),
    (3072, 3072, 3072),
    (4096, 4096, 4096),
    (8192, 8192, 1024),
    (4096, 64, 4096),
    (8192, 8192, 8192),
]
TILES = [(128, 256), (256, 128), (128, 192), (128, 128), (128, 64), (64, 256), (64, 128), (64, 64), (64, 32), (192, 128)]
DEPTH, TOGETHER, ROUNDS = 64, 8, 11


@tl.kernel
def matmul(x, w, out, M: tl.Constant[int], N: tl.Constant[int], K: tl.Constant[int], G: tl.Constant[int]):
    rows, columns = tl.cdiv(out.shape[0], M), tl.cdiv(out.shape[1], N)
    first = tl.bid(0) // (G * columns) * G  # blocks that run at once share rows and columns in the cache
    here, rest = min(rows - first, G), tl.bid(0) % (G * columns)
    i, j = first + rest % here, rest // here
    acc = tl.zeros((M, N), tl.float32)
    for k in range(tl.cdiv(x.shape[1], K)):
        acc = tl.mma(tl.load(x, (i, k), (M, K)), tl.load(w, (k, j), (K, N)), acc)
    tl.store(out, (i, j), acc.astype(out.dtype))


def in_tiles(x, w, out, rows, columns):
    blocks = -(-out.shape[0] // rows) * -(-out.shape[1] // columns)
    return lambda: matmul[(blocks,)](x, w, out, rows, columns, DEPTH, TOGETHER)


def microseconds(replay):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    replay()
    end.record()
    end.synchronize()
    return 1e3 * start.elapsed_time(end)


def row(m, n, k):
    """Returns cuBLAS's microseconds, and for each tile its time / ours; a tile of more than twice the rows has none."""
    x, w = (torch.randn(size, device="cuda", dtype=torch.bfloat16) for size in ((m, k), (k, n)))
    calls = max(2, min(200, int(1.5e-3 / (2 * m * n * k / 6e14 + 3e-6))))
    out, functions = torch.empty(m, n, device="cuda", dtype=torch.bfloat16), {"cuBLAS": lambda: x @ w}
    functions |= {tile: in_tiles(x, w, out, *tile) for tile in TILES if tile[0] <= 64 or m > tile[0] // 2}
    graphs = {}
    for name, function in functions.items():
        function()
        if name != "cuBLAS":
            torch.testing.assert_close(out, x @ w, rtol=2e-2, atol=2e-2 * k**0.5)
        graphs[name] = captured(function, calls).replay
        graphs[name]()
    taken = {name: [] for name in graphs}
    for _ in range(ROUNDS):
        for name, replay in graphs.items():
            taken[name].append(microseconds(replay) / calls)
    theirs = taken["cuBLAS"]
    ratios = {name: statistics.median(a / b for a, b in zip(theirs, own)) for name, own in taken.items()}
    return statistics.median(theirs), [f"{ratios[tile]:.3f}" if tile in ratios else "" for tile in TILES]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", action="store_true", help="write the table into results/")
    options = options.parse_args()
    if not torch.cuda.is_available():
        sys.exit("benchmarks/product_tiles.py needs a GPU that torch sees")
    chip = torch.cuda.get_device_name()
    words = [
        f"Driver {driver()}, torch {torch.__version__}. Microseconds of cuBLAS, and its time / that of a user's kernel in tiles",
        f"of rows x columns x {DEPTH}; bfloat16, random data. Made by `python benchmarks/product_tiles.py --write`.",
    ]
    head = ["m x n x k", "cuBLAS us", *("x".join(map(str, tile)) for tile in TILES)]
    with torch.cuda.stream(torch.cuda.Stream()):
        table = Table(chip, words, head, {"m x n x k"})
        for shape in SHAPES:
            theirs, ratios = row(*shape)
            table.add("x".join(map(str, shape)), digits(theirs), *ratios)
    if options.write:
        table.write(file_name("tiles", chip))


if __name__ == "__main__":
    main()
