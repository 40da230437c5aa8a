"""The calls whose kernels have gates: every operator with its gradient, at shapes of benchmarks/gpu.py, which choose
the tiles."""

import tile_ops  # noqa: F401  registers the operators
import torch

ops = torch.ops.tile
f32, f16, bf16, f64 = torch.float32, torch.float16, torch.bfloat16, torch.float64


def make(dtype, *shape):
    return torch.empty(*shape, dtype=dtype, device="meta").requires_grad_()


def channels_last(x):
    return x.detach().to(memory_format=torch.channels_last).requires_grad_()


def rms_norm(dtype, rows, columns):
    return ops.rms_norm(make(dtype, rows, columns), [columns], make(dtype, columns), 1e-5)


def add_rms_norm(dtype, rows, columns):
    x, residual = make(dtype, rows, columns), make(dtype, rows, columns)
    return ops.add_rms_norm(x, residual, [columns], make(dtype, columns), 1e-5)


def layer_norm(dtype, rows, columns):
    return ops.layer_norm(make(dtype, rows, columns), [columns], make(dtype, columns), make(dtype, columns))


def group_norm(dtype, images, channels, size, last):
    x = make(dtype, images, channels, size, size)
    return ops.group_norm(channels_last(x) if last else x, 32, make(dtype, channels), make(dtype, channels), activation="silu")


def gated(operator, dtype, rows, columns, halves=False, **options):
    if halves:
        return operator(*make(dtype, rows, 2 * columns).chunk(2, -1), **options)
    return operator(make(dtype, rows, columns), make(dtype, rows, columns), **options)


def rope(dtype, order, operator=ops.rope):
    def heads(count):
        return make(dtype, 4, count, 4096, 128) if order == "BHSD" else make(dtype, 4, 4096, count, 128).transpose(1, 2)

    tables = (make(dtype, 4096, 64).detach() for _ in range(2))
    return operator(heads(32), heads(8), *tables)


def rope_in_place(dtype):
    with torch.no_grad():
        rope(dtype, "BSHD", ops.rope_)
    return ()


def adamw(dtype, count, amsgrad=False):
    with torch.no_grad():
        lists = [[make(to, 4096, 4096) for _ in range(count)] for to in [dtype] * 5]
        steps = [torch.empty((), device="meta") for _ in range(count)]
        ops.adamw_(*lists[:4], steps, max_exp_avg_sqs=lists[4] if amsgrad else None)
    return ()


def dropout(dtype, *shape):
    return ops.dropout(make(dtype, *shape), 0.1, torch.empty(2, dtype=torch.int64, device="meta"))


def cross_entropy(dtype, rows, classes):
    target = torch.empty(rows, dtype=torch.int64, device="meta")
    return ops.cross_entropy(make(dtype, rows, classes), target, z_loss=1e-4)


def linear_cross_entropy(dtype, rows, depth, classes):
    target = torch.empty(rows, dtype=torch.int64, device="meta")
    return ops.linear_cross_entropy(make(dtype, rows, depth), make(dtype, classes, depth), target)


def embedding(dtype, rows, columns, count):
    return ops.embedding(make(dtype, rows, columns), torch.empty(count, dtype=torch.int64, device="meta"))


def attention(dtype, depth, causal, grad=True):
    inputs = (make(dtype, 2, 16, 4096, depth).requires_grad_(grad) for _ in range(3))
    return ops.attention(*inputs, is_causal=causal)


def attention_with(dtype, **options):
    def given(value):
        return torch.empty(value[0], dtype=value[1], device="meta") if isinstance(value, tuple) else value

    inputs = (make(dtype, 2, 16, 4096, 128) for _ in range(3))
    return ops.attention(*inputs, is_causal=True, **{name: given(value) for name, value in options.items()})


def attention_varlen(dtype):
    starts = torch.empty(9, dtype=torch.int32, device="meta")
    inputs = (make(dtype, 8192, 16, 128) for _ in range(3))
    return ops.attention_varlen(*inputs, starts, starts, 1024, 1024, is_causal=True)


def attention_decode(dtype, page=0):
    lengths = torch.empty(32, dtype=torch.int32, device="meta")
    cache = (32 * 8192 // page, 8, page, 128) if page else (32, 8, 8192, 128)
    query, key, value = (make(dtype, *shape).detach() for shape in ((32, 32, 1, 128), cache, cache))
    table = torch.empty(32, 8192 // page, dtype=torch.int32, device="meta") if page else None
    return ops.attention_decode(query, key, value, lengths, block_table=table)


CALLS = {
    "softmax[8192,8192]": lambda dtype: ops.softmax(make(dtype, 8192, 8192), 1),
    "softmax[64,1024,96],axis=1": lambda dtype: ops.softmax(make(dtype, 64, 1024, 96), 1),
    "log_softmax[8192,8192]": lambda dtype: ops.log_softmax(make(dtype, 8192, 8192), 1),
    "cross_entropy[8192,128256]": lambda dtype: cross_entropy(dtype, 8192, 128256),
    "linear_cross_entropy[4096,4096,32000]": lambda dtype: linear_cross_entropy(dtype, 4096, 4096, 32000),
    "embedding[128256,4096]": lambda dtype: embedding(dtype, 128256, 4096, 8192),
    "rms_norm[8192,4096]": lambda dtype: rms_norm(dtype, 8192, 4096),
    "rms_norm[4096,16384]": lambda dtype: rms_norm(dtype, 4096, 16384),
    "add_rms_norm[8192,4096]": lambda dtype: add_rms_norm(dtype, 8192, 4096),
    "add_rms_norm[4096,16384]": lambda dtype: add_rms_norm(dtype, 4096, 16384),
    "layer_norm[8192,4096]": lambda dtype: layer_norm(dtype, 8192, 4096),
    "layer_norm[4096,16384]": lambda dtype: layer_norm(dtype, 4096, 16384),
    "swiglu[8192,11008]": lambda dtype: gated(ops.swiglu, dtype, 8192, 11008),
    "swiglu[8192,11008],halves": lambda dtype: gated(ops.swiglu, dtype, 8192, 11008, True),
    "geglu[8192,11008]": lambda dtype: gated(ops.geglu, dtype, 8192, 11008),
    "geglu[8192,11008],tanh": lambda dtype: gated(ops.geglu, dtype, 8192, 11008, approximate="tanh"),
    "rope[BHSD]": lambda dtype: rope(dtype, "BHSD"),
    "rope[BSHD]": lambda dtype: rope(dtype, "BSHD"),
    "rope_[BSHD]": rope_in_place,
    "adamw[1]": lambda dtype: adamw(dtype, 1),
    "adamw[16]": lambda dtype: adamw(dtype, 16),
    "adamw[16],amsgrad": lambda dtype: adamw(dtype, 16, True),
    "dropout[8192,8192]": lambda dtype: dropout(dtype, 8192, 8192),
    "group_norm[16,320,64,64]": lambda dtype: group_norm(dtype, 16, 320, 64, False),
    "group_norm[16,320,64,64],last": lambda dtype: group_norm(dtype, 16, 320, 64, True),
    "group_norm[4,128,512,512]": lambda dtype: group_norm(dtype, 4, 128, 512, False),
    "group_norm[8,512,128,128]": lambda dtype: group_norm(dtype, 8, 512, 128, False),
    "group_norm[8,512,128,128],last": lambda dtype: group_norm(dtype, 8, 512, 128, True),
    "group_norm[2,1280,16,16]": lambda dtype: group_norm(dtype, 2, 1280, 16, False),
    "group_norm[2,1280,16,16],last": lambda dtype: group_norm(dtype, 2, 1280, 16, True),
    "matmul[512,512,512]": lambda dtype: ops.matmul(make(dtype, 512, 512), make(dtype, 512, 512)),
    "matmul[4096,4096,4096]": lambda dtype: ops.matmul(make(dtype, 4096, 4096), make(dtype, 4096, 4096)),
    "matmul[512,131072,512]": lambda dtype: ops.matmul(make(dtype, 512, 131072).detach(), make(dtype, 131072, 512).detach()),
    "linear[4096,1024,4096],gelu": lambda dtype: ops.matmul(
        make(dtype, 4096, 1024), make(dtype, 4096, 1024).t(), bias=make(dtype, 4096), activation="gelu"
    ),
    "gated_linear[4096,4096,11008]": lambda dtype: ops.gated_matmul(
        make(dtype, 4096, 4096), *(make(dtype, 11008, 4096).t() for _ in range(2))
    ),
    "attention[64],causal": lambda dtype: attention(dtype, 64, True),
    "attention[96]": lambda dtype: attention(dtype, 96, False),
    "attention[96],without_gradient": lambda dtype: attention(dtype, 96, False, grad=False),
    "attention[128]": lambda dtype: attention(dtype, 128, False),
    "attention[128],without_gradient": lambda dtype: attention(dtype, 128, False, grad=False),
    "attention[128],window": lambda dtype: attention_with(dtype, window=[1024, 0], sinks=((16,), f32)),
    "attention[128],softcap": lambda dtype: attention_with(dtype, softcap=30.0),
    "attention[128],alibi": lambda dtype: attention_with(dtype, alibi_slopes=((16,), f32)),
    "attention[128],dropout": lambda dtype: attention_with(dtype, dropout_p=0.1, seed=((2,), torch.int64)),
    "attention_varlen[128]": attention_varlen,
    "attention_decode[128]": attention_decode,
    "attention_decode[128],pages": lambda dtype: attention_decode(dtype, 64),
}
# Each adds minutes of compiling and kernels that few run.
DOUBLE = ("softmax[8192,8192]", "rms_norm[8192,4096]", "rope[BHSD]", "matmul[512,512,512]")
# Kernels of other calls with something more: the usual ones of bfloat16 tell what it costs.
VARIANTS = (
    "swiglu[8192,11008],halves",
    "geglu[8192,11008],tanh",
    "rope_[BSHD]",
    "adamw[16],amsgrad",
    "attention[128],window",
    "attention[128],softcap",
    "attention[128],alibi",
    "attention[128],dropout",
    "attention_decode[128],pages",
)
ARCHS, OTHER_ARCHS = (80, 90), (89, 100, 120)


def call(name, dtype):
    """The call and its gradient."""
    results = CALLS[name](dtype)
    results = [x for x in (results if isinstance(results, tuple) else (results,)) if x.requires_grad]
    if results:
        torch.autograd.backward(results, [torch.empty_like(x) for x in results])


def jobs():
    """(chip, dtype, name) of all calls. On other chips float16 and float32 would add little but time."""
    for name in CALLS:
        if name in VARIANTS:
            yield from ((arch, bf16, name) for arch in ARCHS)
            continue
        dtypes = (f32, f16, bf16) + ((f64,) if name in DOUBLE else ())
        yield from ((arch, dtype, name) for arch in ARCHS for dtype in dtypes)
        yield from ((arch, bf16, name) for arch in OTHER_ARCHS)


def in_all_configurations(job):
    """Returns True if the job's kernels have a gate in every configuration, not only in those that run."""
    arch, dtype, name = job
    return arch in ARCHS and dtype == bf16 and name not in VARIANTS
