"""Tests in two processes users' operators on DTensors: rules by name, as a string or function, and those of expressions."""

import processes
import pytest
import tile_ops
import tile_ops.language as tl
import torch
from processes import case

outcome = processes.fixture(2)
CASES = []


@pytest.mark.parametrize("name", [
    "elementwise", "a_sum", "a_mean", "a_maximum", "rows_with_a_gradient_class", "a_text", "a_function", "partial_sums",
    "registered_by_name", "without_a_rule",
    "mixed_tensors", "outside_the_mesh", "written_in_place", "wrong_rules", "two_meshes", "indices_of_no_row",
])  # fmt: skip
def test_equals_the_whole(outcome, name):
    outcome(name)


@tile_ops.elementwise("shared::swish(Tensor x, Tensor b, float beta=1.0) -> (Tensor, Tensor)")
def swish(x, b, beta):
    return x * tl.sigmoid(beta * x) + b, x - b


@tile_ops.reduction("shared::squares(Tensor x) -> Tensor", "sum")
def squares(x):
    return x * x


@tile_ops.reduction("shared::rms(Tensor x) -> Tensor", "sum", finish=lambda total, count: tl.sqrt(total / count))
def rms(x):
    return x * x


@tile_ops.reduction("shared::largest(Tensor x) -> Tensor", "max")
def largest(x):
    return x


@tile_ops.op("shared::scaled(Tensor x, Tensor w) -> Tensor", outputs="x", saves="Tensor length")
class scaled:
    """Computes x / |x| * w for each row; its gradient is an operator of its own."""

    sharding = "rows"

    def saved_outputs(x):
        return x.new_empty(*x.shape[:-1], 1)

    def run(x, w, out, length):
        norm = x.norm(dim=-1, keepdim=True)
        out.copy_(x / norm * w)
        if length is not None:
            length.copy_(norm)

    class grad:
        def outputs(x, w):
            return torch.empty_like(x), torch.empty_like(w)

        def run(grad_out, x, w, length, grad_x, grad_w):
            n, g = x / length, grad_out * w
            grad_x.copy_((g - n * (g * n).sum(-1, keepdim=True)) / length)
            grad_w.copy_((grad_out * n).flatten(0, -2).sum(0))


@tile_ops.op("shared::columns(Tensor x, Tensor w) -> Tensor", outputs="x", sharding="x[I n] w[n] -> out[I n]")
def columns(x, w, out):
    out.copy_(x.cumsum(0) * w)


@columns.grad
def columns_gradient(grad_out, x, w):
    grad = grad_out * w
    return grad.sum(0, keepdim=True) - grad.cumsum(0) + grad, (grad_out * x.cumsum(0)).sum(0)


@tile_ops.op(
    "shared::flipped(Tensor x, int dim) -> Tensor",
    outputs="x",
    sharding=lambda call: "x[r C] -> out[r C]" if call["dim"] % 2 else "x[R c] -> out[R c]",
)
def flipped(x, dim, out):
    out.copy_(x.flip(dim))


@tile_ops.op("shared::weighed(Tensor x, Tensor w, Tensor b) -> Tensor", sharding="x[r k] w[k] b[r ^k] -> out[r | k]")
class weighed:
    def outputs(x):
        return x.new_empty(x.shape[0])

    def run(x, w, b, out):
        out.copy_(x @ w + b)

    class grad:
        def outputs(x, w, b):
            return torch.empty_like(x), torch.empty_like(w), torch.empty_like(b)

        def run(grad_out, x, w, b, grad_x, grad_w, grad_b):
            grad_x.copy_(grad_out[:, None] * w)
            grad_w.copy_(grad_out @ x)
            grad_b.copy_(grad_out)


@tile_ops.op("shared::plain(Tensor x) -> Tensor", outputs="x")
def plain(x, out):
    out.copy_(x)


@tile_ops.op("shared::named(Tensor x) -> Tensor", outputs="x")
def named(x, out):
    out.copy_(x + 1)


def _compare(operator, tensors, device, differentiable=True, quiet=True):
    """Compares each tensor sharded alone, then all sharded along one axis; returns {axis: placement of the result} of these."""
    from sharded import alone, compare
    from operators.record import Sharded
    from torch.distributed.tensor import Replicate, Shard, init_device_mesh

    mesh = init_device_mesh(device.split(":")[0], (2,))
    made = Sharded(tensors, operator, tuple(tensors) if differentiable else ())
    for placements in alone(made, mesh):
        compare(made, mesh, placements, device)
    together = {}
    rank = max(each.dim() for each in tensors.values())
    for dim in range(rank):
        own = {name: dim - (rank - each.dim()) for name, each in tensors.items()}
        placements = {name: [Shard(at) if at >= 0 and tensors[name].shape[at] > 1 else Replicate()] for name, at in own.items()}
        together[dim] = compare(made, mesh, placements, device)[0][0]
    return together


@case
def elementwise(device):
    from torch.distributed.tensor import Shard

    assert _compare(swish.packet, {"x": torch.randn(5, 6), "b": torch.randn(6)}, device) == {0: Shard(0), 1: Shard(1)}


@case
def a_sum(device):
    from torch.distributed.tensor import Partial, Shard

    found = _compare(lambda x: squares(x, dim=1), {"x": torch.randn(5, 6, 3)}, device)
    assert found == {0: Shard(0), 1: Partial(), 2: Shard(1)}
    assert _compare(lambda x: squares(x, dim=(0, 2), keepdim=True), {"x": torch.randn(5, 6, 3)}, device)[1] == Shard(1)
    assert _compare(squares.packet, {"x": torch.randn(5, 6)}, device)[0] == Partial()


@case
def a_mean(device):
    from torch.distributed.tensor import Shard

    found = _compare(lambda x: rms(x, dim=1), {"x": torch.randn(5, 6, 3)}, device)
    assert found[0] == Shard(0) and found[2] == Shard(1) and not found[1].is_partial()


@case
def a_maximum(device):
    x = torch.randn(6, 5)
    x[4, 2] = torch.nan
    found = _compare(lambda x: largest(x, dim=0), {"x": x.nan_to_num()}, device, False)
    assert not found[0].is_partial()
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

    out = largest(distribute_tensor(x.to(device), init_device_mesh(device.split(":")[0], (2,)), [Shard(0)]), dim=0)
    assert out.full_tensor().isnan().tolist() == [False, False, True, False, False]


@case
def rows_with_a_gradient_class(device):
    from torch.distributed.tensor import Shard

    found = _compare(scaled.packet, {"x": torch.randn(6, 6), "w": torch.randn(6)}, device)
    assert found[0] == Shard(0)


@case
def a_text(device):
    """Tests a rule given as a string; the gradient consists of torch's operations, which torch shards."""
    from torch.distributed.tensor import Shard

    assert _compare(columns.packet, {"x": torch.randn(5, 6), "w": torch.randn(6)}, device)[1] == Shard(1)


@case
def a_function(device):
    from torch.distributed.tensor import Shard

    for dim in range(2):
        assert _compare(lambda x: flipped(x, dim), {"x": torch.randn(4, 6)}, device, False)[1 - dim] == Shard(1 - dim)


@case
def partial_sums(device):
    from sharded import compare
    from operators.record import Sharded
    from torch.distributed.tensor import Partial, Replicate, Shard, init_device_mesh

    mesh = init_device_mesh(device.split(":")[0], (2,))
    made = Sharded({"x": torch.randn(5, 6), "w": torch.randn(6), "b": torch.randn(5)}, weighed.packet, ("x", "w", "b"))
    placements = {"x": [Shard(1)], "w": [Shard(0)], "b": [Replicate()]}
    assert compare(made, mesh, placements, device) == [(Partial(),)]
    placements = {"x": [Shard(0)], "w": [Replicate()], "b": [Shard(0)]}
    assert compare(made, mesh, placements, device) == [(Shard(0),)]


@case
def registered_by_name(device):
    from torch.distributed.tensor import Shard

    tile_ops.register_sharding("shared::named", "pointwise")
    assert _compare(torch.ops.shared.named, {"x": torch.randn(5, 6)}, device, False) == {0: Shard(0), 1: Shard(1)}
    tile_ops.register_sharding("shared::named", "whole")
    found = _compare(torch.ops.shared.named, {"x": torch.randn(5, 6)}, device, False)
    assert all(each.is_replicate() for each in found.values())


@case
def without_a_rule(device):
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

    x = distribute_tensor(torch.randn(4, device=device), init_device_mesh(device.split(":")[0], (2,)), [Shard(0)])
    with pytest.raises(NotImplementedError) as info:
        plain(x)
    assert str(info.value) == (
        "shared::plain: has no sharding rule for DTensors; pass one to tile_ops.op(..., sharding=...), or call "
        'tile_ops.register_sharding("shared::plain", ...)'
    )


def _on(device, *sizes, placement=None):
    from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

    mesh = init_device_mesh(device.split(":")[0], (2,))
    return distribute_tensor(torch.ones(sizes, device=device), mesh, [placement or Replicate()])


def _says(kind, text, function, *args):
    with pytest.raises(kind) as info:
        function(*args)
    assert str(info.value) == text, str(info.value)


@case
def mixed_tensors(device):
    from torch.distributed.tensor.experimental import implicit_replication

    x, weight = _on(device, 4, 6), torch.ones(6, device=device)
    _says(
        TypeError,
        "tile::rms_norm: 'weight' is a plain tensor of (6,), and 'input' is a DTensor; convert it with distribute_tensor(...), "
        "or DTensor.from_local(..., [Replicate()]) if it is the same on every device",
        lambda: tile_ops.rms_norm(x, [6], weight),
    )
    with implicit_replication():
        assert tile_ops.rms_norm(x, [6], weight).shape == (4, 6)


@case
def outside_the_mesh(device):
    from torch.distributed.tensor import DeviceMesh, DTensor, Replicate

    mesh = DeviceMesh(device.split(":")[0], [0])
    x = DTensor.from_local(torch.ones(4, 6, device=device), mesh, [Replicate()], run_check=False)
    for name, call in (("softmax", lambda: tile_ops.softmax(x, -1)), ("dropout", lambda: tile_ops.dropout(x))):
        if mesh.get_coordinate() is None:
            text = f"tile::{name}: this process is not part of {mesh}; call it where the tensors are"
            _says(RuntimeError, text, call)
        else:
            assert call().shape == (4, 6)


@case
def written_in_place(device):
    from torch.distributed.tensor import Shard

    query, key = _on(device, 2, 4, 6, 8, placement=Shard(1)), _on(device, 2, 4, 6, 8)
    table = torch.ones(6, 4, device=device)
    _says(
        ValueError,
        "tile::rope_: it writes into 'query' on [Shard(dim=1)], 'key' on [Replicate()] and cannot run on these placements; "
        "redistribute, or call the operator that returns new tensors",
        lambda: tile_ops.rope_(query, key, table, table),
    )
    params = [_on(device, 4, 6, placement=Shard(0))]
    others = [torch.zeros(4, 6, device=device)]
    _says(
        TypeError,
        "tile::adamw_: grads[0] is a plain tensor and its parameter is a DTensor; convert it with distribute_tensor(...)",
        lambda: tile_ops.adamw_(params, others, params, params, [torch.ones((), device=device)]),
    )
    whole = [_on(device, 4, 6)]
    _says(
        ValueError,
        "tile::adamw_: exp_avgs[0] is on [Replicate()] and its parameter on [Shard(dim=0)]; it is written, so their "
        "placements must be equal",
        lambda: tile_ops.adamw_(params, params, whole, params, [torch.ones((), device=device)]),
    )


@case
def wrong_rules(device):
    x = _on(device, 4, 6)
    tile_ops.register_sharding("shared::plain", "y[*r] -> out[*r]")
    _says(
        ValueError, "shared::plain: its sharding 'y[*r] -> out[*r]' does not name the axes of 'x'; add x[...]", lambda: plain(x)
    )
    tile_ops.register_sharding("shared::plain", "x[*r] ->")
    _says(
        ValueError,
        "shared::plain: its sharding 'x[*r] ->' has 0 results, but the operator returns 1; add the missing "
        "ones, saved results too",
        lambda: plain(x),
    )
    tile_ops.register_sharding("shared::plain", lambda call: 3)
    _says(
        TypeError,
        'shared::plain: its sharding function returned a int; return "pointwise", "rows", "whole", or a rule such as '
        '"x[*r N] -> out[*r N]"',
        lambda: plain(x),
    )
    tile_ops.register_sharding("shared::plain", lambda call: "whole")
    assert plain(x).shape == (4, 6)


@case
def two_meshes(device):
    from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

    other = init_device_mesh(device.split(":")[0], (2, 1))
    weight = distribute_tensor(torch.ones(6, device=device), other, [Replicate()] * 2)
    with pytest.raises(ValueError, match=r"^tile::rms_norm: 'input' is on .* and 'weight' on .*; redistribute one of them$"):
        tile_ops.rms_norm(_on(device, 4, 6), [6], weight)


@case
def indices_of_no_row(device):
    """Looks up a row that no device has in a row-sharded table."""
    from torch.distributed.tensor import Shard

    table = _on(device, 8, 3, placement=Shard(0))
    indices = _on(device, 2, 2).to(torch.int64) * torch.tensor(8, device=device)
    if device == "cpu":
        _says(
            ValueError,
            "tile::embedding: indices[0, 0] is 8 and weight has 8 rows; indices must be from 0 to 7",
            lambda: tile_ops.embedding(table, indices),
        )
    else:
        assert tile_ops.embedding(table, indices).full_tensor().isnan().all()
