"""Tests in four processes every operator on a 2 x 2 mesh, with random placements of tensors and incoming gradients."""

import os
import random

import processes
import pytest
import sharding_cases

outcome = processes.fixture(4)
pytestmark = pytest.mark.slow
CASES = [name.replace(" ", "_") for name in sharding_cases.OF]
# The first case of each operator has just the operator's name. Its further cases vary the arguments.
FIRST = {name for name in sharding_cases.OF if " " not in name}


@pytest.mark.parametrize("name", [name if name in FIRST else pytest.param(name, marks=pytest.mark.long) for name in CASES])
def test_any_placements_give_what_the_whole_gives(outcome, name):
    outcome(name)


def _run(name, device):
    from sharded import compare
    from torch.distributed.tensor import Replicate, Shard, init_device_mesh

    mesh = init_device_mesh(device.split(":")[0], (2, 2))
    case = sharding_cases.made(name)
    drawn = random.Random(name)  # the same in every process

    def placement(tensor):
        return Shard(drawn.randrange(tensor.dim())) if tensor.dim() and drawn.random() < 0.7 else Replicate()

    for _ in range(40 if os.environ.get("TILE_LONG") == "1" else 1):
        placements = {each: [placement(tensor), placement(tensor)] for each, tensor in case.tensors.items()}
        if case.written:
            placements |= dict.fromkeys(("query", "key"), random.Random(len(placements)).sample([Shard(0), Shard(1)], 2))
        incoming = [drawn.choice([Shard(0), Replicate()]) for _ in range(2)]
        compare(case, mesh, placements, device, incoming)


for _name in sharding_cases.OF:
    globals()[_name.replace(" ", "_")] = lambda device, name=_name: _run(name, device)
