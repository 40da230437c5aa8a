"""Defines Tile IR programs that only move elements, and the bits that they must store: every pattern of the 8- and 16-bit
dtypes, and NaNs of every kind for the wider ones."""

import dataclasses

import torch

INTEGER = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
DTYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f8e4m3": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2,
    "f32": torch.float32,
    "f64": torch.float64,
}
SIDE, COUNT = 256, 256 * 256


@dataclasses.dataclass
class Case:
    text: str
    grid: tuple
    arguments: list  # integers with the same bits; given() views them as `dtypes`
    wanted: list  # (argument number, expected integers) of each written array
    dtypes: list  # the arguments' dtypes in the call, None to keep their own

    def given(self):
        return [each.clone().view(dtype) if dtype else each.clone() for each, dtype in zip(self.arguments, self.dtypes)]

    def mistake(self, left):
        for number, want in self.wanted:
            got, want = left[number].view(want.dtype).reshape(-1), want.reshape(-1)
            wrong = (got != want).nonzero().flatten()
            if len(wrong):
                at, bits = int(wrong[0]), 8 * want.itemsize
                return (
                    f"argument {number}, element {at}: {int(got[at]) % 2**bits:#x}, not {int(want[at]) % 2**bits:#x}; "
                    f"{len(wrong)} of {want.numel()} differ"
                )
        return None


def patterns(dtype):
    """Returns 65536 elements as integers: every bit pattern of 8 and 16 bits, a sample of the wider ones."""
    size = DTYPES[dtype].itemsize
    counting = torch.arange(COUNT)
    if size <= 2:
        return counting.to(INTEGER[size])
    # Both signs, exponents of numbers and of NaN, quiet and signalling, and payload bits at both ends of the mantissa.
    mantissa, exponents = {4: (23, 255), 8: (52, 2047)}[size]
    sign, exponent, quiet = counting >> 15 & 1, counting >> 12 & 7, counting >> 11 & 1
    high, low = counting >> 6 & 31, counting & 63
    exponent = torch.where(exponent < 4, exponents, exponent * (exponents // 8))
    value = (sign << (8 * size - 1)) | (exponent << mantissa) | (quiet << (mantissa - 1)) | (high << (mantissa - 6)) | low
    return value.to(INTEGER[size])


def mixed(x):
    """Returns the same elements in another order."""
    return x[(torch.arange(COUNT) * 40503 + 7) % COUNT]


HEAD = """%z: i32 = constant {dtype=i32, value=0}
%one: i32 = constant {dtype=i32, value=1}
%b: i32 = bid {axis=0}
"""


def load(name, array, dtype, shape, index, pad="0.0"):
    return f"%{name}: {dtype}{shape} = load %m{array}, {index} {{pad={pad}, shape={shape}, steps={shape}}}\n"


def store(array, value, shape, index):
    return f"store %m{array}, %{value}, {index} {{steps={shape}}}\n"


def kernel(arrays, body):
    declared = ", ".join(f"%m{name}: array<{dtype},{rank}>" for name, (dtype, rank) in arrays.items())
    return f"kernel moves({declared}) {{\n{HEAD}{body}}}\n"


def one_to_one(dtype, body, size, of="x", extra=None, more=()):
    """Returns a case whose kernel loads tiles of `size` elements of x, computes %r by `body` and stores it in o."""
    arrays = {"x": (dtype, 1), "y": (dtype, 1), "o": (dtype, 1), **(extra or {})}
    text = kernel(arrays, load("t", "x", dtype, f"[{size}]", "%b") + body + store("o", "r", f"[{size}]", "%b"))
    x = patterns(dtype)
    y, own = mixed(x), DTYPES[dtype]
    want = {"x": x, "y": y}.get(of, of) if isinstance(of, str) else of(x, y)
    arguments = [x, y, torch.zeros_like(x), *(argument for argument, _ in more)]
    return Case(text, (-(-COUNT // size), 1, 1), arguments, [(2, want)], [own] * 3 + [each for _, each in more])


def copy(dtype):
    return one_to_one(dtype, f"%r: {dtype}[1024] = reshape %t {{shape=[1024]}}\n", 1024)


def copy_at_edges(dtype):
    return one_to_one(dtype, f"%r: {dtype}[1000] = reshape %t {{shape=[1000]}}\n", 1000)


def second(dtype, size):
    return load("u", "y", dtype, f"[{size}]", "%b")


def mask(size):
    return load("k", "k", "bool", f"[{size}]", "%b", "0")


def choose(dtype):
    keep = torch.arange(COUNT) % 3 != 0
    return one_to_one(
        dtype,
        second(dtype, 1024) + mask(1024) + f"%r: {dtype}[1024] = where %k, %t, %u\n",
        1024,
        lambda x, y: torch.where(keep, x, y),
        {"k": ("bool", 1)},
        [(keep, None)],
    )


def choose_or_computed(dtype):
    """Selects between copied and computed elements; the check ignores the computed ones, whose bits may change."""
    keep = torch.arange(COUNT) % 3 != 0
    body = (
        second(dtype, 1024) + mask(1024) + f"%c: {dtype} = constant {{dtype={dtype}, value=0.0}}\n"
        f"%s: {dtype}[1024] = broadcast %c {{shape=[1024]}}\n"
        f"%n: bool[1024] = logical_not %k\n%v: {dtype}[1024] = where %k, %t, %s\n"
        f"%d: {dtype}[1024] = mul %s, %u\n%w: {dtype}[1024] = where %k, %u, %d\n"
        f"%r: {dtype}[1024] = where %k, %v, %w\n"
    ) + store("p", "w", "[1024]", "%b")
    case = one_to_one(
        dtype,
        body,
        1024,
        "x",
        {"k": ("bool", 1), "p": (dtype, 1)},
        [(keep, None), (torch.zeros_like(patterns(dtype)), DTYPES[dtype])],
    )
    x = patterns(dtype)
    y = mixed(x)
    case.mistake = lambda left: (
        None
        if all(torch.equal(left[i].view(x.dtype)[keep], of[keep]) for i, of in ((2, x), (4, y)))
        else "an element that was picked differs"
    )
    return case


def choose_by_itself(dtype):
    """Selects by a comparison of the elements themselves, which must still keep their bits."""
    body = (
        f"%c: {dtype} = constant {{dtype={dtype}, value=-1.0}}\n%s: {dtype}[1024] = broadcast %c {{shape=[1024]}}\n"
        "%q: bool[1024] = lt %t, %s\n" + second(dtype, 1024) + f"%r: {dtype}[1024] = where %q, %u, %t\n"
    )

    def want(x, y):
        return torch.where(x.view(DTYPES[dtype]).double() < -1.0, y, x)

    return one_to_one(dtype, body, 1024, want)


def choose_in_a_chain(dtype):
    """Selects many times between two tiles, each of which the selection before made."""
    keep = torch.arange(COUNT) % 3 != 0
    a, b, body = "%t", "%u", second(dtype, 1024) + mask(1024)
    for i in range(49):  # an odd number
        body += f"%a{i}: {dtype}[1024] = where %k, {a}, {b}\n%b{i}: {dtype}[1024] = where %k, {b}, {a}\n"
        a, b = f"%a{i}", f"%b{i}"
    body += f"%r: {dtype}[1024] = where %k, {a}, {a}\n"
    return one_to_one(dtype, body, 1024, lambda x, y: torch.where(keep, x, y), {"k": ("bool", 1)}, [(keep, None)])


def choose_for_two(dtype):
    """Stores a selected tile twice: as it is, and after a reshape and a permutation."""
    keep = torch.arange(COUNT) % 5 < 2
    body = (
        second(dtype, 1024) + mask(1024) + f"%r: {dtype}[1024] = where %k, %t, %u\n"
        f"%m: {dtype}[32,32] = reshape %r {{shape=[32,32]}}\n%n: {dtype}[32,32] = permute %m {{axes=[1,0]}}\n"
        f"%f: {dtype}[1024] = reshape %n {{shape=[1024]}}\n"
    ) + store("p", "f", "[1024]", "%b")
    case = one_to_one(
        dtype,
        body,
        1024,
        lambda x, y: torch.where(keep, x, y),
        {"k": ("bool", 1), "p": (dtype, 1)},
        [(keep, None), (torch.zeros_like(patterns(dtype)), DTYPES[dtype])],
    )
    chosen = case.wanted[0][1]
    case.wanted.append((4, chosen.view(-1, 32, 32).mT.reshape(-1)))
    return case


def shapes(dtype):
    """Reshapes, permutes, extracts, concatenates and inserts."""
    body = (
        second(dtype, 1024) + f"%m: {dtype}[16,64] = reshape %t {{shape=[16,64]}}\n"
        f"%n: {dtype}[64,16] = permute %m {{axes=[1,0]}}\n"
        f"%l: {dtype}[32,16] = extract %n, %z, %z {{shape=[32,16]}}\n"
        f"%h: {dtype}[32,16] = extract %n, %one, %z {{shape=[32,16]}}\n"
        f"%c: {dtype}[32,32] = cat %h, %l {{axis=1}}\n"
        f"%e: {dtype}[16,16] = extract %c, %one, %one {{shape=[16,16]}}\n"
        f"%i: {dtype}[32,32] = insert %c, %e, %z, %z\n"
        f"%r: {dtype}[1024] = reshape %i {{shape=[1024]}}\n"
    )

    def want(x, y):
        n = x.view(-1, 16, 64).mT
        c = torch.cat([n[:, 32:], n[:, :32]], 2)
        i = c.clone()
        i[:, :16, :16] = c[:, 16:, 16:]
        return i.reshape(-1)

    return one_to_one(dtype, body, 1024, want)


def spread(dtype):
    """Broadcasts rows, columns and single elements."""
    body = (
        load("row", "y", dtype, "[1]", "%b") + f"%s: {dtype} = reshape %row {{shape=[]}}\n"
        f"%q: {dtype}[2,4] = broadcast %s {{shape=[2,4]}}\n"
        f"%m: {dtype}[1,8] = reshape %t {{shape=[1,8]}}\n%w: {dtype}[4,8] = broadcast %m {{shape=[4,8]}}\n"
        f"%f: {dtype}[8,1] = reshape %t {{shape=[8,1]}}\n%v: {dtype}[8,4] = broadcast %f {{shape=[8,4]}}\n"
        f"%r: {dtype}[8] = reshape %q {{shape=[8]}}\n" + store("p", "w", "[4,8]", "%b, %z") + store("c", "v", "[8,4]", "%b, %z")
    )
    x = patterns(dtype)
    case = one_to_one(
        dtype,
        body,
        8,
        lambda x, y: y[: COUNT // 8].repeat_interleave(8),
        {"p": (dtype, 2), "c": (dtype, 2)},
        [(torch.zeros(COUNT // 2, 8, dtype=x.dtype), DTYPES[dtype]), (torch.zeros(COUNT, 4, dtype=x.dtype), DTYPES[dtype])],
    )
    case.wanted += [(3, x.view(-1, 1, 8).expand(-1, 4, 8).reshape(COUNT // 2, 8)), (4, x.view(-1, 1).expand(COUNT, 4))]
    return case


def elements(dtype):
    """Gathers elements, and scatters them into another array."""
    body = (
        load("j", "i", "i32", "[1024]", "%b", "0") + f"%g: {dtype}[1024] = gather %my, %j {{pad=0.0}}\nscatter %mp, %g, %j\n"
        f"%r: {dtype}[1024] = reshape %g {{shape=[1024]}}\n"
    )
    x = patterns(dtype)
    positions = (torch.arange(COUNT) * 30011 + 5) % COUNT
    case = one_to_one(
        dtype,
        body,
        1024,
        lambda x, y: y[positions],
        {"i": ("i32", 1), "p": (dtype, 1)},
        [(positions.int(), None), (torch.zeros_like(x), DTYPES[dtype])],
    )
    case.wanted.append((4, mixed(x)))
    return case


def atomics(dtype):
    """Moves elements by atomic exchange, compare-and-swap, store and load."""
    body = (
        "%a: i32[1024] = arange {dtype=i32, size=1024}\n%c: i32 = constant {dtype=i32, value=1024}\n"
        "%f: i32 = mul %b, %c\n%g: i32[1024] = broadcast %f {shape=[1024]}\n%i: i32[1024] = add %a, %g\n"
        + second(dtype, 1024)
        + f"%was: {dtype}[1024] = atomic_xchg %mp, %u, %i\n"  # p holds x, then y
        f"%seen: {dtype}[1024] = atomic_cas %mp, %u, %was, %i\n"  # finds y's bits, so stores x
        f"atomic_store %mq, %seen, %i\n%r: {dtype}[1024] = atomic_load %mp, %i\n"
    )
    x = patterns(dtype)
    case = one_to_one(
        dtype,
        body,
        1024,
        "x",
        {"p": (dtype, 1), "q": (dtype, 1)},
        [(x.clone(), DTYPES[dtype]), (torch.zeros_like(x), DTYPES[dtype])],
    )
    case.wanted += [(3, x), (4, mixed(x))]
    return case


def carried(dtype):
    """Carries tiles and a scalar through the iterations of a loop and through a branch."""
    body = (
        second(dtype, 64) + load("e", "y", dtype, "[1]", "%b") + f"%s: {dtype} = reshape %e {{shape=[]}}\n"
        "%five: i32 = constant {dtype=i32, value=5}\n%two: i32 = constant {dtype=i32, value=2}\n"
        f"%c: {dtype}[64], %d: {dtype}[64], %w: {dtype} = for %z, %five, %one, %t, %u, %s "
        f"(%n: i32, %a: {dtype}[64], %v: {dtype}[64], %k: {dtype}) {{\nyield %v, %a, %k\n}}\n"
        "%half: i32 = mod %b, %two\n%odd: bool = eq %half, %one\n"
        f"%r: {dtype}[64], %l: {dtype} = if %odd () {{\nyield %c, %w\n}} () {{\nyield %d, %s\n}}\n"
        f"%q: {dtype}[8] = broadcast %l {{shape=[8]}}\n" + store("p", "q", "[8]", "%b")
    )
    x = patterns(dtype)
    odd = (torch.arange(COUNT) // 64) % 2 == 1
    case = one_to_one(
        dtype,
        body,
        64,
        lambda x, y: torch.where(odd, y, x),
        {"p": (dtype, 1)},
        [(torch.zeros(COUNT // 8, dtype=x.dtype), DTYPES[dtype])],
    )
    case.wanted.append((3, mixed(x)[: COUNT // 64].repeat_interleave(8)))
    return case


def change_places(dtype):
    """Swaps two arrays that are both read and written, so tiles must be copied before they are overwritten."""
    body = second(dtype, 1024) + store("x", "u", "[1024]", "%b") + store("y", "t", "[1024]", "%b")
    case = one_to_one(dtype, body + f"%r: {dtype}[1024] = reshape %u {{shape=[1024]}}\n", 1024, "y")
    x = patterns(dtype)
    case.wanted += [(0, mixed(x)), (1, x)]
    return case


def turned(dtype):
    """Transposes from memory to memory."""
    text = kernel(
        {"x": (dtype, 2), "o": (dtype, 2)},
        load("t", "x", dtype, "[8,256]", "%b, %z")
        + f"%r: {dtype}[256,8] = permute %t {{axes=[1,0]}}\n"
        + store("o", "r", "[256,8]", "%z, %b"),
    )
    x = patterns(dtype).view(SIDE, SIDE)
    return Case(text, (SIDE // 8, 1, 1), [x, torch.zeros_like(x)], [(1, x.t().contiguous())], [DTYPES[dtype]] * 2)


def bits(dtype):
    """Bitcasts to integers and back, and packs to bytes and back."""
    size = DTYPES[dtype].itemsize
    integer = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}[size]
    body = (
        f"%w: {integer}[1024] = bitcast %t {{dtype={integer}}}\n"
        + store("w", "w", "[1024]", "%b")
        + load("v", "w", integer, "[1024]", "%b", "0")
        + f"%r: {dtype}[1024] = bitcast %v {{dtype={dtype}}}\n"
        f"%p: u8[{1024 * size}] = pack_to_bytes %t\n"
        + store("p", "p", f"[{1024 * size}]", "%b")
        + load("q", "g", "u8", f"[{1024 * size}]", "%b", "0")
        + f"%u: {dtype}[1024] = unpack_from_bytes %q {{dtype={dtype}}}\n"
        + store("y", "u", "[1024]", "%b")
    )
    x = patterns(dtype)
    raw = mixed(x).view(torch.uint8)
    case = one_to_one(
        dtype,
        body,
        1024,
        "x",
        {"w": (integer, 1), "p": ("u8", 1), "g": ("u8", 1)},
        [(torch.zeros_like(x), None), (torch.zeros(COUNT * size, dtype=torch.uint8), None), (raw, None)],
    )
    case.arguments[1] = torch.zeros_like(x)
    case.wanted += [(3, x), (4, x.view(torch.uint8)), (1, mixed(x))]
    return case


def rows(dtype):
    """Gathers and scatters whole rows."""
    text = kernel(
        {"x": (dtype, 2), "i": ("i32", 1), "o": (dtype, 2), "p": (dtype, 2)},
        load("j", "i", "i32", "[8]", "%b", "0")
        + f"%r: {dtype}[8,256] = gather_rows %mx, %j, %z {{axis=0, pad=0.0, shape=[8,256], steps=[1,256]}}\n"
        + store("o", "r", "[8,256]", "%b, %z")
        + "scatter_rows %mp, %r, %j, %z {axis=0, steps=[1,256]}\n",
    )
    x = patterns(dtype).view(SIDE, SIDE)
    order = (torch.arange(SIDE) * 77 + 3) % SIDE
    return Case(
        text,
        (SIDE // 8, 1, 1),
        [x, order.int(), torch.zeros_like(x), torch.zeros_like(x)],
        [(2, x[order]), (3, x)],
        [DTYPES[dtype], None, DTYPES[dtype], DTYPES[dtype]],
    )


MOVES = [
    copy,
    copy_at_edges,
    choose,
    choose_or_computed,
    choose_by_itself,
    choose_in_a_chain,
    choose_for_two,
    shapes,
    spread,
    elements,
    atomics,
    carried,
    change_places,
    turned,
    bits,
    rows,
]
# The dtypes that an operation in these programs does not support.
LACKS = {(move, dtype) for move in (choose_or_computed, choose_by_itself) for dtype in ("f8e4m3", "f8e5m2")}
CASES = {
    f"{move.__name__.replace('_', ' ')}, {dtype}": (move, dtype)
    for move in MOVES
    for dtype in DTYPES
    if (move, dtype) not in LACKS
}
