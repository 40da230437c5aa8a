"""Errors of code generation: eager or inductor computes the graph, with one warning; and options that are unknown."""

import re
import warnings

import numerics
import pytest
import tile_ops
import torch
from tile_ops._compile import compat, ladder, patterns
from tile_ops._compile.kernel import TileKernel


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))  # the caches know nothing of a replaced method
    torch._dynamo.reset()
    tile_ops.compile_report(reset=True)


def fail_in_codegen(monkeypatch):
    def failing(self, name=None):
        raise KeyError("a mistake")

    monkeypatch.setattr(TileKernel, "codegen_kernel", failing)


def write_wrong_text(monkeypatch):
    own = TileKernel.codegen_kernel
    monkeypatch.setattr(TileKernel, "codegen_kernel", lambda self, name=None: own(self, name).replace("tl.exp(", "tl.expo("))


MISTAKES = {
    "KeyError: 'a mistake'": fail_in_codegen,
    "TileTypeError: No such attribute 'expo' of tile_ops.language; did you mean exp?": write_wrong_text,
}


def model(x, w):
    hidden = torch.exp(x @ w)
    return hidden.softmax(-1) * torch.rand_like(hidden)


def gradients(function, x, w, seed):
    x, w = (each.detach().clone().requires_grad_() for each in (x, w))
    torch.manual_seed(seed)
    result = function(x, w)
    result.square().sum().backward()
    return result.detach(), x.grad, w.grad


@pytest.mark.parametrize("error", MISTAKES)
def test_a_graph_that_fails_runs_in_eager_mode(error, monkeypatch, device):
    MISTAKES[error](monkeypatch)
    x, w = torch.randn(33, 17, device=device), torch.randn(17, 5, device=device)
    function = torch.compile(model, backend="tile")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ours = [gradients(function, x, w, seed) for seed in (1, 2, 1)]
    found = [each for each in caught if "backend" in str(each.message)]
    assert len(found) == 2  # forward and backward
    line = model.__code__.co_firstlineno
    for each in found:
        assert each.filename == __file__ and line < each.lineno <= line + 2
        assert str(each.message) == (
            f'torch.compile(backend="tile") could not generate code for the graph of {__file__}:{each.lineno} ({error}). '
            'It runs without kernels; options={"fallback": "error"} raises the error.'
        )
    graphs = tile_ops.compile_report().graphs
    assert [(each.kind, each.computed_by, each.error) for each in graphs] == [
        ("forward", "eager", error),
        ("backward", "eager", error),
    ]
    for one, same, other in zip(ours[0], ours[2], ours[1]):
        assert torch.equal(one, same) and not torch.equal(one, other)

    # The random numbers are inductor's, so that the values are compared without them.
    def plain(x, w):
        return torch.exp(x @ w).softmax(-1)

    function = torch.compile(plain, backend="tile")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = gradients(function, x, w, 0)
    for result, eager, exact in zip(ours, gradients(plain, x, w, 0), gradients(plain, x.double(), w.double(), 0)):
        numerics.check(result, eager, exact)


@pytest.mark.parametrize("error", MISTAKES)
def test_an_error_is_raised_if_the_options_ask_for_it(error, monkeypatch):
    MISTAKES[error](monkeypatch)
    with pytest.raises(Exception, match=re.escape(error)):
        torch.compile(model, backend="tile", options={"fallback": "error"})(torch.randn(3, 4), torch.randn(4, 5))
    assert not tile_ops.compile_report().graphs


@pytest.mark.parametrize("has_compiler", [pytest.param(True, marks=pytest.mark.long), False])
def test_inductor_generates_the_code_if_it_has_a_compiler(has_compiler, monkeypatch):
    fail_in_codegen(monkeypatch)
    monkeypatch.setattr(compat, "has_compiler", lambda device: has_compiler)
    x = torch.randn(3, 1000)

    def plain(x):
        return torch.exp(x) + 1

    text = "Inductor generates the code" if has_compiler else "It runs without kernels"
    for _ in range(2):  # no cache takes inductor's code for ours
        torch._dynamo.reset()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = torch.compile(plain, backend="tile", options={"fallback": "inductor"})(x)
        assert [text in str(each.message) for each in caught if "backend" in str(each.message)] == [True]
        numerics.check(result, plain(x), plain(x.double()))
        (graph,) = tile_ops.compile_report(reset=True).graphs
        assert graph.computed_by == ("inductor" if has_compiler else "eager")


@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
def test_attention_stays_torchs_after_an_error(trains, monkeypatch):
    def failing(values, ends):
        raise KeyError("a mistake")

    monkeypatch.setattr(patterns, "_results", failing)

    def attend(x):
        return torch.nn.functional.scaled_dot_product_attention(x * 2, x, x)

    x = torch.randn(1, 2, 33, 16, requires_grad=trains)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        numerics.check_call(torch.compile(attend, backend="tile", options={"attention": "tile"}), attend, (x,))
    found = [str(each.message) for each in caught if "backend" in str(each.message)]
    assert found and all("(KeyError: 'a mistake'). Torch computes its attention; options=" in each for each in found)
    for graph in tile_ops.compile_report().graphs:
        reasons = [why for name, (_, why) in graph.called.items() if "_scaled_dot_product" in name and "backward" not in name]
        assert graph.computed_by == "tile" and reasons == ["KeyError: 'a mistake'"] * (graph.kind != "backward")
    torch._dynamo.reset()
    with pytest.raises(Exception, match="KeyError: 'a mistake'"):
        torch.compile(attend, backend="tile", options={"attention": "tile", "fallback": "error"})(x)


def test_lengths_that_vary_and_changed_inputs_survive_an_error(monkeypatch):
    fail_in_codegen(monkeypatch)

    @torch.compile(backend="tile", dynamic=True)
    def changed(x, y):
        x.mul_(2)
        return x.exp() + y, x.shape[0] * 2

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rows in (2, 5, 9):
            x, y = torch.randn(rows, 3), torch.randn(3)
            before = x.clone()
            result, twice = changed(x, y)
            assert twice == 2 * rows and torch.equal(x, 2 * before)
            numerics.check(result, x.exp() + y, x.double().exp() + y.double())
    assert len(tile_ops.compile_report().graphs) == 1


def test_what_dynamo_wants_is_passed_on():
    from torch._dynamo.exc import SkipFrame

    assert not ladder.passes_on(KeyError("a"))
    try:
        try:
            raise SkipFrame("a")
        except SkipFrame as error:
            raise RuntimeError("b") from error
    except RuntimeError as error:
        assert ladder.passes_on(error)


ERRORS = {
    "options has no \"falback\"; pass 'products', 'attention', 'losses', 'fallback' or a setting that torch._inductor.list_options() names, such as 'fallback'": {
        "falback": "eager"
    },
    "options has no \"zzz\"; pass 'products', 'attention', 'losses', 'fallback' or a setting that torch._inductor.list_options() names": {
        "zzz": 1
    },
    "options[\"products\"] is 'fast'; pass 'measured', 'tile' or 'torch'": {"products": "fast"},
    'options["cpp_wrapper"]: only packages call kernels from C++; leave it out, or use tile_ops.aoti_compile_and_package': {
        "cpp_wrapper": True
    },
    "options[\"fallback\"] is True; pass 'eager', 'inductor' or 'error'": {"fallback": True},
}


@pytest.mark.parametrize("text", ERRORS)
def test_unknown_options_are_errors(text):
    with pytest.raises(Exception, match="(?m)ValueError: " + re.escape(text) + "$"):
        torch.compile(torch.relu, backend="tile", options=ERRORS[text])(torch.randn(3))


def test_settings_of_inductor_are_options():
    options = {"fallback-random": True, "triton.cudagraphs": False, "products": "torch"}
    torch.manual_seed(3)
    drawn = torch.compile(lambda x: torch.rand_like(x) + x, backend="tile", options=options)(torch.zeros(9))
    torch.manual_seed(3)
    assert torch.equal(drawn, torch.rand(9))
