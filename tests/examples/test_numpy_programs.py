"""examples/numpy_programs.py: each program at a fraction of its size agrees with NumPy, and runs as kernels alone."""

import sys

import pytest
import tile_ops
import torch


@pytest.fixture(scope="module")
def programs():
    import numpy_programs

    return numpy_programs


EXPECTED = {  # program: operators that are called, the largest difference, or else the share of numbers that differ
    "heat": (set(), 1e-6, None),
    "black_scholes": (set(), 1e-12, None),
    "kmeans": ({"aten.mm"}, 1e-12, None),
    # NumPy and kernels round differently, so that a point at the circle's edge may leave it a step sooner.
    "mandelbrot": (set(), None, 1e-3),
}


def test_every_program_is_here(programs):
    assert list(programs.PROGRAMS) == list(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_program_agrees_with_numpy(name, programs):
    called, within, share = EXPECTED[name]
    torch._dynamo.reset()
    tile_ops.compile_report(reset=True)
    ours = programs.PROGRAMS[name](programs.tile, 9)
    theirs = programs.PROGRAMS[name](lambda function: function, 9)
    assert [(each.dtype, each.shape) for each in ours] == [(each.dtype, each.shape) for each in theirs]
    if share:
        assert all((one != other).mean() < share for one, other in zip(ours, theirs))
    else:
        assert programs.difference(ours, theirs) < within
    report = tile_ops.compile_report()
    assert all(graph.computed_by == "tile" and graph.kernels for graph in report.graphs)
    assert {operator for graph in report.graphs for operator in graph.called} == called


def test_the_picture(programs, monkeypatch, tmp_path, capsys):
    import numpy as np

    monkeypatch.setattr(programs, "PICTURE", tmp_path / "pictures" / "mandelbrot.png")
    (count,) = programs.mandelbrot(lambda function: function, 20)
    where = programs.draw(count)
    if where == programs.PICTURE:
        from PIL import Image

        assert Image.open(where).size == (45, 40)
        monkeypatch.setitem(sys.modules, "PIL", None)
    assert programs.draw(count) == "the terminal"
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 40 and set("".join(rows)) <= set(" .:-=+*#%@") and np.unique(list(rows[20])).size > 2
