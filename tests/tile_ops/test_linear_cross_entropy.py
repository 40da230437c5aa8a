"""tile::linear_cross_entropy: numerics against torch on the whole logits, memory, what it owes torch, errors."""

import pytest
import tile_ops  # noqa: F401
import torch
import torch.nn.functional as F
from combinations import long
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


@pytest.mark.parametrize(
    "shape, classes, dtype",
    [
        ((5000, 8), 3000, torch.float32),
        pytest.param((3, 40), 200000, torch.bfloat16, marks=pytest.mark.slow),
        long((5000, 8), 3000, torch.bfloat16),
        long((3, 40), 200000, torch.float32),
        # Without early gradients: classes in parts of all rows, and of groups of them.
        ((5000, 8), 3000, torch.float16),
        pytest.param((17000, 8), 1100, torch.float16, marks=pytest.mark.slow),
    ],
)
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
def test_memory(dtype, device):
    (input, weight, target), _ = make((4096, 64), 32000, dtype, bias=False)  # logits of 512 MiB in float32
    results = 2 * (input.numel() + weight.numel()) * 4 + target.numel() * 16
    most, _, loss = allocated(lambda: op(input, weight, target), device)
    assert most < 64 * MIB
    most, _, _ = allocated(loss.backward, device)
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


saving = torch.ops.tile._linear_cross_entropy_saving


def early_of(input, weight, target, wanted=(True, True, True), **kwargs):
    """The names of the gradients that the forward computes."""
    found = saving(input, weight, target, gradients_wanted=list(wanted), **kwargs)[3:]
    return [name for name, each in zip(("input", "weight", "bias"), found) if each is not None]


def test_which_gradients_the_forward_computes():
    x, w, b, t = torch.randn(6, 5), torch.randn(7, 5), torch.randn(7), torch.arange(6)
    assert early_of(x, w, t) == ["input", "weight"]
    assert early_of(x, w, t, bias=b, reduction="sum") == ["input", "weight", "bias"]
    assert early_of(x, w, t, (False, True, False), bias=b) == ["weight"]
    assert early_of(x, w, t, (False, False, False)) == early_of(x, w, t, reduction="none") == []
    assert early_of(x.half(), w.half(), t) == [] and early_of(x.bfloat16(), w.bfloat16(), t) == ["input", "weight"]

    def on_meta(rows, depth, classes, dtype=torch.bfloat16):
        target = torch.empty(rows, dtype=torch.int64, device="meta")
        given = (torch.empty(each, depth, dtype=dtype, device="meta") for each in (rows, classes))
        return early_of(*given, target)

    # More than 59 MiB of logits: in the memory of weight's gradient if it has room, else in groups of rows if sums have.
    assert on_meta(2048, 2048, 65536) == on_meta(2048, 64, 65536) == ["input", "weight"]
    assert on_meta(2048, 1024, 65536) == on_meta(8192, 1024, 151936) == []
    assert on_meta(16384, 2048, 32000) == ["input", "weight"]
    assert on_meta(8192, 1024, 151936, torch.float32) == ["input", "weight"]  # sums are made in the gradient


@pytest.mark.slow  # draws of 64 MiB of logits
@pytest.mark.parametrize(
    "layout, dtype",
    [
        ("rows", torch.bfloat16),
        ("parts of memory", torch.float32),
        long("rows", torch.float32),
        long("parts of memory", torch.bfloat16),
        long("transposed weight", torch.float32),
        long("transposed weight", torch.bfloat16),
    ],
)
def test_logits_in_the_memory_of_the_gradient(layout, dtype):
    """More than 59 MiB of logits, with as many numbers in a row of weight as there are rows."""
    rows = 90
    classes = (64 * MIB // rows // dtype.itemsize + 37) // 8 * 8 + 3
    (input, weight, target), kwargs = make((2, rows // 2, 96), classes, dtype)
    if layout == "parts of memory":
        input = torch.randn(2, 60, 96).to(dtype)[:, :45].requires_grad_()
    if layout == "transposed weight":
        weight = weight.detach().t().contiguous().t().requires_grad_()
    assert early_of(input, weight, target) == ["input", "weight"]
    check_call(op, theirs, (input, weight, target), kwargs | {"label_smoothing": 0.1, "z_loss": 1e-3})


@pytest.mark.slow  # draws of 60 MiB of logits
@pytest.mark.parametrize(
    "layout, dtype", [("rows", torch.bfloat16), ("parts of memory", torch.float32), long("parts of memory", torch.bfloat16)]
)
def test_rows_in_groups_whose_gradients_of_weight_are_added_up(layout, dtype):
    rows, depth = 220, 24
    classes = 60 * MIB // rows // dtype.itemsize + 5
    (input, weight, target), kwargs = make((2, rows // 2, depth), classes, dtype)
    if layout == "parts of memory":
        input = torch.randn(2, 130, depth).to(dtype)[:, :110].requires_grad_()
    assert early_of(input, weight, target) == ["input", "weight"]
    check_call(op, theirs, (input, weight, target), kwargs | {"label_smoothing": 0.1, "z_loss": 1e-3})


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("classes", [1, 2, 70])
def test_gradients_that_are_not_early(options, classes):
    """Gradients of float16 are not early, also where all rows are ignored."""
    (input, weight, target), kwargs = make((33, 12), classes, torch.float16, options.get("ignore_index", -100))
    check_call(op, theirs, (input, weight, target), kwargs | options)
    grad = torch.autograd.grad(op(input * 0, weight, torch.full_like(target, -100), reduction="sum"), weight)[0]
    assert not grad.any()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, long(torch.bfloat16)])
def test_rows_in_groups_without_a_gradient_of_weight(dtype):
    classes = 33 * MIB // 64 // dtype.itemsize
    (input, weight, target), kwargs = make((150, 8), classes, dtype)
    weight.requires_grad_(False)
    check_call(op, theirs, (input, weight, target), kwargs | {"label_smoothing": 0.1})


@pytest.mark.parametrize("wanted", [("weight",), ("input", "weight"), ("input",), ("bias", "weight")], ids=",".join)
def test_each_early_gradient_alone(wanted):
    (input, weight, target), kwargs = make((40, 9), 1100, torch.bfloat16)
    for name, tensor in (("input", input), ("weight", weight), ("bias", kwargs["bias"])):
        tensor.requires_grad_(name in wanted)
    check_call(op, theirs, (input, weight, target), kwargs)


def of_one_graph(dtype=torch.double):
    (input, weight, target), _ = make((6, 5), 7, dtype, bias=False)
    return input, weight, target, op(input, weight, target)


def test_backward_gives_away_what_forward_computed(device):
    input, weight, _, loss = of_one_graph()
    expected = torch.autograd.grad(loss, (input, weight), retain_graph=True)
    (3 * loss).backward()
    torch.testing.assert_close((input.grad, weight.grad), tuple(3 * each for each in expected))
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()
    (input, weight, target), _ = make((512, 512), 4096, torch.float32, bias=False)
    loss = op(input, weight, target)
    most, _, _ = allocated(loss.backward, device)
    assert most < MIB


def test_a_graph_that_is_kept_gives_the_same_twice():
    input, weight, _, loss = of_one_graph()
    first = torch.autograd.grad(loss, (input, weight), torch.tensor(2.0, dtype=torch.double), retain_graph=True)
    kept = [each.clone() for each in first]
    second = torch.autograd.grad(loss, (input, weight), torch.tensor(4.0, dtype=torch.double), retain_graph=True)
    torch.testing.assert_close(list(second), [2 * each for each in kept])
    assert all(torch.equal(a, b) for a, b in zip(first, kept))
    (third,) = torch.autograd.grad(loss, weight)
    torch.testing.assert_close(third, kept[1] / 2)
    node = op(input, weight, torch.arange(6)).grad_fn
    saved = [None] * 5
    a, b = (node(torch.tensor(2.0, dtype=torch.double), *saved) for _ in range(2))  # outside of a backward pass
    torch.testing.assert_close(a[0], b[0])


def test_saved_tensor_hooks_keep_what_they_packed():
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        input, weight, _, loss = of_one_graph()
    before = [each.clone() for each in packed]
    (5 * loss).backward()
    assert all(torch.equal(a, b) for a, b in zip(packed, before))
    again = torch.autograd.grad(op(input, weight, torch.arange(6) % 7), input)
    assert again[0].shape == input.grad.shape


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints(reentrant):
    (input, weight, target), _ = make((6, 5), 7, torch.double, bias=False)
    expected = torch.autograd.grad(2 * op(input, weight, target), (input, weight))
    loss = torch.utils.checkpoint.checkpoint(lambda x, w: op(x, w, target), input, weight, use_reentrant=reentrant)
    (2 * loss).backward()
    torch.testing.assert_close((input.grad, weight.grad), expected)


def test_transforms_of_a_loss():
    (input, weight, target), _ = make((6, 5), 7, torch.double, bias=False)
    expected = torch.autograd.grad(op(input, weight, target), (input, weight))
    x, w = input.detach(), weight.detach()
    found = torch.func.grad(lambda x, w: op(x, w, target), (0, 1))(x, w)
    torch.testing.assert_close(found, expected)
    many = torch.func.vmap(torch.func.grad(lambda x: op(x, w, target)))(torch.stack([x, 2 * x]))
    torch.testing.assert_close(many[0], expected[0])
    loss = op(input, weight, target)
    rows = torch.autograd.grad(loss, input, torch.tensor([1.0, 3.0], dtype=torch.double), is_grads_batched=True)[0]
    torch.testing.assert_close(rows, torch.stack([expected[0], 3 * expected[0]]))


def test_targets_that_are_all_ignored():
    (input, weight, _), _ = make((6, 5), 7, torch.float32, bias=False)
    loss = op(input, weight, torch.full((6,), -100))
    loss.backward()
    assert loss.isnan() and not input.grad.any() and not weight.grad.any()


def test_memory_of_early_gradients(device):
    for wanted in (True, False):
        (input, weight, target), _ = make((64, 64), 290000, torch.float32, bias=False)  # 71 MiB of logits
        weight.requires_grad_(wanted)
        assert early_of(input, weight, target, (True, wanted, False)) == ["input", "weight"][: 1 + wanted]
        gradients = input.nbytes + weight.nbytes * wanted
        most, _, loss = allocated(lambda: op(input, weight, target), device)  # noqa: B023
        assert most < 64 * MIB + gradients
        most, _, _ = allocated(loss.backward, device)
        assert most < MIB


@pytest.mark.parametrize("shape", [(0, 3), (1,), (5, 4)])
def test_scale_gradients(shape):
    scale_ = torch.ops.tile._scale_gradients_
    x = torch.randn(shape)
    for given in (x.clone(), x.clone().t() if x.dim() == 2 else x.clone(), torch.cat([x, x], -1)[..., ::2]):
        expected, version = given * 3, given._version
        scale_([given], torch.tensor(3.0))
        assert torch.equal(given, expected) and given._version > version
        scale_([given, given.clone()], torch.tensor(1.0))
        assert torch.equal(given, expected)


SCALE_ERRORS = [
    (
        lambda: torch.ops.tile._scale_gradients_([Y], torch.ones(2)),
        ValueError,
        "factor has shape [2]; it must have one element",
    ),
    (
        lambda: torch.ops.tile._scale_gradients_([i(3)], torch.ones(())),
        TypeError,
        "a gradient is int64; it must be float16, bfloat16, float32 or float64",
    ),
    (
        lambda: torch.ops.tile._scale_gradients_([torch.ones(1).expand(3)], torch.ones(())),
        ValueError,
        "gradients[0] overlaps itself in memory, and is written; clone() it",
    ),
]


@pytest.mark.parametrize("call, kind, text", SCALE_ERRORS)
def test_errors_of_scale_gradients(call, kind, text):
    with pytest.raises(kind) as error:
        call()
    assert str(error.value).splitlines()[0] == f"tile::_scale_gradients_: {text}"


def of_backward(reduction="sum", **early):
    grad, lse = torch.ones(3 if reduction == "none" else ()), torch.ones(3, 2)
    return backward(grad, Y, V, i(3), None, -100, reduction, 0.0, 0.0, lse, None, [True] * 3, **early)


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: of_backward(bias_grad=torch.ones(6)), "bias_grad is given and bias is not; pass None"),
        (lambda: of_backward("none", input_grad=Y), 'input_grad is given and reduction is "none"; pass None'),
        (lambda: of_backward(weight_grad=Y), "weight_grad has shape [3, 4]; it must be [6, 4], as the forward saves it"),
    ],
)
def test_errors_of_early_gradients(call, text):
    with pytest.raises(ValueError) as error:
        call()
    assert str(error.value).splitlines()[0] == f"tile::linear_cross_entropy_backward: {text}"


def test_some_early_gradients():
    """Those that are given are scaled, the others computed."""
    whole = of_backward()
    given = of_backward(input_grad=2 * Y)
    assert torch.equal(given[0], 2 * Y) and torch.equal(given[1], whole[1])
