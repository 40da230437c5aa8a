"""Calls that patched modules make in C++, and those that Python's code makes because something is not plain."""

import copy

import pytest
import tile_ops
import torch
import torch.nn.functional as F
from patch_calls import Functions, close, names_of_calls, results
from tile_ops import _C, _products
from tile_ops._patching import calls, direct
from torch import nn
from torch.nn.utils import parametrize

pytestmark = pytest.mark.at_home  # a default device is a mode, which has to see the calls


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.randn(width)), 1e-6

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(8, 16, bias=False), nn.Linear(8, 16, bias=False)
        self.down_proj, self.act_fn = nn.Linear(16, 8, bias=False), nn.SiLU()

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class Attention(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, query, key, value):
        return F.scaled_dot_product_attention(query, key, value, **self.options)


class Scores(nn.Module):
    def forward(self, x):
        return F.softmax(x, dim=-1) + torch.log_softmax(x, -1)


MAKERS = {
    "linear": lambda: nn.Linear(8, 16),
    "linear without bias": lambda: nn.Linear(8, 16, bias=False),
    "activation": lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU("tanh")),
    "layer_norm": lambda: nn.LayerNorm(8),
    "layer_norm without parameters": lambda: nn.LayerNorm((8,), elementwise_affine=False),
    "rms_norm": lambda: nn.RMSNorm(8),
    "other rms_norm": lambda: Norm(8),
    "softmax": lambda: nn.Softmax(-1),
    "log_softmax": lambda: nn.LogSoftmax(1),
    "functions": Scores,
    "gated": MLP,
}
PYTHONS = ("linear", "layer_norm", "rms_norm", "group_norm", "embedding", "taken", "_product_outside_classes")


@pytest.fixture
def without_python(monkeypatch):
    """Fails where Python's own code makes a call."""

    def called(*args, **kwargs):
        raise AssertionError("Python makes this call")

    for name in PYTHONS:
        monkeypatch.setattr(calls, name, called)


@pytest.mark.parametrize("products", ["measured", "tile"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(3, 5, 8), (1, 8), (0, 8)])
@pytest.mark.parametrize("name", MAKERS)
def test_plain_calls_are_made_at_once(name, shape, dtype, products, monkeypatch):
    module = MAKERS[name]().to(dtype)
    x = torch.randn(shape, dtype=dtype)
    theirs = copy.deepcopy(module).double()
    expected = theirs(x.double())
    tile_ops.patch(module, products=products)
    if not (name == "gated" and products == "tile"):  # one operator of both halves, which Python calls
        for each in PYTHONS:
            monkeypatch.setattr(calls, each, lambda *args: pytest.fail("Python makes this call"))
    out = module(x)
    assert out.dtype == dtype and out.shape == expected.shape
    tolerance = {torch.float64: 1e-6, torch.float32: 1e-5}.get(dtype, 3e-2)
    torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", MAKERS)
def test_gradients(name, without_python):
    module, x = MAKERS[name](), torch.randn(3, 5, 8)
    expected = results(module, x)
    tile_ops.patch(module)
    for ours, theirs in zip(results(module, x), expected):
        close(ours, theirs)


def test_images_tables_and_losses(without_python):
    norm, x = nn.Sequential(nn.GroupNorm(2, 8), nn.SiLU()), torch.randn(2, 8, 3, 5)
    table, loss = nn.Embedding(11, 8, padding_idx=-1), nn.CrossEntropyLoss(label_smoothing=0.1)
    words = torch.tensor([[0, 10], [4, 4]])
    cases = [
        (norm, (x,)),
        (table, (words,)),
        (table, (words.int(),)),
        (loss, (torch.randn(4, 7), torch.tensor([0, 6, -100, 2]))),
    ]
    for module, args in cases:
        expected = module(*args)
        ours = copy.deepcopy(module)
        tile_ops.patch(ours)
        close(ours(*args), expected)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}, {"enable_gqa": True}, {"attn_mask": "bool"},
                                     {"attn_mask": "float"}])  # fmt: skip
def test_attention(options, without_python, monkeypatch):
    monkeypatch.setattr(calls, "_attention", lambda *args, **kwargs: pytest.fail("Python makes this call"))
    mask = torch.rand(2, 1, 5, 7) > 0.3
    mask[..., 0] = True
    masks = {"bool": mask, "float": torch.randn(5, 7).expand(2, 4, 5, 7)}
    options = {name: masks.get(value, value) if name == "attn_mask" else value for name, value in options.items()}
    heads = 2 if options.get("enable_gqa") else 4
    q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, heads, 7, 8), torch.randn(2, heads, 7, 6)
    module = Attention(**options)
    inputs = [each.requires_grad_() for each in (q, k, v)]
    expected = module(*inputs)
    grads = torch.autograd.grad(expected.sum(), inputs)
    tile_ops.patch(module)
    ours = module(*inputs)
    close(ours, expected)
    for one, other in zip(torch.autograd.grad(ours.sum(), inputs), grads):
        close(one, other)


@pytest.mark.parametrize(
    "shapes, options",
    [
        (((5, 8), (7, 8), (7, 8)), {}),
        (((2, 3, 4, 5, 8), (2, 3, 4, 7, 8), (2, 3, 4, 7, 8)), {}),
        (((2, 4, 5, 8), (1, 4, 7, 8), (1, 4, 7, 8)), {}),
        (((2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 8)), {"attn_mask": (5, 7)}),
        (((2, 4, 5, 8), (2, 4, 7, 8), (2, 4, 7, 8)), {"scale": 1}),
        (((2, 4, 5, 300), (2, 4, 7, 300), (2, 4, 7, 300)), {}),
    ],
)
def test_attention_of_other_shapes(shapes, options):
    options = {name: torch.zeros(value) if name == "attn_mask" else value for name, value in options.items()}
    module, inputs = Attention(**options), [torch.randn(shape) for shape in shapes]
    expected = module(*inputs)
    tile_ops.patch(module)
    close(module(*inputs), expected)


@pytest.mark.parametrize("name", ["silu", "gelu", "gelu_tanh"])
def test_gates(name, without_python):
    gate, up = torch.randn(3, 16).chunk(2, -1)
    expected = {"silu": F.silu, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh")}[name](gate) * up
    close(calls.gated(gate, up, name), expected)


def refused(call, *args):
    return call(*args) is NotImplemented


def test_what_is_not_plain():
    class Sub(torch.Tensor):
        pass

    layer, norm, x = nn.Linear(8, 8), nn.LayerNorm(8), torch.randn(3, 8)
    tile_ops.patch(layer), tile_ops.patch(norm)
    assert not refused(direct.linear, layer, x, "none", "measured") and not refused(direct.layer_norm, norm, x)
    for other in (x.as_subclass(Sub), [1.0], None):
        assert refused(direct.linear, layer, other, "none", "measured") and refused(direct.layer_norm, norm, other)
    for other in (x.double(), x.to("meta"), x.long(), x.to_sparse()):
        assert refused(direct.layer_norm, norm, other)
    with Functions():
        assert refused(direct.linear, layer, x, "none", "measured") and refused(direct.layer_norm, norm, x)
    assert refused(direct.linear, layer, x, "tanh", "tile") and refused(direct.linear, layer, x, "none", "fast")
    assert refused(direct.linear, nn.Linear(8, 9), x, "none", "measured")  # it may be padded
    assert refused(direct.layer_norm, norm, torch.randn(3, 7))  # the operator's error


def test_modes_and_traces_see_the_calls():
    model, x = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8)), torch.randn(3, 8)
    tile_ops.patch(model)
    with Functions() as functions:
        model(x)
    assert "linear" in functions.names
    assert names_of_calls(model, x) >= {"aten::addmm", "tile::layer_norm"}
    close(torch.jit.trace(model, x)(x + 1), model(x + 1))
    close(torch.func.vmap(model)(x), model(x))
    primal, tangent = torch.func.jvp(model, (x,), (x,))
    close(primal, model(x))
    assert tangent.shape == x.shape
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert model[0](x).dtype == torch.bfloat16


def test_attributes_are_found_as_python_finds_them():
    x = torch.randn(3, 8)

    class Computed(nn.LayerNorm):
        @property
        def eps(self):
            return 0.5

        @eps.setter
        def eps(self, value):
            pass

    class Doubled(nn.LayerNorm):
        def __getattr__(self, name):
            found = super().__getattr__(name)
            return 2 * found if name == "weight" else found

    for norm in (Computed(8), Doubled(8)):
        norm._parameters["weight"].data.fill_(0.7)  # torch initialises what the class gives it
        expected = norm(x)
        tile_ops.patch(norm)
        close(norm(x), expected)
    plain = nn.Linear(8, 8)
    tile_ops.patch(plain)
    weight = plain.weight
    del plain.weight
    with pytest.raises(AttributeError, match="no attribute 'weight'"):
        plain(x)
    plain.weight = 2 * weight.detach()  # as torch.nn.utils.weight_norm leaves it
    close(plain(x), F.linear(x, 2 * weight, plain.bias))
    del plain.weight
    plain.register_buffer("weight", 3 * weight.detach())
    close(plain(x), F.linear(x, 3 * weight, plain.bias))

    class Negative(nn.Module):
        def forward(self, weight):
            return -weight

    other = nn.Linear(8, 8)
    tile_ops.patch(other)
    weight = other.weight.detach().clone()
    parametrize.register_parametrization(other, "weight", Negative())
    close(other(x), F.linear(x, -weight, other.bias))


def test_a_forward_in_which_the_operator_is_refused_is_torch_s():
    table = nn.Embedding(11, 8)
    tile_ops.patch(table)
    with pytest.raises(IndexError, match="index out of range"):
        tile_ops.unpatch(copy.deepcopy(table))(torch.tensor([11]))
    assert refused(direct.embedding, table, torch.tensor([1]), 11)


def test_errors_of_the_functions_themselves():
    for call, message in (
        (lambda: _C.patched_linear(1), "a product takes a module, its input, an activation and patch's products"),
        (lambda: _C.is_product_ours(1), "a choice takes a module, its input, a kind of product and patch's products"),
        (lambda: _C.patched_attention(1), "attention takes seven arguments"),
        (lambda: direct.layer_norm(), "ModuleCall takes a module and the arguments that are no attributes"),
        (
            lambda: _C.module_call("tile::softmax", (1,), False, False),
            "module_call: an argument is the name of an attribute or None",
        ),
        (lambda: _C.read_modules_of(1), "read_modules_of takes a class"),
    ):
        with pytest.raises(TypeError) as error:
            call()
        assert str(error.value) == message


def test_launches_are_left_out():
    x = torch.full((1000,), 3.0)
    ran = torch.ops.tile.softmax(x, 0)
    found = _C.without_launches(lambda: torch.ops.tile.softmax(x, 0))
    assert found.shape == ran.shape and torch.equal(ran, torch.ops.tile.softmax(x, 0))
    with pytest.raises(ZeroDivisionError):
        _C.without_launches(lambda: 1 / 0)


def test_a_layer_norm_of_permuted_rows_is_contiguous():
    """Torch's result is contiguous, too; the products that read it are slower otherwise."""
    norm, x = nn.LayerNorm(8), torch.randn(3, 8, 5).transpose(1, 2)
    expected = norm(x)
    tile_ops.patch(norm)
    ours = norm(x)
    close(ours, expected)
    assert ours.stride() == expected.stride() == (40, 8, 1)


@pytest.fixture
def limits():
    """Classes of products that C++ and Python are given."""
    most = 1 << 62
    made = (((1, 1), 4, 4, 0, False, 16), ((2, 8), 8, 16, 0, True, most), ((16, most), 16, 8, 1024, False, most))
    _C.products_by(lambda device, dtype, kind: made, 40)
    yield made
    _C.products_by(direct._limits, _products.LEAST_WEIGHTS)


def test_products_are_chosen_by_one_rule(limits):
    """C++ and Python read one table, each with the rule of _products.fits."""
    found = set()
    for rows in (1, 2, 8, 9, 16, 40):
        for depth in (3, 4, 8, 16, 64):
            for columns in (4, 8, 16, 64):
                layer, x = nn.Linear(depth, columns), torch.randn(rows, depth)
                for trains in (False, True):
                    with torch.set_grad_enabled(trains):
                        ours = direct.is_product_ours(layer, x, _products.PLAIN, "measured")
                    fits = _products.fits(limits, rows, depth, columns, trains)
                    assert ours == (depth * columns >= 40 and fits), (rows, depth, columns, trains)
                    found.add(ours)
    assert found == {False, True}
