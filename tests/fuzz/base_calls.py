"""Good calls of every operator of torch.ops.tile, gradients included, to be changed."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode


def _forward_calls():
    tile = torch.ops.tile

    def f(*sizes):
        return torch.ones(sizes, requires_grad=True)

    def i(*sizes):
        return torch.zeros(sizes, dtype=torch.int64)

    seed = torch.ones(2, dtype=torch.int64)
    heads = (1, 2, 3, 4)
    yield lambda: tile.softmax(f(2, 3), -1)
    yield lambda: tile.log_softmax(f(2, 3, 2), 1, torch.float64)
    yield lambda: tile.layer_norm(f(2, 3), [3], f(3), f(3))
    yield lambda: tile.rms_norm(f(2, 3, 4), [3, 4], f(3, 4))
    yield lambda: tile.add_rms_norm(f(2, 3), f(2, 3), [3], f(3))
    yield lambda: tile.group_norm(f(2, 4, 3), 2, f(4), f(4), activation="silu")
    yield lambda: tile.swiglu(f(2, 3), f(2, 3))
    yield lambda: tile.geglu(f(2, 3), f(2, 3), approximate="tanh")
    yield lambda: tile.cross_entropy(f(3, 5), i(3), weight=f(5).detach(), label_smoothing=0.1, z_loss=0.1)
    yield lambda: tile.cross_entropy(f(3, 5, 2), i(3, 2), reduction="none")
    yield lambda: tile.linear_cross_entropy(f(3, 4), f(5, 4), i(3), bias=f(5), reduction="sum")
    yield lambda: tile.embedding(f(5, 3), i(2, 2), 1)
    yield lambda: tile.rope(f(*heads), f(*heads), torch.ones(3, 2), torch.ones(3, 2), rotary_dim=2, position_ids=i(1, 3))
    yield lambda: tile.rope_(torch.ones(heads), torch.ones(heads), torch.ones(3, 4), torch.ones(3, 4), interleaved=True)
    yield lambda: tile.dropout(f(2, 3), 0.5, seed)
    yield lambda: tile.matmul(f(2, 3), f(3, 4), bias=f(4), activation="gelu", residual=f(2, 4), alpha=0.5)
    yield lambda: tile.matmul(f(2, 2, 3), f(2, 3, 2), out_dtype=torch.float32)
    yield lambda: tile.gated_matmul(f(2, 3), f(3, 4), f(3, 4), activation="gelu")
    yield lambda: tile.attention(f(*heads), f(*heads), f(*heads), attn_bias=f(3, 3), is_causal=True, sinks=f(2))
    yield lambda: tile.attention(
        f(*heads),
        f(1, 1, 5, 4),
        f(1, 1, 5, 2),
        window=[2, 1],
        softcap=1.0,
        dropout_p=0.1,
        seed=seed,
        alibi_slopes=torch.ones(2),
    )
    lengths = torch.tensor([0, 3], dtype=torch.int64)
    yield lambda: tile.attention_varlen(f(3, 2, 4), f(3, 2, 4), f(3, 2, 4), lengths, lengths, 3, 3, sinks=f(2))
    caches = torch.ones(1, 2, 16, 4), torch.ones(1, 2, 16, 4)
    yield lambda: tile.attention_decode(torch.ones(heads), *caches, 3 + i(1))
    yield lambda: tile.attention_decode(torch.ones(heads), *caches, 3 + i(1), block_table=i(1, 1))
    yield lambda: tile.adamw_(
        [torch.ones(3)],
        [torch.ones(3)],
        [torch.ones(3)],
        [torch.ones(3)],
        [torch.ones(())],
        max_exp_avg_sqs=[torch.ones(3)],
        lr_tensor=torch.ones(()),
    )


class _Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.namespace == "tile":
            self.calls.append((function, args, kwargs or {}))
        return function(*args, **(kwargs or {}))


def record():
    """[(operator, arguments, keyword arguments)], what the gradients call included."""
    with _Recorder() as recorder:
        for call in _forward_calls():
            results = call()
            results = results if isinstance(results, (tuple, list)) else [results]
            total = sum(r.sum() for r in results if isinstance(r, torch.Tensor) and r.requires_grad)
            if isinstance(total, torch.Tensor):
                total.backward()
    return recorder.calls
