"""Further calls for the pack of the built-in operators, at shapes of known models, which choose other tiles than gates do."""

import functools

import torch

tile = torch.ops.tile
i64 = torch.int64


def meta(dtype, *sizes):
    return torch.empty(sizes, dtype=dtype, device="meta")


def leaf(dtype, *sizes):
    return meta(dtype, *sizes).requires_grad_(dtype.is_floating_point)


def rms_norm(width, dtype):
    return tile.rms_norm(leaf(dtype, 8192, width), [width], leaf(dtype, width), 1e-6)


def add_rms_norm(width, dtype):
    return tile.add_rms_norm(leaf(dtype, 8192, width), leaf(dtype, 8192, width), [width], leaf(dtype, width), 1e-6)


def layer_norm(width, dtype):
    return tile.layer_norm(leaf(dtype, 8192, width), [width], leaf(dtype, width), leaf(dtype, width))


def plain_layer_norm(width, dtype):
    """As diffusion transformers have it, which scale and shift later."""
    return tile.layer_norm(leaf(dtype, 8192, width), [width])


def group_norm(size, activation, dtype):
    samples, channels, side, last = size
    x = leaf(dtype, samples, channels, side, side)
    x = x.to(memory_format=torch.channels_last) if last else x
    return tile.group_norm(x, 32, leaf(dtype, channels), leaf(dtype, channels), activation=activation)


def softmax(width, dtype):
    return tile.softmax(leaf(dtype, 8192, width), -1)


def attention(head, heads, causal, gradient, dtype):
    query, key = heads
    made = leaf if gradient else meta
    q, k, v = (made(dtype, 4, count, 2048, head) for count in (query, key, key))
    return tile.attention(q, k, v, is_causal=causal)[0]


def packed_attention(head, causal, dtype):
    """Heads lie next to each other in a row, as after a projection."""
    q, k, v = (leaf(dtype, 4, 2048, 16, head).transpose(1, 2) for _ in range(3))
    return tile.attention(q, k, v, is_causal=causal)[0]


def decoded_attention(head, heads, mask, dtype):
    """One query of a model whose cache has a mask, of bool or numbers, and no gradient."""
    query, key = heads
    q, k, v = (meta(dtype, 1, count, length, head) for count, length in ((query, 1), (key, 2048), (key, 2048)))
    return tile.attention(q, k, v, attn_bias=meta(mask or dtype, 1, 1, 1, 2048))[0]


def cross_entropy(classes, dtype):
    return tile.cross_entropy(leaf(dtype, 8192, classes), meta(i64, 8192))


def linear_cross_entropy(width, classes, dtype):
    return tile.linear_cross_entropy(leaf(dtype, 8192, width), leaf(dtype, classes, width), meta(i64, 8192))


def embedding(width, dtype):
    return tile.embedding(leaf(dtype, 32000, width), meta(i64, 4, 2048))


def linear(rows, inner, columns, bias, activation, dtype):
    return tile.matmul(
        leaf(dtype, rows, inner),
        leaf(dtype, columns, inner).t(),
        bias=leaf(dtype, columns) if bias else None,
        activation=activation,
    )


def rope(head, dtype):
    cosines = meta(dtype, 2048, head)
    return tile.rope(leaf(dtype, 4, 32, 2048, head), leaf(dtype, 4, 8, 2048, head), cosines, cosines)


WIDTHS = (128, 256, 512, 768, 1024, 1152, 1280, 2048, 3072, 5120, 8192)
FEATURES = [(samples, *shape) for samples in (2, 8) for shape in ((320, 64), (640, 32), (1280, 8))]
CALLS = {
    **{f"rms_norm[{width}]": functools.partial(rms_norm, width) for width in WIDTHS},
    **{f"add_rms_norm[{width}]": functools.partial(add_rms_norm, width) for width in WIDTHS[4:]},
    **{f"layer_norm[{width}]": functools.partial(layer_norm, width) for width in WIDTHS[3:]},
    **{f"layer_norm[{width}],plain": functools.partial(plain_layer_norm, width) for width in (1152, 3072)},
    **{
        f"group_norm[{size}],{activation}": functools.partial(group_norm, (*size, last), activation)
        for size in FEATURES
        for last in (False, True)
        for activation in ("none", "silu")
    },
    **{f"softmax[{width}]": functools.partial(softmax, width) for width in (64, 128, 256, 512, 1024, 2048, 4096, 32000)},
    **{
        f"attention[{head}],{heads},{causal},{gradient}": functools.partial(attention, head, heads, causal, gradient)
        for head in (64, 128)
        for heads in ((16, 16), (32, 8))
        for causal in (False, True)
        for gradient in (False, True)
    },
    **{
        f"attention[{head}],packed,{causal}": functools.partial(packed_attention, head, causal)
        for head in (64, 128)
        for causal in (False, True)
    },
    **{
        f"attention[{head}],1 query,{heads},{mask or 'numbers'}": functools.partial(decoded_attention, head, heads, mask)
        for head in (64, 128)
        for heads in ((16, 16), (32, 8))
        for mask in (torch.bool, None)
    },
    **{f"cross_entropy[{classes}]": functools.partial(cross_entropy, classes) for classes in (1000, 32000, 50257, 151936)},
    **{f"linear_cross_entropy[{width}]": functools.partial(linear_cross_entropy, width, 32000) for width in (768, 2048)},
    **{f"embedding[{width}]": functools.partial(embedding, width) for width in (768, 1024, 2048)},
    **{
        f"linear[{rows},{inner},{columns}],{bias},{activation}": functools.partial(
            linear, rows, inner, columns, bias, activation
        )
        for rows, inner, columns in ((8192, 2048, 2048), (8192, 768, 3072), (1, 4096, 4096), (16, 4096, 4096))
        for bias, activation in ((False, "none"), (True, "none"), (True, "gelu"))
    },
    **{f"rope[{head}]": functools.partial(rope, head) for head in (64, 128)},
}
