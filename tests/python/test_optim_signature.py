"""Tests that tile_ops.optim.AdamW accepts what torch's does: its signature, each option, and groups that set options."""

import inspect

import pytest
import tile_ops.optim
import torch
from tile_ops.optim import AdamW

NOT_HERE = "tile_ops.optim.AdamW: a param group has {}; use torch.optim.AdamW for it"


def parameters():
    generator = torch.Generator(torch.get_default_device()).manual_seed(3)
    params = [torch.randn(size, generator=generator).requires_grad_() for size in ((5, 7), (130,), ())]
    for param in params:
        param.grad = torch.randn(param.shape, generator=generator)
    return params


def stepped(kind, **options):
    params = parameters()
    optimizer = kind(params, **options)
    for _ in range(3):
        optimizer.step()
    return optimizer, params


def test_the_signature_is_torchs():
    ours, theirs = (inspect.signature(kind).parameters for kind in (AdamW, torch.optim.AdamW))
    assert [(each.name, each.kind, each.default) for each in ours.values()] == [
        (each.name, each.kind, each.default) for each in theirs.values()
    ]
    assert all(each.annotation is not each.empty for each in ours.values())


@pytest.mark.parametrize(
    "options",
    [{"fused": True}, {"fused": False}, {"foreach": True}, {"foreach": False, "fused": True}, {"capturable": True},
     {"capturable": True, "foreach": True, "lr": torch.tensor(0.1)}, {"maximize": True, "amsgrad": True, "fused": True},
     {"betas": (torch.tensor(0.5), torch.tensor(0.75))}],
    ids=lambda options: " ".join(options),
)  # fmt: skip
def test_each_option_gives_torchs_steps(options):
    """Compares with torch's plain loop, which takes every option on every device."""
    optimizer, ours = stepped(AdamW, **options)
    reference = {name: value for name, value in options.items() if name not in ("fused", "foreach", "capturable")}
    other, theirs = stepped(torch.optim.AdamW, **reference, foreach=False)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)
    group = optimizer.param_groups[0]
    assert (group["fused"], group["foreach"]) == (True, None)
    assert group["capturable"] == options.get("capturable", False)
    assert set(group) == set(other.param_groups[0])
    for state in optimizer.state.values():
        assert state["step"].device == ours[0].device and state["step"].dtype == torch.float32


@pytest.mark.parametrize("theirs", [{"capturable": True}, {"foreach": True}, {"fused": True}, {"foreach": False}],
                         ids=lambda options: str(options))  # fmt: skip
def test_state_dicts_of_each_choice_load(theirs):
    first = torch.optim.AdamW(parameters(), lr=0.1)
    first.step()
    for group in first.param_groups:  # torch can step such groups only on a GPU
        group.update({"foreach": None, **theirs})
    ours = AdamW(parameters(), lr=0.5)
    ours.load_state_dict(first.state_dict())
    assert [state["step"].item() for state in ours.state.values()] == [1.0] * 3
    assert ours.param_groups[0]["lr"] == 0.1 and ours.param_groups[0]["capturable"] == theirs.get("capturable", False)
    back = torch.optim.AdamW(parameters(), lr=0.7)
    back.load_state_dict(ours.state_dict())
    back.step()
    ours.step()
    for a, b in zip(ours.param_groups[0]["params"], back.param_groups[0]["params"], strict=True):
        torch.testing.assert_close(a, b)


def test_named_parameters_and_new_groups():
    model = torch.nn.Linear(3, 2)
    optimizer = AdamW(model.named_parameters(), fused=False)
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    optimizer.add_param_group({"params": torch.nn.Linear(2, 2).named_parameters(prefix="more"), "foreach": True})
    assert [(group["fused"], group["foreach"]) for group in optimizer.param_groups] == [(True, None)] * 2


def message(kind, call):
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


def test_what_is_not_there_is_an_error():
    params, tensors = parameters(), (torch.tensor(0.5), torch.tensor(0.75))
    wanted = NOT_HERE.format("differentiable=True")
    assert message(NotImplementedError, lambda: AdamW(params, differentiable=True)) == wanted
    assert message(NotImplementedError, lambda: AdamW([{"params": params, "differentiable": True}])) == wanted
    group = {"params": [torch.ones(2, requires_grad=True)], "differentiable": True}
    assert message(NotImplementedError, lambda: AdamW(params).add_param_group(group)) == wanted
    wanted = NOT_HERE.format("capturable=True and betas that are tensors")
    assert message(NotImplementedError, lambda: AdamW(params, betas=tensors, capturable=True)) == wanted
    assert message(RuntimeError, lambda: AdamW(params, fused=True, foreach=True)) == (
        "tile_ops.optim.AdamW: fused and foreach are both True; pass at most one: there is only one loop"
    )


def test_every_optimizer_has_a_doc():
    for kind in (AdamW, AdamW.step, AdamW.add_param_group, tile_ops.optim):
        assert kind.__doc__
