"""Tests the table of sharding rules: a row with the right tensors for every operator, the notation, errors and imports."""

import subprocess
import sys

import operators as table
import pytest
import sharding_cases
import tile_ops
import torch
from torch.utils._python_dispatch import TorchDispatchMode


def operators():
    return sorted(f"tile::{name}" for name in table.all_names())


def schema_of(name):
    return torch._C._get_schema(name, "")


def tensors_of(schema):
    return [each.name for each in schema.arguments if str(each.type) in ("Tensor", "Optional[Tensor]")]


def test_every_operator_has_a_row_and_every_row_an_operator():
    from tile_ops._sharding import rules
    from tile_ops._sharding.table import TABLE

    assert [name for name in operators() if rules.found(name) is None] == []
    assert sorted(set(TABLE) - set(operators())) == []


def test_rows_name_the_operators_tensors():
    from tile_ops._sharding.rules import _saver
    from tile_ops._sharding.signature import parsed
    from tile_ops._sharding.table import TABLE

    checked = 0
    for name in operators():
        rule = TABLE[_saver(name) or name]
        if rule.whole_call or callable(rule.axes):  # the operator tests cover these
            continue
        found, schema = parsed(rule.axes), schema_of(name)
        assert list(found.arguments) == tensors_of(schema) or set(found.arguments) == set(tensors_of(schema)), name
        names = [each.name for each in schema.returns]
        assert [result for result, _ in found.results][: len(names)] == names, name
        checked += 1
    assert checked > 20


def test_the_cases_call_every_operator(device):
    called = set()

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            called.add(function._schema.name)
            return function(*args, **(kwargs or {}))

    with Names():
        for name in sharding_cases.OF:
            case = sharding_cases.made(name)
            tensors = {each: tensor.detach().to(device) for each, tensor in case.tensors.items()}
            out = case.run(*tensors.values())
            for differentiable in case.differentiable or ():
                tensors[differentiable].requires_grad_()
            if case.differentiable:
                out = case.run(*tensors.values())
                out = out if isinstance(out, tuple) else (out,)
                torch.autograd.backward(out, [torch.ones_like(each) for each in out])
    called.add("tile::adamw_")  # the training tests call it
    assert sorted(set(operators()) - called) == []


def run(text):
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_dtensors_are_not_imported_and_their_import_is_noticed():
    run("""
import sys
import tile_ops
import torch
from tile_ops import _sharding
assert "torch.distributed.tensor" not in sys.modules
tile_ops.register_sharding("mine::one", "rows")
tile_ops.register_sharding("mine::two", "x[*r] -> out[*r]")
assert "torch.distributed.tensor" not in sys.modules and not _sharding._told
before = len(sys.meta_path)
import torch.distributed.tensor
assert len(sys.meta_path) == before - 1
assert {"tile::rms_norm", "tile::_rms_norm_saving", "tile::rms_norm_backward", "tile::adamw_", "mine::one", "mine::_one_saving",
        "mine::two"} <= set(_sharding._told)
tile_ops.register_sharding("mine::three", "rows")
assert "mine::three" in _sharding._told
""")


def test_imported_before():
    run("""
import torch.distributed.fsdp
import tile_ops
from tile_ops import _sharding
assert "tile::rms_norm" in _sharding._told
""")


def test_a_torch_without_dtensors():
    run("""
import sys
sys.modules["torch.distributed.tensor"] = None
import tile_ops
import torch
tile_ops.register_sharding("mine::one", "rows")
assert tile_ops.softmax(torch.zeros(2), 0).tolist() == [0.5, 0.5]
try:
    import torch.distributed.tensor
except ImportError:
    pass
tile_ops.dropout(torch.zeros(2))
""")


@pytest.mark.parametrize("given, kind, text", [
    (("scale", "rows"), ValueError, "register_sharding: 'scale' is not an operator name; write \"mine::scale\""),
    (("mine::scale", None), TypeError,
     'register_sharding: the rule of mine::scale is None; pass "whole" to split nothing'),
    (("mine::scale", 3), TypeError,
     'mine::scale: sharding is a int; it must be "pointwise", "rows", "whole", or a rule such as "x[*r N] -> out[*r N]", or a '
     "function that returns one of these"),
    (("mine::scale", "row"), ValueError,
     'mine::scale: sharding is \'row\'; it must be "pointwise", "rows", "whole", or a rule such as "x[*r N] -> out[*r N]"'),
    (("mine::scale", "x[a]"), ValueError,
     "sharding 'x[a]': -> is missing; write \"x[*r N] weight[N] -> out[*r N]\""),
    (("mine::scale", "x[a], y[a] -> out[a]"), ValueError,
     "sharding 'x[a], y[a] -> out[a]': ',' is not part of a rule; write \"x[*r N] weight[N] -> out[*r N]\""),
    (("mine::scale", "x[2] -> out[]"), ValueError,
     "sharding 'x[2] -> out[]': x has an axis '2'; write a letter or a word, *name for any number of axes, or ... for further "
     "axes"),
    (("mine::scale", "x[a] -> out[=y]"), ValueError,
     "sharding 'x[a] -> out[=y]': out refers to 'y', which is not an argument of the rule"),
])  # fmt: skip
def test_what_is_no_rule(given, kind, text):
    with pytest.raises(kind) as info:
        tile_ops.register_sharding(*given)
    assert str(info.value) == text


def test_axes_of_a_call():
    from tile_ops._sharding.signature import Resolved, parsed

    known = parsed("input[*r i k] other[*r k n] bias[*r i n] -> out[*r i n | k]")
    found = Resolved(known, {"input": (2, 1, 4, 6), "other": (3, 6, 5), "bias": (5,)})
    assert found.axes == {"input": ["r0", "r1", "i", "k"], "other": ["r1", "k", "n"], "bias": ["n"]}
    assert found.extents == {"r0": 2, "r1": 3, "i": 4, "k": 6, "n": 5} and not found.multiples
    heads = Resolved(parsed("query[b h Q] key[b h K] -> out[b h Q]"), {"query": (1, 8, 3), "key": (1, 2, 3)})
    assert heads.extents == {"h": 8} and heads.multiples == {"h": [8, 2]}
