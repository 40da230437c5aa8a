"""The cases of the CPU table: the computation, torch's way to do it, the minimum of bytes and flops, and the bars."""

import dataclasses
import itertools
from typing import Callable

import element_kernels
import tile_ops
import torch
from peers import gradient, peers_of
from torch.nn import functional as F

ops = torch.ops.tile
DTYPES = (torch.float32, torch.bfloat16)
PEERS = ("eager", "torch.compile")
FRESH = (2.5, 2.5)
BLOCK = 16384  # elements of a block in a user's kernel


@dataclasses.dataclass
class Case:
    name: str
    make: Callable[[], Callable]  # returns the function that makes our call
    peers: dict = dataclasses.field(default_factory=dict)  # {name: function that makes the call}
    bytes: float = 0  # read and written once
    flops: float = 0
    ratios: dict = dataclasses.field(default_factory=dict)  # {peer: the required ratio of its time to ours}
    microseconds: float | None = None  # {peer: the required ratio of its time to ours}
    calls: int = 1  # timed together
    long: bool = False  # a peer takes seconds, so there are fewer rounds


def bars(eager, compiled=None):
    return dict(zip(PEERS, (eager, eager if compiled is None else compiled)))


def case(name, ours, theirs, inputs, moved, flops=0, other=(), grads=None, **more):
    """ours(*inputs, *other) and theirs; with grads, the backward of both. moved: tensors, or a number of bytes."""

    def make():
        return gradient(ours, inputs, grads, other) if grads is not None else lambda: ours(*inputs, *other)

    moved = moved if isinstance(moved, float) else tensor_bytes(*moved)
    return Case(name, make, peers_of(theirs, inputs, other, grads), moved, flops, **more)


def tensor_bytes(*tensors):
    return float(sum(t.numel() * t.element_size() for t in tensors))


def name_of(dtype):
    return str(dtype).removeprefix("torch.")


def rotate_half(x):
    half = x.shape[-1] // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1)


def eager_rope(q, k, cos, sin):
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


def add(x, y):
    return x + y


def chain(x, y):
    return torch.relu((x * 1.5 + y) * x - 0.25) * y


def gelu_chain(x):
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def own_chain(x, y, size=BLOCK):
    return torch.ops.bench.chain(x, y, size)


def own_gelu_chain(x, size=BLOCK):
    return torch.ops.bench.gelu_chain(x, size)


def add_cases(dtype):
    x, y = torch.randn(1 << 24, dtype=dtype), torch.randn(1 << 24, dtype=dtype)
    yield case(
        f"add 2^24 {name_of(dtype)} (a user's kernel)",
        torch.ops.examples.vector_add,
        add,
        (x, y),
        (x, y, x),
        x.numel(),
        ratios=bars(0.97 if dtype == torch.float32 else 1.0),
    )


def chain_cases(dtype, power=22):
    x, y = torch.randn(1 << power, dtype=dtype), torch.randn(1 << power, dtype=dtype)
    narrow, user = dtype == torch.bfloat16, f"2^{power} {name_of(dtype)} (a user's kernel)"
    yield case(
        f"chain of 6 {user}",
        own_chain,
        chain,
        (x, y),
        (x, y, x),
        6 * x.numel(),
        ratios=bars(4, 1.1) if narrow else bars(5, 0.97),
    )
    yield case(
        f"gelu chain {user}", own_gelu_chain, gelu_chain, (x,), (x, x), 9 * x.numel(), ratios=bars(4 if narrow else 5, 2.5)
    )


def small_cases():
    """Calls from Python that take only microseconds."""
    x, y, weight, bias = torch.randn(8, 128), torch.randn(8, 128), torch.randn(128), torch.randn(128)
    moved, flat, one = (x, y), torch.randn(1024), dict(microseconds=5, calls=200)
    yield case("add [1024] float32 (a user's kernel)", torch.ops.examples.vector_add, add, (flat, flat), moved, **one)
    yield case("softmax [8,128] float32", lambda x: ops.softmax(x, -1), lambda x: torch.softmax(x, -1), (x,), moved, **one)
    yield case(
        "rms_norm [8,128] float32",
        lambda x, w: ops.rms_norm(x, [128], w),
        lambda x, w: F.rms_norm(x, [128], w),
        (x, weight),
        moved,
        **one,
    )
    yield case(
        "layer_norm [8,128] float32",
        lambda x, w, b: ops.layer_norm(x, [128], w, b),
        lambda x, w, b: F.layer_norm(x, [128], w, b),
        (x, weight, bias),
        moved,
        **one,
    )
    chained = dict(ratios=bars(4, 5), calls=200)
    yield case("chain of 6 [8,128] float32 (a user's kernel)", own_chain, chain, (x, y), moved, **chained)
    yield case("gelu chain [8,128] float32 (a user's kernel)", own_gelu_chain, gelu_chain, (x,), moved, **chained)


def first_call_cases():
    """Every call has a different block size, hence a new kernel: trace, passes, assemble."""
    x, y = torch.randn(8, 128), torch.randn(8, 128)
    sizes = itertools.count(BLOCK + 16, 16)
    yield Case("first call of the chain of 6", lambda: lambda: own_chain(x, y, next(sizes)), microseconds=2000)
    yield Case("first call of the gelu chain", lambda: lambda: own_gelu_chain(x, next(sizes)), microseconds=2000)


def row_operators(x, grad, wanted, backward="backward"):
    """Cases of the operators that `wanted` has bars for, forward and backward, over the columns of x."""
    rows, width = x.shape
    name, weight, bias = name_of(x.dtype), *(torch.randn(width, dtype=x.dtype) for _ in range(2))
    for label, ours, theirs, inputs, flops in (  # flops per element
        ("softmax", lambda x: ops.softmax(x, -1), lambda x: torch.softmax(x, -1), (x,), (5, 4)),
        ("rms_norm", lambda x, w: ops.rms_norm(x, [width], w), lambda x, w: F.rms_norm(x, [width], w), (x, weight), (4, 9)),
        (
            "layer_norm",
            lambda x, w, b: ops.layer_norm(x, [width], w, b),
            lambda x, w, b: F.layer_norm(x, [width], w, b),
            (x, weight, bias),
            (7, 11),
        ),
        ("log_softmax", lambda x: ops.log_softmax(x, -1), lambda x: torch.log_softmax(x, -1), (x,), (5, 4)),
    ):
        if label not in wanted:
            continue
        forward, back = wanted[label]
        yield case(f"{label} {rows}x{width} {name}", ours, theirs, inputs, (x, x), flops[0] * x.numel(), ratios=forward)
        yield case(f"{label} {backward} {name}", ours, theirs, inputs, (x, x, x), flops[1] * x.numel(), grads=grad, ratios=back)


def row_cases(dtype):
    name, bf16 = name_of(dtype), dtype == torch.bfloat16
    x, residual, grad, other_grad = (torch.randn(4096, 4096, dtype=dtype) for _ in range(4))
    weight, count = torch.randn(4096, dtype=dtype), x.numel()
    yield from row_operators(
        x,
        grad,
        {
            "softmax": (bars(1.3, 1.5), bars(1.0, 1.1)),
            "rms_norm": (bars(5, 1.3) if bf16 else bars(2.5, 1.05), bars(4, 1.1)),
            "layer_norm": (bars(1.05, 1.3), bars(1.0, 1.1)),
            "log_softmax": ({}, {}),
        },
    )

    def eager_add(x, r, w):
        return F.rms_norm(x + r, [4096], w), x + r

    own_add = lambda x, r, w: ops.add_rms_norm(x, r, [4096], w)  # noqa: E731
    yield case(f"add_rms_norm 4096x4096 {name}", own_add, eager_add, (x, residual, weight), (x,) * 4, 5 * count)
    yield case(
        f"add_rms_norm backward {name}",
        own_add,
        eager_add,
        (x, residual, weight),
        (x,) * 4,
        10 * count,
        grads=(grad, other_grad),
    )


def short_row_cases(dtype):
    """Cases with BERT's width, which is not a power of two: tiles end past the rows."""
    x, grad = (torch.randn(16384, 768, dtype=dtype) for _ in range(2))
    yield from row_operators(x, grad, {"softmax": ({}, {}), "layer_norm": ({}, {})}, "16384x768 backward")


def gated_cases(dtype):
    name = name_of(dtype)
    gate, up, grad = (torch.randn(2048, 11008, dtype=dtype) for _ in range(3))
    for label, ours, theirs in (
        ("swiglu", ops.swiglu, lambda g, u: F.silu(g) * u),
        ("geglu", ops.geglu, lambda g, u: F.gelu(g) * u),
    ):
        yield case(f"{label} 2048x11008 {name}", ours, theirs, (gate, up), (gate,) * 3, 6 * gate.numel())
        yield case(f"{label} backward {name}", ours, theirs, (gate, up), (gate,) * 5, 12 * gate.numel(), grads=grad)


def loss_cases(dtype):
    name = name_of(dtype)
    x, target = torch.randn(1024, 32000, dtype=dtype), torch.randint(0, 32000, (1024,))
    for label, moved, grads in (("1024x32000", (x,), None), ("backward", (x, x), torch.ones((), dtype=dtype))):
        one = case(
            f"cross_entropy {label} {name}", ops.cross_entropy, F.cross_entropy, (x,), moved, 4 * x.numel(), (target,), grads
        )
        # The code that torch 2.13 compiles of this for AVX2 terminates the process.
        if dtype == torch.bfloat16 and torch.backends.cpu.get_cpu_capability() == "AVX2":
            del one.peers["torch.compile"]
        yield one
    table, indices = torch.randn(32000, 1024, dtype=dtype), torch.randint(0, 32000, (4096,))
    grad = torch.randn(4096, 1024, dtype=dtype)

    def eager(weight, indices):
        return F.embedding(indices, weight)

    yield case(f"embedding 4096 of [32000,1024] {name}", ops.embedding, eager, (table,), (grad, grad), 0, (indices,))
    yield case(f"embedding backward {name}", ops.embedding, eager, (table,), (table, grad), grad.numel(), (indices,), grad)


def rope_cases(dtype):
    name, fp32 = name_of(dtype), dtype == torch.float32
    q, k = torch.randn(1, 32, 2048, 128, dtype=dtype), torch.randn(1, 8, 2048, 128, dtype=dtype)
    angle = torch.outer(torch.arange(2048.0), 10000 ** (-torch.arange(0, 128, 2) / 128))
    angle = torch.cat((angle, angle), -1)
    tables = angle.cos().to(dtype), angle.sin().to(dtype)
    flops, grads = 3 * (q.numel() + k.numel()), (torch.randn_like(q), torch.randn_like(k))
    own = q.clone(), k.clone()  # repeated rotations keep the values finite

    yield case(
        f"RoPE q[1,32,2048,128] k[1,8,2048,128] {name}",
        ops.rope,
        eager_rope,
        (q, k),
        (q, k) * 2,
        flops,
        tables,
        ratios=bars(4.5 if fp32 else 4, 2.2),
    )
    yield case(f"RoPE backward {name}", ops.rope, eager_rope, (q, k), (q, k) * 2, flops, tables, grads, ratios=bars(3, 1.1))
    yield case(
        f"RoPE in place {name}",
        lambda q, k, *tables: tile_ops.rope_(*own, *tables),
        eager_rope,
        (q, k),
        (q, k) * 2,
        flops,
        tables,
    )


def dropout_cases(dtype):
    x, seed = torch.randn(4096, 4096, dtype=dtype), torch.randint(2**62, (2,))
    yield case(
        f"dropout 4096x4096 {name_of(dtype)}",
        lambda x: ops.dropout(x, 0.1, seed),
        lambda x: F.dropout(x, 0.1),
        (x,),
        (x, x),
        2 * x.numel(),
    )


def adamw_cases(dtype):
    options = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01, "lr": 1e-3}
    for count, size in ((1, 1 << 24), (100, 30000)):

        def lists():
            return *([torch.rand(size).to(dtype) for _ in range(count)] for _ in range(4)), [torch.tensor(3.0)] * count

        own, theirs = lists(), lists()
        yield Case(
            f"AdamW {count} x {size} {name_of(dtype)}",
            lambda a=own: lambda: ops.adamw_(*a, **options),
            {"eager": lambda b=theirs: lambda: torch._fused_adamw_(*b[:4], [], b[4], amsgrad=False, maximize=False, **options)},
            7.0 * tensor_bytes(*own[0]),
            15.0 * count * size,
        )


def group_norm_cases(dtype):
    weight, bias = torch.randn(320, dtype=dtype), torch.randn(320, dtype=dtype)

    def ours(x, w, b):
        return ops.group_norm(x, 32, w, b, activation="silu")

    def eager(x, w, b):
        return F.silu(F.group_norm(x, 32, w, b))

    for label, layout, ratios in (
        ("NCHW", torch.contiguous_format, bars(1.7, 1.8)),
        ("channels_last", torch.channels_last, bars(1.4, 2.8)),
    ):
        x = torch.randn(4, 320, 64, 64, dtype=dtype).to(memory_format=layout)
        rest = f"{label} {name_of(dtype)}"
        yield case(
            f"GroupNorm+SiLU [4,320,64,64] {rest}", ours, eager, (x, weight, bias), (x, x), 10 * x.numel(), ratios=ratios
        )
        yield case(
            f"GroupNorm+SiLU backward {rest}",
            ours,
            eager,
            (x, weight, bias),
            (x, x, x),
            20 * x.numel(),
            grads=torch.randn_like(x),
            ratios=bars(1.3, 1.1),
        )


def attention_of_one_query_cases(dtype):
    """A step of decoding, without and with a mask of all keys."""
    for heads, key_heads, keys, depth in ((8, 8, 159, 64), (16, 4, 159, 64), (32, 8, 1024, 128)):
        q, k, v = (torch.randn(1, h, n, depth, dtype=dtype) for h, n in ((heads, 1), (key_heads, keys), (key_heads, keys)))
        for text, mask in (("", None), (" masked", torch.ones(1, 1, 1, keys, dtype=torch.bool))):
            yield case(
                f"attention of one query [{heads},{key_heads},{keys},{depth}]{text} {name_of(dtype)}",
                lambda q, k, v, mask=mask: ops.attention(q, k, v, attn_bias=mask),
                lambda q, k, v, mask=mask, own=heads == key_heads: F.scaled_dot_product_attention(
                    q, k, v, attn_mask=mask, enable_gqa=not own
                ),
                (q, k, v),
                (q, k, v, q),
                4.0 * heads * keys * depth,
                ratios=bars(1.0),
            )


def attention_cases(dtype):
    name, bf16 = name_of(dtype), dtype == torch.bfloat16
    for depth, causal in itertools.product((64, 128), (False, True)):
        q, k, v, grad = (torch.randn(1, 16, 1024, depth, dtype=dtype) for _ in range(4))
        flops = 4 * 16 * 1024 * 1024 * depth * (0.5 if causal else 1)
        rest = f"[1,16,1024,{depth}] {'causal' if causal else 'full'} {name}"

        def eager(q, k, v, causal=causal):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

        yield case(
            f"attention {rest}",
            lambda q, k, v, c=causal: ops.attention(q, k, v, is_causal=c),
            eager,
            (q, k, v),
            (q, k, v, q),
            flops,
            ratios=bars(1.35 if causal else 1.05),
        )
        yield case(
            f"attention backward {rest}",
            lambda q, k, v, c=causal: ops.attention(q, k, v, is_causal=c)[0],
            eager,
            (q, k, v),
            (q, k, v, grad, q, k, v),
            2.5 * flops,
            grads=grad,
            long=bf16,
            ratios=bars(5 if bf16 else 1.2 if causal else 0.95),
        )


def matmul_cases():
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    c, d, flops = a.bfloat16(), b.bfloat16(), 2.0 * 1024**3
    yield case("matmul 1024^3 float32", ops.matmul, torch.matmul, (a, b), (a, b, a), flops, ratios=bars(0.95))
    # CPUs on which torch has no fast product of bfloat16.
    slow = not torch.backends.cpu.get_cpu_capability().startswith("AVX512")
    yield case(
        "matmul 1024^3 bfloat16",
        ops.matmul,
        torch.matmul,
        (c, d),
        (c, d, c),
        flops,
        long=slow,
        ratios=bars(50 if slow else 0.9),
    )
    yield case("linear 1024^3 bfloat16", tile_ops.linear, F.linear, (c, d), (c, d, c), flops, ratios=bars(6 if slow else 0.9))
    x, w, bias = torch.randn(1024, 1024), torch.randn(4096, 1024), torch.randn(4096)
    yield case(
        "linear+gelu 1024x1024x4096 float32",
        lambda x, w, b: tile_ops.linear(x, w, b, activation="gelu"),
        lambda x, w, b: F.gelu(F.linear(x, w, b)),
        (x, w, bias),
        tensor_bytes(x, w) + 4.0 * 1024 * 4096,
        8.0 * 1024**3,
        ratios=bars(1.1),
    )
    gate, text = torch.randn(1024, 4096), "silu(acc + bias) * gate"
    yield case(
        "matmul_epilogue 1024x1024x4096 float32",
        lambda x, w, b, g: tile_ops.matmul(x, w.t(), epilogue=text, operands={"bias": b, "gate": g}),
        lambda x, w, b, g: F.silu(F.linear(x, w, b)) * g,
        (x, w, bias, gate),
        (x, w, gate, gate),
        8.0 * 1024**3,
        ratios=bars(1.1),
    )


def few_rows_cases(dtype):
    """Products of a step that generates a token for each of so many sequences: the time is that of reading the weights."""
    w, bias = torch.randn(4096, 4096).to(dtype), torch.randn(4096).to(dtype)
    for rows in (1, 2, 4, 8):
        x = torch.randn(rows, 4096).to(dtype)
        yield case(
            f"linear+gelu of few rows {rows}x4096x4096 {name_of(dtype)}",
            lambda x, w, b: tile_ops.linear(x, w, b, activation="gelu"),
            lambda x, w, b: F.gelu(F.linear(x, w, b)),
            (x, w, bias),
            (x, w, x),
            2.0 * rows * 4096**2,
            ratios=bars(1.0),
        )


def linear_cases(dtype):
    """Products by whose sizes tile_ops decides between ours and torch's, forward and with all gradients."""
    for rows in (1, 4, 128, 512):
        for depth, columns in ((512, 512), (1024, 4096)):
            x, w, grad = (torch.randn(shape).to(dtype) for shape in ((rows, depth), (columns, depth), (rows, columns)))
            name, flops = f"linear of {rows}x{depth}x{columns} {name_of(dtype)}", 2.0 * rows * depth * columns
            yield case(name, tile_ops.linear, F.linear, (x, w), (x, w, grad), flops)
            yield case(
                f"{name}, backward", tile_ops.linear, F.linear, (x, w), (x, w, grad, x, w), 2 * flops, grads=grad
            )  # fmt: skip


def gated_matmul_cases():
    x, gate, up = torch.randn(1024, 1024), torch.randn(4096, 1024), torch.randn(4096, 1024)
    grad, shape = torch.randn(1024, 4096), "1024x1024x4096"

    def eager(x, gate, up):
        return F.silu(F.linear(x, gate)) * F.linear(x, up)

    yield case(
        f"silu(linear) * linear {shape} float32",
        tile_ops.gated_linear,
        eager,
        (x, gate, up),
        (x, gate, up, grad),
        16.0 * 1024**3,
        ratios=bars(1.1),
    )
    yield case(
        "silu(linear) * linear backward float32",
        tile_ops.gated_linear,
        eager,
        (x, gate, up),
        (x, gate, up, grad) * 2,
        32.0 * 1024**3,
        grads=grad,
    )


def element_cases():
    """Users' kernels in Python: elements at random places, remainders, positions, reductions with a function."""
    count, user = 1 << 18, "float32 (a user's kernel)"
    x, index, near = torch.randn(count), torch.randperm(count), bars(1 / 1.5)
    moved = (x, x, index)
    yield case(f"gather 2^18 {user}", element_kernels.gather, lambda x, i: x.index_select(0, i), (x, index), moved, ratios=near)
    for label, ours, theirs in (
        ("scatter", element_kernels.scatter, lambda out, i, x: out.scatter_(0, i, x)),
        ("atomic_add", element_kernels.atomic_add, lambda out, i, x: out.index_add_(0, i, x)),
    ):
        yield case(f"{label} 2^18 {user}", ours, theirs, (torch.zeros(count), index, x), moved, ratios=near)
    divisor = torch.rand(count) + 0.1
    for label, ours, theirs in (
        ("x % y", element_kernels.remainder, torch.remainder),
        ("x // y", element_kernels.floor_divide, torch.floor_divide),
    ):
        yield case(f"{label} 2^18 {user}", ours, theirs, (x, divisor), (x, x, x), count, ratios=near)
    rows = torch.randn(256, 1024)
    for label, ours, theirs in (
        ("max and argmax", element_kernels.largest, lambda x: x.max(1)),
        ("reduce to logsumexp", element_kernels.logsumexp, lambda x: x.logsumexp(1)),
        ("reduce to max", element_kernels.amax, lambda x: x.amax(1)),
    ):
        yield case(f"{label} 256x1024 {user}", ours, theirs, (rows,), (rows,), rows.numel(), ratios=near)


def all_cases():
    """All cases, for an allocator that keeps its memory."""
    for of_dtype in (add_cases, chain_cases):
        for dtype in DTYPES:
            yield from of_dtype(dtype)
    yield from small_cases()
    yield from first_call_cases()
    yield from element_cases()
    for dtype in DTYPES:
        for of_dtype in (
            row_cases,
            short_row_cases,
            gated_cases,
            loss_cases,
            rope_cases,
            dropout_cases,
            adamw_cases,
            group_norm_cases,
            few_rows_cases,
            linear_cases,
        ):
            yield from of_dtype(dtype)
    yield from matmul_cases()
    yield from gated_matmul_cases()
    for dtype in DTYPES:
        yield from attention_cases(dtype)
        yield from attention_of_one_query_cases(dtype)


def fresh_cases():
    """Cases for the default allocator, which maps more than 32 MiB in every call."""
    dtype = torch.float32
    for each in itertools.chain(add_cases(dtype), chain_cases(dtype, 24), row_cases(dtype)):
        if each.ratios and "backward" not in each.name:
            yield dataclasses.replace(each, name=f"{each.name}, fresh output", ratios=bars(*FRESH))
