"""Defines calls of every operator on small tensors, to be compared with the same calls on shards."""

import dataclasses
from collections.abc import Callable

import tile_ops  # noqa: F401
import torch

ops = torch.ops.tile


@dataclasses.dataclass
class Case:
    """Holds one call. tensors: its inputs by name. run: the call. differentiable: names of inputs with gradients to compare.

    written: True if the operator writes into its tensors, which then need equal placements.
    """

    tensors: dict
    run: Callable
    differentiable: tuple = ()
    written: bool = False


def _normal(*sizes):
    return torch.randn(*sizes)


def _attention(heads, key_heads, **options):
    tensors = {"query": _normal(4, heads, 6, 8), "key": _normal(4, key_heads, 8, 8), "value": _normal(4, key_heads, 8, 8)}
    extra = {name: value for name, value in options.items() if isinstance(value, torch.Tensor)}
    plain = {name: value for name, value in options.items() if name not in extra}
    floating = [name for name in ("attn_bias", "sinks") if name in extra and extra[name].is_floating_point()]
    wanted = ("query", "key", "value", *floating)
    names = tuple(extra)

    def run(query, key, value, *more):
        return ops.attention(query, key, value, **dict(zip(names, more)), **plain)[0]

    return Case({**tensors, **extra}, run, wanted)


def _varlen():
    starts = torch.tensor([0, 3, 7, 10], dtype=torch.int32)
    tensors = {"query": _normal(10, 4, 8), "key": _normal(10, 2, 8), "value": _normal(10, 2, 8), "q": starts, "k": starts}
    return Case(tensors, lambda query, key, value, q, k: ops.attention_varlen(query, key, value, q, k, 4, 4, is_causal=True)[0],
                ("query", "key", "value"))  # fmt: skip


def _decode(paged):
    lengths = torch.tensor([3, 9, 16, 12])
    if not paged:
        tensors = {"query": _normal(4, 4, 1, 8), "key": _normal(4, 2, 16, 8), "value": _normal(4, 2, 16, 8), "lengths": lengths}
        return Case(tensors, lambda *given: ops.attention_decode(*given))
    table = torch.tensor([[3], [1], [0], [2]], dtype=torch.int32)
    tensors = {"query": _normal(4, 4, 1, 8), "key": _normal(4, 2, 16, 8), "value": _normal(4, 2, 16, 8), "lengths": lengths,
               "table": table}  # fmt: skip
    return Case(tensors, lambda q, k, v, n, table: ops.attention_decode(q, k, v, n, block_table=table))


def _rope(**options):
    positions = options.pop("positions", None)
    tensors = {"query": _normal(4, 4, 6, 8), "key": _normal(4, 2, 6, 8)}
    rows = 9 if positions is not None else 6
    angle = torch.rand(rows, 4)
    tensors |= {"cos": angle.cos(), "sin": angle.sin()}
    if positions is None:
        return Case(tensors, lambda q, k, c, s: ops.rope(q, k, c, s, **options), ("query", "key"))
    tensors["positions"] = positions
    return Case(tensors, lambda q, k, c, s, p: ops.rope(q, k, c, s, position_ids=p, **options), ("query", "key"))


def _rope_in_place():
    case = _rope()

    def run(query, key, cos, sin):
        query, key = query.clone(), key.clone()
        ops.rope_(query, key, cos, sin)
        return query, key

    return Case(case.tensors, run, written=True)


def _matmul(x, y, bias=None, residual=None, **options):
    tensors = {"input": _normal(*x), "other": _normal(*y)}
    names = []
    for name, sizes in (("bias", bias), ("residual", residual)):
        if sizes is not None:
            tensors[name] = _normal(*sizes)
            names.append(name)

    def run(input, other, *more):
        return ops.matmul(input, other, **dict(zip(names, more)), **options)

    return Case(tensors, run, tuple(tensors))


def _loss(linear=False, weight=False, rank=2, **options):
    rows, classes = 7, 6
    target = torch.tensor([0, 5, -100, 2, 3, 3, 1])
    if linear:
        tensors = {"input": _normal(rows, 4), "weight": _normal(classes, 4), "target": target, "bias": _normal(classes)}
        run = lambda x, w, t, b: ops.linear_cross_entropy(x, w, t, bias=b, **options)  # noqa: E731
        return Case(tensors, run, ("input", "weight", "bias"))
    if rank == 3:
        tensors = {"input": _normal(4, classes, 3), "target": torch.randint(classes, (4, 3))}
    elif rank == 1:
        tensors = {"input": _normal(classes), "target": torch.tensor(4)}
    else:
        tensors = {"input": 3 * _normal(rows, classes), "target": target}
    if weight:
        tensors["weight"] = torch.rand(classes) + 0.5
        return Case(tensors, lambda x, t, w: ops.cross_entropy(x, t, weight=w, **options), ("input",))
    return Case(tensors, lambda x, t: ops.cross_entropy(x, t, **options), ("input",))


def _twice(run, *names, **tensors):
    """Returns a case of second derivatives, taken of the squared first ones. names: the differentiable tensors."""

    def both(*given):
        given = [each.detach().requires_grad_(name in names) for name, each in zip(tensors, given)]
        with torch.enable_grad():
            out = run(*given)
            wanted = [each for each in given if each.requires_grad]
            total = sum((each * each).sum() for each in (out if isinstance(out, tuple) else (out,)))
            first = torch.autograd.grad(total, wanted, create_graph=True)
            return torch.autograd.grad(sum((each * each).sum() for each in first), wanted)

    return Case({name: each.double() if each.is_floating_point() else each for name, each in tensors.items()}, both)


_seed = torch.tensor([11, 12])
OF = {
    "softmax": lambda: Case({"input": _normal(4, 5, 6)}, lambda x: ops.softmax(x, 1), ("input",)),
    "log_softmax": lambda: Case({"input": _normal(4, 5, 6)}, lambda x: ops.log_softmax(x, -1), ("input",)),
    "layer_norm": lambda: Case(
        {"input": _normal(4, 5, 6), "weight": _normal(6), "bias": _normal(6)},
        lambda x, w, b: ops.layer_norm(x, [6], w, b),
        ("input", "weight", "bias"),
    ),
    "layer_norm of two axes": lambda: Case(
        {"input": _normal(4, 3, 5, 6), "weight": _normal(5, 6)}, lambda x, w: ops.layer_norm(x, [5, 6], w), ("input", "weight")
    ),
    "rms_norm": lambda: Case(
        {"input": _normal(4, 5, 6), "weight": _normal(6)}, lambda x, w: ops.rms_norm(x, [6], w), ("input", "weight")
    ),
    "rms_norm without weight": lambda: Case({"input": _normal(5, 6)}, lambda x: ops.rms_norm(x, [6]), ("input",)),
    "add_rms_norm": lambda: Case(
        {"input": _normal(4, 5, 6), "residual": _normal(4, 5, 6), "weight": _normal(6)},
        lambda x, r, w: ops.add_rms_norm(x, r, [6], w),
        ("input", "residual", "weight"),
    ),
    "group_norm": lambda: Case(
        {"input": _normal(4, 6, 5), "weight": _normal(6), "bias": _normal(6)},
        lambda x, w, b: ops.group_norm(x, 3, w, b, activation="silu"),
        ("input", "weight", "bias"),
    ),
    "swiglu": lambda: Case({"gate": _normal(4, 6), "up": _normal(4, 6)}, ops.swiglu, ("gate", "up")),
    "geglu": lambda: Case({"gate": _normal(4, 6), "up": _normal(4, 6)}, ops.geglu, ("gate", "up")),
    "dropout": lambda: Case({"input": _normal(4, 5, 6), "seed": _seed}, lambda x, s: ops.dropout(x, 0.4, s), ("input",)),
    "dropout of one axis": lambda: Case({"input": _normal(37), "seed": _seed}, lambda x, s: ops.dropout(x, 0.4, s), ("input",)),
    "dropout of seeds": lambda: Case(
        {"input": _normal(4, 6), "seed": torch.arange(8).reshape(4, 2)}, lambda x, s: ops.dropout(x, 0.4, s), ("input",)
    ),
    "dropout twice": lambda: _twice(lambda x, s: ops.dropout(x, 0.4, s), "input", input=_normal(4, 6), seed=_seed),
    "embedding": lambda: Case(
        {"weight": _normal(7, 6), "indices": torch.randint(7, (4, 3))}, lambda w, i: ops.embedding(w, i, 2), ("weight",)
    ),
    "embedding without padding": lambda: Case(
        {"weight": _normal(8, 6), "indices": torch.randint(8, (5,))}, ops.embedding, ("weight",)
    ),
    "matmul": lambda: _matmul((4, 6), (6, 5), (5,)),
    "matmul of everything": lambda: _matmul((3, 4, 6), (3, 6, 5), (4, 1), (3, 4, 5), alpha=0.5),
    "matmul with an activation": lambda: _matmul((4, 6), (6, 5), (5,), (4, 5), activation="gelu"),
    "matmul that broadcasts": lambda: _matmul((2, 1, 4, 6), (3, 6, 5), (5,)),
    "matmul of a vector": lambda: _matmul((6,), (6, 4)),
    "matmul by a vector": lambda: _matmul((3, 4, 6), (6,)),
    "matmul twice": lambda: _twice(
        lambda x, y, b: ops.matmul(x, y, bias=b),
        "input",
        "other",
        "bias",
        input=_normal(4, 6),
        other=_normal(6, 5),
        bias=_normal(5),
    ),
    "gated_matmul": lambda: Case(
        {"input": _normal(4, 6), "gate": _normal(6, 5), "up": _normal(6, 5)}, ops.gated_matmul, ("input", "gate", "up")
    ),
    "rope": lambda: _rope(),
    "rope by positions": lambda: _rope(positions=torch.randint(9, (4, 6)), interleaved=True),
    "rope_": _rope_in_place,
    "rope twice": lambda: _twice(ops.rope, "query", "key", **_rope().tensors),
    "attention": lambda: _attention(4, 2, is_causal=True),
    "attention of equal heads": lambda: _attention(4, 4),
    "attention of one key head": lambda: _attention(4, 1, sinks=_normal(4)),
    "attention with a bias": lambda: _attention(4, 2, attn_bias=_normal(1, 4, 6, 8)),
    "attention with a mask": lambda: _attention(4, 2, attn_bias=torch.rand(4, 1, 1, 8) > 0.3),
    "attention with slopes": lambda: _attention(4, 2, alibi_slopes=torch.rand(4), is_causal=True),
    "attention with dropout": lambda: _attention(4, 2, seed=_seed, dropout_p=0.3),
    "attention_varlen": _varlen,
    "attention_decode": lambda: _decode(False),
    "attention_decode of pages": lambda: _decode(True),
    "cross_entropy": lambda: _loss(),
    "cross_entropy of weights": lambda: _loss(weight=True, label_smoothing=0.1, z_loss=0.01),
    "cross_entropy summed": lambda: _loss(weight=True, reduction="sum", z_loss=0.01),
    "cross_entropy of rows": lambda: _loss(reduction="none", label_smoothing=0.1),
    "cross_entropy of images": lambda: _loss(rank=3),
    "cross_entropy of one row": lambda: _loss(rank=1),
    "linear_cross_entropy": lambda: _loss(linear=True, z_loss=0.01),
    "linear_cross_entropy of rows": lambda: _loss(linear=True, reduction="none"),
}


def made(name):
    """Returns the case, with the same tensors in every process."""
    torch.manual_seed(len(name))
    return OF[name]()
