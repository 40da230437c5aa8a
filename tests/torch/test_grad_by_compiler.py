"""grad_by_compiler() of operators in C++: gradients of their launches, of copies between them, and its errors."""

import pytest
import torch
from derive.saved_checks import close_to, saved_by
from torch.autograd import gradcheck

functional = torch.nn.functional


def leaf(*shape, dtype=torch.float64):
    return torch.randn(shape, dtype=dtype).requires_grad_()


def test_values(ops):
    x, w = leaf(7, 48), leaf(48)
    assert gradcheck(ops.derived_norm, (leaf(3, 5), leaf(5)))
    ours = torch.autograd.grad(ops.derived_norm(x, w).sin().sum(), (x, w))
    expected = torch.autograd.grad(functional.rms_norm(x, (48,), w, 1e-5).sin().sum(), (x, w))
    torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_many_rows(ops, dtype):
    """Rows share the weight: few blocks add up its gradient."""
    x, w = leaf(5000, 48, dtype=dtype), leaf(48, dtype=dtype)
    ours = torch.autograd.grad(ops.derived_norm(x, w), (x, w), torch.ones_like(x))
    xs, ws = x.detach().double().requires_grad_(), w.detach().double().requires_grad_()
    expected = torch.autograd.grad(functional.rms_norm(xs, (48,), ws, 1e-5), (xs, ws), torch.ones_like(xs))
    for own, right in zip(ours, expected):
        tolerance = 2 * torch.finfo(dtype).eps
        torch.testing.assert_close(own.double(), right, rtol=tolerance, atol=tolerance * right.abs().max().item())


def test_strides_and_shared_memory(ops):
    x = leaf(6, 10)
    for view in (lambda x: x.mT, lambda x: x[:, ::2], lambda x: x[:, :5], lambda x: x[:1].expand(4, 10)):
        y = view(x)
        w = leaf(y.shape[1])
        ours = torch.autograd.grad(ops.derived_norm(y, w).sin().sum(), (x, w))
        y = view(x)
        expected = torch.autograd.grad(functional.rms_norm(y, (y.shape[1],), w, 1e-5).sin().sum(), (x, w))
        torch.testing.assert_close(ours, expected)
    both = leaf(5, 5)  # an argument, and a part of it
    ours = torch.autograd.grad(ops.derived_norm(both, both[0]).sin().sum(), both)
    expected = torch.autograd.grad(functional.rms_norm(both, (5,), both[0], 1e-5).sin().sum(), both)
    torch.testing.assert_close(ours, expected)


def test_only_what_is_wanted(ops):
    x, w = leaf(3, 5), torch.rand(5, dtype=torch.float64)
    ops.derived_norm(x, w).sum().backward()
    assert w.grad is None
    torch.testing.assert_close(x.grad, torch.autograd.grad(functional.rms_norm(x, (5,), w, 1e-5).sum(), x)[0])


@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (0, 5), (200,)])
def test_launches_after_each_other_and_copies(ops, shape):
    x = leaf(*shape)
    (ours,) = torch.autograd.grad(ops.derived_steps(x, "scratch").sum(), x)
    torch.testing.assert_close(ours, torch.autograd.grad((x.sin() * x).sum(), x)[0])
    (ours,) = torch.autograd.grad(ops.derived_steps(x.mT if x.dim() == 2 else x, "scratch").sum(), x)
    torch.testing.assert_close(ours, torch.autograd.grad((x.sin() * x).sum(), x)[0])


REFUSED = {
    "torch": "run computes aten::mul outside of our kernels, so that its gradient is not derived; do it in a kernel, or write "
    "the gradient by hand",
    "overwritten": "run's derived_sine overwrites memory that derived_product reads, so that its gradient is not derived; write "
    "to other memory",
    "written twice": "run's derived_sine and derived_product write the same memory, so that its gradient is not derived; write "
    "to different memory",
    "filled": "run's derived_sine and copy_ write the same memory, so that its gradient is not derived; write to different "
    "memory",
    "in place": "run's copy_ and derived_product write the same memory, so that its gradient is not derived; write to "
    "different memory",
}


def error_of(function, kind=NotImplementedError):
    with pytest.raises(kind) as raised:
        function().sum().backward()
    return str(raised.value).splitlines()[0]


@pytest.mark.parametrize("kind", REFUSED)
def test_runs_without_a_derivative(ops, kind):
    assert error_of(lambda: ops.derived_steps(leaf(100), kind)) == f"tt::derived_steps: {REFUSED[kind]}"


def test_blocks_that_repeat_each_other(ops):
    text = error_of(lambda: ops.derived_steps(leaf(100), "repeated"), ValueError)
    assert text == (
        "tt::derived_steps: derived_sine: the grid has 2 blocks along axis 1, but the kernel does not use bid(1), so that "
        "blocks repeat each other and gradients would be counted repeatedly; launch one block along this axis"
    )


def test_kernels_without_a_derivative(ops):
    text = error_of(lambda: ops.derived_bits(leaf(100)))
    assert text.startswith("tt::derived_bits: derived.cpp:")
    assert text.endswith(": bitcast: has no derivative; bits of a number do not change continuously; use arithmetic")


def test_loops_that_end_by_a_condition(ops):
    x = leaf(100)
    (ours,) = torch.autograd.grad(ops.derived_halved(x).sin().sum(), x)
    t = torch.nn.functional.pad(x, (0, 28)).view(2, 64)
    factor = 0.5 ** t.amax(1, keepdim=True).log2().ceil().clamp(min=0).detach()
    torch.testing.assert_close(ours, torch.autograd.grad((t * factor).sin().sum(), x)[0])


def test_atomics_are_refused_where_they_are_not_deterministic(ops):
    x, indices = leaf(10), torch.randint(0, 10, (100,))
    (ours,) = torch.autograd.grad(ops.derived_picked(x, indices).sin().sum(), x)
    torch.testing.assert_close(ours, torch.autograd.grad(x[indices].sin().sum(), x)[0])
    torch.use_deterministic_algorithms(True)
    try:
        text = error_of(lambda: ops.derived_picked(x, indices), RuntimeError)
    finally:
        torch.use_deterministic_algorithms(False)
    assert text == (
        "tt::derived_picked: derived_picked: the gradient of argument 0 is added by atomics, which is not deterministic; use "
        "torch.use_deterministic_algorithms(False), or write the gradient by hand"
    )


def test_gradients_of_derived_gradients_are_refused(ops):
    x, w = leaf(3, 5), leaf(5)
    (gradient,) = torch.autograd.grad(ops.derived_norm(x, w).sin().sum(), x, create_graph=True)
    assert error_of(lambda: gradient) == (
        "tt::derived_norm: its gradient is derived by the compiler, and that has no gradient itself; differentiate it once less"
    )


def test_transforms(ops):
    x, w, batch = torch.randn(3, 5, dtype=torch.float64), torch.rand(5, dtype=torch.float64), torch.randn(4, 3, 5).double()
    torch.library.opcheck(ops.derived_norm.default, (leaf(3, 5), leaf(5)))
    loss = lambda x, w: ops.derived_norm(x, w).sin().sum()  # noqa: E731
    its_loss = lambda x, w: functional.rms_norm(x, (5,), w, 1e-5).sin().sum()  # noqa: E731
    torch.testing.assert_close(torch.func.grad(loss, (0, 1))(x, w), torch.func.grad(its_loss, (0, 1))(x, w))
    each = torch.vmap(torch.func.grad(loss, (0, 1)), (0, None))(batch, w)
    torch.testing.assert_close(each, torch.vmap(torch.func.grad(its_loss, (0, 1)), (0, None))(batch, w))


def test_compiled(ops):
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, w: ops.derived_norm(x * 2, w).sin(), fullgraph=True, dynamic=True, backend="aot_eager")
    for rows in (3, 8):
        x, w = leaf(rows, 5), leaf(5)
        ours = torch.autograd.grad(compiled(x, w).sum(), (x, w))
        expected = torch.autograd.grad(functional.rms_norm(x * 2, (5,), w, 1e-5).sin().sum(), (x, w))
        torch.testing.assert_close(ours, expected)


def saved_of(call, *arguments):
    """Returns the dtypes and shapes of the tiles that a call keeps for its gradient."""
    kept = (each for each in saved_by(call, *arguments) if not each.requires_grad and each.numel())  # the tag has no elements
    return [(each.dtype, tuple(each.shape)) for each in kept]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("m, n, k", [(67, 45, 150), (1, 1, 1), (0, 4, 5), (4, 5, 0)], ids=str)
def test_a_product_that_is_saved(ops, m, n, k, dtype):
    x, w = leaf(m, k, dtype=dtype), leaf(k, n, dtype=dtype)
    xs, ws = x.detach().double().requires_grad_(), w.detach().double().requires_grad_()
    ones = torch.ones(m, n, dtype=dtype)
    expected = torch.autograd.grad(functional.silu(xs @ ws), (xs, ws), ones.double())
    for call in (ops.saved_product, ops.lean_product):
        close_to(torch.autograd.grad(call(x, w), (x, w), ones), expected, dtype)


def test_tiles_that_launches_save(ops):
    x, w = leaf(67, 150, dtype=torch.float32), leaf(150, 45, dtype=torch.float32)
    assert saved_of(ops.saved_product, x, w) == [(torch.float32, (6, 32, 32))] and saved_of(ops.lean_product, x, w) == []
    low = [each.detach().bfloat16().requires_grad_() for each in (x, w)]
    assert saved_of(ops.saved_product, *low) == [(torch.bfloat16, (6, 32, 32))]
    assert saved_of(ops.derived_norm, leaf(7, 48), leaf(48)) == []  # short rows are less work
    assert gradcheck(ops.saved_product, (leaf(5, 130), leaf(130, 3)))
    square, weight = leaf(64, 64), leaf(64, 64)
    assert len(saved_of(ops.saved_twice, square, weight)) == 2
    assert gradcheck(ops.saved_twice, (leaf(3, 40), leaf(40, 40)))


def test_saved_products_under_transforms(ops):
    x, w = leaf(40, 70, dtype=torch.float32), leaf(70, 40, dtype=torch.float32)
    expected = torch.autograd.grad(ops.lean_product(x, w).sum(), (x, w))
    loss = lambda x, w: ops.saved_product(x, w).sum()  # noqa: E731
    plain = x.detach(), w.detach()
    torch.testing.assert_close(torch.func.grad(loss, (0, 1))(*plain), expected)
    batch = torch.stack((plain[0], 2 * plain[0]))
    each = torch.func.vmap(torch.func.grad(loss, (0, 1)), (0, None))(batch, plain[1])
    torch.testing.assert_close([part[0] for part in each], list(expected))
    again = torch.utils.checkpoint.checkpoint(ops.saved_product, x, w, use_reentrant=False)
    torch.testing.assert_close(torch.autograd.grad(again.sum(), (x, w)), expected)
    for dynamic in (False, True):
        compiled = torch.compile(loss, fullgraph=True, dynamic=dynamic, backend="aot_eager")
        torch.testing.assert_close(torch.autograd.grad(compiled(x, w), (x, w)), expected)
    torch.library.opcheck(torch.ops.tt.saved_product.default, (x, w))
    with torch.autograd.forward_ad.dual_level():
        out = ops.saved_product(torch.autograd.forward_ad.make_dual(x, torch.ones_like(x)), w)
        assert torch.autograd.forward_ad.unpack_dual(out).tangent.shape == (40, 40)
    out = ops.saved_product(x, w)
    with torch.no_grad():
        out.zero_()
    torch.testing.assert_close(torch.autograd.grad(out, (x, w), torch.ones_like(out)), expected)
    (first,) = torch.autograd.grad(loss(x, w), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="its gradient is derived by the compiler, and that has no gradient itself"):
        first.sum().backward()
