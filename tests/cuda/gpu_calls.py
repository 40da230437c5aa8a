"""One call of each operator on a GPU, and its gradients; streams that are busy."""

import torch
import tile_ops  # noqa: F401  registers the operators

tile = torch.ops.tile


def calls(device, dtype=torch.float32):
    """{name: (function of tensors, tensors that want gradients)}"""

    def randn(*sizes):
        return torch.randn(*sizes, device=device).to(dtype).requires_grad_()

    angle = torch.rand(64, 32, device=device)
    cos, sin = angle.cos(), angle.sin()
    slopes, seed = torch.rand(4, device=device), torch.tensor([1, 2], device=device)
    starts = torch.tensor([0, 60, 100], device=device)
    target = torch.arange(300, device=device) ** 2 % 1000
    return {
        "softmax": (lambda x: tile.softmax(x, -1), [randn(300, 1000)]),
        "log_softmax": (lambda x: tile.log_softmax(x, -1), [randn(300, 1000)]),
        "rms_norm": (lambda x, w: tile.rms_norm(x, [1000], w), [randn(300, 1000), randn(1000)]),
        "add_rms_norm": (lambda x, y, w: tile.add_rms_norm(x, y, [1000], w), [randn(300, 1000), randn(300, 1000), randn(1000)]),
        "layer_norm": (lambda x, w, b: tile.layer_norm(x, [1000], w, b), [randn(300, 1000), randn(1000), randn(1000)]),
        "swiglu": (tile.swiglu, [randn(300, 1000), randn(300, 1000)]),
        "geglu": (lambda x: tile.geglu(*x.chunk(2, -1)), [randn(300, 2000)]),
        "group_norm": (
            lambda x, w, b: tile.group_norm(x, 8, w, b, activation="silu"),
            [randn(2, 64, 24, 24), randn(64), randn(64)],
        ),
        "rope": (lambda q, k: tile.rope(q, k, cos, sin), [randn(2, 4, 64, 64), randn(2, 2, 64, 64)]),
        "matmul": (
            lambda x, w, b: tile.matmul(x, w, bias=b, activation="gelu"),
            [randn(100, 200), randn(200, 150), randn(150)],
        ),
        "cross_entropy": (lambda x: tile.cross_entropy(x, target, label_smoothing=0.1, z_loss=0.1), [randn(300, 1000)]),
        "linear_cross_entropy": (lambda x, w: tile.linear_cross_entropy(x, w, target), [randn(300, 64), randn(1000, 64)]),
        "embedding": (lambda w: tile.embedding(w, target), [randn(1000, 96)]),
        "dropout": (lambda x: tile.dropout(x, 0.3, seed), [randn(300, 1000)]),
        "gated_matmul": (lambda x, w, v: tile.gated_matmul(x, w, v), [randn(100, 200), randn(200, 150), randn(200, 150)]),
        "attention": (
            lambda q, k, v: tile.attention(q, k, v, is_causal=True),
            [randn(2, 4, 100, 64), randn(2, 2, 100, 64), randn(2, 2, 100, 64)],
        ),
        "attention_with_options": (
            lambda q, k, v, s: tile.attention(
                q, k, v, window=(40, 9), softcap=5.0, alibi_slopes=slopes, sinks=s, dropout_p=0.1, seed=seed
            ),
            [randn(2, 4, 100, 64), randn(2, 2, 100, 64), randn(2, 2, 100, 64), randn(4)],
        ),
        "attention_varlen": (
            lambda q, k, v: tile.attention_varlen(q, k, v, starts, starts, 60, 60, is_causal=True),
            [randn(100, 4, 64), randn(100, 2, 64), randn(100, 2, 64)],
        ),
    }


def results(function, tensors):
    """The results, and the gradients of all tensors for incoming ones."""
    out = function(*tensors)
    out = list(out) if isinstance(out, tuple) else [out]
    return [each.detach() for each in out] + list(torch.autograd.grad(out, tensors, [torch.ones_like(each) for each in out]))


def assert_equal(ours, expected):
    for a, b in zip(ours, expected, strict=True):
        assert torch.equal(a, b)


def busy():
    """Makes the current stream work for about a fifth of a second."""
    torch.cuda._sleep(int(3e8))


def late(tensors):
    """Copies that the current stream fills once it has been busy: zero to whom does not wait for it."""
    copies = [torch.zeros_like(tensor) for tensor in tensors]
    busy()
    with torch.no_grad():
        for copy, tensor in zip(copies, tensors):
            copy.copy_(tensor)
    return [copy.requires_grad_() for copy in copies]
