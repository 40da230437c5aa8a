"""tile_ops.optim.AdamW against torch.optim.AdamW: steps, options, states that change hands, GradScaler, torch.compile."""

import copy
import pickle

import pytest
import torch
from numerics import check
from tile_ops.optim import AdamW
from torch.nn.functional import mse_loss

OPTIONS = {
    "usual": {},
    "amsgrad": {"amsgrad": True},
    "maximize": {"maximize": True},
    "no decay": {"weight_decay": 0.0, "lr": 0.1},
    "betas": {"betas": (0.5, 0.9), "eps": 1e-3},
    "first beta 0": {"betas": (0.0, 0.9)},
}


def parameters(dtype=torch.float32, sizes=((5, 7), (130,), (), (0, 3), (2, 3, 4))):
    return [torch.randn(size).to(dtype).requires_grad_() for size in sizes]


def copies(params, dtype=None):
    return [p.detach().clone().to(dtype or p.dtype).requires_grad_() for p in params]


def give_gradients(*lists):
    for params in zip(*lists):
        grad = torch.randn_like(params[0])
        for param in params:
            param.grad = grad.to(param.dtype)


def assert_close(a, b):
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(x, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", OPTIONS)
def test_many_steps(dtype, name):
    ours = parameters(dtype, ((40, 70), (3001,), (1,)))
    theirs, exact = copies(ours), copies(ours, torch.float64)
    optimizers = [
        AdamW(ours, **OPTIONS[name]),
        torch.optim.AdamW(theirs, fused=True, **OPTIONS[name]),
        torch.optim.AdamW(exact, foreach=False, **OPTIONS[name]),
    ]
    for _ in range(20):
        give_gradients(ours, theirs, exact)
        for optimizer in optimizers:
            optimizer.step()
    # 20 roundings to 16 bits are a walk: each is of the same distribution, and maxima are compared over all.
    join = lambda params: torch.cat([p.detach().flatten() for p in params])  # noqa: E731
    check(join(ours), join(theirs), join(exact), what=name)
    for key in optimizers[0].state[ours[0]]:
        check(
            *(join([o.state[p][key] for p in params]) for o, params in zip(optimizers, (ours, theirs, exact))),
            what=f"{name}: {key}",
        )


def test_groups_dtypes_and_missing_gradients():
    ours = parameters() + parameters(torch.float64) + parameters(torch.bfloat16)
    theirs = copies(ours)
    optimizers = []
    for kind, params in ((AdamW, ours), (torch.optim.AdamW, theirs)):
        optimizer = kind([{"params": params[:6]}, {"params": params[6:9], "lr": 0.3, "weight_decay": 0.5}], lr=0.01)
        optimizer.add_param_group({"params": params[9:], "amsgrad": True})
        optimizers.append(optimizer)
    for index in range(4):
        give_gradients(ours, theirs)
        ours[index].grad = theirs[index].grad = None
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        assert all(p.grad is None for p in ours)
    for a, b in zip(ours, theirs):
        torch.testing.assert_close(a, b, **({"rtol": 2e-2, "atol": 1e-2} if a.dtype == torch.bfloat16 else {}))
    assert AdamW([torch.ones(3, requires_grad=True)]).step() is None  # nothing to do


def test_tensor_lr_and_scheduler():
    ours = parameters()
    theirs = copies(ours)
    optimizers = AdamW(ours, lr=torch.tensor(0.1)), torch.optim.AdamW(theirs, lr=0.1)
    schedulers = [torch.optim.lr_scheduler.ExponentialLR(o, 0.5) for o in optimizers]
    for _ in range(4):
        give_gradients(ours, theirs)
        for optimizer, scheduler in zip(optimizers, schedulers):
            optimizer.step()
            scheduler.step()
    assert_close(ours, theirs)
    assert isinstance(optimizers[0].param_groups[0]["lr"], torch.Tensor)


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("fused", [None, True])
def test_states_change_hands(amsgrad, fused):
    """Each goes on with the other's state."""
    ours = parameters()
    theirs = copies(ours)
    for _ in range(2):
        make = [lambda p: AdamW(p, amsgrad=amsgrad), lambda p: torch.optim.AdamW(p, amsgrad=amsgrad, fused=fused)]
        first, second = make[0](ours), make[1](theirs)
        for index in range(3):
            give_gradients(ours, theirs)
            first.step(), second.step()
        swapped = make[0](ours), make[1](theirs)
        swapped[0].load_state_dict(second.state_dict())
        swapped[1].load_state_dict(first.state_dict())
        for index in range(3):
            give_gradients(ours, theirs)
            for optimizer in swapped:
                optimizer.step()
        assert_close(ours, theirs)
        assert [s["step"].item() for s in swapped[0].state.values()] == [6] * len(ours)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies(again):
    ours = parameters()
    optimizer = AdamW(ours, lr=0.1)
    give_gradients(ours)
    optimizer.step()
    twin = again(optimizer)
    theirs = [p for group in twin.param_groups for p in group["params"]]
    give_gradients(ours, theirs)
    optimizer.step(), twin.step()
    assert_close(ours, theirs)


def test_closure():
    weight = torch.tensor([3.0], requires_grad=True)
    optimizer = AdamW([weight], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (weight * weight).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 9 and weight.item() < 3


def test_grad_scaler(device):
    """A step with an infinity does nothing; the others are those of the gradients without the scale."""
    models = [torch.nn.Linear(4, 3) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    ours, theirs = (kind(m.parameters(), lr=0.1) for kind, m in zip((AdamW, torch.optim.AdamW), models))
    scaler = torch.amp.GradScaler(device.type, init_scale=1024.0, growth_interval=2)
    for index in range(5):
        x = torch.randn(6, 4)
        if index == 2:
            x[0, 0] = torch.inf
        scaler.scale(models[0](x).square().mean()).backward()
        if index == 4:
            scaler.unscale_(ours)
        scaler.step(ours)
        scaler.update()
        ours.zero_grad()
        if index != 2:
            models[1](x).square().mean().backward()
            theirs.step()
            theirs.zero_grad()
        assert_close(models[0].parameters(), models[1].parameters())
    assert all(state["step"] == 4 for state in ours.state.values())


def test_training_gives_torchs_losses():
    models = [torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    x = torch.randn(64, 8)
    y, losses = x.sin().sum(1, keepdim=True), []
    for model, kind in zip(models, (AdamW, torch.optim.AdamW)):
        optimizer = kind(model.parameters(), lr=0.01)
        for _ in range(60):
            optimizer.zero_grad()
            loss = mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-3) and losses[0] < 0.2 * y.square().mean().item()


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_compiled_step(backend):
    torch._dynamo.reset()
    ours = parameters()
    theirs = copies(ours)
    optimizer, plain = AdamW(ours, lr=0.1), torch.optim.AdamW(theirs, lr=0.1)
    step = torch.compile(lambda: optimizer.step(), backend=backend)
    for _ in range(3):
        give_gradients(ours, theirs)
        step(), plain.step()
        assert_close(ours, theirs)


def test_errors():
    table = torch.nn.Embedding(5, 3, sparse=True)
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(RuntimeError) as error:
        AdamW(table.parameters()).step()
    assert str(error.value) == (
        "tile_ops.optim.AdamW: a gradient has layout torch.sparse_coo; use torch.optim.SparseAdam, or convert it with "
        "to_dense()"
    )
    weight = torch.ones(2, dtype=torch.complex64, requires_grad=True)
    weight.grad = torch.ones_like(weight)
    with pytest.raises(TypeError) as error:
        AdamW([weight]).step()
    assert str(error.value) == (
        "tile_ops.optim.AdamW: a parameter is complex64; it must be float16, bfloat16, float32 or float64"
    )
    weight = torch.ones(2, requires_grad=True)
    state = torch.optim.AdamW([weight], differentiable=True).state_dict()
    with pytest.raises(NotImplementedError) as error:
        AdamW([weight]).load_state_dict(state)
    assert str(error.value) == ("tile_ops.optim.AdamW: a param group has differentiable=True; use torch.optim.AdamW for it")
    with pytest.raises(ValueError, match="Invalid learning rate: -1"):
        AdamW([weight], lr=-1)
