"""Tests in two processes that tile_ops.nn under parallelize_module, with DTensor activations, trains as in one process."""

import processes
import pytest
from processes import case

outcome = processes.fixture(2)
CASES = []


@pytest.mark.parametrize("name", [
    "tensor_parallel", "sequence_parallel", "vocabulary_parallel", "dropout_of_shards", "compiled",
])  # fmt: skip
def test_trains_as_one_process(outcome, name):
    outcome(name)


def _compare(device, sequence, head):
    import distributed_models as dm
    import tile_ops
    import torch
    from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

    mesh = init_device_mesh(device.split(":")[0], (2,))
    start = dm.model(device)
    losses, gradients, alone = dm.trained_alone(start, device)
    model = dm.parallel(start, mesh, sequence, head)
    optimizer = tile_ops.optim.AdamW(model.parameters(), lr=1e-2)
    found, first = [], {}
    for tokens, targets in dm.batches(device):
        logits = model(tokens)
        loss = dm.loss_of(logits, distribute_tensor(targets, mesh, [Replicate()]))
        optimizer.zero_grad()
        loss.backward()
        first = first or {name: dm.full_tensor(param.grad).clone() for name, param in model.named_parameters()}
        optimizer.step()
        found.append(dm.full_tensor(loss.detach()))
    torch.testing.assert_close(torch.stack(found), torch.stack(losses), rtol=1e-4, atol=1e-5)
    dm.assert_same(first.items(), gradients, rtol=1e-3, atol=1e-5)
    dm.assert_same(model.named_parameters(), alone.named_parameters())


@case
def tensor_parallel(device):
    from torch.distributed.tensor import Replicate

    _compare(device, False, Replicate())


@case
def sequence_parallel(device):
    from torch.distributed.tensor import Replicate

    _compare(device, True, Replicate())


@case
def vocabulary_parallel(device):
    """Keeps the logits sharded over the vocabulary; the loss must be that of the whole logits."""
    from torch.distributed.tensor import Shard

    _compare(device, True, Shard(-1))


@case
def dropout_of_shards(device):
    """Tests that dropout of a DTensor uses one seed on all devices, whatever their generators, and the mask of the whole."""
    import tile_ops
    import torch
    import torch.distributed as dist
    from torch.distributed.tensor import DTensor, Replicate, Shard, init_device_mesh

    mesh = init_device_mesh(device.split(":")[0], (2,))
    torch.manual_seed(dist.get_rank())
    for placement in (Replicate(), Shard(0), Shard(1)):
        local = torch.ones(40, 60, device=device)
        x = DTensor.from_local(local, mesh, [placement])
        out = tile_ops.dropout(x, 0.25)
        assert out.placements == (placement,)
        full = out.full_tensor()
        fraction = (full == 0).float().mean().item()
        assert 0.2 < fraction < 0.3
        if placement != Replicate():
            halves = full.chunk(2, placement.dim)
            assert not torch.equal(*halves)
        alike = [torch.empty_like(full) for _ in range(2)]
        dist.all_gather(alike, full.contiguous())
        assert torch.equal(*alike)


@case
def compiled(device):
    """Compiles DTensor programs to one graph: a row-sharded table with a mean loss, and a norm with dynamic shapes."""
    import tile_ops
    import torch
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

    mesh = init_device_mesh(device.split(":")[0], (2,))

    def loss(table, indices, targets):
        return tile_ops.cross_entropy(tile_ops.embedding(table, indices).flatten(0, 1), targets)

    table = torch.randn(8, 6, device=device, requires_grad=True)
    indices, targets = torch.randint(8, (4, 3), device=device), torch.randint(6, (12,), device=device)
    right = loss(table, indices, targets)
    right.backward()
    shards = distribute_tensor(table.detach(), mesh, [Shard(0)]).requires_grad_()
    found = torch.compile(loss, backend="aot_eager", fullgraph=True)(
        shards, distribute_tensor(indices, mesh, [Replicate()]), distribute_tensor(targets, mesh, [Shard(0)])
    )
    found.backward()
    torch.testing.assert_close(found.full_tensor(), right)
    torch.testing.assert_close(shards.grad.full_tensor(), table.grad)

    norm = torch.compile(lambda x: tile_ops.rms_norm(x, [8]) + 1, backend="aot_eager", dynamic=True)
    for rows in (6, 10):
        x = torch.randn(rows, 8, device=device)
        found = norm(distribute_tensor(x, mesh, [Shard(0)]))
        assert found.placements == (Shard(0),)
        torch.testing.assert_close(found.full_tensor(), tile_ops.rms_norm(x, [8]) + 1)
