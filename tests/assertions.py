"""Kernels that assert something: what each is given, what it says, and what it has stored by then."""

import dataclasses
import re

import torch


def said(error):
    """Returns the text of an error that pytest caught, without the device, which a GPU names."""
    return re.sub(r", on device \d+ \([^()]*\)$", "", str(error.value))


@dataclasses.dataclass
class Asserting:
    body: str  # over arrays %a and %b of f32; %z and %one are 0 and 1, %i, %j and %k the block's index
    a: torch.Tensor
    expected: torch.Tensor  # of b, which begins as zeros; of blocks that fail, what they must not have stored stays 0
    error: str | None  # behind "ir:LINE: ", where LINE is the first one that asserts
    grid: tuple = (1, 1, 1)
    line: int = 0  # of the assert that fails, among those there are

    @property
    def text(self):
        ranks = self.a.dim(), self.expected.dim()
        head = [f"kernel check(%a: array<f32,{ranks[0]}>, %b: array<f32,{ranks[1]}>) {{"]
        head += [f"%{name}: i32 = constant {{dtype=i32, value={value}}}" for name, value in (("z", 0), ("one", 1))]
        head += [f"%{name}: i32 = bid {{axis={axis}}}" for axis, name in enumerate("ijk")]
        head += ["%zero: f32 = constant {dtype=f32, value=0.0}"]
        lines = [*head, *self.body.strip().splitlines(), "}"]
        return (
            "\n".join(f"{line}  // ir:{n}" if line.lstrip().startswith("assert") else line for n, line in enumerate(lines, 1))
            + "\n"
        )

    @property
    def message(self):
        numbers = [n for n, line in enumerate(self.text.splitlines(), 1) if line.lstrip().startswith("assert")]
        return self.error and f"ir:{numbers[self.line]}: {self.error}"


def with_value(sizes, index, value):
    a = torch.rand(sizes) + 0.5
    a[index] = value
    return a


POSITIVE = """%t: f32[SHAPE] = load %a, INDEX {pad=1.0, shape=[SHAPE], steps=[SHAPE]}
%zeros: f32[SHAPE] = broadcast %zero {shape=[SHAPE]}
%ok: bool[SHAPE] = gt %t, %zeros
assert %ok {message="a is positive"}
store %b, %t, INDEX {steps=[SHAPE]}"""


def positive(shape, index="%i"):
    return POSITIVE.replace("SHAPE", shape).replace("INDEX", index)


def but(a, *slices):
    b = a.clone()
    b[slices] = 0
    return b


def cases():
    fine, tile, cube = torch.rand(9) + 0.5, with_value((9, 700), (6, 650), -1.0), with_value((7, 5, 9), (4, 3, 6), 0.0)
    tile[7, 620] = -2  # behind the first in row-major order
    one = with_value((1,), 0, -3.0)
    counted = torch.arange(6.0) + 1
    counted[3] = -1
    return {
        "all true": Asserting(positive("4"), fine, fine, None, (3, 1, 1)),
        "one element": Asserting(
            positive("1"),
            one,
            torch.zeros(1),
            "assertion failed: a is positive; element [0] of bool[1] in block (0, 0, 0) of kernel check",
        ),
        "a matrix": Asserting(
            positive("4,300", "%i, %j"),
            tile,
            but(tile, slice(4, 8), slice(600, 700)),
            "assertion failed: a is positive; element [2,50] of bool[4,300] in block (1, 2, 0) of kernel check",
            (3, 3, 1),
        ),
        "a cube at an edge": Asserting(
            positive("3,2,5", "%i, %j, %k"),
            cube,
            but(cube, slice(3, 6), slice(2, 4), slice(5, 10)),
            "assertion failed: a is positive; element [1,1,1] of bool[3,2,5] in block (1, 1, 1) of kernel check",
            (3, 3, 2),
        ),
        "a scalar": Asserting(
            """%ok: bool = lt %i, %one
store %b, %t, %i {steps=[1]}
assert %ok {message="only block \\"0\\" is"}
store %b, %t, %two {steps=[1]}""".replace(
                "store", "%t: f32[1] = broadcast %zero {shape=[1]}\n%two: i32 = add %one, %one\nstore", 1
            ),
            fine,
            torch.zeros(4),
            'assertion failed: only block "0" is; block (1, 0, 0) of kernel check',
            (2, 1, 1),
        ),
        "without a message": Asserting(
            """%ok: bool = lt %one, %z
assert %ok {message=""}""",
            fine,
            torch.zeros(1),
            "assertion failed; block (0, 0, 0) of kernel check",
        ),
        "what nothing else needs": Asserting(
            """%t: f32[3] = load %a, %i {pad=1.0, shape=[3], steps=[3]}
%sum: f32 = reduce_sum %t {axes=[0]}
%ok: bool = lt %sum, %zero
assert %ok {message="a sum"}""",
            fine,
            torch.zeros(1),
            "assertion failed: a sum; block (0, 0, 0) of kernel check",
        ),
        "stores before it stay": Asserting(
            """%t: f32[9] = load %a, %z {pad=1.0, shape=[9], steps=[9]}
store %b, %t, %z {steps=[9]}
%zeros: f32[9] = broadcast %zero {shape=[9]}
%no: bool[9] = lt %t, %zeros
assert %no {message="a is negative"}
store %b, %zeros, %z {steps=[9]}""",
            fine,
            fine,
            "assertion failed: a is negative; element [0] of bool[9] in block (0, 0, 0) of kernel check",
        ),
        "the first of two": Asserting(
            """%t: f32[9] = load %a, %z {pad=1.0, shape=[9], steps=[9]}
%zeros: f32[9] = broadcast %zero {shape=[9]}
%yes: bool[9] = gt %t, %zeros
%no: bool[9] = lt %t, %zeros
assert %yes {message="first"}
assert %no {message="second"}
assert %no {message="third"}""",
            fine,
            torch.zeros(1),
            "assertion failed: second; element [0] of bool[9] in block (0, 0, 0) of kernel check",
            line=1,
        ),
        "an iteration of a loop": Asserting(
            """%n: i32 = dim %a {axis=0}
for %z, %n, %one (%iteration: i32) {
  %t: f32[1] = load %a, %iteration {pad=1.0, shape=[1], steps=[1]}
  %zeros: f32[1] = broadcast %zero {shape=[1]}
  %ok: bool[1] = gt %t, %zeros
  assert %ok {message="every iteration"}
  store %b, %t, %iteration {steps=[1]}
  yield
}""",
            counted,
            but(counted, slice(3, 6)),
            "assertion failed: every iteration; element [0] of bool[1] in block (0, 0, 0) of kernel check",
        ),
        "not out of a loop without iterations": Asserting(
            """%ok: bool = lt %one, %i
for %z, %i, %one (%iteration: i32) {
  assert %ok {message="no iteration"}
  yield
}
%t: f32[9] = load %a, %i {pad=1.0, shape=[9], steps=[9]}
store %b, %t, %i {steps=[9]}""",
            fine,
            fine,
            None,
        ),
        "not out of a branch": Asserting(
            """%t: f32[3] = load %a, %i {pad=1.0, shape=[3], steps=[3]}
%zeros: f32[3] = broadcast %zero {shape=[3]}
%no: bool[3] = lt %t, %zeros
%second: bool = eq %i, %one
if %second () {
  assert %no {message="in block 1"}
  yield
} () {
  yield
}
store %b, %t, %i {steps=[3]}""",
            fine,
            but(fine, slice(3, 6)),
            "assertion failed: in block 1; element [0] of bool[3] in block (1, 0, 0) of kernel check",
            (3, 1, 1),
        ),
        "a loop that would not end": Asserting(
            """%end: i32 = loop %z (%iteration: i32) {
  %more: i32 = add %iteration, %one
  %few: f32[1] = load %a, %iteration {pad=-1.0, shape=[1], steps=[1]}
  %zeros: f32[1] = broadcast %zero {shape=[1]}
  %ok: bool[1] = gt %few, %zeros
  assert %ok {message="inside"}
  %never: bool = lt %more, %z
  if %never () {
    break %more
  } () {
    yield
  }
  continue %more
}""",
            fine,
            torch.zeros(1),
            "assertion failed: inside; element [0] of bool[1] in block (0, 0, 0) of kernel check",
        ),
    }
