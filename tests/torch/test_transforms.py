"""torch.func: grad, vjp, jacrev, vmap and their combinations, without torch's slow loop."""

import pytest
import torch
from torch.func import grad, jacrev, vjp, vmap
from torch_rope import DOUBLE, close, data, loss, rope


@pytest.fixture
def both(ops):
    """Compares what a function of an operator gives for ours and for torch's."""

    def compare(f, tol=1e-10):
        close(f(ops.rope), f(rope), tol)

    return compare


def detached(*lead):
    x, c, s = data(lead=lead)
    return x.detach(), c, s


def test_grad_vjp_jacrev(both, ops):
    x, c, s = detached(2)
    both(lambda f: grad(lambda x: loss(f, x, c, s))(x))
    both(lambda f: jacrev(lambda x: f(x, c, s))(x))
    both(lambda f: vjp(lambda x: f(x, c, s), x)[1]((torch.ones(2, 5, 8, dtype=x.dtype), torch.ones(2, 5, dtype=x.dtype))))
    close(grad(grad(lambda x: ops.ex(x).sum()))(x[0, 0, 0]), x[0, 0, 0].exp())
    with pytest.raises(NotImplementedError) as error:
        grad(lambda x: grad(lambda x: loss(ops.rope, x, c, s))(x).sum())(x)
    assert str(error.value) == DOUBLE


def test_vmap(both):
    x, c, s = detached(4, 2, 3)
    angle = torch.randn(4, 5, 4, dtype=x.dtype)
    both(lambda f: vmap(f, (1, None, None))(x, c, s))
    both(lambda f: vmap(f, (None, 0, 0))(x, angle[0:4, :, :].cos(), angle.sin()))
    both(lambda f: vmap(vmap(f, (0, None, None)), (1, None, None))(x, c, s))
    y = x[:, 0]
    both(lambda f: vmap(vmap(f, (0, None, None)), (0, None, None))(y, c, s))


def test_vmap_and_grad(both):
    x, c, s = detached(4, 2, 3)
    w = torch.randn(8, dtype=x.dtype)
    both(lambda f: vmap(grad(lambda w, x: loss(f, x * w, c, s)), (None, 0))(w, x))
    both(lambda f: grad(lambda x: vmap(lambda a: f(a, c, s)[0].sin().sum())(x).sum())(x))
    both(lambda f: vmap(jacrev(lambda x: f(x, c, s)))(x[:, 0, 0]))


def norm(x, w=None):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], w)


def test_saved_results(ops):
    x, w = torch.randn(3, 2, 8, dtype=torch.float64), torch.randn(8, dtype=torch.float64)
    ws = torch.randn(3, 8, dtype=torch.float64)
    for f in (
        lambda n: grad(lambda x: n(x, w).sin().sum())(x),
        lambda n: vmap(grad(lambda x, w: n(x, w).sin().sum(), (0, 1)), (0, None))(x, w),
        lambda n: vmap(grad(lambda x, w: n(x, w).sin().sum(), (0, 1)), (0, 0))(x, ws),
        lambda n: grad(lambda x, w: vmap(n, (0, None))(x, w).sin().sum(), (0, 1))(x, w),
        lambda n: grad(lambda x: vmap(vmap(n))(x).sin().sum())(x),
        lambda n: jacrev(n)(x[0], w),
        lambda n: vmap(jacrev(n))(x),
        lambda n: grad(lambda x: vmap(grad(lambda x: n(x).sum()))(x * 1).detach().sum() + n(x).sum())(x),
    ):
        close(f(ops.norm), f(norm), 1e-9)


def test_folded(ops):
    def center(x, shift=None):
        y = x - x.mean(-1, keepdim=True)
        return y if shift is None else y + shift[..., None, None]

    x, shift = torch.randn(4, 2, 3, 5), torch.randn(4, 2)
    close(vmap(ops.center)(x), center(x), 1e-6)
    close(vmap(ops.center, (1, None))(x.transpose(0, 1), shift[0]), center(x, shift[0]), 1e-6)
    close(vmap(ops.center, (0, 1))(x, shift.t()), center(x, shift), 1e-6)
    close(vmap(ops.center, (None, 0))(x[0], shift), center(x[:1], shift), 1e-6)
    close(vmap(ops.center, (0, None))(x, shift[0, :1]), center(x, shift[0, :1]), 1e-6)
    close(vmap(vmap(ops.center))(x[None]), center(x)[None], 1e-6)
    assert vmap(ops.center)(torch.randn(0, 2, 3, 5)).shape == (0, 2, 3, 5)
    assert vmap(ops.center)(torch.randn(3, 0, 3, 5)).shape == (3, 0, 3, 5)


def test_loop_and_own_rule(ops):
    x = torch.randn(3, 4, 2)
    assert torch.equal(vmap(ops.looped)(x), x.flatten(1))
    assert vmap(ops.looped)(x[:0]).shape == (0, 8)
    w, ws = torch.randn(5), torch.randn(3, 5)
    close(vmap(ops.ruled, (0, None))(x, w), x * w.sum(), 1e-5)
    close(vmap(ops.ruled)(x, ws), x * ws.sum(1)[:, None, None], 1e-5)


def test_lists(ops):
    xs = [torch.randn(4, 3, dtype=torch.float64) for _ in range(2)]
    y = torch.randn(3, dtype=torch.float64)
    got = vmap(lambda a, b: ops.weigh([a, b], [None, y], [1.0, 2.0]))(*xs)
    close(got, xs[0] + 2 * xs[1] * y)
    a, b = vmap(lambda x: tuple(ops.twins(x)))(xs[0])
    close((a, b), (2 * xs[0], 3 * xs[0]))
    got = vmap(grad(lambda a: ops.weigh([a, xs[1][0]], [y, None], [1.0, 2.0]).sin().sum()))(xs[0])
    close(got, (xs[0] * y + 2 * xs[1][0]).cos() * y)


def test_mutating(ops):
    x, mask = torch.ones(3, 4), torch.eye(3, 4)
    vmap(lambda x, m: ops.scale_(x, 3.0, m), (1, 1), out_dims=None)(x, mask)
    assert torch.equal(x, 1 + 2 * mask)
    with pytest.raises(ValueError) as error:
        vmap(lambda m: ops.scale_(x, 3.0, m), out_dims=None)(torch.ones(2, 3, 4))
    assert str(error.value) == (
        "tt::scale_: vmap: 'input' is written for each sample of 'mask', but has no batch extent; give it one (in_dims)"
    )
