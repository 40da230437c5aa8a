"""Tests that the grid () is one block, and the number of tiles of arrays or tile shapes of rank 0."""

import pytest
import tile_ops.cutile as ct
import tile_ops.language as tl
import torch
from python_examples import on_the_emulator


@tl.kernel
def counts(out, n: tl.Constant[int]):
    tl.atomic_add(out, 0, tl.num_blocks(0) + tl.num_blocks(1) + tl.num_blocks(2) + n)


GRIDS = [(), [], lambda out, n: (), (1,), 1]


@pytest.mark.parametrize("grid", GRIDS, ids=["empty", "list", "function", "tuple", "number"])
def test_one_block(grid):
    launched, debugged, tuned = torch.zeros(3, 1, dtype=torch.int32)
    counts[grid](launched, 4)
    counts.debug(grid, debugged, 4)
    counts.tune([{"n": 4}])[grid](tuned)
    assert launched.item() == debugged.item() == tuned.item() == 7
    counts.launch(grid, launched, 4)
    assert launched.item() == 14


def test_cutile_launches_a_grid_without_axes():
    @ct.kernel
    def kernel(out):
        ct.scatter(out, (), 3)

    out = torch.zeros(())
    ct.launch(0 if not out.is_cuda else torch.cuda.current_stream(), (), kernel, (out,))
    assert out.item() == 3


def test_other_grids():
    for grid in ((1, 1, 1, 1), "x", (1.5,)):
        for run in (counts[grid], lambda *given, grid=grid: counts.debug(grid, *given)):
            with pytest.raises(TypeError) as error:
                run(torch.zeros(1, dtype=torch.int32), 4)
            assert str(error.value) == (
                f"the grid is {grid!r}; give a tuple of one to three integers, or a function of the arguments that gives one"
            )


@pytest.mark.parametrize("grid, limit", [((2, -1), "least 0"), ((1, 1, 2**31), "most 2147483647")])
def test_grids_beyond_the_limits(grid, limit):
    for run in (counts[grid], lambda *given: counts.debug(grid, *given)):
        out = torch.zeros(1, dtype=torch.int32, device="cpu")
        with pytest.raises(ValueError) as error:
            run(out, 4)
        assert str(error.value).endswith(f"the grid is {(*grid, 1)[:3]}; an axis must be at {limit}")
        assert out.item() == 0


@tl.kernel
def tiles(x, scalar, out):
    tl.store(out, 0, tl.num_tiles(x, axis=0, shape=()))
    tl.store(out, 1, tl.num_tiles(x, axis=-1, shape=()))
    tl.store(out, 2, tl.num_tiles(scalar, axis=0, shape=()) + tl.num_tiles(scalar, -1, ()))
    tl.store(out, 3, scalar.tiled_view(()).num_tiles(0) + x.tiled_view(()).num_tiles(1))
    tl.store(out, 4, tl.num_tiles(x, axis=0, shape=(), order="F"))


def tiles_of_rank_0(launch):
    out = torch.zeros(5, dtype=torch.int32)
    launch(torch.zeros(5, 7), torch.zeros(()), out)
    return out.tolist()


def test_tiles_of_rank_0():
    debugged = tiles_of_rank_0(lambda *given: tiles.debug((), *given))
    assert tiles_of_rank_0(tiles[()]) == debugged == [5, 7, 2, 8, 7]


@pytest.mark.at_home
def test_tiles_of_rank_0_on_the_emulator():
    with on_the_emulator(archs=(90,)):
        assert tiles_of_rank_0(tiles[()]) == [5, 7, 2, 8, 7]


def test_an_axis_that_is_not_there():
    @tl.kernel
    def kernel(scalar):
        tl.num_tiles(scalar, 1, ())

    with pytest.raises(tl.TileTypeError) as error:
        kernel[()](torch.zeros(()))
    assert error.value.message == "Axis 1 is out of range for rank 0"
