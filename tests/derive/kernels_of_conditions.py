"""Operators with loops that end by a condition, whose gradients are derived."""

import tile_ops
import tile_ops.language as tl
import torch

from derive.cases import case, loaded, row_outputs, spread, transposed, wide


def rows_of(function, *arrays):
    """Returns the results of a function of one row of each array, stacked."""
    return torch.stack([function(*rows) for rows in zip(*arrays)])


def parts_of(x):
    """Returns the tiles of 4 elements that a kernel loads of a row: zeros fill the last one."""
    return torch.nn.functional.pad(x, (0, -len(x) % 4)).split(4)


@tl.kernel
def halved_kernel(x, limit, out, N: tl.Constant[int]):
    """Blocks differ in iterations, of which nothing is known before."""
    row, most = tl.bid(0), tl.load(limit, (), ()).astype(wide(x))
    t = loaded(x, (row, 0), (1, N)) * 3
    while tl.sum(t * t) > most:
        t = t * 0.75 + 0.01 * tl.sin(t)
    tl.store(out, (row, 0), t.astype(out.dtype))


def halved_reference(x, limit):
    def row(t):
        t = t * 3
        while (t * t).sum() > limit:
            t = t * 0.75 + 0.01 * t.sin()
        return t

    return rows_of(row, x)


@case(lambda make: (make(6, 5, change=transposed), torch.tensor(2.3)), halved_reference)
@tile_ops.op("gradients::halved(Tensor x, Tensor limit) -> Tensor", outputs="x", grad="auto")
def halved(x, limit, out):
    halved_kernel[x.shape[0]](x, limit, out, 8)


@tl.kernel
def cube_root_kernel(x, out, N: tl.Constant[int]):
    """A cube root by steps that are repeated until none moves far, or there were 40."""
    i = tl.bid(0)
    a = 1.5 + tl.abs(loaded(x, i, N))
    y, k, going = a, 0, True
    while going and k < 40:
        new = y - (y * y * y - a) / (3 * y * y)
        going = tl.max(tl.abs(new - y)) > 1e-3
        y, k = new, k + 1
    tl.store(out, i, y.astype(out.dtype))


@case(lambda make: (make(11),), lambda x: cube_root_reference(x))
@tile_ops.op("gradients::cube_root(Tensor x) -> Tensor", outputs="x", grad="auto")
def cube_root(x, out):
    cube_root_kernel[tl.cdiv(len(x), 4)](x, out, 4)


def cube_root_reference(x):
    results = []
    for part in parts_of(x):
        a = 1.5 + part.abs()
        y, k, going = a, 0, True
        while going and k < 40:
            new = y - (y**3 - a) / (3 * y * y)
            going = ((new - y).abs().max() > 1e-3).item()
            y, k = new, k + 1
        results.append(y)
    return torch.cat(results)[: len(x)]


@tl.kernel
def stopped_kernel(x, out, N: tl.Constant[int]):
    """A `for` that is left before its end, and one place behind it that knows where."""
    row, state, last = tl.bid(0), tl.ones((1, N), wide(x)), 0
    for k in range(1, tl.num_tiles(x, 1, (1, N)), 2):
        t = loaded(x, (row, k), (1, N))
        if tl.sum(t) > 1.5:
            state = state * t
            break
        state = state * tl.cos(t) + 0.25 * t
        last = k
    tl.store(out, row, (tl.sum(state, 1) * (1 + last)).astype(out.dtype))


def stopped_reference(x):
    def row(x):
        parts = parts_of(x)
        state, last = torch.ones_like(parts[0]), 0
        for k in range(1, len(parts), 2):
            if parts[k].sum() > 1.5:
                state = state * parts[k]
                break
            state = state * parts[k].cos() + 0.25 * parts[k]
            last = k
        return state.sum() * (1 + last)

    return rows_of(row, x)


@case(lambda make: (make(7, 27, change=spread),), stopped_reference)
@tile_ops.op("gradients::stopped(Tensor x) -> Tensor", outputs=row_outputs, grad="auto")
def stopped(x, out):
    stopped_kernel[len(x)](x, out, 4)


@tl.kernel
def chosen_kernel(x, out, N: tl.Constant[int]):
    """`continue` and `break` in branches of branches, and a value that both sides of one change."""
    row, state, count = tl.bid(0), tl.ones((1, N), wide(x)), 0
    for k in range(tl.num_tiles(x, 1, (1, N))):
        t = loaded(x, (row, k), (1, N))
        total = tl.sum(t)
        if total > 0:
            if total > 3.5:
                state = state - t * t
                break
            state = state * (1 + 0.1 * t)
            if total < 0.75:
                continue
            state = tl.tanh(state)
        else:
            t = t * t
            if count > 1:
                count = 0
                continue
        count = count + 1
        state = state + 0.5 * t
    tl.store(out, row, tl.sum(state, 1).astype(out.dtype))


def chosen_reference(x):
    def row(x):
        parts = parts_of(x)
        state, count = torch.ones_like(parts[0]), 0
        for t in parts:
            total = t.sum()
            if total > 0:
                if total > 3.5:
                    state = state - t * t
                    break
                state = state * (1 + 0.1 * t)
                if total < 0.75:
                    continue
                state = state.tanh()
            else:
                t = t * t
                if count > 1:
                    count = 0
                    continue
            count = count + 1
            state = state + 0.5 * t
        return state.sum()

    return rows_of(row, x)


@case(lambda make: (make(9, 45),), chosen_reference)
@tile_ops.op("gradients::chosen(Tensor x) -> Tensor", outputs=row_outputs, grad="auto")
def chosen(x, out):
    chosen_kernel[len(x)](x, out, 4)


@tl.kernel
def until_kernel(x, out, N: tl.Constant[int]):
    """Each iteration stores, also the last one."""
    row, state = tl.bid(0), tl.ones((1, N), wide(x))
    for k in range(tl.num_tiles(x, 1, (1, N))):
        t = loaded(x, (row, k), (1, N))
        state = state * tl.sin(t) + t
        tl.store(out, (row, k), state.astype(out.dtype))
        if tl.sum(state) > 1.5:
            break


def until_reference(x):
    def row(x):
        parts, results = x.split(4), []
        state = torch.ones_like(parts[0])
        for t in parts:
            state = torch.nn.functional.pad(state, (0, len(t) - 4)) * t.sin() + t
            results.append(state)
            if state.sum() > 1.5:
                break
        return torch.nn.functional.pad(torch.cat(results), (0, len(x) - sum(map(len, results))))

    return rows_of(row, x)


@case(lambda make: (make(6, 19),), until_reference)
@tile_ops.op("gradients::until(Tensor x) -> Tensor", outputs="x", grad="auto")
def until(x, out):
    out.zero_()
    until_kernel[len(x)](x, out, 4)


@tl.kernel
def linked_kernel(x, first, next, out, N: tl.Constant[int]):
    """Rows of a list: an iteration loads where the next one reads."""
    i, j = tl.bid(0), tl.bid(1)
    state, at = tl.zeros((1, N), wide(x)), tl.load(first, i, ())
    while at >= 0:
        state = state * 0.5 + tl.tanh(state * loaded(x, (at, j), (1, N)) + loaded(x, (at, j), (1, N)))
        at = tl.load(next, at, ())
    tl.store(out, (i, j), state.astype(out.dtype))


def linked_reference(x, first, next):
    results = []
    for at in first.tolist():
        state = torch.zeros_like(x[0])
        while at >= 0:
            state = state * 0.5 + torch.tanh(state * x[at] + x[at])
            at = next[at].item()
        results.append(state)
    return torch.stack(results)


@case(lambda make: (make(6, 5), torch.tensor([2, 0, -1]), torch.tensor([-1, 5, 4, 0, 1, 3])), linked_reference)
@tile_ops.op(
    "gradients::linked(Tensor x, Tensor first, Tensor next) -> Tensor",
    outputs=lambda x, first: x.new_empty(len(first), x.shape[1]),
    grad="auto",
)
def linked(x, first, next, out):
    linked_kernel[len(first), tl.cdiv(x.shape[1], 4)](x, first, next, out, 4)


@tl.kernel
def nests_kernel(x, counts, out, N: tl.Constant[int]):
    """A loop of a loaded length with a loop inside that ends by a condition, and one that is left at once."""
    i = tl.bid(0)
    state = loaded(x, i, N)
    for _ in range(tl.load(counts, i, ())):
        state = state * 2 + loaded(x, i, N)
        while tl.max(tl.abs(state)) > 1.25:
            state = state * tl.cos(0.1 * state) * 0.7
        while True:
            state = state + 0.125 * state * state
            if tl.sum(state) < 1:
                state = tl.sin(state)
                break
            state = state * 0.5
    tl.store(out, i, state.astype(out.dtype))


def nests_reference(x, counts):
    results = []
    for part, count in zip(parts_of(x), counts.tolist()):
        state = part
        for _ in range(count):
            state = state * 2 + part
            while state.abs().max() > 1.25:
                state = state * torch.cos(0.1 * state) * 0.7
            while True:
                state = state + 0.125 * state * state
                if state.sum() < 1:
                    state = state.sin()
                    break
                state = state * 0.5
        results.append(state)
    return torch.cat(results)[: len(x)]


@case(lambda make: (make(18), torch.tensor([3, 0, 1, 7, 2])), nests_reference)
@tile_ops.op("gradients::nests(Tensor x, Tensor counts) -> Tensor", outputs="x", grad="auto")
def nests(x, counts, out):
    nests_kernel[len(counts)](x, counts, out, 4)


@tl.kernel
def summed_kernel(x, out, limit: float, N: tl.Constant[int]):
    """Only a sum, until it is large: nothing is kept, and the row that is summed up to a place is counted."""
    row, total, k = tl.bid(0), tl.zeros((1, N), wide(x)), 0
    while k < tl.num_tiles(x, 1, (1, N)) and tl.sum(total) < limit:
        t = loaded(x, (row, k), (1, N))
        total = total + t * t
        k = k + 1
    tl.store(out, row, (tl.sum(total, 1) / (1 + k)).astype(out.dtype))


def summed_reference(x, limit):
    def row(x):
        parts, k, total = parts_of(x), 0, 0
        while k < len(parts) and (total if k == 0 else total.sum()) < limit:
            total, k = total + parts[k] ** 2, k + 1
        return total.sum() / (1 + k)

    return rows_of(row, x)


@case(lambda make: (make(7, 22), 8.5), summed_reference)
@tile_ops.op("gradients::summed(Tensor x, float limit) -> Tensor", outputs=row_outputs, grad="auto")
def summed(x, limit, out):
    summed_kernel[len(x)](x, out, limit, 4)


@tl.kernel
def passed_over_kernel(x, skipped, out, N: tl.Constant[int]):
    """Only `continue`: the loop is a `for`, whose index proves that iterations store different elements."""
    row, state = tl.bid(0), tl.ones((1, N), wide(x))
    for k in range(1, tl.num_tiles(x, 1, (1, N)), 2):
        if tl.load(skipped, k, ()) != 0:
            continue
        t = loaded(x, (row, k), (1, N))
        state = tl.sin(state) * t + t
        tl.store(out, (row, k), state.astype(out.dtype))


def passed_over_reference(x, skipped):
    state, results = torch.ones_like(x[:, :4]), []
    for k, t in enumerate(torch.nn.functional.pad(x, (0, -x.shape[1] % 4)).split(4, 1)):
        if k % 2 and not skipped[k]:
            state = state.sin() * t + t
            results.append(state)
        else:
            results.append(torch.zeros_like(t))
    return torch.cat(results, 1)[:, : x.shape[1]]


@case(lambda make: (make(3, 27), torch.tensor([0, 0, 0, 1, 0, 0, 0])), passed_over_reference)
@tile_ops.op("gradients::passed_over(Tensor x, Tensor skipped) -> Tensor", outputs="x", grad="auto")
def passed_over(x, skipped, out):
    out.zero_()
    passed_over_kernel[len(x)](x, skipped, out, 4)
