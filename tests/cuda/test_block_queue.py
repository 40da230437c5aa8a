"""Persistent kernels whose CTAs draw blocks, in the emulator, where a CTA draws few if others follow it."""

import emulate
import pytest
import torch

SHAPE = "[128,64]"


def triangle(bias=False, first="%0", more="%1"):
    """The product of a lower triangle of tiles: the blocks of row i have the iterations from `first` to i + `more`. bias:
    of a tile that the second producer copies. The grid's axes are rows, columns and batches, each of them one more."""
    added = (
        f"""%p: bf16{SHAPE} = load %d, %i, %j {{pad=0.0, shape={SHAPE}, steps={SHAPE}}}
  %q: f32{SHAPE} = astype %p {{dtype=f32}}
  %e: f32{SHAPE} = add %r, %q"""
        if bias
        else f"%e: f32{SHAPE} = astype %r {{dtype=f32}}"
    )
    return f"""kernel triangle(%a: array<bf16,2>, %b: array<bf16,2>, %c: array<bf16,2>{", %d: array<bf16,2>" if bias else ""}) {{
  %i: i32 = bid {{axis=0}}
  %j: i32 = bid {{axis=1}}
  %0: i32 = constant {{dtype=i32, value=0}}
  %1: i32 = constant {{dtype=i32, value=1}}
  %two: i32 = constant {{dtype=i32, value=2}}
  %i1: i32 = add %i, {more}
  %t: i32 = mul %i1, %two
  %z: f32 = constant {{dtype=f32, value=0.0}}
  %zs: f32{SHAPE} = broadcast %z {{shape={SHAPE}}}
  %r: f32{SHAPE} = for {first}, %t, %1, %zs (%k: i32, %acc: f32{SHAPE}) {{
    %x: bf16{SHAPE} = load %a, %i, %k {{pad=0.0, shape={SHAPE}, steps={SHAPE}}}
    %y: bf16[64,64] = load %b, %k, %j {{pad=0.0, shape=[64,64], steps=[64,64]}}
    %m: f32{SHAPE} = mma %x, %y, %acc
    yield %m
  }}
  {added}
  %o: bf16{SHAPE} = astype %e {{dtype=bf16}}
  store %c, %o, %i, %j {{steps={SHAPE}}}
}}
"""


class Triangle:
    """A launch of a triangle's kernel for [rows, columns], and the product in float64."""

    def __init__(self, rows, columns, **options):
        self.text = triangle(**options)
        generator = torch.Generator().manual_seed(rows * 1000 + columns)

        def random(*shape):
            return torch.randn(shape, generator=generator).bfloat16()

        # Rows whose bytes are multiples of 16, of which the matrices take the first.
        pitch, wide = -(-rows // 8) * 8, -(-columns // 8) * 8
        a, b = random(rows, pitch)[:, :rows], random(rows, wide)[:, :columns]
        self.out = torch.full((rows, wide), float("nan"), dtype=torch.bfloat16)[:, :columns]
        self.arguments = [a, b, self.out]
        left = a.double()
        for i in range(0, rows, 128):
            left[i : i + 128, i + (0 if options.get("more") == "%0" else 128) :] = 0
        self.expected = left @ b.double()
        if options.get("bias"):
            self.arguments.append(random(rows, wide)[:, :columns])
            self.expected += self.arguments[3].double()
        self.grid = (-(-rows // 128), -(-columns // 64), 1)

    def case(self):
        return emulate.Case(self.text, self.grid, self.arguments, wgmma=True)

    def check(self):
        case = self.case()
        assert case.program["path"] == "wgmma" and "draw_block(" in case.program["text"]
        assert emulate.run([case]) == [None]
        torch.testing.assert_close(
            self.out.double(), self.expected, rtol=2**-8, atol=2**-7 * max(1.0, self.expected.abs().max().item())
        )


CASES = {
    "one block": ((128, 64), {}),
    "a block of one element": ((1, 1), {}),
    "as many blocks as run at once": ((384, 64), {}),
    "several blocks a CTA": ((650, 72), {}),
    "many blocks": ((513, 257), {}),
    "blocks without an iteration": ((300, 136), {"more": "%0"}),
    "a second producer": ((600, 136), {"bias": True}),
    "a second producer and one block": ((100, 64), {"bias": True}),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    shape, options = CASES[name]
    Triangle(*shape, **options).check()


# Each row: a piece of the text, its replacement, and what the emulator then says.
WRONG = {
    "a queue that is never closed": ("close_queue(block_counter", "(void)(block_counter", "leaves its counter of blocks at"),
    "a slot that is written while it is read": ("readers = 8", "readers = 1", "barrier"),
    "a producer that does not tell": ("put_block<Queue0>(queue, memory, ", "(void)(", "wait at the barrier"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong(name):
    old, new, says = WRONG[name]
    case = Triangle(650, 72).case()
    assert old in case.program["text"]
    report = emulate.run_changed(case, case.program["text"].replace(old, new))
    assert report and says in report, report
