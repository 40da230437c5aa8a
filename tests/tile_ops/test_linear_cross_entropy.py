"""tile::linear_cross_entropy: numerics against torch on the whole logits, memory, what it owes torch, errors."""

import pytest
import tile_ops  # noqa: F401
import torch
import torch.nn.functional as F
from memory import MIB, allocated
from numerics import check_call
from opinfo import DTYPES

op = torch.ops.tile.linear_cross_entropy
backward = torch.ops.tile.linear_cross_entropy_backward


def theirs(input, weight, target, *, bias=None, z_loss=0.0, ignore_index=-100, reduction="mean", **kwargs):
    """torch on logits of the operands' dtype, then in float32 where these have 16 bits."""
    logits = F.linear(input, weight, bias)
    logits = logits if input.dtype == torch.double else logits.float()
    rows, target = logits.reshape(-1, logits.shape[-1]), target.reshape(-1).long()
    loss = F.cross_entropy(rows, target, ignore_index=ignore_index, reduction="none", **kwargs)
    loss = loss + torch.where(target == ignore_index, 0, z_loss * torch.logsumexp(rows, 1).square())
    if reduction == "none":
        return loss.reshape(input.shape[:-1])
    return loss.sum() / ((target != ignore_index).sum() if reduction == "mean" else 1)


def make(shape, classes, dtype=torch.float32, ignored=-100, bias=True):
    input, weight = (torch.randn(s).to(dtype).requires_grad_() for s in (shape, (classes, shape[-1])))
    target = torch.randint(0, classes, shape[:-1])
    if ignored is not None and target.dim():
        target[torch.rand(target.shape) < 0.3] = ignored
    return (input, weight, target), {"bias": torch.randn(classes).to(dtype).requires_grad_()} if bias else {}


OPTIONS = [{}, {"reduction": "sum", "z_loss": 1e-2, "label_smoothing": 0.1}, {"reduction": "none", "ignore_index": 1}]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("shape, classes", [((7,), 5), ((1, 3), 1), ((0, 4), 6), ((33, 40), 70), ((2, 5, 8), 300)])
def test_shapes(shape, classes, options, dtype):
    args, kwargs = make(shape, classes, dtype, options.get("ignore_index", -100), bias="reduction" in options)
    check_call(op, theirs, args, kwargs | options)


@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.slow)])
@pytest.mark.parametrize("shape, classes", [((5000, 8), 3000), pytest.param((3, 40), 200000, marks=pytest.mark.slow)])
def test_chunks(shape, classes, dtype):
    args, kwargs = make(shape, classes, dtype)
    check_call(op, theirs, args, kwargs | {"label_smoothing": 0.1, "z_loss": 1e-3})


@pytest.mark.parametrize("wanted", ["input", "weight", "bias"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_each_gradient_alone(wanted, dtype):
    (input, weight, target), kwargs = make((4200, 6), 1100, dtype)
    for name, tensor in (("input", input), ("weight", weight), ("bias", kwargs["bias"])):
        tensor.requires_grad_(name == wanted)
    check_call(op, theirs, (input, weight, target), kwargs)


@pytest.mark.slow  # products of 1700 rows of 4096
def test_rows_beyond_the_room_for_sums():
    """The rest of input's gradient is made with logits of its own."""
    depth = 4096
    args, _ = make((1700, depth), 40, torch.bfloat16, bias=False)
    args = (args[0].detach().mul(0.1).requires_grad_(), *args[1:])
    check_call(op, theirs, args, {})
    args[1].requires_grad_(False)
    check_call(op, theirs, args, {})


def test_rows_in_parts_of_memory():
    (input, weight, target), kwargs = make((6, 9, 16), 50)
    given = input.detach()[:, 1:7].requires_grad_()
    check_call(op, theirs, (given, weight, target[:, 1:7]), kwargs)
    transposed = input.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()
    check_call(op, theirs, (transposed, weight.detach().t().contiguous().t().requires_grad_(), target), kwargs)
    check_call(op, theirs, (input.detach()[:, :1].expand(6, 9, 16).requires_grad_(), weight, target), {})


@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.slow)])
def test_memory(dtype, tmp_path, device):
    (input, weight, target), _ = make((4096, 64), 32000, dtype, bias=False)  # logits of 512 MiB in float32
    results = 2 * (input.numel() + weight.numel()) * 4 + target.numel() * 16
    most, _, loss = allocated(lambda: op(input, weight, target), tmp_path / "forward.json", device)
    assert most < 64 * MIB
    most, _, _ = allocated(loss.backward, tmp_path / "backward.json", device)
    assert most < 64 * MIB + results


X, W = torch.randn(6, 5, dtype=torch.double), torch.randn(7, 5, dtype=torch.double)
B, TARGET = torch.randn(7, dtype=torch.double), torch.tensor([0, 6, -100, 2, 1, 1])


def test_backward_is_an_operator():
    grad, lse = torch.ones((), dtype=torch.double), torch.logsumexp(X @ W.t(), 1)
    divisors = torch.full((2,), 5.0, dtype=torch.double)
    torch.library.opcheck(backward, (grad, X, W, TARGET, B, -100, "mean", 0.1, 0.1, lse, divisors, [True] * 3))


def test_autocast_gives_the_dtype_of_torch(device):
    x, w = X.float(), W.float()
    with torch.autocast(device.type, torch.bfloat16):
        assert op(x, w, TARGET).dtype == F.cross_entropy(F.linear(x, w), TARGET).dtype == torch.float32


def i(*sizes):
    return torch.zeros(sizes, dtype=torch.int64)


Y, V = torch.ones(3, 4), torch.ones(6, 4)
ERRORS = [
    (lambda: op(Y.long(), V, i(3)), TypeError, "input is int64; it must be float16, bfloat16, float32 or float64"),
    (lambda: op(Y, V.double(), i(3)), TypeError, "input is float32 and weight is float64; convert one with .to()"),
    (lambda: op(Y, V.t(), i(3)), ValueError, "input is [3, 4] and weight [4, 6]; they must be [..., d] and [classes, d]"),
    (lambda: op(Y, V, i(4)), ValueError, "target has shape [4]; it must be [3], that of input without its last dimension"),
    (
        lambda: op(Y, V, Y),
        NotImplementedError,
        "target is float32, so probabilities of classes, which are not implemented; give class indices, int64 or int32",
    ),
    (
        lambda: op(Y, V, i(3), bias=torch.ones(4)),
        ValueError,
        "bias has shape [4]; it must be [6], a number for each row of weight",
    ),
    (
        lambda: op(Y, V, i(3), bias=torch.ones(6).double()),
        TypeError,
        "input is float32 and bias is float64; convert one with .to()",
    ),
    (lambda: op(Y, torch.ones(0, 4), i(3)), ValueError, "weight has shape [0, 4]; it needs a class at least"),
    (lambda: op(Y, V, i(3), reduction="avg"), ValueError, 'reduction is "avg"; it must be "none", "mean" or "sum"'),
    (lambda: op(Y, V, i(3), label_smoothing=-1.0), ValueError, "label_smoothing is -1; it must be from 0 to 1"),
]


@pytest.mark.parametrize("call, kind, text", ERRORS)
def test_errors(call, kind, text):
    with pytest.raises(kind) as error:
        call()
    assert str(error.value).splitlines()[0] == f"tile::linear_cross_entropy: {text}"


def test_targets_outside(device):
    target = torch.tensor([0, 6, 2])
    if device.type != "cpu":
        assert op(Y, V, target, reduction="none").isnan().tolist() == [False, True, False]
        return
    with pytest.raises(ValueError) as error:
        op(Y, V, target)
    assert str(error.value).splitlines()[0] == (
        "tile::linear_cross_entropy: target[1] is 6, but there are 6 classes; it must be from 0 to 5, or ignore_index, -100"
    )
