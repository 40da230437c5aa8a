"""tile::scaled_matmul against float64: shapes, scales, strides and dtypes, and every way torch can call it."""

import itertools

import pytest
import scaled_reference
import tile_ops  # noqa: F401  registers the operator
import torch
from numerics import check_call
from scaled_reference import FLOAT8, matrices, scales, shapes_of_scales
from torch.library import opcheck

pytestmark = pytest.mark.usefixtures("deterministic")

op = torch.ops.tile.scaled_matmul


def case(m, n, k, x_scales="each", y_scales="each", dtypes=FLOAT8[:1] * 2):
    return (
        *matrices(m, n, k, dtypes),
        scales(shapes_of_scales(m, k, 0)[x_scales]),
        scales(shapes_of_scales(n, k, 1)[y_scales]),
    )


def check(args, **options):
    if options.get("out_dtype") != torch.float32 or torch.get_default_device().type == "cpu":
        return check_call(op, scaled_reference.scaled_matmul, args, options)
    # Tensor cores keep about 14 bits of a sum of 8-bit floats, and torch's float32 reference all of them.
    x, y, *rest = args
    exact = scaled_reference.scaled_matmul(x.double(), y.double(), *rest, **options | {"out_dtype": torch.float64})
    most = scaled_reference.scaled_matmul(x.double().abs(), y.double().abs(), *rest, out_dtype=torch.float64)
    error = (op(*args, **options).double() - exact).abs()
    assert (error <= 2**-12 * most).all(), f"error {error.max().item():.3g}, largest sum {most.max().item():.3g}"


NAMES = list(shapes_of_scales(1, 1, 0))


@pytest.mark.parametrize("x_scales, y_scales", list(itertools.product(NAMES, NAMES)))
def test_scales(x_scales, y_scales):
    for m, n, k in ((130, 260, 300), (5, 7, 128), (1, 129, 129)):
        check(case(m, n, k, x_scales, y_scales), out_dtype=torch.float32)


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 1, 500), (1, 200, 7), (17, 33, 65), (257, 130, 129)])
@pytest.mark.parametrize("dtypes", list(itertools.product(FLOAT8, FLOAT8)), ids=str)
def test_shapes_and_dtypes(shape, dtypes):
    check(case(*shape, "each", "one", dtypes))


@pytest.mark.parametrize("m, n, k", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
def test_without_elements(m, n, k):
    for name in ("each", "each, in blocks of k"):
        args = case(m, n, k, name, name)
        out = op(*args, bias=torch.arange(float(n)), out_dtype=torch.float32)
        assert torch.equal(out, torch.arange(float(n)).expand(m, n))


@pytest.mark.parametrize("out_dtype", [torch.float16, torch.bfloat16, torch.float32, None], ids=str)
@pytest.mark.parametrize("bias_dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_results_and_biases(out_dtype, bias_dtype):
    bias = torch.randn(2 * 40).to(bias_dtype)[::2]
    args = case(20, 40, 200, "each, in blocks of k", "blocks")
    check(args, bias=bias, out_dtype=out_dtype)
    assert op(*args).dtype == torch.bfloat16


def test_strides():
    x, y, a, b = case(70, 90, 300, "each, in blocks of k", "each, in blocks of k")
    for left, right in itertools.product((x, x.t().contiguous().t(), x.repeat(1, 2)[:, ::2]), (y, y.contiguous(), y[:, ::3])):
        for one in (a, a.t().contiguous().t()):
            check((left, right, one, b[:, : right.shape[1]]))
    # The same scale for all blocks, without memory of its own.
    check((x, y, a[:, :1].expand(a.shape), b[:1].expand(b.shape)))


def test_numbers_that_are_not_finite():
    x, y, a, b = case(4, 4, 8)
    x[1, 2], x[2, 0] = float("nan"), 448
    b[0, 1] = float("nan")
    check((x, y, a, b))


@pytest.mark.parametrize("name", ["each", "each, in blocks of k"])
def test_fast_accum_changes_nothing_on_a_cpu(name):
    args = case(20, 30, 300, name, name)
    assert torch.equal(op(*args), op(*args, fast_accum=True))


def test_opcheck():
    for names in (("one", "one"), ("each", "each"), ("each, in blocks of k", "blocks")):
        args = case(9, 11, 150, *names)
        # torch cannot compare 8-bit floats, which the test of the schema does.
        tests = ("test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
        opcheck(op, args, {"bias": torch.randn(11), "out_dtype": torch.float16}, test_utils=tests)


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile(dynamic):
    compiled = torch.compile(lambda *args: op(*args).float() * 2, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for m in (20, 140):
        args = case(m, 30, 200, "each, in blocks of k", "blocks")
        torch.testing.assert_close(compiled(*args), op(*args).float() * 2)


def test_vmap():
    samples = [case(5, 7, 130, "each, in blocks of k", "each") for _ in range(3)]
    stacked = [torch.stack(each) for each in zip(*samples)]
    assert torch.equal(torch.vmap(op)(*stacked), torch.stack([op(*sample) for sample in samples]))


def test_autocast_keeps_dtypes():
    args = case(5, 7, 130)
    with torch.autocast("cpu", torch.bfloat16):
        assert op(*args, out_dtype=torch.float32).dtype == torch.float32


def test_a_gradient_is_an_error():
    x, y, a, b = case(5, 7, 130)
    out = op(x, y, a.requires_grad_(), b)
    with pytest.raises(NotImplementedError) as error:
        out.sum().backward()
    assert str(error.value).startswith(
        "tile::scaled_matmul: has no gradient; call it under torch.no_grad() or on detached tensors"
    )
