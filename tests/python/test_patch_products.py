"""tile_ops.patch(model, products=…): which products are ours, that results stay the same, and what the report says."""

import copy
import pickle

import pytest
import tile_ops
import torch
from patch_calls import check_all, names_of_calls
from patch_cases import MLP
from tile_ops import _products
from tile_ops._patching import calls
from torch import nn

OURS, CPU = {"tile::matmul", "tile::gated_matmul"}, "cpu"
VALUES = ("measured", "tile", "torch")


@pytest.fixture(autouse=True)
def avx2(monkeypatch):
    """The classes of a CPU, whatever torch may use on this one."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    _products.classes.cache_clear()
    _products.limits.cache_clear()
    yield
    _products.classes.cache_clear()
    _products.limits.cache_clear()


class Conv1D(nn.Module):
    """A Linear whose weight is [in, out], as transformers has it."""

    def __init__(self, depth, columns):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(depth, columns) / depth**0.5), nn.Parameter(torch.randn(columns))

    def forward(self, x):
        return torch.addmm(self.bias, x.view(-1, self.weight.shape[0]), self.weight).view(*x.shape[:-1], self.weight.shape[1])


class Gated(MLP):
    def __init__(self, act):
        nn.Module.__init__(self)
        self.gate_proj, self.up_proj = (nn.Linear(512, 640, bias=False) for _ in range(2))
        self.down_proj, self.act_fn = nn.Linear(640, 512, bias=False), act


class GatedAtOnce(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_up_proj, self.down_proj, self.act_fn = nn.Linear(512, 1280, False), nn.Linear(640, 512, False), nn.SiLU()

    def forward(self, x):
        gate, up = self.gate_up_proj(x).chunk(2, -1)
        return self.down_proj(self.act_fn(gate) * up)


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(512, 8, batch_first=True)

    def forward(self, x):
        return self.attention(x[None], x[None], x[None], need_weights=False)[0][0]


MAKERS = {
    "linear": lambda: nn.Linear(512, 640),
    "transposed": lambda: Conv1D(512, 640),
    "activation": lambda: nn.Sequential(nn.Linear(512, 640), nn.GELU()),
    "gate": lambda: Gated(nn.SiLU()),
    "gate and up at once": lambda: GatedAtOnce(),
    "relu gate": lambda: Gated(nn.ReLU()),
    "attention": lambda: SelfAttention(),
}


def made(name):
    with torch.device(CPU):
        return MAKERS[name]()


def ours(module, *shape, dtype=torch.float32):
    return bool(names_of_calls(module, torch.randn(*shape, dtype=dtype, device=CPU)) & OURS)


@pytest.mark.parametrize("name", MAKERS)
def test_rows_decide(name):
    module = made(name)
    report = tile_ops.patch(module)
    assert {rows: ours(module, rows, 512) for rows in (0, 1, 2, 8, 9, 127, 128)} == {
        0: False, 1: True, 2: True, 8: True, 9: False, 127: False, 128: True,
    }  # fmt: skip
    assert all("and for 2 to 8 rows (1.3 to 3.0) and from 128 rows" in text for _, _, text in report.products)


@pytest.mark.parametrize("products, found", [("tile", True), ("torch", False)])
@pytest.mark.parametrize("name", MAKERS)
def test_one_for_all(name, products, found):
    module = made(name)
    report = tile_ops.patch(module, products=products)
    assert {ours(module, rows, 512) for rows in (0, 1, 4, 40)} == {found}
    assert all(text == ("ours, as asked" if found else "torch's, as asked") for _, _, text in report.products)
    left = [row for row in report.left if row[2] == 'products="torch"']
    assert bool(left) == (not found)


@pytest.mark.parametrize("products", VALUES)
@pytest.mark.parametrize("rows", [1, 3, 17, 130])
@pytest.mark.parametrize("name", MAKERS)
def test_results_and_gradients(name, rows, products):
    module = made(name)
    x = torch.randn(rows, 512, device=CPU)

    def evaluated(module, x):
        x = x.detach().clone().requires_grad_()
        module.zero_grad()
        out = module(x)
        weights = torch.linspace(-1, 1, out.numel(), dtype=torch.float64, device=CPU).view(out.shape)
        (out.double() * weights).sum().backward()
        return out.detach(), {name: p.grad for name, p in module.named_parameters() if p.grad is not None} | {"x": x.grad}

    wide = copy.deepcopy(module).double()
    theirs, reference = evaluated(module, x), evaluated(wide, x.double())
    tile_ops.patch(module, products=products)
    tile_ops.patch(wide, products=products)
    check_all(evaluated(module, x), theirs, evaluated(wide, x.double()), reference)


@pytest.mark.parametrize("grads, frozen, found", [(True, False, False), (True, True, True), (False, False, True)])
@pytest.mark.parametrize("dtype, rows", [(torch.bfloat16, 4), (torch.float32, 1)])
def test_gradients_decide(dtype, rows, grads, frozen, found):
    module = made("linear").to(dtype).requires_grad_(not frozen)
    x = torch.randn(rows, 512, dtype=dtype, device=CPU)
    with torch.set_grad_enabled(grads):
        assert calls.product_is_ours("measured", x, module.weight, 512, 640) == found
        x.requires_grad_()  # an earlier layer is trained
        assert calls.product_is_ours("measured", x, module.weight, 512, 640) == (not grads)


def test_the_dtype_of_autocast_decides():
    module = made("linear")
    tile_ops.patch(module)
    assert ours(module, 200, 512)
    with torch.autocast(CPU, dtype=torch.bfloat16):
        assert not ours(module, 200, 512) and ours(module, 1, 512)


def test_batches_are_rows():
    module = made("linear")
    tile_ops.patch(module)
    assert ours(module, 2, 3, 512) and not ours(module, 2, 5, 512) and ours(module, 2, 64, 512) and ours(module, 512)


def test_copies_keep_the_option():
    module = made("linear")
    tile_ops.patch(module, products="tile")
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert ours(other, 9, 512)
    tile_ops.unpatch(module)
    tile_ops.patch(module)
    assert not ours(module, 9, 512)


@pytest.mark.parametrize("products", VALUES)
def test_what_is_left_is_torch_s(products):
    module = made("activation")
    report = tile_ops.patch(module, leave="linear", products=products)
    assert ("0", "Linear", "as asked") in report.left and report.products == []
    assert not ours(module, 4, 512)


def test_hooks_of_a_gated_mlp_with_torch_s_products():
    module, seen = made("gate"), []
    tile_ops.patch(module, products="torch")
    assert "tile::swiglu" in names_of_calls(module, torch.randn(3, 512, device=CPU))
    module.up_proj.register_forward_hook(lambda *_: seen.append("up"))
    assert "tile::swiglu" not in names_of_calls(module, torch.randn(3, 512, device=CPU)) and seen == ["up"]


REPORT = """\
Sequential: 6 modules swapped
     3 Linear: matmul
     1 LayerNorm: layer_norm
     1 Sequential: activations in matmul and group_norm
     1 GELU: computed by the module before it
products, with torch's time / ours
     1 Linear: ours for 1 row without gradients (1.0 to 1.7) and for 2 to 8 rows (1.3 to 3.0) and from 128 rows (0.97 to 1.3); else torch's
     1 Linear: torch's, as ours was not faster in float32 and these sizes on this cpu
     1 Linear: ours for 1 to 8 rows without gradients (1.2 to 3.0); else torch's
0 modules left"""


def test_the_report():
    with torch.device(CPU):
        layers = nn.Linear(512, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 8), nn.Linear(512, 512, dtype=torch.bfloat16)
    report = tile_ops.patch(nn.Sequential(*layers))
    assert str(report) == REPORT
    assert report.products[1] == ("3", "Linear", "torch's, as ours was not faster in float32 and these sizes on this cpu")


def test_the_report_of_an_activation_on_a_gpu(monkeypatch):
    monkeypatch.setattr(_products, "_is_measured", lambda device: True)
    monkeypatch.setattr(
        _products, "_CLASSES", [each._replace(device=CPU) for each in _products._CLASSES if each.device == "cuda"]
    )
    with torch.device(CPU):
        layers = [nn.Linear(2048, 64, dtype=torch.bfloat16)]
    assert [text for _, _, text in tile_ops.patch(nn.ModuleList(layers)).products] == [
        "with an activation ours from 64 rows without gradients (1.0 to 1.3); else torch's"
    ]


@pytest.mark.parametrize("bias", [False, True])
def test_padded_columns_change_no_result(bias, monkeypatch):
    monkeypatch.setattr(_products, "pays_to_pad", lambda device, dtype, extents: (False, False, True))
    with torch.device(CPU):
        layer, x = (
            nn.Linear(12, 13, bias=bias, dtype=torch.float64),
            torch.randn(2, 5, 12, dtype=torch.float64, requires_grad=True),
        )
    tile_ops.patch(layer, products="measured")
    result = layer(x)
    expected = nn.functional.linear(x, layer.weight, layer.bias)
    assert result.is_contiguous() and result.shape == expected.shape
    parameters = (x, *layer.parameters())
    grad = torch.randn_like(expected)
    for one, other in zip(
        (result, *torch.autograd.grad(result, parameters, grad)), (expected, *torch.autograd.grad(expected, parameters, grad))
    ):
        torch.testing.assert_close(one, other)


def test_an_unknown_value():
    module = made("linear")
    with pytest.raises(ValueError) as error:
        tile_ops.patch(module, products="fast")
    assert str(error.value) == "patch: products is 'fast'; pass 'measured', 'tile' or 'torch'"
    assert type(module) is nn.Linear


@pytest.mark.parametrize("name", MAKERS)
def test_compile(name):
    """Each size has the products that it has without torch.compile; a graph of all sizes has torch's."""
    module = made(name)
    tile_ops.patch(module)
    graphs = []

    def backend(gm, inputs):
        graphs.append(bool({str(node.target).removesuffix(".default").replace(".", "::") for node in gm.graph.nodes} & OURS))
        return gm.forward

    torch._dynamo.reset()
    compiled = torch.compile(module, backend=backend, fullgraph=True, dynamic=False)
    for rows in (4, 16, 130):
        x = torch.randn(rows, 512, device=CPU)
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-5, atol=1e-5)
    assert graphs == [True, False, True]
    torch._dynamo.reset()
    graphs.clear()
    compiled = torch.compile(module, backend=backend, fullgraph=True, dynamic=True)
    for rows in (4, 16, 130, 7):
        x = torch.randn(rows, 512, device=CPU)
        torch.testing.assert_close(compiled(x), module(x), rtol=1e-4, atol=1e-4)
    assert graphs == [False]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", ["linear", "gate"])
def test_export_of_rows_that_vary(name, strict):
    module, x = made(name).eval(), torch.randn(20, 512, device=CPU)
    tile_ops.patch(module)
    program = torch.export.export(module, (x,), dynamic_shapes=({0: torch.export.Dim("rows", min=2, max=4096)},), strict=strict)
    for rows in (2, 20, 300):
        x = torch.randn(rows, 512, device=CPU)
        torch.testing.assert_close(program.module()(x), module(x), rtol=1e-4, atol=1e-4)
