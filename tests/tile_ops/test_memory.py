"""No operator takes more than its arguments, results, gradients, what it saves, and 64 MiB: arguments are larger than
that, so that a copy of one would show."""

import pytest
import tile_ops  # noqa: F401
import torch
from memory import MIB, allocated

pytestmark = pytest.mark.slow  # tensors of 80 MB

ops = torch.ops.tile
ROWS, COLUMNS = 5000, 4096


def rows(count=1):
    return [torch.randn(ROWS, COLUMNS) for _ in range(count)]


def vectors(count=1, size=COLUMNS):
    return [torch.randn(size) for _ in range(count)]


def image(order):
    return torch.randn(4, 320, 125, 128).contiguous(memory_format=order)


def attention(**options):
    q, k, v = (torch.randn(64, 16, 320, 64) for _ in range(3))
    return lambda q, k, v: ops.attention(q, k, v, **options), [q, k, v]


def grouped():
    rows = 8192 if torch.empty(0).is_cuda else 512  # a CPU would take minutes
    return ops.attention, [torch.randn(1, heads, rows, 128) for heads in (32, 8, 8)]


def varlen():
    starts = torch.arange(0, 64 * 320 + 1, 320, dtype=torch.int32)
    return (
        lambda q, k, v: ops.attention_varlen(q, k, v, starts, starts, 320, 320),
        [torch.randn(64 * 320, 16, 64) for _ in range(3)],
    )


def rotation(length):
    angle = torch.rand(length, 64)
    return angle.cos(), angle.sin()


# name: makes (function of tensors that want gradients, these tensors).
CALLS = {
    "softmax": lambda: (lambda x: ops.softmax(x, -1), rows()),
    "softmax over rows": lambda: (lambda x: ops.softmax(x, 0), rows()),
    "log_softmax": lambda: (lambda x: ops.log_softmax(x, -1), rows()),
    "layer_norm": lambda: (lambda x, w, b: ops.layer_norm(x, [COLUMNS], w, b), rows() + vectors(2)),
    "rms_norm": lambda: (lambda x, w: ops.rms_norm(x, [COLUMNS], w), rows() + vectors()),
    "add_rms_norm": lambda: (lambda x, r, w: ops.add_rms_norm(x, r, [COLUMNS], w), rows(2) + vectors()),
    "group_norm": lambda: (
        lambda x, w, b: ops.group_norm(x, 32, w, b, activation="silu"),
        [image(torch.contiguous_format), *vectors(2, 320)],
    ),
    "group_norm, channels last": lambda: (
        lambda x, w, b: ops.group_norm(x, 32, w, b),
        [image(torch.channels_last), *vectors(2, 320)],
    ),
    "swiglu": lambda: (ops.swiglu, rows(2)),
    "geglu": lambda: (ops.geglu, rows(2)),
    "dropout": lambda: (lambda x: ops.dropout(x, 0.3, torch.tensor([1, 2])), rows()),
    "embedding": lambda: (lambda w: ops.embedding(w, torch.arange(30000) % ROWS), rows()),
    "cross_entropy": lambda: (lambda x: ops.cross_entropy(x, torch.arange(ROWS) % COLUMNS), rows()),
    "rope": lambda: (lambda q, k: ops.rope(q, k, *rotation(320)), [torch.randn(64, 16, 320, 64) for _ in range(2)]),
    "matmul": lambda: (
        lambda x, y, b: ops.matmul(x, y, bias=b, activation="gelu"),
        [torch.randn(40960, 512), torch.randn(512, 512), torch.randn(512)],
    ),
    "matmul, a long sum": lambda: (ops.matmul, [torch.randn(512, 40960), torch.randn(40960, 512)]),
    "gated_matmul": lambda: (ops.gated_matmul, [torch.randn(40960, 512), *(torch.randn(512, 256) for _ in range(2))]),
    "attention": attention,
    "attention, causal": lambda: attention(is_causal=True),
    "attention of few key heads": grouped,
    "attention_varlen": varlen,
    "attention_decode": lambda: (
        lambda q, k, v: ops.attention_decode(q.detach(), k.detach(), v.detach(), torch.full((16,), 2500)),
        [torch.randn(16, 32, 1, 64), *(torch.randn(16, 8, 2500, 64) for _ in range(2))],
    ),
}


def of_results(results):
    return sum(r.numel() * r.itemsize for r in results)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_memory(name, dtype, tmp_path, device):
    function, tensors = CALLS[name]()
    tensors = [x.to(dtype).requires_grad_() for x in tensors]
    most, left, results = allocated(lambda: function(*tensors), tmp_path / "forward.json", device)
    assert most - left < 64 * MIB, f"forward: {(most - left) / MIB:.0f} MiB"
    results = [r for r in (results if isinstance(results, tuple) else (results,)) if r.requires_grad]
    if not results:
        return
    incoming = [torch.randn_like(r) for r in results]
    most, left, gradients = allocated(
        lambda: torch.autograd.grad(results, tensors, incoming, allow_unused=True), tmp_path / "backward.json", device
    )
    given = of_results(g for g in gradients if g is not None)
    assert most - given < 64 * MIB, f"backward: {(most - given) / MIB:.0f} MiB"


def test_memory_of_what_is_written_in_place(tmp_path, device):
    q, k = (torch.randn(64, 16, 320, 64) for _ in range(2))
    cos, sin = rotation(320)
    most, left, _ = allocated(lambda: ops.rope_(q, k, cos, sin), tmp_path / "rope.json", device)
    assert most < 64 * MIB and left == 0
    lists = [[torch.rand(ROWS, COLUMNS)] for _ in range(4)]
    most, left, _ = allocated(lambda: ops.adamw_(*lists, [torch.tensor(1.0)]), tmp_path / "adamw.json", device)
    assert most < 64 * MIB and left == 0
