"""torch's first calls of MKL's vector functions, made by one thread; as a program: before the program of its argument.

Where several threads make the first one, the results of a thread may be those of a version with 11 bits
(https://github.com/pytorch/pytorch/issues/188792): a test's reference is then wrong, in one of many thousand processes.
"""

import runpy
import sys

import torch

NAMES = "acos asin atan cos erf erfc erfinv exp log log10 log2 sin sqrt tan tanh trunc".split()


def make_first_calls():
    for name in NAMES:
        for dtype in (torch.float32, torch.float64):
            getattr(torch, name)(torch.ones(1, dtype=dtype, device="cpu"))


if __name__ == "__main__":
    make_first_calls()
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")
