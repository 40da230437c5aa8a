"""Run by test_raw_cuda.py with the fake driver as TILE_CUDA_DRIVER: prints as JSON what launches did and said."""

import ctypes
import json
import os
import sys

import tile_ops
import torch

torch.ops.load_library(sys.argv[1])
fake = ctypes.CDLL(os.environ["TILE_CUDA_DRIVER"])
fake.fake_last_call.restype = ctypes.c_char_p

SOURCE = """
struct Pair { int a, b; };
__global__ void saxpy(float a, const float* x, float* y, int n) { if (n) y[0] = a * x[0]; }
__global__ void numbers(unsigned char c, long long n, double d, bool b, Pair p, unsigned long long u) {}
"""
saxpy, numbers = tile_ops.cuda_kernel(SOURCE, ["saxpy", "numbers"], file="two.cu")
x, y = (torch.ops.tt.pretend_cuda(torch.zeros(8)) for _ in range(2))
other = torch.ops.tt.pretend_cuda(torch.zeros(8), 1)


class Seven:
    def __index__(self):
        return 7


class Half:
    def __float__(self):
        return 0.5


def said(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return fake.fake_last_call().decode()


before = x._version, y._version
saxpy[4, 32](1, x, y, 8)
versions = [x._version - before[0], y._version - before[1]]
pair = (ctypes.c_int * 2)(3, 4)
one = numbers[1, 1]
reports = {
    "versions": versions,
    "launch": said(lambda: saxpy[4, (32, 2)](1, x, y, 8)),
    "shared": said(lambda: saxpy[(1, 2, 3), 32, 100](1, x, y, 8)),
    "numbers": said(lambda: one(Seven(), 1 << 40, Half(), True, pair, (1 << 64) - 1)),
    "bytes": said(lambda: one(1, 2, 3.0, False, bytes(8), 5)),
    "empty grid": said(lambda: saxpy[0, 32](1, x, y, 8)),
    "count": said(lambda: saxpy[1, 1](1, x, y)),
    "cpu": said(lambda: saxpy[1, 1](1, torch.zeros(8), y, 8)),
    "devices": said(lambda: saxpy[1, 1](1, x, other, 8)),
    "sparse": said(lambda: saxpy[1, 1](1, torch.zeros(2, 2).to_sparse(), y, 8)),
    "complex": said(lambda: saxpy[1, 1](1, torch.ops.tt.pretend_cuda(torch.zeros(8, dtype=torch.complex64)), y, 8)),
    "type": said(lambda: saxpy[1, 1](1, x, y, "8")),
    "bits": said(lambda: saxpy[1, 1](1, x, y, 1 << 70)),
    "names": said(lambda: saxpy[1, 1](1, x, y, n=8)),
    "no block": said(lambda: saxpy[1](1, x, y, 8)),
    "text grid": said(lambda: saxpy["1", 1](1, x, y, 8)),
    "axes": said(lambda: saxpy[(1, 1, 1, 1), 1](1, x, y, 8)),
    "block": said(lambda: saxpy[1, 1000](1, x, y, 8)),
    "constant": said(lambda: saxpy.set_constant("nothing", bytes(4))),
}
op = saxpy.as_op(
    "raw_cuda::saxpy(Tensor(a!) y, Tensor x, float a=2.0) -> ()",
    arguments=lambda y, x, a: (a, x, y, x.numel()),
    grid=lambda y, x, a: x.numel() // 2,
    block=32,
)
reports["operator"] = said(lambda: op(y, x))
reports["operator by name"] = said(lambda: op(y, a=1, x=x))


def in_child(call):
    read, write = os.pipe()
    if not os.fork():
        os.write(write, said(call).splitlines()[0].encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as text:
        return text.read()


reports["forked"] = in_child(lambda: saxpy[1, 1](1, x, y, 8))
reports["forked operator"] = in_child(lambda: torch.ops.tile.softmax(x, -1))
print(json.dumps(reports))
