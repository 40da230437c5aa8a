"""tile_ops.patch: an activation behind a Linear or GroupNorm in a forward of a model's own, by the forward's text."""

import copy
import functools
import inspect
import pickle
import traceback

import pytest
import tile_ops
import torch
import torch.nn.functional as F
from numerics import check
from patch_calls import FUSED_BEFORE, activations, called_modules, close, names_of_calls, patch, results
from patch_cases import MLP
from patch_forwards import FUSED, LEFT, Branches, Decorated, Form, Functions, Lines, Nested, Optional
from torch import nn

each_form = pytest.mark.parametrize("make, before, after", FUSED, ids=[case[0].__name__ for case in FUSED])
x = functools.partial(torch.randn, 3, 8)


class Adapted(nn.Module):
    """As an adapter holds the layer that it changes."""

    def __init__(self, base):
        super().__init__()
        self.base, self.more = base, nn.Linear(8, 8, bias=False)

    def forward(self, x):
        return self.base(x) + self.more(x)


class WithAttention(Form):
    def forward(self, x):
        heads = x[None, None]
        return self.act(self.first(F.scaled_dot_product_attention(heads, heads, heads)[0, 0]))


class GELU(nn.Module):
    """The formula of tanh."""

    def forward(self, x):
        return 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3)))


def variants():
    model = nn.ModuleDict(
        {
            name: make()
            for name, make in (
                ("lines", Lines),
                ("nested", Nested),
                ("functions", Functions),
                ("attention", WithAttention),
                ("own", Nested),
                ("adapted", Nested),
                ("hooked", Nested),
                ("tanh", Nested),
                ("relu", Lines),
            )
        }
    )
    model["own"].act, model["tanh"].act, model["relu"].act = GELU(), nn.Tanh(), nn.ReLU()
    model["adapted"].first = Adapted(model["adapted"].first)
    model["hooked"].first.register_forward_hook(lambda *_: None)
    return model


def test_the_report():
    report = patch(variants())
    rows = [row for row in report.swapped if row[1] not in ("Linear", "GroupNorm", "Dropout")]
    assert rows == [
        ("attention", "WithAttention", "attention; matmul, silu"),
        ("lines", "Lines", "group_norm, silu"),
        ("nested", "Nested", "matmul, silu"),
        ("functions", "Functions", "matmul, gelu; matmul, relu"),
        ("own", "Nested", "matmul, gelu_tanh"),
        ("lines.act", "SiLU", FUSED_BEFORE),
        ("nested.act", "SiLU", FUSED_BEFORE),
        ("attention.act", "SiLU", FUSED_BEFORE),
        ("own.act", "GELU", FUSED_BEFORE),
    ]
    assert report.left == [
        ("functions.act", "SiLU", "no operator for it"),
        ("adapted.act", "SiLU", "behind Adapted, which is not swapped"),
        ("hooked.act", "SiLU", "a call of it or of the module before it does more than its forward"),
        ("tanh.act", "Tanh", "no operator for it"),
        ("relu.act", "ReLU", "group_norm computes silu alone"),
    ]


@each_form
def test_results_and_gradients(make, before, after):
    module, input = make(), x()
    own = type(module)
    expected, count = results(module, input), activations(module, input)
    wide = copy.deepcopy(module).double()
    reference = results(wide, input.double())
    patch(module)
    patch(wide)
    ours = results(module, input)
    close(ours, expected)
    torch.testing.assert_close(results(wide, input.double()), reference, rtol=1e-11, atol=1e-11)
    assert (count, activations(module, input)) == (before, after)
    tile_ops.unpatch(module)
    assert type(module) is own and activations(module, input) == before
    assert all(torch.equal(*pair) for pair in zip(results(module, input), expected))


@pytest.mark.parametrize("make", LEFT, ids=lambda make: make.__name__)
def test_what_is_left(make):
    module, input = make(), x()
    expected, count = results(module, input), activations(module, input)
    report = patch(module)
    assert type(module) is make and ("act", "SiLU", FUSED_BEFORE) not in report.swapped
    close(results(module, input), expected)
    assert activations(module, input) == count == 1


@pytest.mark.parametrize("kind", ["plain", "scaled", "other", "refused"])
def test_branches(kind):
    """A forward may take another branch after patch()."""
    module, input = Branches(), x()
    patch(module)
    module.kind = kind
    if kind == "refused":
        with pytest.raises(ValueError, match="refused"):
            module(input)
        return
    ours, alone = results(module, input), activations(module, input)
    close(ours, results(tile_ops.unpatch(module), input))
    assert alone == (kind != "plain")


@pytest.mark.parametrize("act, kind", [(None, "plain"), (nn.SiLU(), "none"), (nn.Tanh(), "plain"), (F.relu, "plain")])
def test_an_optional_activation(act, kind):
    module, input = Optional(), x()
    patch(module)
    del module.act
    module.act, module.kind = act, kind
    ours, alone = results(module, input), activations(module, input)
    close(ours, results(tile_ops.unpatch(module), input))
    assert alone == 0


@pytest.mark.parametrize("name", ["first", "act"])
@pytest.mark.parametrize("kind", ["forward", "forward_pre", "full_backward"])
def test_hooks_are_called(name, kind):
    module, input, seen = Nested(), x(), []
    expected = results(module, input)
    patch(module)
    handle = getattr(getattr(module, name), f"register_{kind}_hook")(lambda *_: seen.append(name))
    close(results(module, input), expected)
    assert seen == [name] and activations(module, input) == 1
    handle.remove()
    assert activations(module, input) == 0


def test_global_hooks_are_called():
    module = Nested()
    patch(module)
    assert called_modules(module, x()) == [module.first, module.act, module.drop, module.second, module]


def test_an_adapter_after_patch():
    module, input = Nested(), x()
    patch(module)
    module.first = Adapted(module.first)
    assert activations(module, input) == 1
    close(module(input), tile_ops.unpatch(module)(input))


def test_copies_and_state():
    module, input = variants(), x()
    before = {name: (type(each), dict(each.__dict__)) for name, each in module.named_modules()}
    names = list(module.state_dict())
    patch(module)
    assert {name: each.__dict__ for name, each in module.named_modules()} == {key: of[1] for key, of in before.items()}
    assert list(module.state_dict()) == names
    del module["hooked"]  # a lambda
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        for name in ("nested", "own", "attention"):
            assert activations(other[name], input) == 0 and torch.equal(other[name](input), module[name](input))
        tile_ops.unpatch(other)
        assert type(other["own"].act) is GELU and type(other["nested"]) is Nested


def test_patch_twice():
    module = variants()
    first = patch(module)
    classes = [type(each) for each in module.modules()]
    second = patch(module)
    assert second.swapped == [] and [type(each) for each in module.modules()] == classes
    assert second.left.count(("nested.act", "SiLU", "patched already")) == 1
    assert len(second.left) == len(first.swapped) + len(first.left)


def test_leave():
    module = variants()
    report = patch(module, leave="activation")
    assert ("nested.act", "SiLU", "as asked") in report.left and ("own.act", "GELU", "as asked") in report.left
    assert type(module["nested"]) is Nested and ("attention", "WithAttention", "attention") in report.swapped
    module = Nested()
    report = patch(module, leave="linear")
    assert type(module) is Nested and ("act", "SiLU", "no operator for it") in report.left


def test_a_shared_activation():
    """A Linear, a GroupNorm, which fuses only silu, and a gated MLP share one activation."""
    act, model, input = GELU(), nn.ModuleList([Nested(), Lines(), MLP(nn.SiLU())]), x()
    for each in model:
        setattr(each, "act_fn" if isinstance(each, MLP) else "act", act)
    expected = [each(input) for each in model]
    rows = set(patch(model).swapped)
    assert rows > {
        ("0", "Nested", "matmul, gelu_tanh"),
        ("2", "MLP", "gated_matmul, gelu_tanh"),
        ("0.act", "GELU", FUSED_BEFORE),
    }
    close([each(input) for each in model], expected)
    assert "tile::gated_matmul" in names_of_calls(model[2], input)


def test_an_activation_that_depends_on_the_mode():
    class Noisy(nn.Module):
        def forward(self, x):
            return F.silu(x) + (0.1 if self.training else 0.0)

    module = Nested().eval()
    module.act = Noisy()
    assert ("act", "Noisy", "no operator for it") in patch(module).left


def test_signature_source_and_errors():
    """The forward is still that of the file: what reads it sees no other one."""
    for make in (Nested, Decorated):
        module = make()
        patch(module)
        assert inspect.signature(module.forward) == inspect.signature(make().forward)
        assert inspect.getsource(module.forward) == inspect.getsource(make().forward)
        with pytest.raises(RuntimeError) as error:
            module(torch.randn(3, 9))
        frames = [frame for frame in traceback.extract_tb(error.tb) if frame.name == "forward"]
        assert any("self.act(self.first(x" in frame.line for frame in frames)


def test_forwards_without_their_text():
    names = {"Form": Form}
    exec("class Typed(Form):\n    def forward(self, x):\n        return self.act(self.first(x))", names)
    module = names["Typed"]()
    assert ("", "Typed", "the text of its forward is not there") in patch(module).left
    assert activations(module, x()) == 1


def test_a_text_that_is_not_that_of_the_code(tmp_path):
    """A file that was changed after it was imported."""
    path = tmp_path / "changed.py"
    text = "class Typed(Form):\n    def forward(self, x):\n        return self.act(self.first(x))\n"
    path.write_text(text.replace("first", "second"))
    names = {"Form": Form, "__name__": "changed"}
    exec(compile(text, str(path), "exec"), names)
    module = names["Typed"]()
    assert ("", "Typed", "the text of its forward is not there") in patch(module).left
    assert type(module) is names["Typed"]


def test_a_dtype_that_our_operators_refuse():
    module = Nested()
    patch(module)
    with pytest.raises(RuntimeError) as ours:
        module(torch.ones(3, 8, dtype=torch.int32))
    with pytest.raises(RuntimeError) as theirs:
        tile_ops.unpatch(module)(torch.ones(3, 8, dtype=torch.int32))
    assert str(ours.value) == str(theirs.value)


@each_form
def test_compile(make, before, after):
    module, input = make(), x()
    expected = results(module, input)
    patch(module)
    torch._dynamo.reset()
    close(results(torch.compile(module, backend="aot_eager", fullgraph=True), input), expected)


def test_export():
    module, input = Nested().eval(), x()
    patch(module)
    program = torch.export.export(module, (input,))
    assert "silu.default" not in str(program.graph)
    close(program.module()(input), module(input))


def test_checkpoint():
    module, input = Nested(), x().requires_grad_()
    expected = results(module, input)
    patch(module)
    out = torch.utils.checkpoint.checkpoint(module, input, use_reentrant=False)
    module.zero_grad()
    close(torch.autograd.grad(out.square().sum(), input)[0], expected[1])


def test_autocast():
    module, input = Nested(), x()
    reference = copy.deepcopy(module).double()(input.double())
    with torch.autocast(input.device.type, dtype=torch.bfloat16):
        theirs = module(input)
        patch(module)
        ours = module(input)
        assert activations(module, input) == 0
    assert ours.dtype == theirs.dtype
    check(ours, theirs, reference)
