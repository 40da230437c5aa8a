"""Gathers and scatters whose elements lie side by side: threads move them as vectors, on the emulator against the CPU."""

import re

import torch
from emulate import same_on_both

# A block copies [ROWS, 64] elements of %x to %out; COLUMN computes the index %i of a column from %c, and %keep masks.
TEXT = """kernel k(%x: array<TYPE,1>, %out: array<TYPE,2>, %n: i32, %edge: i32) {
%z: i32 = constant {dtype=i32, value=0}
%b: i32 = bid {axis=0}
%two: i32 = constant {dtype=i32, value=2}
%first: i32 = mul %b, %two
%rr: i32[2] = arange {dtype=i32, size=2}
%firsts: i32[2] = broadcast %first {shape=[2]}
%r0: i32[2] = add %rr, %firsts
%r1: i32[2,1] = reshape %r0 {shape=[2,1]}
%r: i32[2,64] = broadcast %r1 {shape=[2,64]}
%cc: i32[64] = arange {dtype=i32, size=64}
%c0: i32[1,64] = reshape %cc {shape=[1,64]}
%c: i32[2,64] = broadcast %c0 {shape=[2,64]}
%pitch: i32 = constant {dtype=i32, value=PITCH}
%pitches: i32[2,64] = broadcast %pitch {shape=[2,64]}
%base: i32[2,64] = mul %r, %pitches
%shift: i32 = constant {dtype=i32, value=SHIFT}
%bound: i32 = constant {dtype=i32, value=BOUND}
%shifts: i32[2,64] = broadcast %shift {shape=[2,64]}
%bounds: i32[2,64] = broadcast %bound {shape=[2,64]}
%ns: i32[2,64] = broadcast %n {shape=[2,64]}
%edges: i32[2,64] = broadcast %edge {shape=[2,64]}
%moved: i32[2,64] = add %c, %shifts
%i: i32[2,64] = add %base, %moved
%keep: bool[2,64] = COMPARE
%v: TYPE[2,64] = gather %x, %i, %keep {pad=PAD}
MOVE
}
"""
STORE = "store %out, %v, %b, %z {steps=[2,64]}"
SCATTER = """%past: i32[2,64] = sub %c, %shifts
scatter %out, %v, %r, %past, %keep"""
DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32, "u8": torch.uint8, "i64": torch.int64}
WIDTHS = {"bf16": 8, "f32": 4, "u8": 16, "i64": 2}


def launch_of(dtype, compare, shift=0, bound=32, pitch=64, length=8 * 64, offset=0, move=STORE):
    words = {"TYPE": dtype, "PITCH": pitch, "SHIFT": shift, "BOUND": bound, "COMPARE": compare, "MOVE": move}
    text = TEXT
    for word, value in words.items():
        text = text.replace(word, str(value))
    text = text.replace("PAD", "0.0" if DTYPES[dtype].is_floating_point else "0")
    x = torch.randint(1, 100, (length + offset,)).to(DTYPES[dtype])[offset:]
    return text, (4, 1, 1), [x, torch.zeros(8, 64).to(DTYPES[dtype]), 5, 40]


def width_of(case, function="gather"):
    found = re.search(rf"{function}_runs<(\d+)", case.program["text"])
    return int(found[1]) if found else 1


MASKS = {
    "lt %c, %bounds": True,
    "ge %c, %bounds": True,
    "gt %bounds, %c": True,
    "le %bounds, %c": True,
    "le %c, %bounds": False,
    "gt %c, %bounds": False,
    "lt %bounds, %c": False,
    "eq %c, %bounds": False,
    "lt %r, %ns": True,
    "ne %r, %ns": True,
}


def check(expected):
    """expected: {launch: the width of its vectors}, as pairs. Runs all of them."""
    launches, widths = zip(*expected)
    for case, width in zip(same_on_both(list(launches)), widths, strict=True):
        assert width_of(case) == width, case.program["text"]


def test_a_mask_that_no_group_crosses_leaves_vectors():
    check((launch_of(dtype, mask), WIDTHS[dtype] if whole else 1) for dtype in ("bf16", "i64") for mask, whole in MASKS.items())


# Shift of the columns, bound of the mask, elements of a row, length, first element: the width that is left in float32.
PLACES = {
    (-32, 32, 64, 512, 0): 4,
    (32, 32, 64, 512, 0): 4,
    (2, 32, 64, 512, 0): 2,
    (0, 30, 64, 512, 0): 2,
    (1, 32, 64, 512, 0): 1,
    (0, 31, 64, 512, 0): 1,
    (0, 32, 66, 512, 0): 2,
    (0, 32, 63, 512, 0): 1,
    (0, 64, 64, 330, 0): 4,  # the last rows are outside
    (0, 64, 64, 331, 0): 4,  # and an edge splits a vector
    (-32, 64, 64, 512, 0): 4,
    (0, 32, 64, 512, 1): 1,  # the array begins at no multiple of 16 bytes
}


def test_vectors_begin_where_memory_allows_it():
    masks = ("lt %c, %bounds", "ge %c, %bounds")
    check((launch_of("f32", mask, *place[:4], offset=place[4]), width) for mask in masks for place, width in PLACES.items())


def test_small_elements_need_words_alone():
    check((launch_of("bf16", "lt %c, %bounds", offset=offset), width) for offset, width in ((1, 1), (2, 2), (8, 8)))


def test_a_scatter_writes_vectors():
    places = [(0, "lt %c, %bounds"), (32, "lt %c, %bounds"), (-32, "ge %c, %bounds"), (1, "lt %r, %ns")]
    launches = [(dtype, mask, shift) for dtype in ("f32", "u8") for shift, mask in places]
    for (dtype, _, shift), case in zip(launches, same_on_both([launch_of(*each, move=SCATTER) for each in launches])):
        assert width_of(case, "scatter") == (1 if shift == 1 else WIDTHS[dtype]), case.program["text"]


def test_a_bound_that_the_launch_gives_may_split_a_vector():
    check([(launch_of("f32", "lt %c, %edges"), 1)])
