"""The cases of the GPU table where a user's own kernel of attention, in Python or C++, runs beside the operator."""

import functools
import importlib.util
import pathlib
import sys

import gpu_work
import tile_ops.language as tl
import torch
from gpu_attention_cases import named
from gpu_work import Case, Work, exactly, gradient, random

ops = torch.ops.tile
EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"


def program(name):
    """The module examples/python/<name>.py, loaded once, because its operators are registered once."""
    known = f"examples_python_{name}"
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, EXAMPLES / "python" / f"{name}.py")
        sys.modules[known] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[known])
    return sys.modules[known]


def halved(scores, query, key):
    """A change of scores as a user writes it: keys at odd distances count half."""
    return tl.where((query - key) & 1 == 0, scores, scores * 0.5)


def halved_derivative(scores, query, key):
    return tl.where((query - key) & 1 == 0, 1.0, 0.5)


class HalvedAttention(torch.autograd.Function):
    """The kernels of examples/python/attention.py with that change, causal."""

    @staticmethod
    def forward(ctx, q, k, v):
        kernels, scale = program("attention"), q.shape[3] ** -0.5
        out, lse = torch.empty_like(q), q.new_empty(q.shape[:3], dtype=torch.float32)
        sizes = kernels.tiles(q, (128, 64))
        kernels.forward_kernel[kernels.grid(q, sizes[1])](q, k, v, out, lse, scale, True, *sizes, halved)
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, out, lse = ctx.saved_tensors
        kernels, scale, delta = program("attention"), q.shape[3] ** -0.5, torch.empty_like(lse)
        grads = [torch.empty_like(x) for x in (q, k, v)]
        given = q, k, v, grad, lse, delta
        sizes = kernels.tiles(q, (128, 32))
        grid = kernels.grid(q, sizes[1])
        kernels.delta_kernel[grid](out, grad, delta, *sizes[:2], sizes[3])
        kernels.query_kernel[grid](*given, grads[0], scale, True, *sizes, halved, halved_derivative)
        sizes = kernels.tiles(q, (32, 128))
        kernels.key_kernel[kernels.grid(k, sizes[2])](*given, *grads[1:], scale, True, *sizes, halved, halved_derivative)
        return tuple(grads)


def halved_attention(q, k, v):
    return HalvedAttention.apply(q, k, v)


def user_work(call, built_in, change, inputs, backward):
    """call, built_in: of query, key and value, causal; change: of scores and distances, for the reference."""
    q, k, v = inputs
    place = torch.arange(q.shape[2], device=q.device)
    distance = place[:, None] - place

    def plain(q, k, v):
        scores = change(q @ k.mT * q.shape[3] ** -0.5, distance)
        return scores.masked_fill(distance < 0, -torch.inf).softmax(-1) @ v

    flops = 2 * q.numel() * q.shape[2]
    functions = {"eager": plain, "the built-in": built_in}
    if not backward:
        peers = {name: lambda each=each: functools.partial(each, *inputs) for name, each in functions.items()}
        return Work(lambda: call(*inputs), 8 * q.numel(), flops, peers, exactly(plain, inputs))
    g = torch.randn_like(q)
    peers = {name: lambda each=each: gradient(each, inputs, g) for name, each in functions.items()}
    return Work(gradient(call, inputs, g), 14 * q.numel(), flops * 5 // 2, peers, exactly(plain, inputs, grads=g))


def python_work(backward, *shape):
    """The program attention.py."""
    inputs = [random(*shape) for _ in range(3)]
    built_in = lambda q, k, v: ops.attention(q, k, v, is_causal=True)[0]  # noqa: E731
    call = functools.partial(program("attention").attention, causal=True)
    return user_work(call, built_in, lambda scores, _: scores, inputs, backward)


def cpp_work(*shape):
    """slope_attention of score_attention.cpp, whose library is built first."""
    sys.path.append(str(EXAMPLES))
    import build_cpp

    build_cpp.load("tile_kernels")
    inputs, scale = [random(*shape) for _ in range(3)], shape[3] ** -0.5
    slope = 2.0 ** -torch.arange(1, shape[1] + 1, device=gpu_work.device)
    return user_work(
        lambda q, k, v: torch.ops.kernels.slope_attention(q, k, v, slope, scale),
        lambda q, k, v: ops.attention(q, k, v, is_causal=True, alibi_slopes=slope)[0],
        lambda scores, distance: scores - slope.to(scores.dtype)[:, None, None] * distance,
        inputs,
        backward=False,
    )


def user_cases():
    shape, ratios = (4, 16, 4096, 128), {"the built-in": 0.95}
    for name, make, _ in named(
        "attention [4,16,4096,128] causal, a user's in Python", lambda backward: python_work(backward, *shape)
    ):
        yield Case(name, make, ratios=ratios, product=True)
    name = "attention [4,16,4096,128] causal, a user's in C++ with ALiBi, forward"
    yield Case(name, functools.partial(cpp_work, *shape), ratios=ratios, product=True)
