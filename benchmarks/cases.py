"""The cases of the CPU table: what is computed, how torch eager does it, the bytes and flops it takes at least."""

from dataclasses import dataclass, field
from typing import Callable

import torch
import torch.nn.functional as F

import tile_ops


@dataclass
class Case:
    name: str
    ours: Callable
    eager: Callable
    bytes: float = 0  # read and written once
    flops: float = 0
    required: float | None = None  # eager's time / ours
    target: float | None = None    # not prototyped before
    long: bool = False             # eager takes seconds: fewer rounds
    tags: set = field(default_factory=set)


def tensor_bytes(*tensors):
    return float(sum(t.numel() * t.element_size() for t in tensors))


def grads(function, inputs, grad):
    """A function that runs only the backward of function(*inputs)."""
    out = function(*inputs)
    return lambda: torch.autograd.grad(out, inputs, grad, retain_graph=True)


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1)


def eager_rope(q, k, cos, sin):
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def row_cases(dtype):
    ops = torch.ops.tile
    name = str(dtype).removeprefix("torch.")
    x = torch.randn(4096, 4096, dtype=dtype)
    weight, bias = torch.randn(4096, dtype=dtype), torch.randn(4096, dtype=dtype)
    two = 2 * tensor_bytes(x)
    bf16 = dtype == torch.bfloat16
    yield Case(f"softmax 4096x4096 {name}", lambda: ops.softmax(x, -1), lambda: torch.softmax(x, -1), two,
               5 * x.numel(), required=1.25)
    yield Case(f"rms_norm 4096x4096 {name}", lambda: ops.rms_norm(x, [4096], weight),
               lambda: F.rms_norm(x, [4096], weight), two, 4 * x.numel(), required=4.5 if bf16 else 2.4)
    residual = torch.randn_like(x)
    yield Case(f"add_rms_norm 4096x4096 {name}", lambda: ops.add_rms_norm(x, residual, [4096], weight),
               lambda: F.rms_norm(x + residual, [4096], weight), 2 * two, 5 * x.numel(), target=2.0)
    yield Case(f"layer_norm 4096x4096 {name}", lambda: ops.layer_norm(x, [4096], weight, bias),
               lambda: F.layer_norm(x, [4096], weight, bias), two, 7 * x.numel(), target=1.05)
    yield Case(f"log_softmax 4096x4096 {name}", lambda: ops.log_softmax(x, -1), lambda: torch.log_softmax(x, -1), two,
               5 * x.numel(), target=1.0)
    grad = torch.randn_like(x)
    xg, wg, bg = (t.clone().requires_grad_() for t in (x, weight, bias))
    three = 3 * tensor_bytes(x)
    yield Case(f"softmax backward {name}", grads(lambda a: ops.softmax(a, -1), [xg], grad),
               grads(lambda a: torch.softmax(a, -1), [xg], grad), three, 4 * x.numel(), target=1.0)
    yield Case(f"rms_norm backward {name}", grads(lambda a, w: ops.rms_norm(a, [4096], w), [xg, wg], grad),
               grads(lambda a, w: F.rms_norm(a, [4096], w), [xg, wg], grad), three, 9 * x.numel(), target=2.0)
    rg, both = residual.clone().requires_grad_(), (grad, torch.randn_like(x))

    def eager_add(a, r, w):
        return F.rms_norm(a + r, [4096], w), a + r

    yield Case(f"add_rms_norm backward {name}",
               grads(lambda a, r, w: ops.add_rms_norm(a, r, [4096], w), [xg, rg, wg], both),
               grads(eager_add, [xg, rg, wg], both), 4 * tensor_bytes(x), 10 * x.numel(), target=2.0)
    yield Case(f"layer_norm backward {name}",
               grads(lambda a, w, b: ops.layer_norm(a, [4096], w, b), [xg, wg, bg], grad),
               grads(lambda a, w, b: F.layer_norm(a, [4096], w, b), [xg, wg, bg], grad), three, 11 * x.numel(),
               target=1.0)


def gated_cases(dtype):
    ops = torch.ops.tile
    name = str(dtype).removeprefix("torch.")
    gate, up, grad = (torch.randn(2048, 11008, dtype=dtype) for _ in range(3))
    gg, ug = gate.clone().requires_grad_(), up.clone().requires_grad_()
    for label, ours, eager in (
        ("swiglu", ops.swiglu, lambda g, u: F.silu(g) * u),
        ("geglu", ops.geglu, lambda g, u: F.gelu(g) * u),
    ):
        yield Case(f"{label} 2048x11008 {name}", lambda f=ours: f(gate, up), lambda f=eager: f(gate, up),
                   3 * tensor_bytes(gate), 6 * gate.numel(), target=1.5)
        yield Case(f"{label} backward {name}", grads(ours, [gg, ug], grad), grads(eager, [gg, ug], grad),
                   5 * tensor_bytes(gate), 12 * gate.numel(), target=1.5)


def loss_cases(dtype):
    ops = torch.ops.tile
    name = str(dtype).removeprefix("torch.")
    x, target = torch.randn(1024, 32000, dtype=dtype), torch.randint(0, 32000, (1024,))
    yield Case(f"cross_entropy 1024x32000 {name}", lambda: ops.cross_entropy(x, target),
               lambda: F.cross_entropy(x, target), tensor_bytes(x), 4 * x.numel())
    xg, one = x.clone().requires_grad_(), torch.ones((), dtype=dtype)
    yield Case(f"cross_entropy backward {name}", grads(lambda a: ops.cross_entropy(a, target), [xg], one),
               grads(lambda a: F.cross_entropy(a, target), [xg], one), 2 * tensor_bytes(x), 4 * x.numel())
    table, indices = torch.randn(32000, 1024, dtype=dtype).requires_grad_(), torch.randint(0, 32000, (4096,))
    grad = torch.randn(4096, 1024, dtype=dtype)
    own = table.detach()
    yield Case(f"embedding 4096 of [32000,1024] {name}", lambda: ops.embedding(own, indices),
               lambda: F.embedding(indices, own), 2 * tensor_bytes(grad))
    yield Case(f"embedding backward {name}", grads(lambda w: ops.embedding(w, indices), [table], grad),
               grads(lambda w: F.embedding(indices, w), [table], grad), tensor_bytes(table, grad), grad.numel())


def rope_cases(dtype):
    name = str(dtype).removeprefix("torch.")
    q, k = torch.randn(1, 32, 2048, 128, dtype=dtype), torch.randn(1, 8, 2048, 128, dtype=dtype)
    angle = torch.outer(torch.arange(2048.0), 10000 ** (-torch.arange(0, 128, 2) / 128))
    angle = torch.cat((angle, angle), -1)
    cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)
    moved = 2 * tensor_bytes(q, k)
    ops = torch.ops.tile
    yield Case(f"RoPE q[1,32,2048,128] k[1,8,2048,128] {name}", lambda: ops.rope(q, k, cos, sin),
               lambda: eager_rope(q, k, cos, sin), moved, 3 * (q.numel() + k.numel()),
               required=2.8 if dtype == torch.float32 else None)
    qg, kg = q.clone().requires_grad_(), k.clone().requires_grad_()
    gq, gk = torch.randn_like(q), torch.randn_like(k)

    def backward(function):
        outs = function(qg, kg, cos, sin)
        return lambda: torch.autograd.grad(outs, [qg, kg], [gq, gk], retain_graph=True)

    yield Case(f"RoPE backward {name}", backward(ops.rope), backward(eager_rope), moved, 3 * (q.numel() + k.numel()),
               target=2.0)


def dropout_cases(dtype):
    x, seed = torch.randn(4096, 4096, dtype=dtype), torch.randint(2**62, (2,))
    yield Case(f"dropout 4096x4096 {str(dtype).removeprefix('torch.')}", lambda: torch.ops.tile.dropout(x, 0.1, seed),
               lambda: F.dropout(x, 0.1), 2 * tensor_bytes(x), 2 * x.numel(), target=2.0)


def adamw_cases(dtype):
    name, options = str(dtype).removeprefix("torch."), {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01}
    for count, size in ((1, 1 << 24), (100, 30000)):
        def lists():
            params, grads, means, squares = ([torch.rand(size).to(dtype) for _ in range(count)] for _ in range(4))
            return params, grads, means, squares, [torch.tensor(3.0) for _ in range(count)]

        own, theirs = lists(), lists()
        yield Case(f"AdamW {count} x {size} {name}", lambda a=own: torch.ops.tile.adamw_(*a, lr=1e-3, **options),
                   lambda b=theirs: torch._fused_adamw_(*b[:4], [], b[4], lr=1e-3, amsgrad=False, maximize=False,
                                                        **options),
                   7.0 * own[0][0].element_size() * count * size, 15.0 * count * size, target=1.0)


def group_norm_cases(dtype):
    name = str(dtype).removeprefix("torch.")
    ops = torch.ops.tile
    weight, bias = torch.randn(320, dtype=dtype), torch.randn(320, dtype=dtype)
    for layout, required in ((torch.contiguous_format, 1.7), (torch.channels_last, 1.3)):
        x = torch.randn(4, 320, 64, 64, dtype=dtype).to(memory_format=layout)
        label = "channels_last" if layout is torch.channels_last else "NCHW"
        yield Case(f"GroupNorm+SiLU [4,320,64,64] {label} {name}",
                   lambda x=x: ops.group_norm(x, 32, weight, bias, activation="silu"),
                   lambda x=x: F.silu(F.group_norm(x, 32, weight, bias)), 2 * tensor_bytes(x), 10 * x.numel(),
                   required=required)
        xg, wg, bg = (t.clone(memory_format=torch.preserve_format).requires_grad_() for t in (x, weight, bias))
        grad = torch.randn_like(x)
        yield Case(f"GroupNorm+SiLU backward {label} {name}",
                   grads(lambda a, w, b: ops.group_norm(a, 32, w, b, activation="silu"), [xg, wg, bg], grad),
                   grads(lambda a, w, b: F.silu(F.group_norm(a, 32, w, b)), [xg, wg, bg], grad), 3 * tensor_bytes(x),
                   20 * x.numel(), target=1.2)


def attention_cases(dtype):
    name = str(dtype).removeprefix("torch.")
    ops = torch.ops.tile
    for depth in (64, 128):
        q, k, v = (torch.randn(1, 16, 1024, depth, dtype=dtype) for _ in range(3))
        grad = torch.randn_like(q)
        qg, kg, vg = (t.clone().requires_grad_() for t in (q, k, v))
        for causal in (False, True):
            label = "causal" if causal else "full"
            flops = 4 * 16 * 1024 * 1024 * depth * (0.5 if causal else 1)
            yield Case(f"attention [1,16,1024,{depth}] {label} {name}",
                       lambda q=q, k=k, v=v, c=causal: ops.attention(q, k, v, is_causal=c),
                       lambda q=q, k=k, v=v, c=causal: F.scaled_dot_product_attention(q, k, v, is_causal=c),
                       tensor_bytes(q, k, v, q), flops,
                       required=(1.3 if causal else 1.0) if dtype == torch.float32 else None)
            target = 4.0 if dtype == torch.bfloat16 else 1.2 if causal else 0.95
            yield Case(f"attention backward [1,16,1024,{depth}] {label} {name}",
                       grads(lambda a, b, c, causal=causal: ops.attention(a, b, c, is_causal=causal)[0], [qg, kg, vg],
                             grad),
                       grads(lambda a, b, c, causal=causal: F.scaled_dot_product_attention(a, b, c, is_causal=causal),
                             [qg, kg, vg], grad),
                       tensor_bytes(q, k, v, grad, q, k, v), 2.5 * flops, target=target, long=dtype == torch.bfloat16)


def matmul_cases():
    ops = torch.ops.tile
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    flops = 2.0 * 1024**3
    yield Case("matmul 1024^3 float32", lambda: ops.matmul(a, b), lambda: a @ b, tensor_bytes(a, b, a), flops,
               required=0.95)
    c, d = a.bfloat16(), b.bfloat16()
    slow = not torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    yield Case("matmul 1024^3 bfloat16", lambda: ops.matmul(c, d), lambda: c @ d, tensor_bytes(c, d, c), flops,
               required=40 if slow else None, long=slow)
    x, w, bias = torch.randn(1024, 1024), torch.randn(4096, 1024), torch.randn(4096)
    yield Case("linear+gelu 1024x1024x4096 float32", lambda: tile_ops.linear(x, w, bias, activation="gelu"),
               lambda: F.gelu(F.linear(x, w, bias)), tensor_bytes(x, w) + 4.0 * 1024 * 4096, 8.0 * 1024**3,
               required=1.05)


def gated_matmul_cases():
    x, gate, up = torch.randn(1024, 1024), torch.randn(4096, 1024), torch.randn(4096, 1024)
    grad, inputs = torch.randn(1024, 4096), [t.clone().requires_grad_() for t in (x, gate, up)]

    def eager(x, gate, up):
        return F.silu(F.linear(x, gate)) * F.linear(x, up)

    moved = tensor_bytes(x, gate, up, grad)
    yield Case("silu(linear) * linear 1024x1024x4096 float32", lambda: tile_ops.gated_linear(x, gate, up),
               lambda: eager(x, gate, up), moved, 16.0 * 1024**3, required=1.1)
    yield Case("silu(linear) * linear backward float32", grads(tile_ops.gated_linear, inputs, grad),
               grads(eager, inputs, grad), 2 * moved, 32.0 * 1024**3, target=1.0)


def elementwise_cases(vector_add):
    for dtype in (torch.float32, torch.bfloat16):
        x, y = torch.randn(1 << 24, dtype=dtype), torch.randn(1 << 24, dtype=dtype)
        yield Case(f"add 2^24 {str(dtype).removeprefix('torch.')} (a user's kernel)", lambda x=x, y=y: vector_add(x, y),
                   lambda x=x, y=y: x + y, 3 * tensor_bytes(x), x.numel(),
                   required=0.95 if dtype == torch.float32 else None)


def all_cases(vector_add):
    yield from elementwise_cases(vector_add)
    for dtype in (torch.float32, torch.bfloat16):
        yield from row_cases(dtype)
        yield from gated_cases(dtype)
        yield from loss_cases(dtype)
        yield from rope_cases(dtype)
        yield from dropout_cases(dtype)
        yield from adamw_cases(dtype)
        yield from group_norm_cases(dtype)
    yield from matmul_cases()
    yield from gated_matmul_cases()
    for dtype in (torch.float32, torch.bfloat16):
        yield from attention_cases(dtype)
