"""Tests in four processes FSDP2 around tensor-parallel blocks, and FSDP2 with replicas, on a 2 x 2 mesh."""

import processes
import pytest
from processes import case

outcome = processes.fixture(4)
CASES = []


@pytest.mark.parametrize("name", ["fsdp2_of_tensor_parallel", pytest.param("fsdp2_of_replicas", marks=pytest.mark.long)])
def test_trains_as_one_process(outcome, name):
    outcome(name)


def _compare(device, names, prepare):
    import distributed_models as dm
    import tile_ops
    import torch
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor, Replicate, distribute_tensor, init_device_mesh

    mesh = init_device_mesh(device.split(":")[0], (2, 2), mesh_dim_names=names)
    start = dm.model(device)
    losses, gradients, alone = dm.trained_alone(start, device, clip=0.5)
    model, over, parallel = prepare(start, mesh)
    for block in model.blocks:
        fully_shard(block, mesh=over)
    fully_shard(model, mesh=over)
    optimizer = tile_ops.optim.AdamW(model.parameters(), lr=1e-2)
    chunks, chunk = (2, mesh.get_local_rank("data")) if parallel else (4, dist.get_rank())
    found, first = [], {}
    for tokens, targets in dm.batches(device):
        tokens, targets = (each.chunk(chunks)[chunk] for each in (tokens, targets))
        logits = model(tokens)
        if isinstance(logits, DTensor):
            targets = distribute_tensor(targets, mesh["heads"], [Replicate()])
        loss = dm.loss_of(logits, targets)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        first = first or {name: dm.full_tensor(param.grad).clone() for name, param in model.named_parameters()}
        optimizer.step()
        loss = dm.full_tensor(loss.detach()).clone()
        dist.all_reduce(loss)
        found.append(loss / 4)
    torch.testing.assert_close(torch.stack(found), torch.stack(losses), rtol=1e-4, atol=1e-5)
    dm.assert_same(first.items(), gradients, rtol=1e-3, atol=1e-5)
    dm.assert_same(model.named_parameters(), alone.named_parameters())


@case
def fsdp2_of_tensor_parallel(device):
    import distributed_models as dm
    from torch.distributed.tensor import Replicate

    _compare(device, ("data", "heads"), lambda model, mesh: (
        dm.parallel(model, mesh["heads"], True, Replicate()), mesh["data"], True))  # fmt: skip


@case
def fsdp2_of_replicas(device):
    _compare(device, ("replicas", "shards"), lambda model, mesh: (model, mesh, False))
