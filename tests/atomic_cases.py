"""Programs of atomic operations, and what they leave in memory and give, computed element by element."""

import dataclasses

import torch

NAMES = {
    "atomic_load": 0,
    "atomic_store": 1,
    "atomic_add": 1,
    "atomic_max": 1,
    "atomic_min": 1,
    "atomic_and": 1,
    "atomic_or": 1,
    "atomic_xor": 1,
    "atomic_xchg": 1,
    "atomic_cas": 2,
}
COMBINED = {
    "atomic_add": lambda old, x: old + x,
    "atomic_max": max,
    "atomic_min": min,
    "atomic_and": lambda old, x: old & x,
    "atomic_or": lambda old, x: old | x,
    "atomic_xor": lambda old, x: old ^ x,
    "atomic_xchg": lambda old, x: x,
    "atomic_store": lambda old, x: x,
    "atomic_load": lambda old: old,
    "atomic_cas": lambda old, expected, x: x if old == expected else old,
}
INDICES = [3, 0, -1, 9, 12, 5, 7, 1, 30, 2]  # of 12 elements; three are outside
MASKED = [4, 7]  # not wanted


@dataclasses.dataclass
class Case:
    text: str
    arguments: list  # memory, index, mask, values…, result
    memory: torch.Tensor
    given: torch.Tensor


def integers(dtype, *sizes):
    """Whole numbers that every dtype holds, with their sums."""
    if dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        return torch.randint(0, 4, sizes).float().to(dtype)
    return torch.randint(0, 2 if dtype == torch.bool else 6, sizes).to(dtype)


def plain(tensor):
    if tensor.dtype == torch.bool:
        return tensor.tolist()
    floating = tensor.dtype.is_floating_point
    return [float(x) if floating else int(x) for x in (tensor.float() if floating else tensor).tolist()]


def case(name, dtype, torch_dtype, order="", scalar=False, flat=False):
    """The operation at distinct indices, some outside and some masked out; `scalar`: at one, by a scalar; `flat`: at
    offsets into the memory of a turned matrix, those outside masked out."""
    values = NAMES[name]
    count = len(INDICES)
    positions = INDICES[:1] if scalar else INDICES
    memory = integers(torch_dtype, 12)
    index = torch.tensor(INDICES, dtype=torch.int32)
    mask = torch.tensor([i not in MASKED and (not flat or 0 <= at < 12) for i, at in enumerate(INDICES)])
    operands = [integers(torch_dtype, count) for _ in range(values)]
    if values == 2:  # some are what is expected
        for i, at in enumerate(INDICES):
            if 0 <= at < 12 and i % 2:
                operands[0][i] = memory[at]
    result = integers(torch_dtype, count)
    pad = "0.0" if torch_dtype.is_floating_point else "0"
    arrays = f"%m: array<{dtype},{2 if flat else 1}>, %i: array<i32,1>, %k: array<bool,1>, "
    arrays += "".join(f"%v{n}: array<{dtype},1>, " for n in range(values)) + f"%r: array<{dtype},1>"
    shape = "" if scalar else f"[{count}]"
    size = "[1]" if scalar else f"[{count}]"
    lines = ["%z: i32 = constant {dtype=i32, value=0}"]

    def load(to, array, of, pad):
        lines.append(f"%{to}s: {of}{size} = load %{array}, %z {{pad={pad}, shape={size}, steps={size}}}")
        lines.append(f"%{to}: {of}{shape} = reshape %{to}s {{shape={shape or '[]'}}}")

    load("ti", "i", "i32", 0)
    load("tk", "k", "bool", 0)
    for n in range(values):
        load(f"t{n}", f"v{n}", dtype, pad)
    given = "".join(f"%t{n}, " for n in range(values))
    attributes = ", ".join(["flat=1"] * flat + [order] * bool(order))
    call = f"{name} %m, {given}%ti, %tk" + (f" {{{attributes}}}" if attributes else "")
    if name == "atomic_store":
        lines.append(call)
    else:
        lines.append(f"%g: {dtype}{shape} = {call}")
        lines.append(f"%gs: {dtype}{size} = reshape %g {{shape={size}}}")
        lines.append(f"store %r, %gs, %z {{steps={size}}}")
    text = f"kernel k({arrays}) {{\n" + "\n".join(lines) + "\n}\n"

    after, out = plain(memory), plain(result)
    for i, at in enumerate(positions):
        inside = 0 <= at < 12 and i not in MASKED
        given = [plain(operand)[i] for operand in operands]
        if name != "atomic_store":
            out[i] = after[at] if inside else given[0] if values == 2 else 0
        if inside:
            after[at] = COMBINED[name](after[at], *given)

    def tensor(numbers):
        return torch.tensor(numbers).to(torch_dtype)

    def lying(memory):
        return memory.view(3, 4).t() if flat else memory

    return Case(text, [lying(memory), index, mask, *operands, result], lying(tensor(after)), tensor(out))


def check(case, arguments):
    for got, wanted in ((arguments[0], case.memory), (arguments[-1], case.given)):
        assert torch.equal(got.float(), wanted.float()), (case.text, got, wanted)


# Blocks that take tickets hand a sum on: each waits for the one before it.
CHAIN = """kernel chain(%tickets: array<i32,1>, %ready: array<i32,1>, %sums: array<i64,1>, %x: array<i64,1>) {
%z: i32 = constant {dtype=i32, value=0}
%one: i32 = constant {dtype=i32, value=1}
%ticket: i32 = atomic_add %tickets, %one, %z {order="relaxed"}
%own: i64[4] = load %x, %ticket {pad=0, shape=[4], steps=[4]}
loop () {
  %flag: i32 = atomic_load %ready, %ticket {order="acquire"}
  %wait: bool = eq %flag, %z
  if %wait () {
    yield
  } () {
    break
  }
  continue
}
%before: i64[4] = load %sums, %ticket {pad=0, shape=[4], steps=[4]}
%sum: i64[4] = add %before, %own
%next: i32 = add %ticket, %one
store %sums, %sum, %next {steps=[4]}
atomic_store %ready, %one, %next {order="release"}
}
"""


def chain(blocks):
    """(grid, arguments, the sums that are left)."""
    x = torch.randint(-9, 9, (blocks, 4))
    ready = torch.zeros(blocks + 1, dtype=torch.int32)
    ready[0] = 1
    sums = torch.zeros(blocks + 1, 4, dtype=torch.int64)
    expected = torch.cat([sums[:1], x.cumsum(0)])
    return (blocks, 1, 1), [torch.zeros(1, dtype=torch.int32), ready, sums.flatten(), x.flatten()], expected.flatten()
