"""Tests rejected definitions, such as a schema that does not parse: uses of the name raise why, until it is defined."""

import pytest
import torch
from tile_ops import _C

WRITE = 'write it as "ns::name(Tensor input, float scale=1.0) -> Tensor out"'
REFUSED = {
    "tq::syntax(Tensor x -> Tensor": (
        ValueError,
        "op: the schema 'tq::syntax(Tensor x -> Tensor' does not parse: expected ) but found 'arrow' here; " + WRITE),
    "tq::type(tensor x) -> Tensor": (
        ValueError, "op: the schema 'tq::type(tensor x) -> Tensor' does not parse: unknown type specifier; " + WRITE),
    "tq::result(Tensor x) -> (Tensor, int)": (
        TypeError, "tq::result: result 'out1' is int; results are Tensor or Tensor[]"),
    "tq::writes(Tensor(a!) x) -> Tensor": (
        ValueError, "tq::writes: writes into an argument and has 1 results; an operator that writes returns ()"),
}  # fmt: skip


def first_line(kind, call):
    with pytest.raises(kind) as error:
        call()
    assert type(error.value) is kind
    return str(error.value).splitlines()[0]


@pytest.mark.parametrize("schema", REFUSED)
def test_every_use_says_why(library, schema):
    kind, said = REFUSED[schema]
    assert library.redefine(schema, 1.0).endswith(said)
    name, x = schema.split("(")[0], torch.ones(2)
    if "does not parse" in said:
        said = f"{name}: {said}"
    for _ in range(2):
        packet = getattr(torch.ops.tq, name.split("::")[1])
        for call in (packet, packet.default):
            assert first_line(kind, lambda: call(x)) == said
            assert first_line(kind, lambda: call(x, 3, key="word")) == said
            assert first_line(kind, call) == said
    with torch.no_grad():
        assert first_line(kind, lambda: packet(x)) == said
    assert name in _C.refused_operators() and name not in str(_C.operators())
    assert [text for text in _C.registration_errors() if said.removeprefix(f"{name}: ") in text]
    assert packet.__doc__ == f"{name}(...) -> ..."


@pytest.fixture(autouse=True)
def _gradient(library):
    """Defines the operator that library.redefine names as the gradient."""
    assert library.redefine_gradient("tr::f_backward(Tensor grad_out) -> Tensor grad_x", 1.0) is None


def test_a_later_definition_takes_the_name(library):
    assert library.redefine("tq::late(Tensor x", 1.0).endswith(WRITE)
    x = torch.ones(2)
    assert "does not parse" in first_line(ValueError, lambda: torch.ops.tq.late(x))
    assert library.redefine("tq::late(Tensor x) -> Tensor", 5.0) is None
    assert torch.ops.tq.late(x)[0] == torch.ops.tq.late.default(x)[0] == torch.ops.tq.late(x=x)[0] == 5
    assert str(torch.ops.tq.late.default._schema) == "tq::late(Tensor x) -> Tensor"
    assert "tq::late" not in _C.refused_operators()
    assert not [text for text in _C.registration_errors() if "tq::late" in text]


def test_a_name_that_is_taken_stays(library):
    """Tests that a rejected definition replaces neither an operator of aten nor one of ours."""
    assert "does not parse" in library.redefine("aten::relu(Tensor x", 1.0)
    assert torch.ops.aten.relu(torch.tensor([-1.0, 2.0])).tolist() == [0, 2]
    assert library.redefine("tq::kept(Tensor x) -> Tensor", 3.0) is None
    assert "does not parse" in library.redefine("tq::kept(Tensor x", 1.0)
    assert torch.ops.tq.kept(torch.ones(1))[0] == 3


def test_what_is_no_name_is_no_operator(library):
    assert "does not parse" in library.redefine("(Tensor x", 1.0)
    assert "has no namespace" in library.redefine("nothing(Tensor x) -> Tensor", 1.0)
    assert not {"", "nothing"} & set(_C.refused_operators())
