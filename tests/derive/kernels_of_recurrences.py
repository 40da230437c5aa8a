"""Operators with a state from step to step whose gradients are derived."""

import tile_ops
import tile_ops.language as tl
import torch
import torch.nn.functional as F

from derive.cases import case, loaded, power, transposed, wide


def row_of(array, t, j, N):
    """Loads tile j of row t of a matrix, [N]."""
    return loaded(array, (t, j), (1, N)).reshape((N,))


def matrix_row(array, h, t, D):
    """Loads row t of matrix h, [D]."""
    return loaded(array, (h, t, 0), (1, 1, D)).reshape((D,))


def steps(function, states, *sequences):
    """Returns the results of a function (states, element of each sequence) -> (states, result), stacked."""
    results = []
    for each in zip(*sequences):
        states, result = function(states, *each)
        results.append(result)
    return torch.stack(results)


def zeros_like(x, *shape):
    return torch.zeros(shape, dtype=x.dtype, device=x.device)


@tl.kernel
def average_kernel(x, decay, first, out, N: tl.Constant[int]):
    j = tl.bid(0)
    state, rate = loaded(first, j, N), tl.sigmoid(loaded(decay, j, N))
    for t in range(x.shape[0]):
        state = rate * state + (1 - rate) * row_of(x, t, j, N)
        tl.store(out, (t, j), state[None, :].astype(out.dtype))


def average_reference(x, decay, first):
    rate = decay.sigmoid()

    def step(state, row):
        state = rate * state + (1 - rate) * row
        return state, state

    return steps(step, first, x)


@case(lambda make: (make(7, 10, change=transposed), make(10), make(10)), average_reference)
@tile_ops.op("gradients::average(Tensor x, Tensor decay, Tensor first) -> Tensor", outputs="x", grad="auto")
def average(x, decay, first, out):
    average_kernel[tl.cdiv(x.shape[1], 4)](x, decay, first, out, 4)


@tl.kernel
def gated_delta_kernel(q, k, v, beta, gate, out, D: tl.Constant[int], E: tl.Constant[int]):
    """The gated delta rule: the state [D, E] forgets, loses what it holds at the key, and takes beta times the value."""
    h, state = tl.bid(0), tl.zeros((D, E), wide(q))
    for t in range(q.shape[1]):
        key, value = matrix_row(k, h, t, D), matrix_row(v, h, t, E)
        key = key * tl.rsqrt(tl.sum(key * key) + 1e-6)
        b, g = tl.load(beta, (h, t), ()).astype(state.dtype), tl.load(gate, (h, t), ()).astype(state.dtype)
        state = state * tl.exp(-tl.exp(g))
        held = tl.sum(key[:, None] * state, 0)
        state = state + key[:, None] * (tl.sigmoid(b) * (value - held))[None, :]
        result = tl.sum(matrix_row(q, h, t, D)[:, None] * state, 0)
        tl.store(out, (h, t, 0), result.astype(out.dtype)[None, None, :])


def gated_delta_reference(q, k, v, beta, gate):
    k = k * torch.rsqrt((k * k).sum(-1, keepdim=True) + 1e-6)

    def step(state, q, k, v, b, g):
        state = state * torch.exp(-g.exp())[:, None, None]
        held = torch.einsum("hd,hde->he", k, state)
        state = state + k[:, :, None] * (b.sigmoid()[:, None] * (v - held))[:, None, :]
        return state, torch.einsum("hd,hde->he", q, state)

    sequences = (each.transpose(0, 1) for each in (q, k, v, beta, gate))
    return steps(step, zeros_like(q, q.shape[0], q.shape[2], v.shape[2]), *sequences).transpose(0, 1)


@case(lambda make: (make(2, 5, 4), make(2, 5, 4), make(2, 5, 3), make(2, 5), make(2, 5)), gated_delta_reference)
@tile_ops.op(
    "gradients::gated_delta(Tensor q, Tensor k, Tensor v, Tensor beta, Tensor gate) -> Tensor",
    outputs=lambda v: torch.empty_like(v),
    grad="auto",
)
def gated_delta(q, k, v, beta, gate, out):
    gated_delta_kernel[q.shape[0]](q, k, v, beta, gate, out, power(q.shape[2]), power(v.shape[2]))


@tl.kernel
def selective_scan_kernel(x, delta, a, b, c, d, out, D: tl.Constant[int], S: tl.Constant[int]):
    """A selective state space: each channel has S states, whose decay and input depend on the step."""
    j = tl.bid(0)
    state, rate, skip = tl.zeros((D, S), wide(x)), -tl.exp(loaded(a, (j, 0), (D, S))), loaded(d, j, D)
    for t in range(x.shape[0]):
        u, step = row_of(x, t, j, D), row_of(delta, t, j, D)
        step = tl.maximum(step, 0) + tl.log1p(tl.exp(-tl.abs(step)))
        state = tl.exp(step[:, None] * rate) * state + (step * u)[:, None] * loaded(b, (t, 0), (1, S))
        y = tl.sum(state * loaded(c, (t, 0), (1, S)), 1) + skip * u
        tl.store(out, (t, j), y.astype(out.dtype)[None, :])


def selective_scan_reference(x, delta, a, b, c, d):
    def step(state, u, step, b, c):
        step = F.softplus(step)
        state = torch.exp(step[:, None] * -a.exp()) * state + (step * u)[:, None] * b
        return state, state @ c + d * u

    return steps(step, torch.zeros_like(a), x, delta, b, c)


@case(lambda make: (make(5, 6), make(5, 6), make(6, 3), make(5, 3), make(5, 3), make(6)), selective_scan_reference)
@tile_ops.op(
    "gradients::selective_scan(Tensor x, Tensor delta, Tensor a, Tensor b, Tensor c, Tensor d) -> Tensor",
    outputs="x",
    grad="auto",
)
def selective_scan(x, delta, a, b, c, d, out):
    selective_scan_kernel[tl.cdiv(x.shape[1], 4)](x, delta, a, b, c, d, out, 4, power(a.shape[1]))


@tl.kernel
def weighted_keys_kernel(w, u, k, v, out, N: tl.Constant[int]):
    """A decaying average weighted by exponentials of keys, with a running maximum, as in RWKV."""
    j, dtype = tl.bid(0), wide(k)
    above, below, top = tl.zeros((N,), dtype), tl.zeros((N,), dtype), tl.full((N,), -1e30, dtype)
    decay, bonus = -tl.exp(loaded(w, j, N)), loaded(u, j, N)
    for t in range(k.shape[0]):
        key, value = row_of(k, t, j, N), row_of(v, t, j, N)
        new = tl.maximum(top, bonus + key)
        old, now = tl.exp(top - new), tl.exp(bonus + key - new)
        tl.store(out, (t, j), ((old * above + now * value) / (old * below + now)).astype(out.dtype)[None, :])
        new = tl.maximum(top + decay, key)
        old, now = tl.exp(top + decay - new), tl.exp(key - new)
        above, below, top = old * above + now * value, old * below + now, new


def weighted_keys_reference(w, u, k, v):
    length = len(k)
    away = torch.arange(length)[:, None] - torch.arange(length) - 1
    logs = -w.exp() * away[..., None] + k
    logs = torch.where((away == -1)[..., None], u + k, logs).masked_fill((away < -1)[..., None], -torch.inf)
    return (logs.softmax(1) * v).sum(1)


@case(lambda make: (make(6), make(6), make(5, 6), make(5, 6)), weighted_keys_reference)
@tile_ops.op(
    "gradients::weighted_keys(Tensor w, Tensor u, Tensor k, Tensor v) -> Tensor",
    outputs=lambda v: torch.empty_like(v),
    grad="auto",
)
def weighted_keys(w, u, k, v, out):
    weighted_keys_kernel[tl.cdiv(k.shape[1], 4)](w, u, k, v, out, 4)


@tl.kernel
def retention_kernel(q, k, v, out, T: tl.Constant[int], D: tl.Constant[int]):
    """Linear attention with a fixed decay of each head, by chunks: products inside, a state between."""
    h, dtype = tl.bid(0), wide(q)
    place = tl.arange(T, dtype=tl.int32)
    rate = tl.log(1 - tl.exp2(-1.0 - h.astype(dtype)))
    away = (place[:, None] - place[None, :]).astype(dtype)
    inner = tl.where(away >= 0, tl.exp(rate * tl.maximum(away, 0)), 0)
    before, after = tl.exp(rate * (place + 1).astype(dtype)), tl.exp(rate * (T - 1 - place).astype(dtype))
    state, whole = tl.zeros((D, D), dtype), tl.exp(rate * T)
    for i in range(tl.cdiv(q.shape[1], T)):
        tq, tk, tv = tuple(loaded(each, (h, i, 0), (1, T, D)).reshape((T, D)) for each in tl.static_iter((q, k, v)))
        scores = tl.mma(tq, tk.transpose(), tl.zeros((T, T), dtype)) * inner
        result = tl.mma(scores, tv, tl.mma(tq * before[:, None], state, tl.zeros((T, D), dtype)))
        tl.store(out, (h, i, 0), result.astype(out.dtype)[None, :, :])
        state = tl.mma((tk * after[:, None]).transpose(), tv, state * whole)


def retention_reference(q, k, v):
    place, rate = torch.arange(q.shape[1]), 1 - 2.0 ** (-1.0 - torch.arange(len(q)))
    away = place[:, None] - place
    decay = torch.where(away >= 0, rate[:, None, None].to(q.dtype) ** away.clamp(min=0), 0)
    return (q @ k.mT * decay) @ v


@case(lambda make: (make(2, 7, 4), make(2, 7, 4), make(2, 7, 4)), retention_reference)
@tile_ops.op("gradients::retention(Tensor q, Tensor k, Tensor v) -> Tensor", outputs="q", grad="auto")
def retention(q, k, v, out):
    retention_kernel[q.shape[0]](q, k, v, out, 4, q.shape[2])


@tl.kernel
def network_kernel(x, w, first, out, last, B: tl.Constant[int], D: tl.Constant[int]):
    """h = tanh(h @ w + x) for each step, and the last h."""
    i = tl.bid(0)
    state, weight = loaded(first, (i, 0), (B, D)), loaded(w, (0, 0), (D, D))
    for t in range(x.shape[0]):
        state = tl.tanh(tl.mma(state, weight, loaded(x, (t, i, 0), (1, B, D)).reshape((B, D))))
        tl.store(out, (t, i, 0), state.astype(out.dtype)[None, :, :])
    tl.store(last, (i, 0), state.astype(last.dtype))


def network_reference(x, w, first):
    def step(state, row):
        state = torch.tanh(state @ w + row)
        return state, state

    out = steps(step, first, x)
    return out, out[-1].clone()


@case(lambda make: (make(4, 5, 3), make(3, 3), make(5, 3)), network_reference)
@tile_ops.op(
    "gradients::network(Tensor x, Tensor w, Tensor first) -> (Tensor out, Tensor last)",
    outputs=lambda x, first: (torch.empty_like(x), torch.empty_like(first)),
    grad="auto",
)
def network(x, w, first, out, last):
    network_kernel[tl.cdiv(x.shape[1], 4)](x, w, first, out, last, 4, power(x.shape[2]))


@tl.kernel
def gated_unit_kernel(gates, w, out, B: tl.Constant[int], D: tl.Constant[int]):
    """A gated recurrent unit; the inputs of its gates are products from outside, [steps, 3, batch, width]."""
    i, dtype = tl.bid(0), wide(gates)
    state, weights, zero = tl.zeros((B, D), dtype), (), tl.zeros((B, D), dtype)
    for g in tl.static_iter(range(3)):
        weights += (loaded(w, (g, 0, 0), (1, D, D)).reshape((D, D)),)
    for t in range(gates.shape[0]):
        inputs = ()
        for g in tl.static_iter(range(3)):
            inputs += (loaded(gates, (t, g, i, 0), (1, 1, B, D)).reshape((B, D)),)
        reset = tl.sigmoid(tl.mma(state, weights[0], inputs[0]))
        update = tl.sigmoid(tl.mma(state, weights[1], inputs[1]))
        new = tl.tanh(inputs[2] + reset * tl.mma(state, weights[2], zero))
        state = (1 - update) * new + update * state
        tl.store(out, (t, i, 0), state.astype(out.dtype)[None, :, :])


def gated_unit_reference(gates, w):
    def step(state, gates):
        reset, update = (gates[:2] + state @ w[:2]).sigmoid()
        state = (1 - update) * torch.tanh(gates[2] + reset * (state @ w[2])) + update * state
        return state, state

    return steps(step, torch.zeros_like(gates[0, 0]), gates)


@case(lambda make: (make(3, 3, 5, 3), make(3, 3, 3)), gated_unit_reference)
@tile_ops.op(
    "gradients::gated_unit(Tensor gates, Tensor w) -> Tensor",
    outputs=lambda gates: gates.new_empty(gates.shape[0], *gates.shape[2:]),
    grad="auto",
)
def gated_unit(gates, w, out):
    gated_unit_kernel[tl.cdiv(gates.shape[2], 4)](gates, w, out, 4, power(gates.shape[3]))


@tl.kernel
def chunked_sum_kernel(x, out, N: tl.Constant[int]):
    row, carry = tl.bid(0), tl.zeros((1, 1), wide(x))
    for k in range(tl.num_tiles(x, 1, (1, N))):
        t = loaded(x, (row, k), (1, N))
        t = tl.cumsum(t * t, 1) + carry
        tl.store(out, (row, k), tl.log1p(t).astype(out.dtype))
        carry = t.extract((0, N - 1), (1, 1))


@case(lambda make: (make(3, 13),), lambda x: torch.log1p((x * x).cumsum(1)))
@tile_ops.op("gradients::chunked_sum(Tensor x) -> Tensor", outputs="x", grad="auto")
def chunked_sum(x, out):
    chunked_sum_kernel[x.shape[0]](x, out, 4)


@tl.kernel
def oscillator_kernel(position, velocity, stiffness, out, steps: int, dt: float, N: tl.Constant[int]):
    """Steps of a pendulum by a symplectic method; results are the position at the end and the work of friction."""
    i = tl.bid(0)
    x, v, k = loaded(position, i, N), loaded(velocity, i, N), loaded(stiffness, i, N)
    work = tl.zeros((N,), x.dtype)
    for step in range(steps):
        v = v - dt * k * tl.sin(x)
        if step % 2 == 1:
            work = work + dt * v * v
            v = v * 0.75
        x = x + dt * v
    tl.store(out, (0, i), x.astype(out.dtype)[None, :])
    tl.store(out, (1, i), work.astype(out.dtype)[None, :])


def oscillator_reference(x, v, k, steps, dt):
    work = torch.zeros_like(x)
    for step in range(steps):
        v = v - dt * k * x.sin()
        if step % 2 == 1:
            work = work + dt * v * v
            v = v * 0.75
        x = x + dt * v
    return torch.stack((x, work))


@case(lambda make: (make(13), make(13), make(13), 5, 0.25), oscillator_reference)
@tile_ops.op(
    "gradients::oscillator(Tensor x, Tensor v, Tensor k, int steps, float dt) -> Tensor",
    outputs=lambda x: x.new_empty(2, len(x)),
    grad="auto",
)
def oscillator(x, v, k, steps, dt, out):
    oscillator_kernel[tl.cdiv(len(x), 8)](x, v, k, out, steps, dt, 8)


@tl.kernel
def chain_kernel(scores, transitions, length, out, N: tl.Constant[int]):
    """The logarithm of the sum over all ways through the states of a chain: a conditional random field's norm. Steps
    from the length of a sequence on do not count."""
    b, dtype, state = tl.bid(0), wide(scores), tl.arange(N, dtype=tl.int32)
    inside = state < scores.shape[2]
    moves = tl.where(inside[:, None], loaded(transitions, (0, 0), (N, N)), float("-inf"))
    best = tl.where(inside, tl.zeros((N,), dtype), float("-inf"))
    for t in range(scores.shape[1]):
        all = best[:, None] + moves
        top = tl.max(all, 0, keepdims=True)
        new = (top + tl.log(tl.sum(tl.exp(all - top), 0, keepdims=True))).reshape((N,))
        new = tl.where(inside, new + loaded(scores, (b, t, 0), (1, 1, N)).reshape((N,)), float("-inf"))
        best = tl.where(t < tl.load(length, b, ()), new, best)
    top = tl.max(best)
    tl.store(out, b, (top + tl.log(tl.sum(tl.exp(best - top)))).astype(out.dtype))


def chain_of_states_reference(scores, transitions, length):
    results = []
    for each, count in zip(scores, length.tolist()):
        best = torch.zeros_like(each[0])
        for row in each[:count]:
            best = (best[:, None] + transitions).logsumexp(0) + row
        results.append(best.logsumexp(0))
    return torch.stack(results)


@case(lambda make: (make(3, 5, 3), make(3, 3), torch.tensor([5, 0, 2])), chain_of_states_reference)
@tile_ops.op(
    "gradients::chain_of_states(Tensor scores, Tensor transitions, Tensor length) -> Tensor",
    outputs=lambda scores: scores.new_empty(len(scores)),
    grad="auto",
)
def chain_of_states(scores, transitions, length, out):
    chain_kernel[len(scores)](scores, transitions, length, out, power(scores.shape[2]))


@tl.kernel
def ends_kernel(x, out, r: float, steps: tl.Constant[int], N: tl.Constant[int]):
    """Each step takes tiles apart and puts halves together in another order."""
    row = tl.bid(0)
    u = loaded(x, (row, 0), (1, N))
    for _ in range(steps):
        turned = tl.cat((u.extract((0, 1), (1, N // 2)), u.extract((0, 0), (1, N // 2))), 1)
        u = (u + r * tl.sin(turned) * u.extract((0, N - 1), (1, 1))).insert((0, 0), turned.extract((0, 1), (1, 1)))
    tl.store(out, (row, 0), u.astype(out.dtype))


def ends_reference(x, r, steps):
    for _ in range(steps):
        turned = x.roll(x.shape[1] // 2, 1)
        x = torch.cat((turned[:, 1:2], (x + r * turned.sin() * x[:, -1:])[:, 1:]), 1)
    return x


@case(lambda make: (make(3, 8), 0.25), lambda x, r: ends_reference(x, r, 3))
@tile_ops.op("gradients::ends(Tensor x, float r) -> Tensor", outputs="x", grad="auto")
def ends(x, r, out):
    ends_kernel[x.shape[0]](x, out, r, 3, x.shape[1])
