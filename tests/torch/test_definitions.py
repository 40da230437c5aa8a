"""Definitions: every type of argument, exact error texts, errors of a body, redefinition, calls from C++."""

import re

import pytest
import torch
from tile_ops import _C

WRITE = 'write it as "ns::name(Tensor input, float scale=1.0) -> Tensor out"'
ORDER = "return them in that order, more than one in a std::tuple"
MISTAKES = {
    "derived_of_written": "tw::derived_of_written: writes into an argument, so it cannot have a gradient; remove "
    "grad_by_compiler()",
    "derived_of_lists": "tw::derived_of_lists: the compiler derives no gradient of a list of tensors, 'x'; write it by hand",
    "derived_lists": "tw::derived_lists: the compiler derives no gradient of a list of results, 'out'; write it by hand",
    "derived_of_nothing": "tw::derived_of_nothing: grad_by_compiler: has no tensors among its arguments, so there is no "
    "gradient; remove it",
    "saved_late": "tw::saved_late: saves comes after grad_by_compiler, which has chosen what is saved; put it before",
    "derived_constant": "tw::derived_constant: grad_by_compiler: 'seed' is not an argument; they are x",
    "syntax": f"op: the schema 'tw::syntax(Tensor x -> Tensor' does not parse: expected ) but found 'arrow' here; {WRITE}",
    "type": f"op: the schema 'tw::type(tensor x) -> Tensor' does not parse: unknown type specifier; {WRITE}",
    "namespace": f"op: the schema 'scale(Tensor x) -> Tensor' has no namespace; {WRITE}",
    "overload": "tw::f: has the overload name 'out', which is not supported; give each operator a name of its own",
    "result": "tw::result: result 'out1' is int; results are Tensor or Tensor[]",
    "writes": "tw::writes: writes into an argument and has 1 results; an operator that writes returns ()",
    "twice": "tw::twice: is registered already, as 'tw::twice(Tensor x) -> Tensor' at wrong.cpp:LINE; "
    "choose another name, or replace it with tile::redefine",
    "torchs": "aten::relu: is registered already, by other means than tile::op; choose another name",
    "count": "tw::count: outputs takes 1 parameters, but the schema gives it 2; declare it (const at::Tensor& x, double f)",
    "parameter": "tw::parameter: outputs takes int64_t as parameter 2, but 'f' is float in the schema; declare it double f",
    "field": "tw::field: outputs takes int64_t as parameter 2, but 'f' is float in the schema; declare it double f",
    "nested_field": "tw::nested_field: outputs takes bool as parameter 3, but 'g' is float in the schema; declare it double g",
    "field_count": "tw::field_count: outputs takes 3 parameters, but the schema gives it 2; "
    "declare it (const at::Tensor& x, int64_t f)",
    "symbolic": "tw::symbolic: outputs takes int64_t as parameter 2, but 'n' is SymInt in the schema; declare it c10::SymInt n",
    "optional": "tw::optional: run takes double as parameter 2, but 'n' is SymInt[]? in the schema; "
    "declare it std::optional<std::vector<int64_t>> n",
    "mask": "tw::mask: outputs takes std::array<bool, 3> as parameter 2, but 'output_mask' is bool[2] in the schema; "
    "declare it std::array<bool, 2> output_mask",
    "returns": f"tw::returns: outputs returns Tensor, but the schema says Tensor, Tensor; {ORDER}",
    "run_results": "tw::run_results: run takes double as parameter 2, but 'out' is Tensor in the schema; declare it at::Tensor& out",
    "run_returns": "tw::run_returns: run returns Tensor, but it fills the results that it is given; return nothing",
    "no_run": "tw::no_run: has no run; add .run(…) to its definition",
    "no_outputs": "tw::no_outputs: has no outputs; add .outputs(…) to its definition",
    "no_saved": "tw::no_saved: has no saved_outputs; add .saved_outputs(…) to its definition",
    "late_saves": "tw::late_saves: saves comes after run; put it before run, whose parameters it adds to",
    "saves_writes": "tw::saves_writes: saves: writes into an argument, so it has no gradient to save for; remove saves(…)",
    "early_saved": 'tw::early_saved: saved_outputs comes before saves; call saves("Tensor …") first',
    "nothing_early": "tw::nothing_early: saves: has 1 results and 0 saved gradients, so there is nothing to scale; save results "
    'named "<argument>_grad" of an operator with one result, or leave out scale',
    "nameless": "tw::nameless: saves: a result of 'Tensor' has no name; write \"Tensor mean, Tensor rstd\"",
    "grad_name": "tw::grad_name: grad: 'back' has no namespace; write \"tw::back\"",
    "grad_over_two": "tw::grad_over_two: grad: 'tw::back_' writes over the gradient of one result; leave it out, as there are "
    "several",
    "grad_over_name": "tw::grad_over_name: grad: 'back_' writes over the gradient of one result; write its namespace, too",
    "grad_writes": 'tw::grad_writes: writes into an argument, so it cannot have a gradient; remove grad("tw::back")',
    "grad_missing": "tw::grad_missing: its gradient operator tw::nowhere is not registered; "
    'define it with tile::op("tw::nowhere(…) -> …")',
    "grad_argument": "tw::ga_back: argument 'z' is nothing of tw::ga; the names it can have are grad_out, x, out, output_mask",
    "grad_type": "tw::gt_back: argument 'x' is int, but tw::gt gives it Tensor; write 'Tensor x'",
    "grad_optional": "tw::go_back: argument 'grad_a' is Tensor, but tw::go gives it Tensor?; write 'Tensor? grad_a'",
    "grad_result": "tw::gr_back: result 'out' is not a gradient of tw::gr; the names it can have are grad_x",
    "grad_shared": "tw::gs_back: result 'grad_x_and_z' is not a gradient of tw::gs; the names it can have are "
    "grad_x, grad_y, grad_x_and_y and the like",
    "grad_twice": "tw::g2_back: results 'grad_y' and 'grad_x_and_y' are both the gradient of 'y'; name it in one of them, once",
    "grad_mask": "tw::gm_back: argument 'output_mask' is bool[2], but tw::gm gives it bool[1]; write 'bool[1] output_mask'",
    "autocast": 'tw::autocast: autocast: unknown policy \'half\'; it is "keep", "lower" or "fp32"',
    "leading": "tw::leading: leading: 'y' is not an argument; they are x",
    "sums": "tw::sums: fold: 'z' is not a result; they are out",
}


def test_a_struct_of_parameters_stands_for_its_fields(ops):
    x, weight = torch.tensor([1.0, 2.0]), torch.tensor([2.0, 3.0])
    out, total = ops.weighted(x, weight, 2.0, 1.0, [5, 2], "known", [True, True])
    assert torch.equal(out, torch.tensor([60.0, 150.0])) and torch.equal(total, out + x)
    out, total = ops.weighted(x, None, 3.0, None, [], "known", [True, False])
    assert torch.equal(out, x * 3) and total is None
    with pytest.raises(ValueError, match="tt::weighted: name is other; it must be known"):
        ops.weighted(x, None, 3.0, None, [], "other", [True, True])


def test_every_argument_type(ops):
    x = torch.zeros(2, 4)
    base = ops.every(x, 6)
    assert base.shape == (2, 6) and base[0, 0] == 1  # w[1]
    extra = [torch.ones(3)]
    many = ops.every(
        x,
        6,
        torch.ones(6),
        "one",
        torch.float64,
        2.0,
        [0, 100],
        extra,
        2,
        [5, 3],
        True,
        0.5,
        7,
        "abc",
        [True, False],
        [20],
        None,
    )
    assert many.shape == (3, 5, 2, 2, 6) and many.dtype == torch.float64
    assert many[0, 0, 0, 0, 0] == 1 + 1 + 3 + 100 + 10 + 0.5 + 7 + 3 + 2 + 20
    assert torch.ops.tt.every.default._schema.arguments[1].name == "n"


def test_correct_definitions_have_no_errors(ops):
    assert not [text for text in _C.registration_errors() if "tt::" in text]
    assert "tt::ex(Tensor x) -> Tensor y" in _C.operators()


@pytest.mark.parametrize("key", ["CPU", "CUDA", "Meta", "AutogradCPU", "AutogradCUDA", "AutocastCUDA", "FuncTorchBatched"])
def test_every_operator_has_a_kernel_for(ops, key):
    names = [schema.split("(")[0] for schema in _C.operators()]
    has_kernel = torch._C._dispatch_has_computed_kernel_for_dispatch_key
    assert "tt::ex" in names and "tile::softmax" in names
    assert [name for name in names if not has_kernel(name, key)] == []
    # Names that the table of operators leaves out: those that also give what backward needs.
    twins = ["tile::_rms_norm_saving", "tile::_add_rms_norm_saving", "tile::_group_norm_saving"]
    assert [name for name in twins if not has_kernel(name, key)] == []


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(library, name):
    text = library.mistake(name)
    place, fact = re.fullmatch(r"(wrong\.cpp:\d+: )(.*)", text).groups()
    assert re.sub(r"(wrong\.cpp:)\d+", r"\1LINE", fact) == MISTAKES[name]
    assert text in _C.registration_errors()


@pytest.mark.parametrize(
    ("schema", "fact"),
    [
        ("tw::f(Tensor x, int i=9223372036854775808) -> Tensor", "does not parse: a number is too large"),
        ("tw::f(Tensor x, complex c=3) -> Tensor", "does not parse: a default is not a number of its type"),
        ("tw::f(Tensor x, None? m=None) -> Tensor", "does not parse: torch cannot make one of its types"),
        ("tw::é(Tensor x) -> Tensor", "does not parse: expected a valid token but found '?' here"),
    ],
)
def test_what_torch_does_not_say_well(library, schema, fact):
    assert re.sub(r"^schema\.cpp:\d+: ", "", library.schema(schema)) == f"op: the schema '{schema}' {fact}; {WRITE}"


def test_the_length_of_a_list_that_torch_cannot_keep(library):
    text = library.schema("tw::f(Tensor x, bool[9223372036854775807] m) -> Tensor")
    assert text.endswith("tw::f: the fixed length of 'm' is beyond 32 bits; write a smaller one, or []")


@pytest.mark.parametrize("argument", ["Tensor(a!)[]?[]? many", "Scalar?? many=None", "float many=float"])
def test_a_schema_that_torch_prints_otherwise(library, argument):
    text = library.schema(f"tw::f(Tensor x, {argument}) -> ()")
    assert text.endswith("tw::f: torch does not read back how it prints this schema; write plain types, as Tensor[]? and "
                         "Tensor(a!)[], and defaults of their own type")  # fmt: skip


def test_a_mistake_is_raised_at_every_use(library):
    library.mistake("returns")
    for x in (torch.ones(1), torch.ones(1, requires_grad=True), torch.ones(1, device="meta")):
        with pytest.raises(TypeError) as caught:
            torch.ops.tw.returns(x)
        assert str(caught.value) == MISTAKES["returns"]
    library.mistake("grad_missing")
    torch.ops.tw.grad_missing(torch.ones(1))
    with pytest.raises(RuntimeError) as caught:
        torch.ops.tw.grad_missing(torch.ones(1, requires_grad=True))
    assert str(caught.value) == MISTAKES["grad_missing"]
    assert library.mistake("number") is None
    with pytest.raises(TypeError) as caught:
        torch.ops.tw.number(torch.ones(1))
    assert str(caught.value) == "tw::number: outputs returned 1 tensors, but the schema says 2"


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("value", ValueError),
        ("type", TypeError),
        ("unsupported", NotImplementedError),
        ("runtime", RuntimeError),
        ("prefixed", RuntimeError),
    ],
)
def test_errors_of_a_body(ops, kind, error):
    with pytest.raises(error) as caught:
        ops.fails(torch.ones(1), kind)
    assert type(caught.value) is error and str(caught.value) == f"tt::fails: {kind}; try another"


def test_devices_are_not_mixed(ops):
    with pytest.raises(RuntimeError) as caught:
        ops.two(torch.ones(1), torch.ones(1, device="meta"))
    assert str(caught.value) == f"tt::two: 'a' is on {torch.ones(1).device}, but 'b' is on meta; move them to one device"


def test_call_from_cpp(library):
    assert library.call() == "tc::pair: has 2 results, and call() gives one; name their types: call<std::tuple<…>>"


def test_redefinition(library):
    assert library.redefine_gradient("tr::f_backward(Tensor grad_out) -> Tensor grad_x", 10.0) is None
    assert library.redefine("tr::f(Tensor x) -> Tensor", 1.0) is None
    packet, overload = torch.ops.tr.f, torch.ops.tr.f.default
    x = torch.ones(2, requires_grad=True)
    assert packet(x)[0] == overload(x)[0] == 1
    y = packet(x)
    assert library.redefine("tr::f(Tensor x) -> Tensor", 2.0) is None
    assert packet(x)[0] == overload(x)[0] == torch.ops.tr.f(x)[0] == 2
    y.sum().backward()  # of the operator that is gone
    assert x.grad[0] == 10
    y = packet(x)
    assert library.redefine_gradient("tr::f_backward(Tensor grad_out) -> Tensor grad_x", 20.0) is None
    y.sum().backward()
    assert x.grad[0] == 30
    y = packet(x)
    assert library.redefine_gradient("tr::f_backward(Tensor grad_out, Tensor x) -> Tensor grad_x", 40.0) is None
    with pytest.raises(RuntimeError) as caught:
        y.sum().backward()
    assert str(caught.value) == (
        "tr::f: its gradient operator tr::f_backward was redefined with another schema between forward and backward; run forward again"
    )
    packet(x).sum().backward()
    assert x.grad[0] == 70
    assert library.redefine("tr::f(Tensor x, int k=3) -> Tensor", 3.0) is None
    assert packet(x.detach())[0] == torch.ops.tr.f(x.detach())[0] == 3
    assert library.redefine("tr::f(Tensor x", 3.0).endswith(WRITE)
    assert torch.ops.tr.f(x.detach())[0] == 3  # a definition that fails replaces nothing
    assert library.redefine("tr::f(Tensor x) -> Tensor", 4.0) is None
    assert not [text for text in _C.registration_errors() if "tr::f" in text]


def test_handles_outlive_redefinitions(library):
    """Python's handles of an operator stay valid when another operator replaces the old definition."""
    assert library.redefine_gradient("tr::f_backward(Tensor grad_out) -> Tensor grad_x", 0.0) is None
    assert library.redefine("tr::f(Tensor x) -> Tensor", 0.0) is None
    packet, overload, x = torch.ops.tr.f, torch.ops.tr.f.default, torch.ones(2)
    for value in range(1, 5):
        assert library.redefine("tr::f(Tensor x) -> Tensor", value) is None
        assert overload(x)[0] == packet(x)[0] == value
        assert str(overload._schema) == "tr::f(Tensor x) -> Tensor"
