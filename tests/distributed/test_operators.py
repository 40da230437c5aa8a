"""Tests in two processes every operator on every placement that its rule allows, and with each tensor sharded alone."""

import processes
import pytest
import sharding_cases

outcome = processes.fixture(2)
# Losses communicate: a mean needs the row counts of all devices, and the sum over a sharded row needs all classes.
COUNTS = {name for name in sharding_cases.OF if "cross_entropy" in name}
CASES = [name.replace(" ", "_") for name in sharding_cases.OF]


@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_are_those_of_the_whole(outcome, name):
    outcome(name)


def _allowed(case, mesh, device):
    """Yields (axis, placements by name) for each axis that the rule of the case's first call allows to be sharded."""
    from tile_ops._sharding import dispatch
    from torch.distributed.tensor import Replicate, distribute_tensor

    tensors = {name: distribute_tensor(each.to(device), mesh, [Replicate()]) for name, each in case.tensors.items()}
    planners = []

    class Kept(dispatch.Planner):
        def __init__(self, call, rule):
            super().__init__(call, rule)
            planners.append(self)

    usual, dispatch.Planner = dispatch.Planner, Kept
    dispatch._plans.clear()
    try:
        case.run(*tensors.values())
    finally:
        dispatch.Planner = usual
        dispatch._plans.clear()
    planner = planners[0]
    for axis in planner.axes():
        if not planner._fits(axis, mesh.size()):
            continue
        placements = {}
        for name, tensor in tensors.items():
            of = [each for each in planner.call.tensors if planner.call[each] is tensor or each == name]
            placements[name] = [planner.input(of[0], axis)[0] if of else Replicate()]
        yield axis, placements


def _run(name, device):
    from sharded import alone, compare
    from torch.distributed.tensor import distribute_tensor, init_device_mesh
    from torch.distributed.tensor.debug import CommDebugMode

    mesh = init_device_mesh(device.split(":")[0], (2,))
    case = sharding_cases.made(name)
    for placements in () if case.written else alone(case, mesh):
        compare(case, mesh, placements, device)
    for axis, placements in _allowed(case, mesh, device):
        compare(case, mesh, placements, device)
        tensors = [distribute_tensor(each.to(device), mesh, placements[one]) for one, each in case.tensors.items()]
        with CommDebugMode() as moved:
            out = case.run(*tensors)
        if "twice" not in name and name not in COUNTS:
            assert moved.get_total_counts() == 0, (axis, placements, moved.get_comm_counts())
        out = out if isinstance(out, tuple) else (out,)
        alike = all(p.is_replicate() for each in out for p in each.placements)
        assert alike == (axis == "c"), (axis, placements)


for _name in sharding_cases.OF:
    globals()[_name.replace(" ", "_")] = lambda device, name=_name: _run(name, device)
