"""Peers of python_kernels.py: kernels by Triton, which must be installed, one program a row or a block of elements."""

import torch
import triton
import triton.language as tl


@triton.jit
def _add(x, y, out, count, WIDTH: tl.constexpr):
    i = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    inside = i < count
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


def add(x, y, out):
    _add[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), WIDTH=1024)


@triton.jit
def _softmax(x, out, stride, columns, WIDTH: tl.constexpr):
    i = tl.arange(0, WIDTH)
    row = tl.program_id(0) * stride
    t = tl.load(x + row + i, mask=i < columns, other=-float("inf")).to(tl.float32)
    e = tl.exp(t - tl.max(t, 0))
    tl.store(out + row + i, e / tl.sum(e, 0), mask=i < columns)


def _warps(width):
    return 4 if width < 2048 else 8 if width < 4096 else 16


def softmax(x, out):
    width = triton.next_power_of_2(x.shape[1])
    _softmax[(x.shape[0],)](x, out, x.stride(0), x.shape[1], WIDTH=width, num_warps=_warps(width))


@triton.jit
def _layer_norm(x, w, b, out, stride, columns, eps, WIDTH: tl.constexpr):
    i = tl.arange(0, WIDTH)
    inside = i < columns
    row = tl.program_id(0) * stride
    t = tl.load(x + row + i, mask=inside, other=0.0).to(tl.float32)
    d = tl.where(inside, t - tl.sum(t, 0) / columns, 0.0)
    scale = 1 / tl.sqrt(tl.sum(d * d, 0) / columns + eps)
    tl.store(out + row + i, d * scale * tl.load(w + i, mask=inside) + tl.load(b + i, mask=inside), mask=inside)


def layer_norm(x, w, b, out, eps):
    width = triton.next_power_of_2(x.shape[1])
    warps = min(max(width // 256, 1), 8)
    _layer_norm[(x.shape[0],)](x, w, b, out, x.stride(0), x.shape[1], eps, WIDTH=width, num_warps=warps)


@triton.jit
def _dropout(x, out, count, p, seed, WIDTH: tl.constexpr):
    i = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    inside = i < count
    t = tl.load(x + i, mask=inside)
    tl.store(out + i, tl.where(tl.rand(seed, i) > p, t / (1 - p), 0.0), mask=inside)


def dropout(x, out, p, seed):
    _dropout[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), p, seed, WIDTH=1024)


@triton.jit
def _launched(a, b, c, d, scale, count, WIDTH: tl.constexpr):
    i = tl.arange(0, WIDTH)
    tl.store(d + i, tl.load(a + i) * scale)


def launched(a, b, c, d):
    _launched[(1,)](a, b, c, d, 1.0, 2, WIDTH=8)


def version():
    return f"Triton {triton.__version__}, torch {torch.__version__}"
