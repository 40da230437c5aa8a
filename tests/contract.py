"""Checks one call for what torch requires of every operator: op(*args, **kwargs) with float64 tensors that require grad."""

import torch
from numerics import leaves, own_leaves
from threads import in_threads


def outputs(result):
    return [each for each in (result if isinstance(result, (tuple, list)) else [result]) if each is not None]


def with_gradients(args):
    """Returns a call's arguments with copies of the floating-point tensors, which require grad."""
    floating = [isinstance(a, torch.Tensor) and a.is_floating_point() for a in args]
    return tuple(a.clone().requires_grad_() if each else a for a, each in zip(args, floating))


def gradients(function, args, kwargs, incoming=None):
    """Results, and the gradients of every argument that requires grad, for the incoming gradients (default: ones)."""
    args, kwargs = own_leaves(args), own_leaves(kwargs)
    results = outputs(function(*args, **kwargs))
    wanted = [r for r in results if r.requires_grad]
    if not wanted:
        return results, ()
    incoming = incoming or [torch.ones_like(r) for r in wanted]
    return results, torch.autograd.grad(wanted, leaves(args, kwargs), incoming, allow_unused=True)


def assert_same(ours, expected):
    """Equal but for the rounding of another order of additions."""
    for a, b in zip(ours, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9, equal_nan=True)


def opcheck(op, args, kwargs):
    torch.library.opcheck(op, args, kwargs)
    torch.library.opcheck(op, torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, args), kwargs)


def gradcheck(op, args, kwargs):
    # The random incoming gradients of the batched check are what jacrev gives a backward operator.
    assert torch.autograd.gradcheck(lambda *a: op(*a, **kwargs), args, check_batched_grad=True, check_undefined_grad=False)


def compiles(op, args, kwargs, backend="aot_eager"):
    torch._dynamo.reset()
    compiled = torch.compile(lambda *a, **k: op(*a, **k), fullgraph=True, dynamic=True, backend=backend)
    for part in zip(gradients(compiled, args, kwargs), gradients(op, args, kwargs)):
        assert_same(*part)
    with torch.no_grad():
        assert_same(outputs(compiled(*args, **kwargs)), outputs(op(*args, **kwargs)))


def compiles_with_inductor(op, args, kwargs):
    compiles(op, args, kwargs, backend="inductor")


def exports(op, args, kwargs):
    class Module(torch.nn.Module):
        def forward(self, *tensors):
            return op(*tensors, **kwargs)

    tensors = torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, args)
    program = torch.export.export(Module(), tensors)
    assert_same(outputs(program.module()(*tensors)), outputs(op(*tensors, **kwargs)))


def vmaps(op, args, kwargs):
    """A batch of the first argument, in front and at the end; then of all tensors."""
    first, rest = args[0].detach(), tuple(a.detach() if isinstance(a, torch.Tensor) else a for a in args[1:])
    many = torch.stack([first, first * 0.5 + 1, -first])
    expected = [torch.stack(each) for each in zip(*(outputs(op(one, *rest, **kwargs)) for one in many))]
    assert_same(outputs(torch.vmap(lambda t: op(t, *rest, **kwargs))(many)), expected)
    moved = many.movedim(0, -1)
    assert_same(outputs(torch.vmap(lambda t: op(t, *rest, **kwargs), in_dims=-1)(moved)), expected)
    tensors = [a for a in rest if isinstance(a, torch.Tensor)]
    if not tensors:
        return

    def call(t, *batched):
        values = iter(batched)
        return op(t, *(next(values) if isinstance(a, torch.Tensor) else a for a in rest), **kwargs)

    stacks = [torch.stack([t, t * 2, t - 1]) if t.is_floating_point() else torch.stack([t, t, t]) for t in tensors]
    expected = [torch.stack(each) for each in zip(*(outputs(call(*one)) for one in zip(many, *stacks)))]
    assert_same(outputs(torch.vmap(call)(many, *stacks)), expected)


def func_grad(op, args, kwargs):
    where = tuple(i for i, a in enumerate(args) if isinstance(a, torch.Tensor) and a.requires_grad)
    plain = torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, args)

    def loss(*a):
        return sum((each * each).sum() for each in outputs(op(*a, **kwargs)) if each.is_floating_point())

    args = own_leaves(args)
    expected = torch.autograd.grad(loss(*args), [args[i] for i in where])
    assert_same(torch.func.grad(loss, argnums=where)(*plain), expected)
    many = tuple(torch.stack([a, a * 0.5]) if isinstance(a, torch.Tensor) and i in where else a for i, a in enumerate(plain))
    in_dims = tuple(0 if i in where else None for i in range(len(plain)))
    batched = torch.vmap(torch.func.grad(loss, argnums=where), in_dims=in_dims)(*many)
    for b in range(2):
        one = tuple(a[b] if i in where else a for i, a in enumerate(many))
        assert_same([g[b] for g in batched], torch.func.grad(loss, argnums=where)(*one))


def jacrev(op, args, kwargs):
    plain = torch.utils._pytree.tree_map_only(torch.Tensor, torch.Tensor.detach, args)
    expected = torch.autograd.functional.jacobian(lambda t: outputs(op(t, *plain[1:], **kwargs))[0], plain[0])
    assert_same([torch.func.jacrev(lambda t: outputs(op(t, *plain[1:], **kwargs))[0])(plain[0])], [expected])


def expanded_gradients(op, args, kwargs):
    """Incoming gradients of stride 0, and ones whose memory has another order."""
    dense, expected = gradients(op, args, kwargs)
    wanted = [r for r in dense if r.requires_grad]
    ones = [torch.ones((), dtype=r.dtype).expand(r.shape) for r in wanted]
    assert_same(gradients(op, args, kwargs, ones)[1], expected)
    reversed_axes = [torch.ones(r.shape[::-1], dtype=r.dtype).permute(tuple(range(r.dim() - 1, -1, -1))) for r in wanted]
    assert_same(gradients(op, args, kwargs, reversed_axes)[1], expected)


def noncontiguous(op, args, kwargs):
    """Arguments with gaps, and with their axes in another order, forward and gradient."""
    _, expected = gradients(op, args, kwargs)
    results = outputs(op(*args, **kwargs))

    def strided(tensor, reverse_axes):
        if not isinstance(tensor, torch.Tensor) or tensor.dim() == 0:
            return tensor
        if reverse_axes:
            order = list(range(tensor.dim()))[::-1]
            copy = tensor.detach().permute(order).contiguous().permute(order)
        else:
            copy = torch.full((*tensor.shape[:-1], tensor.shape[-1] * 2), 7.0).to(tensor.dtype)[..., ::2]
            copy.copy_(tensor.detach())
        return copy.requires_grad_(tensor.requires_grad)

    for reverse_axes in (False, True):
        given = tuple(strided(a, reverse_axes) for a in args)
        assert_same(outputs(op(*given, **kwargs)), results)
        assert_same(gradients(op, given, kwargs)[1], expected)


def two_threads(op, args, kwargs):
    expected = gradients(op, args, kwargs)

    def work():
        for _ in range(20):
            for part in zip(gradients(op, args, kwargs), expected):
                assert_same(*part)

    in_threads(work, [()] * 2)


def deterministic(op, args, kwargs):
    first = gradients(op, args, kwargs)
    for _ in range(3):
        for a, b in zip(gradients(op, args, kwargs), first):
            assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


CHECKS = [
    opcheck,
    gradcheck,
    compiles,
    exports,
    vmaps,
    func_grad,
    jacrev,
    expanded_gradients,
    noncontiguous,
    two_threads,
    deterministic,
]
