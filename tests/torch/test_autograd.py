"""Reverse mode in eager: values, the graph's rules, second derivatives, and explicit errors where there is no
formula."""

import gc
import resource

import pytest
import torch
from torch.autograd import grad, gradcheck, gradgradcheck
from torch.utils.checkpoint import checkpoint
from torch_rope import DOUBLE, close, data, loss, rope


def test_values_and_gradients(ops):
    x, c, s = data()
    close(ops.rope(x, c, s, 0.5), rope(x, c, s, 0.5))
    close(grad(loss(ops.rope, x, c, s), x), grad(loss(rope, x, c, s), x))
    close(grad(ops.rope(x, c, s)[1].sum(), x), (2 * x.detach(),))
    expanded = torch.randn(5, 1, dtype=x.dtype).expand(5, 8)
    close(grad(ops.rope(x, c, s)[0], x, expanded.expand_as(x)), grad(rope(x, c, s)[0], x, expanded.expand_as(x)))


def test_only_what_requires_grad_has_a_node(ops):
    x, c, s = data()
    y, m = ops.rope(x, c, s)
    assert y.grad_fn is m.grad_fn and y.grad_fn.name() == "tt::ropeBackward"
    with torch.no_grad():
        assert ops.rope(x, c, s)[0].grad_fn is None
    with torch.inference_mode():
        assert ops.rope(x, c, s)[0].is_inference()
    assert ops.rope(x.detach(), c, s)[0].grad_fn is None


def test_backward_twice(ops):
    x, c, s = data()
    value = loss(ops.rope, x, c, s)
    value.backward()
    with pytest.raises(RuntimeError, match="second time"):
        value.backward()


def test_modified_saved_tensor(ops):
    x, c, s = data()
    z = x * 1
    y, _ = ops.rope(z, c, s)
    with torch.no_grad():
        z.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        y.sum().backward()


def test_hooks_and_checkpoint(ops):
    x, c, s = data()
    (want,) = grad(loss(rope, x, c, s), x)
    with torch.autograd.graph.save_on_cpu():
        value = loss(ops.rope, x, c, s)
    close(grad(value, x)[0], want)
    checkpoint(lambda x: loss(ops.rope, x, c, s), x, use_reentrant=False).backward()
    close(x.grad, want)
    seen = []
    y, m = ops.rope(x, c, s)
    y.register_hook(seen.append)
    y.grad_fn.register_hook(lambda grads, _: seen.append(grads[0]))
    (y.sum() + m.sum()).backward()
    assert len(seen) == 2


@pytest.mark.slow
def test_no_leak(ops, device):
    def held():
        return (
            torch.cuda.memory_allocated()
            if device.type == "cuda"
            else 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        )

    x, c, s = data(torch.float32, (64, 8))
    z = torch.randn(64, 400, requires_grad=True)
    for _ in range(20):
        ops.rope(x, c, s)[0].sum().backward(), ops.ex(z), ops.norm(z)
    gc.collect()
    before = held()
    for _ in range(1000):  # graphs dropped without a backward; ex saves its own result, norm hidden ones
        ops.rope(x, c, s), ops.ex(z), ops.norm(z)
    assert held() - before < 30e6


def test_gradcheck(ops):
    x, c, s = data(lead=(2,))
    assert gradcheck(lambda x: ops.rope(x, c, s, 0.5), (x,), check_batched_grad=True)
    w = torch.rand(8, dtype=x.dtype, requires_grad=True)
    assert gradcheck(ops.norm, (x, w), check_batched_grad=True)
    assert gradcheck(ops.norm, (x.transpose(0, 1), None), check_batched_grad=True)
    assert gradcheck(ops.ex, (x,), check_batched_grad=True) and gradgradcheck(ops.ex, (x,))


def test_second_derivative_through_a_hidden_result(ops):
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    y = ops.ex_hidden(x)
    assert y.grad_fn.next_functions[0][0].name() == "torch::autograd::AccumulateGrad"
    (first,) = grad(y.sum(), x, create_graph=True)  # grad_y needs no gradient: only what is hidden depends on x
    assert first.requires_grad
    (second,) = grad(first.sum(), x, create_graph=True, retain_graph=True)
    close((first, second), (y, y))
    assert gradcheck(ops.ex_hidden, (x,)) and gradgradcheck(ops.ex_hidden, (x,))
    once = torch.func.grad(lambda x: ops.ex_hidden(x).sum())
    close(torch.func.grad(lambda x: once(x).sum())(x.detach()), x.exp())
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = ops.ex_hidden(x)
    close(grad(grad(y.sum(), x, create_graph=True)[0].sum(), x), (y,))


def test_two_threads(ops):
    x, c, s = data()
    (want,) = grad(loss(rope, x, c, s), x)
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        for got in pool.map(lambda _: grad(loss(ops.rope, x, c, s), x)[0], range(20)):
            close(got, want)


def test_double_backward_is_an_error(ops):
    x, c, s = data()
    (g,) = grad(loss(ops.rope, x, c, s), x, create_graph=True)
    with pytest.raises(NotImplementedError) as error:
        g.sum().backward()
    assert str(error.value) == DOUBLE


def test_no_gradient_at_all_is_an_error(ops):
    x = torch.randn(3, requires_grad=True)
    y = ops.looped(x)
    with pytest.raises(NotImplementedError) as error:
        y.sum().backward()
    assert str(error.value) == (
        "tt::looped: has no gradient; call it under torch.no_grad() or on detached tensors (the operator's author can "
        "define one: docs/writing_an_operator.md)"
    )


def test_argument_without_gradient_is_an_error(ops):
    x, c, s = data()
    y, _ = ops.rope(x, c.requires_grad_(), s)
    with pytest.raises(NotImplementedError) as error:
        y.sum().backward()
    assert str(error.value) == "tt::rope: has no gradient for 'cos', which requires grad; detach it"
    close(grad(ops.rope(x, c, s)[0].sum(), x), grad(rope(x, c, s)[0].sum(), x))  # not asked for: fine


def test_forward_mode_of_what_is_no_kernel_is_an_error(ops):
    x, c, s = (t.detach() for t in data())
    text = (
        "tt::rope: its run calls aten::mul on a tensor with a tangent, so it has no forward-mode derivative; compute it in "
        "a kernel, or use reverse mode"
    )
    with pytest.raises(NotImplementedError) as error:
        torch.func.jvp(lambda x: ops.rope(x, c, s)[1], (x,), (torch.ones_like(x),))
    assert str(error.value) == text
    with (
        torch.autograd.forward_ad.dual_level(),
        pytest.raises(NotImplementedError, match="tt::scale_: writes into its arguments and has no forward-mode derivative"),
    ):
        ops.scale_(torch.autograd.forward_ad.make_dual(x, x), 2.0)


def test_lists_of_tensors(ops):
    xs = [torch.randn(3, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    ys = [torch.randn(3, dtype=torch.float64), None, torch.randn(3, dtype=torch.float64)]
    w = [1.0, 2.0, 3.0]

    def plain(xs):
        return sum(x * w * (1 if y is None else y) for x, y, w in zip(xs, ys, w))

    close(ops.weigh(xs, ys, w), plain(xs))
    close(grad(ops.weigh(xs, ys, w).sin().sum(), xs), grad(plain(xs).sin().sum(), xs))
    close(grad(ops.weigh(xs, ys, w).sum(), xs[2]), grad(plain(xs).sum(), xs[2]))
    # No check_batched_grad: the vmap behind it (torch._vmap_internals) knows no lists of tensors.
    assert gradcheck(lambda *xs: ops.weigh(xs, ys, w), tuple(xs))
    x = xs[0]
    a, b = ops.twins(x)
    close(grad(a.sum() + b.sin().sum(), x), (2 + 3 * (3 * x.detach()).cos(),))
    close(grad(ops.twins(x)[1].sum(), x), (torch.full_like(x, 3),))
    assert gradcheck(lambda x: tuple(ops.twins(x)), (x,))
    ys[0] = ys[0].clone().requires_grad_()
    with pytest.raises(NotImplementedError, match="has no gradient for 'ys'"):
        ops.weigh(xs, ys, w).sum().backward()


def test_one_gradient_of_two_arguments(ops):
    x, y, factor = (torch.randn(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    assert gradcheck(ops.plus, (x, y, factor), check_batched_grad=True)
    for wanted in ([x], [y], [factor], [x, y], [y, factor]):
        out, total = ops.plus(x, y, factor)
        expected = grad(((x + y) * factor + (x + y).sin()).sum(), wanted)
        close(grad(out.sum() + total.sin().sum(), wanted), expected)
    ops.plus(x, y, factor)[0].sum().backward()
    with torch.no_grad():
        x.grad += 1  # that of y is another tensor
    close(y.grad, factor)
    z = x.detach().requires_grad_()
    ops.plus(z, z, factor)[1].sum().backward()
    close(z.grad, torch.full_like(z, 2))


def test_mutating(ops):
    x = torch.ones(4)
    version = x._version
    assert ops.scale_(x, 3.0) is None
    assert x.tolist() == [3.0] * 4 and x._version == version + 1
    y = (torch.ones(4, requires_grad=True) * 2).exp()
    with torch.no_grad():
        ops.scale_(y, 2.0)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        y.sum().backward()
    with pytest.raises(RuntimeError) as error:
        ops.scale_(torch.ones(4, requires_grad=True), 1.0)
    assert str(error.value) == (
        "tt::scale_: writes into its arguments and has no gradient, but 'input' requires grad; call it under torch.no_grad()"
    )
    many = [torch.ones(2), torch.ones(3, 1)]
    ops.zero_all_(many)
    assert all(t._version == 1 and not t.any() for t in many)
