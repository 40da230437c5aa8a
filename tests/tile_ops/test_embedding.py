"""tile::embedding: values and gradients over dtypes, shapes and strides, what it owes torch, errors."""

import pytest
import tile_ops  # noqa: F401
import torch
import torch.nn.functional as F
from numerics import check_call
from opinfo import DTYPES

op = torch.ops.tile.embedding
backward = torch.ops.tile.embedding_backward


def theirs(weight, indices, padding_idx=-1):
    return F.embedding(indices, weight, None if padding_idx < 0 else padding_idx)


def make(rows, columns, shape, dtype=torch.float32):
    return torch.randn(rows, columns).to(dtype).requires_grad_(), torch.randint(0, max(rows, 1), shape)


SHAPES = [
    (5, 3, ()),
    (1, 1, (7,)),
    (6, 8, (0,)),
    (40, 64, (3, 5)),
    (300, 65, (100,)),
    (2000, 300, (2, 3, 50)),
    (2, 9, (5000,)),
    (9000, 4, (6000,)),
    (3, 5000, (6,)),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("padding", [-1, 0])
@pytest.mark.parametrize("rows, columns, shape", SHAPES)
def test_shapes(rows, columns, shape, padding, dtype):
    check_call(op, theirs, (*make(rows, columns, shape, dtype), padding))


@pytest.mark.parametrize("rows, columns, count", [(0, 3, 0), (5, 0, 4)])
def test_no_rows_or_columns(rows, columns, count):
    # Without columns torch's own gradient on a GPU reads memory out of bounds.
    weight = torch.ones(rows, columns, requires_grad=True)
    out = op(weight, torch.zeros(count, dtype=torch.int32))
    (grad,) = torch.autograd.grad(out.sum(), weight)
    assert out.shape == (count, columns) and grad.shape == (rows, columns)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_int32_and_strides(dtype):
    weight, indices = make(50, 40, (6, 8), dtype)
    check_call(op, theirs, (weight, indices.int().t(), 3))
    transposed = weight.detach().t().contiguous().t().requires_grad_()
    check_call(op, theirs, (transposed, indices[:, ::2]))
    (grad,) = torch.autograd.grad(op(transposed, indices).sum(), transposed)
    assert grad.stride() == transposed.stride()
    check_call(op, theirs, (weight.detach()[::3, 1:30].requires_grad_(), indices % 17))
    check_call(op, theirs, (weight.detach()[:1].expand(50, 40).requires_grad_(), indices[:1].expand(5, 8)))


def test_an_infinite_gradient_stays_in_its_row():
    weight, indices = make(20, 6, (9,))
    grads = torch.randn(9, 6)
    grads[4, 2], grads[5] = torch.inf, torch.nan
    check_call(op, theirs, (weight, indices), grad_outputs=[grads])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("padding", [-1, 2])
@pytest.mark.parametrize("rows, columns, count", [(3, 5, 1000), (3, 4099, 40), (70, 33, 500), (1031, 7, 3000)])
def test_sums_are_those_of_float32_in_order(rows, columns, count, padding, dtype):
    weight, indices = make(rows, columns, (count,), dtype)
    indices[: count // 2] %= 5  # long chains and short ones
    grads = torch.randn(count, columns).to(dtype)
    (grad,) = torch.autograd.grad(op(weight, indices, padding), weight, grads)
    expected = torch.zeros(rows, columns)
    for index, row in zip(indices.tolist(), grads.float()):
        if index != padding:
            expected[index] += row
    assert torch.equal(grad, expected.to(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("indices", [[], [0], [4] * 9, [3, 3, 3], [0, 4, 0, 4, 2]])
def test_rows_that_no_index_names_get_zeros(indices, dtype):
    weight = torch.full((5, 3), torch.nan, dtype=dtype).requires_grad_()
    indices = torch.tensor(indices, dtype=torch.int64)
    for padding in (-1, 4):
        (grad,) = torch.autograd.grad(op(weight, indices, padding).sum(), weight)
        counts = torch.bincount(indices[indices != padding], minlength=5)
        assert torch.equal(grad, counts.to(dtype).unsqueeze(1).expand(5, 3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_gradient_of_strides_0(dtype):
    weight, indices = make(20, 70, (64,), dtype)
    for grads in (torch.ones((), dtype=dtype), torch.randn(70).to(dtype), torch.randn(64, 1).to(dtype)):
        check_call(op, theirs, (weight, indices), grad_outputs=[grads.expand(64, 70)])


WEIGHT, INDICES = torch.randn(7, 3, dtype=torch.double), torch.tensor([[0, 6, 2], [2, 2, 1]])


def test_a_batch_of_indices():
    expected = torch.stack([op(WEIGHT, each) for each in INDICES])
    assert torch.equal(torch.vmap(lambda each: op(WEIGHT, each))(INDICES), expected)


def test_backward_is_an_operator():
    torch.library.opcheck(backward, (torch.randn(2, 3, 3, dtype=torch.double), WEIGHT, INDICES, -1))


W, ROWS = torch.ones(4, 3), torch.zeros(2, dtype=torch.int64)
ERRORS = [
    (lambda: op(W.long(), ROWS), TypeError, "weight is int64; it must be float16, bfloat16, float32 or float64"),
    (lambda: op(W, W), TypeError, "indices is float32; it must be int64 or int32"),
    (lambda: op(W[0], ROWS), ValueError, "weight has shape [3]; it must be [rows, columns]"),
    (lambda: op(W, ROWS, 4), ValueError, "padding_idx is 4, but weight has 4 rows; give one of them, or -1 for none"),
    (lambda: op(W, ROWS, -2), ValueError, "padding_idx is -2, but weight has 4 rows; give one of them, or -1 for none"),
]


@pytest.mark.parametrize("call, kind, text", ERRORS)
def test_errors(call, kind, text):
    with pytest.raises(kind) as error:
        call()
    assert str(error.value).splitlines()[0] == f"tile::embedding: {text}"


def test_indices_outside(device):
    indices = torch.tensor([[0, 1], [-1, 9]])
    if device.type != "cpu":
        assert op(W, indices).isnan().all(-1).tolist() == [[False, False], [True, True]]
        return
    with pytest.raises(ValueError) as error:
        op(W, indices)
    assert str(error.value).splitlines()[0] == (
        "tile::embedding: indices[1, 0] is -1, but weight has 4 rows; it must be from 0 to 3"
    )
