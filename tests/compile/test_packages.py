"""AOTInductor packages of exported programs: their kernels are ours, and they compute what the model does."""

import copy
import zipfile

import numerics
import pytest
import tile_ops
import torch
import torch.nn.functional as F
from raised import error_of
from tile_ops._compile.kernel import TileKernel

BATCH = torch.export.Dim("batch", min=2, max=4096)


class Model(torch.nn.Module):
    """Norm, products with epilogues, attention, gathered rows, a buffer that changes, and an operator that is called."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(48), torch.nn.Linear(48, 96), torch.nn.Linear(96, 48)
        self.words = torch.nn.Parameter(torch.randn(20, 48))
        self.register_buffer("scale", torch.randn(48))
        self.register_buffer("seen", torch.zeros(48))

    def forward(self, x, words):
        self.seen.add_(1)
        x = x + F.embedding(words, self.words)
        y = self.down(F.gelu(self.up(self.norm(x)))) + x
        heads = y.view(-1, 4, 4, 12)
        y = y + F.scaled_dot_product_attention(heads, heads, heads).reshape(-1, 48)
        return torch.softmax(y * self.scale, -1), y.abs().sum(-1), torch.lgamma(x), self.seen + y[0]


def data(batch, device):
    return torch.randn(4 * batch, 48, device=device), torch.randint(20, (4 * batch,), device=device)


def exported(model, device):
    rows = {0: 4 * BATCH}
    return torch.export.export(model, data(3, device), dynamic_shapes=(rows, rows))


def check(run, model, device):
    """Asserts the numerics rule at several sizes. run: a package, or a function, that was made of the model."""
    model, wide = copy.deepcopy(model), copy.deepcopy(model).double()
    for batch in (3, 2, 64, 257):
        numerics.check_call(run, model, data(batch, device), reference=wide, what=f"batch of {batch}")


def wrapper_of(package):
    with zipfile.ZipFile(package) as file:
        return "".join(file.read(name).decode() for name in file.namelist() if name.endswith(".cpp"))


def test_a_package_has_our_kernels(tmp_path, device):
    model = Model().to(device).eval()
    tile_ops.compile_report(reset=True)
    with torch.no_grad():
        package = tile_ops.aoti_compile_and_package(
            exported(model, device),
            package_path=str(tmp_path / "model.pt2"),
            options={"fallback": "error", "products": "tile", "attention": "tile"},
        )
        assert package == str(tmp_path / "model.pt2")
        (graph,) = tile_ops.compile_report().graphs
        assert graph.kind == "package" and graph.computed_by == "tile"
        assert graph.kernels and all(each.launches for each in graph.kernels)
        assert [each.launches for each in graph.products] == [1, 1]
        assert {"tile.attention.default", "aten.lgamma.default"} <= {*graph.called}
        source = wrapper_of(package)
        assert "cpp_fused" not in source and "triton_" not in source
        check(torch._inductor.aoti_load_package(package), model, device)


class Small(torch.nn.Module):
    """Functions whose kernels differ: loops, columns, indices, dtypes, several results, writes in place, few elements."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(3, 5, 3, padding=1)
        self.linear, self.gate, self.up = (torch.nn.Linear(*each, bias=False) for each in ((7, 5), (9, 6), (9, 6)))
        self.register_buffer("index", torch.tensor([2, 0, 1]))

    def forward(self, x, table, count):
        rows, columns = x.shape
        walked = table.softmax(-1), table.var(0), table.amax(-1), (table.abs() * 2).sum()
        views = (
            x.t().contiguous() + 1,
            torch.cat([x, x.flip(0)], 1),
            x[:, 1::2] * 3,
            x.unsqueeze(1).expand(rows, 2, columns) + 1,
        )
        indexed = x[:, self.index], x.argmax(-1), x.cumsum(-1), torch.where(x > 0, x, count.to(x.dtype)), x.sort(-1).values
        typed = (x.bfloat16() * 1.5).relu(), count * 2 + rows, x.to(torch.int32) // 3, (x > 0) & (x < 1), x.double().exp()
        fewer = (
            F.gelu(self.linear(x[:, :7])),
            self.conv(x[:3].unsqueeze(0)),
            x[:0] + 1,
            x.new_full((2, columns), 3),
            x.abs().mean(),
        )
        pair = F.silu(self.gate(x)) * self.up(x)
        table.mul_(2)
        return (*walked, *views, *indexed, *typed, *fewer, pair)


@pytest.mark.long
@pytest.mark.parametrize("dynamic", [False, True])
def test_kernels_of_many_kinds(dynamic, tmp_path, device):
    def given(rows, columns):
        return torch.randn(rows, 9, device=device), torch.randn(5, columns, device=device), torch.arange(9, device=device)

    model = Small().to(device).eval()
    rows, columns = torch.export.Dim("rows", min=4, max=999), torch.export.Dim("columns", min=2, max=99999)
    shapes = ({0: rows}, {1: columns}, {}) if dynamic else None
    with torch.no_grad():
        program = torch.export.export(model, given(37, 20001), dynamic_shapes=shapes)
        options = {"fallback": "error", "products": "tile"}
        package = tile_ops.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"), options=options)
        run, wide = torch._inductor.aoti_load_package(package), copy.deepcopy(model).double()
        for sizes in [(37, 20001), (4, 2), (257, 33333)] if dynamic else [(37, 20001)]:
            arguments = given(*sizes)
            (x, table, count), ours = arguments, arguments[1].clone()
            results, theirs, exact = run(x, ours, count), model(x, table.clone(), count), wide(*numerics.widen(arguments))
            assert torch.equal(ours, table * 2)
            assert len(results) == len(theirs)
            for i, each in enumerate(zip(results, theirs, exact)):
                numerics.check(*each, what=f"result {i} of {sizes}")


@pytest.mark.long
def test_inductor_generates_the_code_after_an_error(monkeypatch, tmp_path, device):
    def failing(self, name=None):
        raise KeyError("a mistake")

    monkeypatch.setattr(TileKernel, "codegen_kernel", failing)
    x = torch.randn(5, 8, device=device)
    program = torch.export.export(torch.nn.Softmax(-1), (x,))
    with pytest.raises(Exception, match="a mistake"):
        tile_ops.aoti_compile_and_package(program, options={"fallback": "error"})
    tile_ops.compile_report(reset=True)
    with pytest.warns(UserWarning, match="KeyError: 'a mistake'.*Inductor generates the code"):
        package = tile_ops.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))
    (graph,) = tile_ops.compile_report().graphs
    assert graph.computed_by == "inductor" and graph.kind == "package"
    torch.testing.assert_close(torch._inductor.aoti_load_package(package)(x), x.softmax(-1))


def test_errors():
    assert error_of(tile_ops.aoti_compile_and_package, torch.nn.Linear(2, 2)) == (
        "TypeError: a package is made of an ExportedProgram, not of a Linear; call torch.export.export"
    )
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.randn(3, 2),))
    package = tile_ops.aoti_compile_and_package
    assert error_of(package, program, options={"fallback": "eager"}) == (
        'ValueError: a package cannot run operators one by one; pass "inductor" or "error" for options["fallback"]'
    )
    assert error_of(package, program, options={"aot_inductor.use_runtime_constant_folding": True}) == (
        'ValueError: options["aot_inductor.use_runtime_constant_folding"]: kernels of tile_ops cannot run when a package is '
        "loaded; leave it out"
    )
    assert error_of(package, program, options={"product": "tile"}).startswith('ValueError: options has no "product"')


def test_an_exported_program_is_compiled(device):
    """torch.compile takes the module of a program, which torch.export traced."""
    model = Model().to(device).eval()
    with torch.no_grad():
        module = exported(model, device).module()
        run = torch.compile(module, backend="tile", dynamic=True, options={"fallback": "error"})
        check(run, model, device)
