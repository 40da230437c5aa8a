"""tile::cross_entropy: numerics over dtypes, shapes, strides and options, what it owes torch, errors."""

import pytest
import tile_ops  # noqa: F401
import torch
import torch.nn.functional as F
from numerics import check_call
from opinfo import DTYPES, check_samples

op = torch.ops.tile.cross_entropy
backward = torch.ops.tile.cross_entropy_backward


def theirs(input, target, *, z_loss=0.0, weight=None, ignore_index=-100, reduction="mean", **kwargs):
    """torch's, plus the auxiliary loss; torch takes int64, and weights of the input's dtype. Its sum over classes, for
    smoothing, overflows in float16."""
    dtype, wide = input.dtype, input.float() if "label_smoothing" in kwargs and input.dtype == torch.half else input
    target, weight = target.long(), None if weight is None else weight.to(wide.dtype)
    loss = F.cross_entropy(wide, target, weight=weight, ignore_index=ignore_index, reduction=reduction, **kwargs)
    loss = loss.to(dtype)
    if z_loss == 0:
        return loss
    lse = torch.logsumexp(input, 0 if input.dim() == 1 else 1)
    z = torch.where(target == ignore_index, 0, z_loss * lse.square())
    if reduction != "none":
        z = z.sum() / ((target != ignore_index).sum() if reduction == "mean" else 1)
    return loss + z.to(loss.dtype)


def make(shape, dtype=torch.float32, ignored=-100, order=None):
    """Logits and a target, some of which is `ignored`."""
    x = torch.randn(shape).mul(3).to(dtype)
    if order:
        x = x.permute(order).contiguous().permute([order.index(i) for i in range(len(order))])
    axis = 0 if len(shape) == 1 else 1
    target = torch.randint(0, shape[axis], [*shape[:axis], *shape[axis + 1 :]])
    if ignored is not None and target.dim():
        target[torch.rand(target.shape) < 0.3] = ignored
    return x.requires_grad_(), target


@pytest.mark.parametrize("dtype", DTYPES)
def test_opinfo(dtype):
    assert (
        check_samples(op, "nn.functional.cross_entropy", dtype, accept=lambda sample: not sample.args[0].is_floating_point())
        > 10
    )


SHAPES = [
    (1,),
    (7,),
    (1, 1),
    (0, 5),
    (3, 1),
    (300, 3),
    (5, 64),
    (33, 513),
    (5, 4097),
    (2, 16385),
    pytest.param((6, 40000), marks=pytest.mark.slow),
    pytest.param((2, 140000), marks=pytest.mark.slow),
    (4, 10, 7),
    (2, 3, 33, 65),
    (2, 70, 0),
    (2, 300, 5, 3),
]
OPTIONS = [
    {},
    {"reduction": "sum", "z_loss": 1e-2},
    {"reduction": "none", "label_smoothing": 0.1},
    {"weight": True, "label_smoothing": 0.3, "z_loss": 1e-2},
    {"weight": True, "reduction": "none", "ignore_index": 0},
    {"weight": True, "reduction": "sum", "z_loss": 1e-2},
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_shapes(shape, options, dtype):
    x, target = make(shape, dtype, options.get("ignore_index", -100))
    options = dict(options)
    if "weight" in options:
        options["weight"] = (torch.rand(shape[0 if len(shape) == 1 else 1]) + 0.1).to(dtype)
    check_call(op, theirs, (x, target), options)


@pytest.mark.parametrize("order", [(0, 2, 3, 1), (1, 0, 3, 2), (3, 2, 1, 0)])
def test_orders_of_axes(order):
    x, target = make((4, 9, 6, 10), order=order)
    check_call(op, theirs, (x, target), {"z_loss": 0.1})
    (grad,) = torch.autograd.grad(op(x, target), x)
    assert grad.stride() == x.stride()


def test_gaps_and_expanded():
    x, target = make((8, 20, 12, 6), order=(2, 0, 3, 1))
    check_call(op, theirs, (x.detach()[1:7:2, 3:17, ::3, 1:].requires_grad_(), target[1:7:2, ::3, 1:] % 14), {})
    x = torch.randn(1, 12, 5).expand(6, 12, 5).requires_grad_()
    check_call(op, theirs, (x, torch.randint(0, 12, (1, 5)).expand(6, 5)), {"reduction": "none"})


@pytest.mark.parametrize("options", OPTIONS[:4], ids=str)
def test_int32_target_and_float32_weight(options):
    x, target = make((7, 40), torch.bfloat16)
    options = options | ({"weight": torch.rand(40) + 0.5} if "weight" in options else {})
    check_call(op, theirs, (x, target.int()), options)


@pytest.mark.parametrize("classes", [5, 20000, 140000])
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_infinities_and_nan(classes, layout):
    x = torch.randn(8, classes)
    x[0, 1:] = -torch.inf
    x[1] = -torch.inf
    x[2, 3] = torch.inf
    x[3, 4] = torch.nan
    x[4, : classes - 1] = -torch.inf
    x[5] = 1e30
    x[6, 2] = -torch.inf
    target = torch.tensor([0, 1, 2, 3, classes - 1, 4, 2, -100])
    x = (x if layout == "rows" else x.t().contiguous().t()).requires_grad_()
    for smoothing in (0.0, 0.1):
        check_call(op, theirs, (x, target), {"reduction": "none", "label_smoothing": smoothing})


def test_large_offsets():
    x, target = make((5, 300), ignored=None)
    x = (x.detach() + 1000).requires_grad_()
    assert (op(x, target) - theirs(x.double(), target)).abs() < 1e-5


# Saving only the logarithm as float32 would give an error of 3e-5.
def test_gradient_of_large_offsets():
    x, target = make((5, 300), ignored=None)
    x = (x.detach() + 1000).requires_grad_()
    wide = x.detach().double().requires_grad_()
    for loss, logits in ((op, x), (theirs, wide)):
        loss(logits, target, reduction="sum").backward()
    torch.testing.assert_close(x.grad, wide.grad.float(), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("weight", [None, torch.rand(6)])
def test_all_ignored(weight):
    x, _ = make((4, 6))
    target = torch.full((4,), -100)
    for reduction in ("mean", "sum", "none"):
        check_call(op, theirs, (x, target), {"reduction": reduction, "weight": weight, "z_loss": 0.1})
    assert op(x, target).isnan()


def test_z_loss_of_a_weighted_mean_counts_rows():
    x, target = make((9, 6))
    weight = torch.rand(6)
    rows = target != -100
    expected = F.cross_entropy(x, target, weight) + 0.5 * torch.logsumexp(x[rows], 1).square().mean()
    torch.testing.assert_close(op(x, target, weight=weight, z_loss=0.5), expected)


INPUT, TARGET = torch.randn(6, 5, dtype=torch.double), torch.tensor([0, 4, -100, 2, 1, 1])


def test_backward_is_an_operator():
    lse = torch.logsumexp(INPUT, 1)
    grad, divisors = torch.ones((), dtype=torch.double), torch.full((2,), 5.0, dtype=torch.double)
    torch.library.opcheck(backward, (grad, INPUT, TARGET, None, -100, "mean", 0.1, 0.1, lse, divisors))


def test_without_a_gradient_of_the_weight():
    x, target = make((3, 5))
    with pytest.raises(NotImplementedError) as error:
        op(x, target, weight=torch.rand(5, requires_grad=True)).backward()
    assert "tile::cross_entropy" in str(error.value) and "weight" in str(error.value)


def i(*sizes):
    return torch.zeros(sizes, dtype=torch.int64)


X = torch.ones(3, 4)
ERRORS = [
    (lambda: op(torch.ones(()), i()), ValueError, "input has no dimensions; it must be [C], [N, C] or [N, C, d1, ...]"),
    (lambda: op(X.long(), i(3)), TypeError, "input is int64; it must be float16, bfloat16, float32 or float64"),
    (
        lambda: op(X, X),
        NotImplementedError,
        "target is float32, so probabilities of classes, which are not implemented; give class indices, int64 or int32",
    ),
    (lambda: op(X, i(3).bool()), TypeError, "target is bool; it must be int64 or int32"),
    (lambda: op(X, i(4)), ValueError, "target has shape [4]; it must be [3], that of input without its classes"),
    (
        lambda: op(torch.ones(2, 3, 4), i(2)),
        ValueError,
        "target has shape [2]; it must be [2, 4], that of input without its classes",
    ),
    (lambda: op(torch.ones(2, 0), i(2)), ValueError, "input has shape [2, 0]; it needs a class at least"),
    (
        lambda: op(X, i(3), weight=torch.ones(3)),
        ValueError,
        "weight has shape [3]; it must be [4], a number for each class of input",
    ),
    (
        lambda: op(X, i(3), weight=torch.ones(4, dtype=torch.double)),
        TypeError,
        "weight is float64 and input is float32; weight must have the dtype of input, or be float32",
    ),
    (lambda: op(X, i(3), reduction="avg"), ValueError, 'reduction is "avg"; it must be "none", "mean" or "sum"'),
    (lambda: op(X, i(3), label_smoothing=1.5), ValueError, "label_smoothing is 1.5; it must be from 0 to 1"),
]


@pytest.mark.parametrize("call, kind, text", ERRORS)
def test_errors(call, kind, text):
    with pytest.raises(kind) as error:
        call()
    assert str(error.value).splitlines()[0] == f"tile::cross_entropy: {text}"


def test_targets_outside(device):
    for target, place in ((torch.tensor([0, 1, 4]), "[2] is 4"), (torch.tensor([0, -1, 2]).int(), "[1] is -1")):
        if device.type != "cpu":
            loss = op(X, target, reduction="none")
            assert loss.isnan().tolist() == [not 0 <= t < 4 for t in target.tolist()]
            continue
        with pytest.raises(ValueError) as error:
            op(X, target)
        assert str(error.value).splitlines()[0] == (
            f"tile::cross_entropy: target{place}, but there are 4 classes; it must be from 0 to 3, or ignore_index, -100"
        )
    if device.type == "cpu":
        with pytest.raises(ValueError, match=r"target\[1, 0\] is 9, but"):
            op(torch.ones(2, 4, 2), torch.tensor([[0, 1], [9, 9]]))
        with pytest.raises(ValueError, match=r"target is 9, but"):
            op(torch.ones(4), torch.tensor(9))
