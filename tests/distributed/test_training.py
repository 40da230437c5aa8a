"""Tests in two processes that FSDP2 and DDP with tile_ops.optim.AdamW train as in one: clipping, checkpoints, compile."""

import tempfile

import processes
import pytest
from processes import case

outcome = processes.fixture(2)
CASES = []


@pytest.mark.parametrize("name", [
    "fsdp2", "fsdp2_compiled", "fsdp2_with_clipped_gradients", "fsdp2_with_mixed_precision", "fsdp2_with_amsgrad",
    "fsdp2_checkpoint", "fsdp2_states_are_torch_s", "ddp",
])  # fmt: skip
def test_trains_as_one_process(outcome, name):
    outcome(name)


def _sharded(model, **options):
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import init_device_mesh

    mesh = init_device_mesh(next(model.parameters()).device.type, (dist.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def _train(model, optimizer, device, steps=3, clip=None):
    """Trains each rank on its part of the batch; returns (losses of the whole batch, gradients of the first step)."""
    import distributed_models as dm
    import torch
    import torch.distributed as dist

    losses, gradients = [], {}
    for tokens, targets in dm.batches(device, steps):
        tokens, targets = (each.chunk(dist.get_world_size())[dist.get_rank()] for each in (tokens, targets))
        loss = dm.loss_of(model(tokens), targets)
        optimizer.zero_grad()
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        gradients = gradients or {name: dm.full_tensor(param.grad).clone() for name, param in model.named_parameters()}
        optimizer.step()
        loss = loss.detach().clone()
        dist.all_reduce(loss)
        losses.append(loss / dist.get_world_size())
    return losses, gradients


def _compare(device, prepare=_sharded, clip=None, **options):
    import distributed_models as dm
    import tile_ops
    import torch

    start = dm.model(device)
    adamw = lambda params: tile_ops.optim.AdamW(params, lr=1e-2, **options)  # noqa: E731
    losses, gradients, alone = dm.trained_alone(start, device, clip=clip, optimizer=adamw)
    model = prepare(start)
    found, found_gradients = _train(model, adamw(model.parameters()), device, clip=clip)
    torch.testing.assert_close(torch.stack(found), torch.stack(losses), rtol=1e-4, atol=1e-5)
    plain = lambda items: [(name.replace("module.", "").replace("_orig_mod.", ""), each) for name, each in items]  # noqa: E731
    dm.assert_same(plain(found_gradients.items()), gradients, rtol=1e-3, atol=1e-5)
    dm.assert_same(plain(model.named_parameters()), alone.named_parameters())


@case
def fsdp2(device):
    _compare(device)


@case
def fsdp2_with_amsgrad(device):
    _compare(device, amsgrad=True, maximize=True)


@case
def fsdp2_with_clipped_gradients(device):
    _compare(device, clip=0.1)


@case
def fsdp2_compiled(device):
    import torch

    _compare(device, lambda model: torch.compile(_sharded(model), backend="aot_eager"))


@case
def ddp(device):
    from torch.nn.parallel import DistributedDataParallel

    _compare(device, DistributedDataParallel)


@case
def fsdp2_with_mixed_precision(device):
    """Uses bfloat16 in the layers and float32 for parameters and reduced gradients; each step must be torch's.

    Both optimizers get the same parameters and gradients: bfloat16 would amplify differences of one bit from step to step.
    """
    import distributed_models as dm
    import tile_ops
    import torch
    import torch.distributed as dist
    from torch.distributed.fsdp import MixedPrecisionPolicy

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    ours, theirs = (_sharded(dm.model(device), mp_policy=policy) for _ in range(2))
    optimizers = tile_ops.optim.AdamW(ours.parameters(), lr=1e-2), torch.optim.AdamW(theirs.parameters(), lr=1e-2)
    for tokens, targets in dm.batches(device, 3):
        tokens, targets = (each.chunk(dist.get_world_size())[dist.get_rank()] for each in (tokens, targets))
        dm.loss_of(ours(tokens), targets).backward()
        for own, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert own.dtype == own.grad.dtype == torch.float32
            with torch.no_grad():
                other.copy_(own)
            other.grad = own.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        expected = {name: dm.full_tensor(each) for name, each in theirs.named_parameters()}
        dm.assert_same(ours.named_parameters(), expected, rtol=1e-5, atol=1e-6)


@case
def fsdp2_states_are_torch_s(device):
    """Loads a sharded state_dict from torch's AdamW into ours and back, and continues training."""
    import copy

    import distributed_models as dm
    import tile_ops
    import torch

    start = _sharded(dm.model(device))
    first = torch.optim.AdamW(start.parameters(), lr=1e-2)
    _train(start, first, device, steps=1)
    kept = {name: param.detach().clone() for name, param in start.named_parameters()}
    states = copy.deepcopy(first.state_dict())
    ours = tile_ops.optim.AdamW(start.parameters(), lr=1e-2)
    ours.load_state_dict(copy.deepcopy(states))
    _train(start, ours, device, steps=1)
    found = {name: dm.full_tensor(param.detach()).clone() for name, param in start.named_parameters()}
    with torch.no_grad():
        for name, param in start.named_parameters():
            param.copy_(kept[name])
    second = torch.optim.AdamW(start.parameters(), lr=1e-2)
    second.load_state_dict(states)
    _train(start, second, device, steps=1)
    dm.assert_same(start.named_parameters(), found)
    second.load_state_dict(ours.state_dict())
    _train(start, second, device, steps=1)


@case
def fsdp2_checkpoint(device):
    """Saves and loads by torch.distributed.checkpoint; the loaded model must train exactly as the saved one continues."""
    import distributed_models as dm
    import tile_ops
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    model = _sharded(dm.model(device))
    optimizer = tile_ops.optim.AdamW(model.parameters(), lr=1e-2)
    _train(model, optimizer, device, steps=2)
    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)
    states = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))
    dcp.save(states, checkpoint_id=folder[0])
    _train(model, optimizer, device, steps=2)

    other = dm.model(device)
    for param in other.parameters():
        param.data.zero_()
    other = _sharded(other)
    another = tile_ops.optim.AdamW(other.parameters(), lr=1e-2)
    loaded = dict(zip(("model", "optimizer"), get_state_dict(other, another)))
    dcp.load(loaded, checkpoint_id=folder[0])
    set_state_dict(other, another, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"])
    _train(other, another, device, steps=2)
    dm.assert_same(
        other.named_parameters(), {name: dm.full_tensor(each) for name, each in model.named_parameters()}, rtol=0, atol=0
    )
