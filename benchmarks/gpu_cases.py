"""The cases of the GPU table: the computation, its data, its peers, and the bars."""

import functools
import itertools
import pathlib
import sys

import gpu_work
import tile_ops
import torch
from gpu_attention_cases import attention_cases, decode_cases, mask_cases, shared_key_cases, static_cache_cases, unet_cases
from gpu_document_cases import document_cases
from gpu_loss_cases import loss_cases
from gpu_optimizer_cases import adamw_cases
from gpu_product_cases import product_cases
from gpu_score_cases import change_cases
from gpu_user_cases import user_cases
from gpu_work import Case, Work, exactly, gradient, liger, peers_of, random
from tile_ops import _C
from torch.nn import functional as F

ops = torch.ops.tile


CHAIN = """kernel chain(%x: array<bf16,1>, %y: array<bf16,1>, %z: array<bf16,1>) {
  %i: i32 = bid {axis=0}
  %a: bf16[2048] = load %x, %i {pad=0.0, shape=[2048], steps=[2048]}
  %b: bf16[2048] = load %y, %i {pad=0.0, shape=[2048], steps=[2048]}
  %c: bf16[2048] = add %a, %b
  %d: bf16[2048] = mul %c, %b
  %e: bf16[2048] = sub %d, %a
  %f: bf16[2048] = maximum %e, %b
  %g: bf16[2048] = add %f, %a
  %h: bf16[2048] = mul %g, %g
  store %z, %h, %i {steps=[2048]}
}"""


def chain(x, y):
    return (torch.maximum((x + y) * y - x, y) + x).square()


def vector_add():
    """The kernel of examples/cpp, which is built first."""
    sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "examples"))
    import build_cpp

    build_cpp.load()
    return torch.ops.examples.vector_add


def elementwise_cases():
    def add():
        x, y, own = random(1 << 28), random(1 << 28), vector_add()
        torch.testing.assert_close(own(x, y)[-64:], (x + y)[-64:])
        return Work(lambda: own(x, y), 6 * x.numel(), x.numel(), {"eager": lambda: lambda: x + y})

    def chained():
        x, y = random(1 << 28), random(1 << 28)
        z = torch.empty_like(x)
        call = lambda: _C.run_ir(CHAIN, [x.numel() // 2048, 1, 1], [x, y, z], True)  # noqa: E731
        call()
        torch.testing.assert_close(z[:64], chain(x, y)[:64])
        return Work(call, 6 * x.numel(), 6 * x.numel(), peers_of(chain, (x, y)))

    yield Case("vector add of 2^28 elements (a user's kernel)", add, fraction=0.97)
    yield Case("chain of 6 ops on 2^28 elements", chained, fraction=0.97)


def softmax_work(name, rows, columns, backward):
    x, g = random(rows, columns), random(rows, columns)

    def theirs(x):
        return getattr(x, name)(1)

    if not backward:
        peers, exact = peers_of(theirs, (x,)), exactly(theirs, (x,))
        return Work(lambda: getattr(ops, name)(x, 1), 4 * x.numel(), 5 * x.numel(), peers, exact)
    y = theirs(x)
    peers, exact = peers_of(theirs, (x,), grads=g), exactly(theirs, (x,), grads=g)
    return Work(lambda: getattr(ops, f"{name}_backward")(g, y, 1), 6 * y.numel(), 4 * y.numel(), peers, exact)


def softmax_cases():
    for name, backward in itertools.product(("softmax", "log_softmax"), (False, True)):
        make = functools.partial(softmax_work, name, 8192, 8192, backward)
        yield Case(f"{name} 8192², {'backward' if backward else 'forward'}", make, fraction=0.97)


def rms_norm_work(rows, columns, backward):
    x, g, w = random(rows, columns), random(rows, columns), random(columns)
    rstd = torch.rsqrt(x.float().square().mean(1, True) + 1e-5)

    def theirs(x, w):
        return F.rms_norm(x, [columns], w, 1e-5)

    def ligers(x, w):
        from liger_kernel.ops.rms_norm import LigerRMSNormFunction

        return LigerRMSNormFunction.apply(x, w, 1e-5, 0.0, "llama", False)

    if not backward:
        peers = peers_of(theirs, (x, w), **liger(lambda: lambda: ligers(x, w)))
        ours = lambda: ops.rms_norm(x, [columns], w, 1e-5)  # noqa: E731
        return Work(ours, 4 * x.numel(), 4 * x.numel(), peers, exactly(theirs, (x, w)))
    peers = peers_of(theirs, (x, w), grads=g, **liger(lambda: gradient(ligers, (x, w), g)))
    ours = lambda: ops.rms_norm_backward(g, x, [columns], w, rstd, [True, True])  # noqa: E731
    return Work(ours, 6 * x.numel(), 9 * x.numel(), peers, exactly(theirs, (x, w), grads=g))


def add_rms_norm_work(rows, columns, backward):
    x, r, w = random(rows, columns), random(rows, columns), random(columns)

    def theirs(x, r, w):
        total = x + r
        return F.rms_norm(total, [columns], w, 1e-5), total

    def ligers(x, r, w):
        from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction

        return LigerFusedAddRMSNormFunction.apply(x, r, w, 1e-5, 0.0, "llama", False)

    if not backward:
        peers = peers_of(theirs, (x, r, w), **liger(lambda: lambda: ligers(x, r, w)))
        ours = lambda: ops.add_rms_norm(x, r, [columns], w, 1e-5)  # noqa: E731
        return Work(ours, 8 * x.numel(), 5 * x.numel(), peers, exactly(theirs, (x, r, w)))
    grads, total = (random(rows, columns), random(rows, columns)), x + r
    rstd = torch.rsqrt(total.float().square().mean(1, True) + 1e-5)

    def ours():
        both, weights = ops.add_rms_norm_backward(*grads, total, [columns], w, rstd, [True, True])
        return both, both, weights

    peers = peers_of(theirs, (x, r, w), grads=grads, **liger(lambda: gradient(ligers, (x, r, w), grads)))
    return Work(ours, 8 * x.numel(), 10 * x.numel(), peers, exactly(theirs, (x, r, w), grads=grads))


def layer_norm_work(rows, columns, backward):
    x, g, w, b = random(rows, columns), random(rows, columns), random(columns), random(columns)
    mean, rstd = x.float().mean(1, True), torch.rsqrt(x.float().var(1, unbiased=False, keepdim=True) + 1e-5)

    def theirs(x, w, b):
        return F.layer_norm(x, [columns], w, b)

    def ligers(x, w, b):
        from liger_kernel.ops.layer_norm import LigerLayerNormFunction

        return LigerLayerNormFunction.apply(x, w, b, 1e-5)

    if not backward:
        peers = peers_of(theirs, (x, w, b), **liger(lambda: lambda: ligers(x, w, b)))
        ours = lambda: ops.layer_norm(x, [columns], w, b)  # noqa: E731
        return Work(ours, 4 * x.numel(), 7 * x.numel(), peers, exactly(theirs, (x, w, b)))
    peers = peers_of(theirs, (x, w, b), grads=g, **liger(lambda: gradient(ligers, (x, w, b), g)))
    ours = lambda: ops.layer_norm_backward(g, x, [columns], w, b, mean, rstd, [True] * 3)  # noqa: E731
    return Work(ours, 6 * x.numel(), 11 * x.numel(), peers, exactly(theirs, (x, w, b), grads=g))


def norm_cases():
    for rows, columns in ((8192, 4096), (16384, 2048), (4096, 16384)):
        for name, work, fraction, backward_fraction in (
            ("rms_norm", rms_norm_work, 0.97, 0.80),
            ("add_rms_norm", add_rms_norm_work, 0.97, 0.90),
            ("layer_norm", layer_norm_work, 0.92, 0.75),
        ):
            make = functools.partial(work, rows, columns)
            yield Case(f"{name} [{rows},{columns}], forward", functools.partial(make, False), fraction=fraction)
            yield Case(f"{name} [{rows},{columns}], backward", functools.partial(make, True), fraction=backward_fraction)


def gated_work(name, rows, columns, backward, halves=False):
    """halves: gate and up are the halves of one tensor, and have its row stride."""
    gate, up = random(rows, 2 * columns).chunk(2, 1) if halves else (random(rows, columns), random(rows, columns))
    g, options = random(rows, columns), ["tanh"] if name == "geglu" else []

    def theirs(gate, up):
        return (F.silu(gate) if name == "swiglu" else F.gelu(gate, approximate="tanh")) * up

    def ligers(gate, up):
        from liger_kernel.ops.geglu import LigerGELUMulFunction
        from liger_kernel.ops.swiglu import LigerSiLUMulFunction

        return (LigerSiLUMulFunction if name == "swiglu" else LigerGELUMulFunction).apply(gate, up)

    if not backward:
        peers = peers_of(theirs, (gate, up), **liger(lambda: lambda: ligers(gate, up)))
        keywords = {"approximate": each for each in options}
        ours = lambda: getattr(ops, name)(gate, up, **keywords)  # noqa: E731
        return Work(ours, 6 * gate.numel(), 6 * gate.numel(), peers, exactly(theirs, (gate, up)))
    peers = peers_of(theirs, (gate, up), grads=g, **liger(lambda: gradient(ligers, (gate.clone(), up.clone()), g)))
    ours = lambda: getattr(ops, f"{name}_backward")(g, gate, up, *options, [True] * 2)  # noqa: E731
    return Work(ours, 10 * gate.numel(), 12 * gate.numel(), peers, exactly(theirs, (gate, up), grads=g))


def gated_cases():
    for name, halves in (("swiglu", False), ("swiglu", True), ("geglu", False)):
        label = f"{name}{' tanh' if name == 'geglu' else ''} [8192,11008]{' halves of one' if halves else ''}"
        for backward in (False, True):
            make = functools.partial(gated_work, name, 8192, 11008, backward, halves)
            fraction = 0.90 if backward else 0.97
            yield Case(f"{label}, {'backward' if backward else 'forward'}", make, fraction=fraction, launches=1)


def rotated(q, k, cos, sin):
    def rotate(x):
        first, second = x.chunk(2, -1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)

    return rotate(q), rotate(k)


def rope_work(order, backward, batch=4, length=4096):
    def heads(count):
        return random(batch, count, length, 128) if order == "BHSD" else random(batch, length, count, 128).transpose(1, 2)

    def ligers(q, k, cos, sin):
        from liger_kernel.ops.rope import LigerRopeFunction

        return LigerRopeFunction.apply(q, k, torch.cat((cos, cos), 1)[None], torch.cat((sin, sin), 1)[None])

    q, k, cos, sin = heads(32), heads(8), random(length, 64), random(length, 64)
    count = q.numel() + k.numel()
    if not backward:
        peers = peers_of(rotated, (q, k), (cos, sin), **liger(lambda: lambda: ligers(q, k, cos, sin)))
        exact = exactly(rotated, (q, k), (cos, sin))
        return Work(lambda: ops.rope(q, k, cos, sin), 4 * count, 3 * count, peers, exact)
    grads = tuple(torch.randn_like(x) for x in (q, k))
    peers = peers_of(
        rotated, (q, k), (cos, sin), grads, **liger(lambda: gradient(ligers, (q.clone(), k.clone()), grads, (cos, sin)))
    )
    ours = lambda: ops.rope_backward(*grads, cos, sin, False, None, None, [True, True])  # noqa: E731
    return Work(ours, 4 * count, 3 * count, peers, exactly(rotated, (q, k), (cos, sin), grads))


def rope_in_place_work(batch=4, length=4096):
    q, k = (random(batch, length, count, 128).transpose(1, 2) for count in (32, 8))
    angle = torch.rand(length, 64, device=gpu_work.device)  # repeated rotations keep the values finite
    tables, own = (angle.cos().to(q.dtype), angle.sin().to(q.dtype)), (q.clone(), k.clone())
    count = q.numel() + k.numel()
    ours = lambda: tile_ops.rope_(*own, *tables)  # noqa: E731
    return Work(ours, 4 * count, 3 * count, peers_of(rotated, (q, k), tables), exactly(rotated, (q, k), tables))


def rope_cases():
    yield Case("rope_ q[4,32,4096,128] k[4,8,…] BSHD, in place", rope_in_place_work, fraction=0.97, launches=1)
    for order in ("BHSD", "BSHD"):
        for backward in (False, True):
            name = f"rope q[4,32,4096,128] k[4,8,…] {order}, {'backward' if backward else 'forward'}"
            yield Case(name, functools.partial(rope_work, order, backward), fraction=0.97, launches=1)


def dropout_work(rows, columns, backward):
    x, seed = random(rows, columns), torch.randint(2**62, (2,), device=gpu_work.device)
    kept = ops.dropout(torch.ones_like(x), 0.1, seed) != 0  # peers drop other elements
    exact = lambda: torch.where(kept, x.double() / 0.9, 0)  # noqa: E731
    if backward:  # the same kernel
        ours, peers = lambda: ops.dropout_backward(x, 0.1, seed), {}  # noqa: E731
    else:
        ours, peers = lambda: ops.dropout(x, 0.1, seed), peers_of(functools.partial(F.dropout, p=0.1), (x,))  # noqa: E731
    return Work(ours, 4 * x.numel(), 2 * x.numel(), peers, exact)


def dropout_cases():
    for backward in (False, True):
        make = functools.partial(dropout_work, 8192, 8192, backward)
        yield Case(f"dropout 8192², {'backward' if backward else 'forward'}", make, fraction=0.97, launches=1)


def group_norm_work(n, c, size, last, backward):
    x, w, b = random(n, c, size, size, channels_last=last), random(c), random(c)

    def theirs(x, w, b):
        return F.silu(F.group_norm(x, 32, w, b))

    if not backward:
        ours = lambda: ops.group_norm(x, 32, w, b, activation="silu")  # noqa: E731
        peers, exact = peers_of(theirs, (x, w, b)), exactly(theirs, (x, w, b))
        return Work(ours, 4 * x.numel(), 10 * x.numel(), peers, exact)
    groups = x.float().reshape(n, 32, -1)
    mean, rstd = groups.mean(2), torch.rsqrt(groups.var(2, unbiased=False) + 1e-5)
    g = torch.randn_like(x)
    ours = lambda: ops.group_norm_backward(g, x, 32, w, b, "silu", mean, rstd, [True] * 3)  # noqa: E731
    peers, exact = peers_of(theirs, (x, w, b), grads=g), exactly(theirs, (x, w, b), grads=g)
    return Work(ours, 6 * x.numel(), 20 * x.numel(), peers, exact)


def group_norm_cases():
    for n, c, size in ((16, 320, 64), (4, 128, 512), (8, 512, 128), (2, 1280, 16)):
        small = size == 16
        for last in (False, True):
            name = f"group_norm+silu [{n},{c},{size},{size}]{' channels_last' if last else ''}"
            make, ratios = functools.partial(group_norm_work, n, c, size, last), {"torch.compile": 1.8}
            yield Case(
                f"{name}, forward", functools.partial(make, False), 0.80, ratios, 8.0 if small else None, 1 if small else None
            )
            yield Case(f"{name}, backward", functools.partial(make, True), 0.70, ratios, None, 2 if small else None)


def all_cases():
    for family in (
        elementwise_cases,
        softmax_cases,
        loss_cases,
        norm_cases,
        gated_cases,
        rope_cases,
        dropout_cases,
        adamw_cases,
        group_norm_cases,
        decode_cases,
        static_cache_cases,
        product_cases,
        attention_cases,
        shared_key_cases,
        unet_cases,
        mask_cases,
        document_cases,
        user_cases,
        change_cases,
    ):
        yield from family()
