"""Defines litmus tests of memory order in Tile IR: messages, locks, look-back, store buffering and coherence, with the
results that are allowed. Blocks wait only for blocks that started before them."""

import dataclasses
import typing

import torch


@dataclasses.dataclass
class Litmus:
    text: str
    grid: tuple
    arguments: list  # written in place
    check: typing.Callable  # takes the arguments, returns None or what is wrong


def kernel(arrays, body):
    declared = ", ".join(f"%{name}: array<i32,{rank}>" for name, rank in arrays.items())
    head = """%z: i32 = constant {dtype=i32, value=0}
%one: i32 = constant {dtype=i32, value=1}
%two: i32 = constant {dtype=i32, value=2}
%b: i32 = bid {axis=0}
"""
    return f"kernel litmus({declared}) {{\n{head}{body}}}\n"


def tile(name, array, index, size):
    return f"%{name}: i32[{size}] = load %{array}, {index} {{pad=0, shape=[{size}], steps=[{size}]}}\n"


def put(array, value, index, size):
    return f"store %{array}, %{value}, {index} {{steps=[{size}]}}\n"


def read(name, way, array, index, order):
    """Reads atomically, by a load or by a read-modify-write that changes nothing."""
    words = f'{{order="{order}"}}'
    if way == "load":
        return f"%{name}: i32 = atomic_load %{array}, {index} {words}\n"
    return f"%{name}: i32 = atomic_add %{array}, %z, {index} {words}\n"


def write(name, way, array, value, index, order):
    words = f'{{order="{order}"}}'
    if way == "store":
        return f"atomic_store %{array}, {value}, {index} {words}\n"
    return f"%{name}: i32 = atomic_xchg %{array}, {value}, {index} {words}\n"


def wait(name, look, stop):
    """Repeats `look`, which defines %<name>, until %<name> equals `stop`."""
    return f"""loop () {{
{look}%{name}there: bool = eq %{name}, {stop}
if %{name}there () {{
break
}} () {{
yield
}}
continue
}}
"""


def own_copy(size):
    """Copies a tile before any atomic operation; later loops of the same shape must not be fused with this copy."""
    return tile("p", "x", "%b", size) + put("o", "p", "%b", size)


def numbers(count, size):
    return torch.randint(-9, 9, (count, size), dtype=torch.int32)


def zeros(*sizes):
    return torch.zeros(sizes, dtype=torch.int32)


def differs(got, want):
    return None if torch.equal(got, want) else f"{int((got != want).sum())} of {want.numel()} elements are wrong"


def message(pairs, size, way=("store", "load"), orders=("release", "acquire")):
    """The first block of a pair writes a tile and a flag; the second waits for the flag and adds to the tile."""
    body = (
        own_copy(size)
        + """%t: i32 = atomic_add %tickets, %one, %z {order="relaxed"}
%pair: i32 = floordiv %t, %two
%half: i32 = mod %t, %two
%first: bool = eq %half, %z
if %first () {
"""
        + tile("m", "y", "%pair", size)
        + put("d", "m", "%pair", size)
        + write("old", way[0], "f", "%one", "%pair", orders[0])
        + "yield\n} () {\n"
        + wait("seen", read("seen", way[1], "f", "%pair", orders[1]), "%one")
        + tile("n", "d", "%pair", size)
        + "%s: i32[SIZE] = add %n, %p\n".replace("SIZE", str(size))
        + put("d", "s", "%pair", size)
        + "%q: i32[1] = broadcast %b {shape=[1]}\n"
        + put("who", "q", "%pair", 1)
        + "yield\n}\n"
    )
    x, y = numbers(2 * pairs, size), numbers(pairs, size)
    arrays = dict.fromkeys(["x", "o", "tickets", "y", "d", "f", "who"], 1)
    arguments = [x.flatten(), zeros(2 * pairs * size), zeros(1), y.flatten(), zeros(pairs * size), zeros(pairs), zeros(pairs)]

    def check(left):
        readers = left[6].long().cpu()
        return differs(left[4].cpu().view(pairs, size), y + x[readers]) or differs(left[1].cpu(), x.flatten())

    return Litmus(kernel(arrays, body), (2 * pairs, 1, 1), arguments, check)


def added(size):
    """Adds to the tile that the lock protects, as all blocks do."""
    return tile("n", "d", "%z", size) + f"%s: i32[{size}] = add %p, %n\n" + put("d", "s", "%z", size)


def of_all_blocks(blocks, size, body, counters):
    x = numbers(blocks, size)
    arrays = dict.fromkeys(["x", "o", "d", "f"], 1)
    arguments = [x.flatten(), zeros(blocks * size), zeros(size), zeros(counters)]

    def check(left):
        return differs(left[2].cpu(), x.sum(0, dtype=torch.int32)) or differs(left[1].cpu(), x.flatten())

    return Litmus(kernel(arrays, own_copy(size) + body), (blocks, 1, 1), arguments, check)


def lock(blocks, size, release="store", orders=("acquire", "release")):
    """Acquires a lock by compare-and-swap, and releases it by a store or an exchange."""
    take = f'%held: i32 = atomic_cas %f, %z, %one, %z {{order="{orders[0]}"}}\n'
    body = wait("held", take, "%z") + added(size) + write("was", release, "f", "%z", "%z", orders[1])
    return of_all_blocks(blocks, size, body, 1)


def ticket_lock(blocks, size, look="load", orders=("acquire", "release")):
    """Lets blocks draw tickets and enter in ticket order."""
    body = (
        '%t: i32 = atomic_add %f, %one, %z {order="relaxed"}\n'
        + wait("now", read("now", look, "f", "%one", orders[0]), "%t")
        + added(size)
        + f'%was: i32 = atomic_add %f, %one, %one {{order="{orders[1]}"}}\n'
    )
    return of_all_blocks(blocks, size, body, 2)


def turns(blocks, size, orders=("acquire", "release")):
    """Lets blocks enter in the order of their indices; each computes the tile from the one that the last block left."""
    look = f'%now: i32 = atomic_cas %f, %b, %b, %z {{order="{orders[0]}"}}\n'
    body = (
        wait("now", look, "%b")
        + tile("n", "d", "%z", size)
        + f"%w: i32[{size}] = mul %n, %three\n%s: i32[{size}] = sub %p, %w\n"
        + put("d", "s", "%z", size)
        + "%next: i32 = add %b, %one\n"
        + write("was", "xchg", "f", "%next", "%z", orders[1])
    )
    three = f"%c: i32 = constant {{dtype=i32, value=3}}\n%three: i32[{size}] = broadcast %c {{shape=[{size}]}}\n"
    litmus = of_all_blocks(blocks, size, three + body, 1)
    x, want = litmus.arguments[0].view(blocks, size).long(), torch.zeros(size, dtype=torch.int64)
    for row in x:
        want = row - 3 * want
    low = want & 0xFFFFFFFF
    wrapped = torch.where(low >= 2**31, low - 2**32, low).int()
    litmus.check = lambda left: differs(left[2].cpu(), wrapped)
    return litmus


def look_back(blocks, size, orders=("acquire", "release")):
    """Computes a running sum of tiles: each block publishes its own tile, then adds the tiles of the blocks before it,
    back to the nearest one that has published its whole sum."""
    get, give = orders
    body = (
        own_copy(size)
        + '%t: i32 = atomic_add %tickets, %one, %z {order="relaxed"}\n'
        + tile("own", "y", "%t", size)
        + put("part", "own", "%t", size)
        + f'atomic_store %f, %one, %t {{order="{give}"}}\n'
        + f"%before: i32 = sub %t, %one\n%none: i32[{size}] = broadcast %z {{shape=[{size}]}}\n"
        + f"%i: i32, %sum: i32[{size}] = loop %before, %none (%j: i32, %have: i32[{size}]) {{\n"
        + "%out: bool = lt %j, %z\nif %out () {\nbreak %j, %have\n} () {\nyield\n}\n"
        + read("state", "load", "f", "%j", get)
        + "%whole: bool = eq %state, %two\nif %whole () {\n"
        + tile("w", "all", "%j", size)
        + f"%last: i32[{size}] = add %have, %w\nbreak %j, %last\n}} () {{\nyield\n}}\n"
        + "%partly: bool = eq %state, %one\n"
        + f"%k: i32, %more: i32[{size}] = if %partly () {{\n"
        + tile("v", "part", "%j", size)
        + f"%u: i32[{size}] = add %have, %v\n%h: i32 = sub %j, %one\nyield %h, %u\n}} () {{\nyield %j, %have\n}}\n"
        + "continue %k, %more\n}\n"
        + f"%total: i32[{size}] = add %sum, %own\n"
        + put("all", "total", "%t", size)
        + f'atomic_store %f, %two, %t {{order="{give}"}}\n'
    )
    x, y = numbers(blocks, size), numbers(blocks, size)
    arrays = dict.fromkeys(["x", "o", "tickets", "y", "part", "all", "f"], 1)
    arguments = [
        x.flatten(),
        zeros(blocks * size),
        zeros(1),
        y.flatten(),
        zeros(blocks * size),
        zeros(blocks * size),
        zeros(blocks),
    ]
    want = y.cumsum(0, dtype=torch.int32).flatten()
    return Litmus(kernel(arrays, body), (blocks, 1, 1), arguments, lambda left: differs(left[5].cpu(), want))


def partners(blocks, size, arrays, body, check):
    """Groups blocks in pairs: %pair is the index of the pair, %first is true in its first block. No block waits."""
    start = """%pair: i32 = floordiv %b, %two
%half: i32 = mod %b, %two
%first: bool = eq %half, %z
"""
    x = numbers(blocks, size)
    arguments = [x.flatten(), zeros(blocks * size), *(zeros(blocks) for _ in arrays)]
    text = kernel(dict.fromkeys(["x", "o", *arrays], 1), own_copy(size) + start + body)
    return Litmus(text, (blocks, 1, 1), arguments, check)


def store_buffering(blocks, size, ways=("xchg", "add"), orders=("acq_rel", "acq_rel")):
    """Each block of a pair writes its flag and reads the other's. If both are read-modify-writes that acquire and
    release, at least one block sees the other's flag; with weaker orders perhaps neither does."""

    def side(own, other):
        return (
            write("old", ways[0], own, "%one", "%pair", orders[0])
            + read("seen", ways[1], other, "%pair", orders[1])
            + "%q: i32[1] = broadcast %seen {shape=[1]}\n"
            + put("r", "q", "%b", 1)
            + "yield\n"
        )

    ordered = ways == ("xchg", "add") and orders == ("acq_rel", "acq_rel")

    def check(left):
        seen = left[4].cpu()
        if not ((seen == 0) | (seen == 1)).all():
            return f"read {seen.tolist()}"
        if ordered and not (seen.view(-1, 2).sum(1) >= 1).all():
            return "neither block of a pair saw the other's flag"

    body = "if %first () {\n" + side("f", "g") + "} () {\n" + side("g", "f") + "}\n"
    return partners(blocks, size, ["f", "g", "r"], body, check)


def coherence(blocks, size, order="relaxed"):
    """One block of a pair increments an element, the other reads it twice: the second value is never smaller."""
    words = f'{{order="{order}"}}' if order != "relaxed" else ""
    up = "".join(f"%u{i}: i32 = atomic_add %f, %one, %pair {words}\n" for i in range(4))
    down = "".join(
        f"%s{i}: i32 = atomic_load %f, %pair\n%q{i}: i32[1] = broadcast %s{i} {{shape=[1]}}\n"
        + put(f"r{i}", f"q{i}", "%pair", 1)
        for i in range(2)
    )

    def check(left):
        counts, early, late = (each.cpu()[: blocks // 2] for each in left[2:])
        if not (counts == 4).all():
            return f"counted {counts.tolist()}"
        if not ((early >= 0) & (early <= late) & (late <= 4)).all():
            return f"read {early.tolist()}, then {late.tolist()}"

    return partners(blocks, size, ["f", "r0", "r1"], f"if %first () {{\n{up}yield\n}} () {{\n{down}yield\n}}\n", check)


BY_CHANGES = ("xchg", "add")
STRICT, PLAIN, RELAXED = ("acq_rel", "acq_rel"), ("release", "acquire"), ("relaxed", "relaxed")
# Each value is called with (blocks, elements of a tile) and returns a Litmus.
CASES = {
    "message": lambda blocks, size: message(blocks // 2, size),
    "message by changes": lambda blocks, size: message(blocks // 2, size, BY_CHANGES, PLAIN),
    "message by changes that do both": lambda blocks, size: message(blocks // 2, size, BY_CHANGES, STRICT),
    "lock": lock,
    "lock by an exchange": lambda blocks, size: lock(blocks, size, "xchg"),
    "lock by changes that do both": lambda blocks, size: lock(blocks, size, "xchg", STRICT),
    "ticket lock": ticket_lock,
    "ticket lock by changes that do both": lambda blocks, size: ticket_lock(blocks, size, "add", STRICT),
    "turns": turns,
    "turns by changes that do both": lambda blocks, size: turns(blocks, size, STRICT),
    "look-back": look_back,
    "store buffering": store_buffering,
    "store buffering, one order": lambda blocks, size: store_buffering(blocks, size, ("store", "load"), PLAIN),
    "store buffering, relaxed": lambda blocks, size: store_buffering(blocks, size, ("store", "load"), RELAXED),
    "store buffering, relaxed changes": lambda blocks, size: store_buffering(blocks, size, BY_CHANGES, RELAXED),
    "coherence, relaxed": coherence,
    "coherence": lambda blocks, size: coherence(blocks, size, "acq_rel"),
}
