"""examples/python: softmax, cross entropy and attention, against float64, with gradients; on the emulator, too."""

import math

import pytest
import tile_ops
import tile_ops.language as tl
import torch
import torch.nn.functional as F
from programs_reference import close, compare
from python_examples import load, on_the_emulator
from tile_ops import _C

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def exact_softmax(x, how=None):
    return torch.softmax(x, -1)


@pytest.mark.parametrize("how", [None, "whole", "chunked", "online"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 60), (2, 3, 129), (7, 1), (1, 9001), (5,), (0, 3)])
def test_softmax(shape, dtype, how):
    compare(load("softmax").softmax, exact_softmax, [torch.randn(shape).mul(3).to(dtype)], how, scale=2)


def test_softmax_of_rows_longer_than_a_tile():
    compare(load("softmax").softmax, exact_softmax, [torch.randn(2, 20001)])


@pytest.mark.parametrize("how", ["whole", "chunked", "online"])
def test_softmax_of_infinities(how):
    x = torch.randn(4, 9000)
    x[0, :5000] = -math.inf
    x[1] = -math.inf
    x[2, 7] = math.inf
    x[3, 9] = math.nan
    torch.testing.assert_close(load("softmax").softmax(x, how), torch.softmax(x, -1), equal_nan=True)


def test_softmax_is_an_operator():
    program = load("softmax").softmax
    torch.library.opcheck(program.overload, (torch.randn(3, 20, requires_grad=True),))
    torch.library.opcheck(program.overload, (torch.randn(3, 20, requires_grad=True), "online"))
    text = "softmax: how is 'two' for rows of 20; pass None, 'chunked', 'online', or, up to 16384 columns, 'whole'"
    with pytest.raises(ValueError) as error:
        program(torch.randn(3, 20), "two")
    assert text in str(error.value)
    with pytest.raises(ValueError, match="softmax: how is 'whole' for rows of 20000"):
        program(torch.randn(1, 20000), "whole")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 60), (30, 129), (7, 1), (2, 9001), (1, 5)])
def test_cross_entropy(shape, dtype):
    logits, target = torch.randn(shape).mul(3).to(dtype).requires_grad_(), torch.randint(shape[1], shape[:1])
    target[1::3] = -100
    exact = logits.detach().double().requires_grad_()
    got, want = load("cross_entropy").cross_entropy(logits, target), F.cross_entropy(exact, target)
    assert got.dtype == torch.float32
    close(got.detach(), want.detach())
    close(torch.autograd.grad(got * 3, logits)[0], torch.autograd.grad(want * 3, exact)[0])


def test_cross_entropy_of_special_rows():
    logits, target = torch.randn(4, 10), torch.tensor([0, 3, 9, 2])
    logits[1, 5:] = -math.inf
    program = load("cross_entropy").cross_entropy
    torch.testing.assert_close(program(logits, target), F.cross_entropy(logits, target))
    torch.testing.assert_close(program(logits, target, ignore_index=3), F.cross_entropy(logits, target, ignore_index=3))
    assert program(logits, torch.tensor([0, 3, 10, 2])).isnan() and program(logits[:0], target[:0]).isnan()
    text = "cross_entropy: logits is [4, 10], target [3] of torch.int64; pass [rows, classes], and [rows] of int64"
    with pytest.raises(ValueError) as error:
        program(logits, target[:3])
    assert text in str(error.value)
    torch.library.opcheck(program.overload, (logits.requires_grad_(), target))


def exact_attention(q, k, v, causal=False, scale=None):
    k, v = (each.repeat_interleave(q.shape[1] // k.shape[1], 1) for each in (k, v))
    scores = q @ k.mT * (q.shape[3] ** -0.5 if scale is None else scale)
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[2:], dtype=torch.bool).tril(), -math.inf)
    return torch.softmax(scores, 3) @ v


def heads(q, k, dtype):
    """q, k, v of [batch, heads, length, depth] each."""
    return [torch.randn(shape).to(dtype) for shape in (q, k, k)]


SHAPES = [((1, 2, 64, 32), (1, 2, 64, 32)), ((2, 4, 70, 40), (2, 2, 130, 40)), ((1, 3, 2, 64), (1, 1, 100, 64)),
          ((1, 1, 200, 1), (1, 1, 1, 1)), ((0, 2, 5, 16), (0, 2, 5, 16))]  # fmt: skip


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("q", "k"), SHAPES)
def test_attention(q, k, dtype, causal):
    compare(load("attention").attention, exact_attention, heads(q, k, dtype), causal, scale=2)


@pytest.mark.parametrize("scale", [0.3, -0.7, 0.0])
def test_attention_with_a_scale_and_strides(scale):
    q, k, v = heads((2, 150, 3, 32), (2, 150, 3, 32), torch.float32)
    compare(load("attention").attention, exact_attention, [each.transpose(1, 2) for each in (q, k, v)], True, scale)


@pytest.mark.parametrize("depth", [64, 128])
def test_attention_copies_its_tiles_past_the_registers_of_a_gpu(depth):
    program = load("attention").attention
    q, k, v, lse = (torch.empty(1, 2, 256, depth, dtype=torch.bfloat16, device="meta") for _ in range(4))
    text = tile_ops.inspect(program.overload, q, k, v, True, what="cuda", arch=80)
    # The queries, and both tiles of an iteration in each of two loops, of which one has no mask.
    assert text.count("copy_tile_async<") == 5 and "mma_fma" not in text and text.count("where(") == 2
    backward = torch.ops.programs.attention_backward
    text = tile_ops.inspect(backward, q, q, k, v, True, None, q, lse[..., 0].float(), what="cuda", arch=80)
    assert text.count("copy_tile_async<") == 12 and "mma_fma" not in text
    (forward,) = tile_ops.inspect(program.overload, q, k, v, True, what="resources", arch=90)
    assert forward["path"] == "wgmma", forward["why"]


def test_attention_with_a_change_of_scores():
    """The kernels get a function and its derivative; heads share keys and values."""
    program, scale = load("attention"), 0.3
    change = lambda scores, i, j: scores - scores * scores * (0.01 * (i - j))  # noqa: E731
    derivative = lambda scores, i, j: 1 - scores * (0.02 * (i - j))  # noqa: E731
    q, k, v = (x.double().requires_grad_() for x in heads((2, 4, 70, 40), (2, 2, 70, 40), torch.float32))
    i, j = torch.arange(70)[:, None], torch.arange(70)[None, :]
    scores = change(q @ k.repeat_interleave(2, 1).mT * scale, i, j).masked_fill(j > i, -math.inf)
    want = scores.softmax(3) @ v.repeat_interleave(2, 1)
    grad = torch.randn_like(want)
    grads = torch.autograd.grad(want, (q, k, v), grad)
    q, k, v, grad = (x.detach().float() for x in (q, k, v, grad))
    out, lse, given = torch.empty_like(q), torch.empty(q.shape[:3]), (*program.tiles(q, None),)
    program.forward_kernel[program.grid(q, given[1])](q, k, v, out, lse, scale, True, *given, change)
    torch.testing.assert_close(out.double(), want, rtol=1e-5, atol=1e-5)
    delta, found = torch.empty_like(lse), [torch.empty_like(x) for x in (q, k, v)]
    program.delta_kernel[program.grid(q, given[1])](out, grad, delta, *given[:2], given[3])
    backward = q, k, v, grad, lse, delta
    program.query_kernel[program.grid(q, given[1])](*backward, found[0], scale, True, *given, change, derivative)
    program.key_kernel[program.grid(k, given[2])](*backward, *found[1:], scale, True, *given, change, derivative)
    for ours, theirs in zip(found, grads):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-4)


def test_attention_with_a_change_runs_on_warpgroup_instructions():
    program = load("attention")
    change = lambda scores, i, j: tl.where((i - j) & 1 == 0, scores, scores * 0.5)  # noqa: E731
    derivative = lambda scores, i, j: tl.where((i - j) & 1 == 0, 1.0, 0.5)  # noqa: E731
    q, k, v, out, grad, *grads = (torch.empty(1, 2, 4096, 128, dtype=torch.bfloat16, device="meta") for _ in range(8))
    lse, delta = torch.empty(2, 1, 2, 4096, device="meta")

    def call():
        sizes = program.tiles(q, (128, 64))
        program.forward_kernel[program.grid(q, 128)](q, k, v, out, lse, 0.1, True, *sizes, change)
        backward, sizes = (q, k, v, grad, lse, delta), program.tiles(q, (128, 32))
        program.query_kernel[program.grid(q, 128)](*backward, grads[0], 0.1, True, *sizes, change, derivative)
        sizes = program.tiles(q, (32, 128))
        program.key_kernel[program.grid(k, 128)](*backward, *grads[1:], 0.1, True, *sizes, change, derivative)

    assert [row["path"] for row in _C.inspect("usual", 90, 0, call)] == ["wgmma"] * 3


@pytest.mark.at_home
def test_rows_on_the_emulator():
    logits, target = torch.randn(3, 300, requires_grad=True), torch.tensor([5, 299, -100])
    with on_the_emulator() as ran:
        for how in ("whole", "chunked", "online"):
            compare(load("softmax").softmax, exact_softmax, [torch.randn(3, 130)], how)
        loss = load("cross_entropy").cross_entropy(logits, target)
        (grad,) = torch.autograd.grad(loss, logits)
    assert ran == ["whole_kernel", "backward_kernel", "chunked_kernel", "backward_kernel", "online_kernel",
                   "backward_kernel", "forward_kernel", "backward_kernel"]  # fmt: skip
    torch.testing.assert_close(loss, F.cross_entropy(logits, target))
    torch.testing.assert_close(grad, torch.autograd.grad(F.cross_entropy(logits, target), logits)[0])


@pytest.mark.at_home
def test_attention_on_the_emulator():
    with on_the_emulator() as ran:
        compare(load("attention").attention, exact_attention, heads((1, 2, 70, 16), (1, 1, 90, 16), torch.float16), True)
    assert ran == ["forward_kernel", "delta_kernel", "query_kernel", "key_kernel"]


def test_attention_is_an_operator():
    q, k, v = (each.requires_grad_() for each in heads((1, 2, 9, 16), (1, 1, 9, 16), torch.float32))
    program = load("attention").attention
    torch.library.opcheck(program.overload, (q, k, v, True))
    for arguments, text in [
        ((q, k, v[..., :3]), "attention: q is [1, 2, 9, 16], k [1, 1, 9, 16], v [1, 1, 9, 3]; pass [batch, heads, queries, "
         "depth] and twice [batch, kv_heads, keys, depth], with heads a multiple of kv_heads and at least one key"),
        ((q, k, v.double()), "attention: q is torch.float32, k torch.float32, v torch.float64; pass one of float32, "
         "float16 and bfloat16"),
    ]:  # fmt: skip
        with pytest.raises(ValueError) as error:
            program(*arguments)
        assert text in str(error.value)
