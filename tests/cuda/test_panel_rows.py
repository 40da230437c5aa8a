"""Products stored to arrays that the copy unit cannot address: each warp writes the rows of its panels."""

import dataclasses

import emulate
import pytest
import torch
from cpu.test_random_programs import far_apart
from test_wgmma import Product, with_epilogue

f16 = torch.float16


def odd(out):
    """An array whose rows follow each other without a gap."""
    return out.clone(), lambda: True


def amid(before, after):
    """Returns a maker of arrays whose rows lie amid other elements, so many before and behind each."""

    def place(out):
        rows, columns = out.shape
        memory = torch.full((rows + 2, before + columns + after), 7.0, dtype=out.dtype)
        kept = torch.ones(memory.shape, dtype=torch.bool)
        kept[1:-1, before : before + columns] = False
        return memory[1:-1, before : before + columns].copy_(out), lambda: bool((memory[kept] == 7).all())

    return place


def far(out):
    return far_apart(out, 0)


CASES = {
    "odd columns": (odd, ((200, 137, 72), (128, 64, 64), "nt")),
    "odd columns, float16": (odd, ((200, 131, 72), (128, 128, 64), "nt", f16)),
    "columns that are no multiple of 8": (odd, ((128, 130, 72), (128, 128, 64), "nt")),
    "rows that begin in the middle of a word": (amid(1, 2), ((136, 71, 72), (128, 64, 64), "nt")),
    "rows that begin at words": (amid(2, 3), ((136, 61, 72), (128, 64, 64), "nt")),
    "one column": (amid(1, 1), ((70, 1, 72), (64, 64, 64), "nt")),
    "one row": (amid(3, 0), ((1, 67, 72), (64, 64, 64), "nt")),
    "panels of 64 bytes": (amid(1, 0), ((130, 95, 72), (128, 96, 32), "nt")),
    "panels of 32 bytes": (amid(1, 0), ((130, 47, 72), (128, 48, 64), "nt")),
    "three panels": (odd, ((130, 191, 72), (128, 192, 64), "nt")),
    "four panels": (odd, ((130, 257, 72), (128, 256, 64), "nt")),
    "three groups": (odd, ((190, 73, 72), (192, 72, 32), "nt")),
    "two blocks of rows a group": (odd, ((264, 67, 72), (256, 64, 64), "tt")),
    "rows far apart": (far, ((70, 67, 72), (64, 64, 64), "nt")),
    "an epilogue": (odd, with_epilogue((136, 137, 136), (128, 128, 64), "nt")),
    "panels in turn": (odd, with_epilogue((264, 201, 136), (128, 192, 64), "nt", in_turn=True)),
}


class Stored(Product):
    """A product whose result is stored to an array that `place` makes."""

    def __init__(self, place, case):
        super().__init__(*case)
        out, self.untouched = place(self.arguments[2])
        self.arguments[2] = out
        self.case = dataclasses.replace(self.case, arguments=self.arguments)

    def check(self):
        assert (self.program["path"], self.program["why"]) == ("wgmma", "")
        panels = 0 if self.columns % 16 else self.columns // 64 if self.columns % 64 == 0 else 1
        assert self.program["text"].count("store_panel_rows<") == panels
        assert "store_panels<" not in self.program["text"]
        assert emulate.run([self.case]) == [None]
        bound = 2**-8 * max(1.0, self.expected.abs().max().item() / 8)
        torch.testing.assert_close(self.arguments[2].double(), self.expected, rtol=2**-8, atol=bound)
        assert self.untouched()


@pytest.fixture(scope="module")
def products():
    made = {name: Stored(*case) for name, case in CASES.items()}
    made["pairs of blocks"] = Stored(odd, ((200, 197, 136), (128, 64, 64), "nt"))
    made["pairs of blocks"].case = dataclasses.replace(made["pairs of blocks"].case, pairs=emulate.ALL_PAIRS)
    emulate.functions([each.program for each in made.values()])
    return made


@pytest.mark.parametrize("name", [*CASES, "pairs of blocks"])
def test_values(products, name):
    products[name].check()
