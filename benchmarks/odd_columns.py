"""Times products whose columns are no multiple of 8 on a GPU: torch's, torch's with padded columns that are cut off, and ours.

    python benchmarks/odd_columns.py [--seconds S]

Medians of interleaved rounds in one process, bfloat16, printed as microseconds."""

import argparse

import measure
import torch
import torch.nn.functional as F
from tile_ops._patching import calls

# Rows, inner extent, columns, and whether there is a bias.
SHAPES = [
    (8192, 768, 50257, False),
    (8192, 768, 30522, True),
    (4096, 4096, 50257, False),
    (1024, 768, 50257, False),
    (16384, 1024, 4099, True),
    (4096, 4096, 4097, False),
]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=0.3, help="measuring time a function")
    options = options.parse_args()
    for rows, depth, columns, biased in SHAPES:
        x, weight = (torch.randn(each, depth, device="cuda").bfloat16() for each in (rows, columns))
        bias = torch.randn(columns, device="cuda").bfloat16() if biased else None
        functions = {
            "torch": lambda: F.linear(x, weight, bias),
            "padded": lambda: calls.padded_linear(x, weight, bias),
            "ours": lambda: torch.ops.tile.matmul(x, weight.t(), bias=bias),
        }
        with torch.no_grad():
            found = measure.rounds_of(functions, options.seconds, device="cuda")
        times = ", ".join(f"{name} {1e6 * seconds:.0f}" for name, seconds in found.items())
        print(f"[{rows},{depth}] @ [{depth},{columns}]{' + bias' if biased else ''}: {times} us", flush=True)


if __name__ == "__main__":
    main()
