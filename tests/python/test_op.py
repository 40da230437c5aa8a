"""tile_ops.op: operators from Python in each of its forms have all that operators in C++ have."""

import copy
import os
import subprocess
import sys
import threading

import pytest
import tile_ops
import torch
from python_operators import mixed, rms, rms_composite, scale_, split
from torch.library import opcheck


def reference(x, w, eps=1e-5):
    return torch.nn.functional.rms_norm(x, x.shape[-1:], w, eps)


def data(dtype=torch.float32, *shape):
    shape = shape or (3, 5, 24)
    x = torch.randn(shape, dtype=dtype, requires_grad=True)
    return x, torch.rand(shape[-1], dtype=dtype).add(0.5).requires_grad_()


def close(ours, wanted, dtype):
    scale = wanted.abs().max().item() if wanted.numel() else 1
    limit = {torch.float64: 1e-12, torch.float32: 4e-6, torch.bfloat16: 2e-2, torch.float16: 3e-3}[dtype]
    torch.testing.assert_close(ours.double(), wanted.double(), rtol=0, atol=limit * max(scale, 1))


@pytest.mark.parametrize("operator", [rms, rms_composite])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(3, 5, 24), (1, 1), (0, 7), (65, 33), (2, 1000)])
def test_forward_and_gradient(operator, dtype, shape):
    x, w = data(dtype, *shape)
    wide = [t.detach().double().requires_grad_() for t in (x, w)]
    y, wanted = operator(x, w), reference(*wide)
    close(y, wanted, dtype)
    g = torch.randn(shape, dtype=dtype)
    for ours, theirs in zip(torch.autograd.grad(y, (x, w), g), torch.autograd.grad(wanted, wide, g.double())):
        close(ours, theirs, dtype)


def test_gradcheck():
    x, w = data(torch.float64, 2, 3, 5)
    assert torch.autograd.gradcheck(rms, (x, w))
    assert torch.autograd.gradcheck(rms_composite, (x, w))
    assert torch.autograd.gradgradcheck(rms_composite, (x, w))


def test_no_second_derivative():
    x, w = data()
    (g,) = torch.autograd.grad(rms(x, w).sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="double backward of tile_py::rms is not implemented"):
        g.sum().backward()


SAMPLES = {
    "rms": (rms, data()),
    "rms without gradient": (rms, [t.detach() for t in data()]),
    "composite": (rms_composite, data()),
    "split": (split, (torch.randn(2, 9, requires_grad=True), 0.5)),
    "scale_": (scale_, (torch.ones(300), 2.0)),
    "mixed": (mixed, ([torch.randn(2, 3, requires_grad=True)], torch.tensor(1.0), [2, 3], torch.float64)),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_opcheck(name):
    operator, arguments = SAMPLES[name]
    opcheck(operator.overload, arguments)


def test_several_results_and_a_missing_gradient():
    x = torch.randn(2, 700, requires_grad=True)
    low, high = split(x, 0.5)
    torch.testing.assert_close(low, x.clamp(max=0.5))
    torch.testing.assert_close(high, x.clamp(min=0.5))
    for swap in (False, True):
        (g,) = torch.autograd.grad(split(x, 0.5, swap=swap)[0].sum(), x)
        torch.testing.assert_close(g, ((x < 0.5) != swap).float())


def test_every_kind_of_argument():
    x = torch.randn(2, 3, requires_grad=True)
    bias = torch.tensor(1.0, requires_grad=True)
    (y,) = mixed([x], bias, [2, 3], torch.float64, by=3.0)
    assert y.dtype == torch.float64
    torch.testing.assert_close(y, (x * 3 + 1).double())
    gx, gb = torch.autograd.grad(y.sum(), (x, bias))
    torch.testing.assert_close((gx, gb), (torch.full_like(x, 3.0), torch.tensor(6.0)))
    (y,) = mixed([x.detach()], None, [2, 3], torch.float32)
    torch.testing.assert_close(y, x.detach() * 2)


def test_writing_into_an_argument():
    x = torch.ones(300)
    y = x * 1
    version = y._version
    assert scale_(y, 3.0) is None and y._version == version + 1
    torch.testing.assert_close(y, torch.full((300,), 3.0))


@pytest.mark.parametrize("operator", [rms, rms_composite])
def test_compile(operator):
    def function(x, w):
        return operator(x * 2, w).sin().sum()

    compiled = torch.compile(function, fullgraph=True, dynamic=True)
    for shape in ((3, 5, 24), (2, 3, 48)):
        x, w = data(torch.float32, *shape)
        ours = torch.autograd.grad(compiled(x, w), (x, w))
        wanted = torch.autograd.grad(function(x, w), (x, w))
        torch.testing.assert_close(ours, wanted)


def test_compiled_autograd():
    x, w = data()
    wanted = torch.autograd.grad(rms(x, w).sum(), (x, w))
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="aot_eager")):
        rms(x, w).sum().backward()
    torch.testing.assert_close((x.grad, w.grad), wanted)


def test_export():
    class Model(torch.nn.Module):
        def forward(self, x, w):
            return rms(x, w)

    x, w = (t.detach() for t in data())
    rows = torch.export.Dim("rows", min=2)
    program = torch.export.export(Model(), (x, w), dynamic_shapes={"x": {0: rows}, "w": {}})
    assert "tile_py.rms.default" in program.graph_module.code
    torch.testing.assert_close(program.module()(torch.cat([x, x]), w), rms(torch.cat([x, x]), w))


def test_transforms():
    x, w = (t.detach() for t in data())
    wanted = torch.stack([rms(each, w) for each in x])
    torch.testing.assert_close(torch.vmap(rms, in_dims=(0, None))(x, w), wanted)
    g = torch.func.grad(lambda w: rms(x, w).square().sum())(w)
    each = torch.vmap(torch.func.grad(lambda w, x: rms(x, w).square().sum()), in_dims=(None, 0))(w, x)
    torch.testing.assert_close(each.sum(0), g)
    low, high = torch.vmap(lambda x: split(x, 0.0))(x)  # folded: one call
    torch.testing.assert_close(low + high, x)


def test_autocast():
    @tile_ops.op("tile_py::lowered(Tensor x) -> Tensor", autocast="lower", outputs="x")
    def lowered(x, out):
        out.copy_(x)

    with torch.autocast(torch.get_default_device().type, torch.bfloat16):
        assert lowered(torch.ones(3)).dtype == torch.bfloat16
    assert lowered(torch.ones(3)).dtype == torch.float32


def test_flops():
    from torch.utils.flop_counter import FlopCounterMode

    tile_ops.register_flop_formulas()
    with FlopCounterMode(display=False) as counter:
        rms(torch.ones(3, 8), w=torch.ones(8))
    assert counter.get_total_flops() == 96


def test_threads():
    x, w = data()
    wanted = rms(x, w)
    wrong = []

    def work():
        for _ in range(50):
            y = rms(x, w)
            torch.autograd.grad(y.sum(), (x, w))
            if not torch.equal(y, wanted):
                wrong.append(y)

    threads = [threading.Thread(target=work) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not wrong


def test_modules_copy():
    class Norm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(24))

        def forward(self, x):
            return rms(x, self.weight)

    x, _ = data()
    norm = Norm()
    torch.testing.assert_close(copy.deepcopy(norm)(x), norm(x))


def test_what_it_is():
    assert repr(rms) == "<tile_ops.op tile_py::rms(Tensor x, Tensor w, float eps=1e-5) -> Tensor>"
    assert rms.__doc__ == "RMS norm of the last axis: x / sqrt(mean(x²) + eps) · w."
    assert rms.packet is torch.ops.tile_py.rms and rms.overload is torch.ops.tile_py.rms.default
    assert isinstance(rms, tile_ops.TorchOp)


def test_a_cell_runs_again():
    def define(by):
        @tile_ops.op("tile_py::again(Tensor x) -> Tensor", outputs="x", grad=lambda grad_out: grad_out * by)
        def again(x, out):
            out.copy_(x * by)

        return again

    x = torch.ones(3, requires_grad=True)
    for by in (2.0, 3.0):
        y = define(by)(x)
        (g,) = torch.autograd.grad(y.sum(), x)
        assert y.tolist() == [by] * 3 and g.tolist() == [by] * 3


def refused(schema, message, kind=TypeError, **parts):
    def body():
        pass

    run = parts.pop("run", body)
    with pytest.raises(kind) as error:
        tile_ops.op(schema, **parts)(run)
    assert message in str(error.value), str(error.value)


def test_mistakes_in_definitions():
    with pytest.raises(ValueError) as error:
        tile_ops.op("tile_py::rms(Tensor x) -> Tensor", outputs="x")(lambda x, out: None)
    assert "tile_py::rms: is defined already, by rms at " in str(error.value)
    assert str(error.value).endswith("; choose another name")
    refused("lonely(Tensor x) -> Tensor", "'lonely' has no namespace; write \"mine::lonely(...)\"", ValueError)
    refused("tile_py::none(Tensor x)", "says no results; write \"ns::name(Tensor x) -> Tensor\", or -> () for none",
            ValueError)  # fmt: skip
    refused("tile_py::a1(Tensor x) -> Tensor", "run has a parameter 'y', which is not one of its values; they are x, out",
            run=lambda y: None)  # fmt: skip
    refused("tile_py::a2(Tensor x) -> Tensor", "run has the parameter '*xs'; values are given by position, name those",
            run=lambda *xs: None)  # fmt: skip
    refused("tile_py::a3(Tensor x, Tensor y) -> Tensor", "run: parameter 'n' comes before 'y'; put it after",
            run=lambda x, n=1, y=2: None)  # fmt: skip
    refused("tile_py::a4(Tensor x) -> Tensor", "outputs has a parameter 'out', which is not one of its values; they are x",
            outputs=lambda out: out)  # fmt: skip
    refused("tile_py::a5(Tensor x) -> Tensor", "unknown policy 'low'; it is \"keep\", \"lower\" or \"fp32\"", ValueError,
            autocast="low")  # fmt: skip
    refused("tile_py::a6(Tensor x) -> Tensor", "leading and fold are two rules of vmap; give one", leading="x", fold="x")
    refused("tile_py::a7(Tensor x) -> Tensor", "leading: 'y' is not an argument; they are x", ValueError, leading="y")
    refused("tile_py::a8(Tensor x) -> Tensor", "grad is a int; give a function, a class or an operator's name", grad=3)
    refused("tile_py::a9(Tensor(a!) x) -> ()", "writes into an argument, so it cannot have a gradient", ValueError,
            grad="tile_py::other")  # fmt: skip
    refused("tile_py::b1(Tensor x) -> Tensor", "its gradient operator tile_py::nowhere is not registered", RuntimeError,
            outputs="x", grad="tile_py::nowhere")  # fmt: skip
    refused("tile_py::b2(Whatever x) -> Tensor", "'tile_py::b2(Whatever x) -> Tensor' is not a schema of torch: unknown type specifier.",
            ValueError)  # fmt: skip
    refused("tile::softmax(Tensor x) -> Tensor", "tile::softmax: is registered already", ValueError)
    refused("tile_py::b3(Tensor x) -> Tensor", "op: 3 is neither a class nor a function", run=3)

    class Wrong:
        def outputs(x):
            return x

    refused("tile_py::b4(Tensor x) -> Tensor", "tile_py::b4: has no run; define one that fills the results", run=Wrong)

    class Other(Wrong):
        def run(x):
            pass

        def helper(x):
            pass

    refused("tile_py::b5(Tensor x) -> Tensor", "'helper' is not a part of an operator; they are outputs, saved_outputs, run",
            run=Other)  # fmt: skip

    class Idle:
        def outputs(x):
            return x

        def run(grad_out, x):
            pass

    refused("tile_py::b6(Tensor x) -> Tensor", "grad: run fills no gradient; it needs parameters of grad_x, after the values",
            outputs="x", grad=Idle)  # fmt: skip
    with pytest.raises(TypeError) as error:
        tile_ops.op(lambda x: x)
    assert str(error.value) == 'op: give the schema first, @op("ns::name(Tensor x) -> Tensor")'


def test_mistakes_in_calls():
    x = torch.ones(3, requires_grad=True)

    def made(name, returns="Tensor", **parts):
        def body():
            pass

        return tile_ops.op(f"tile_py::{name}(Tensor x) -> {returns}", **parts)(parts.pop("run", body))

    def raises(kind, message, call, *arguments):
        with pytest.raises(kind) as error:
            call(*arguments)
        assert str(error.value).split("\n")[0] == message

    raises(TypeError, "tile_py::c1: outputs gave 'out' as a int; give a tensor, or None for a missing one",
           made("c1", outputs=lambda x: 3), x)  # fmt: skip
    raises(TypeError, "tile_py::c2: outputs gave 1 value, but its results are a, b; return a tuple of them",
           made("c2", "(Tensor a, Tensor b)", outputs=lambda x: x), x)  # fmt: skip
    raises(TypeError, "tile_py::c3: outputs gave 'out' as a Tensor; give a list of tensors",
           made("c3", "Tensor[]", outputs=lambda x: x), x)  # fmt: skip
    returning = tile_ops.op("tile_py::c4(Tensor x) -> Tensor", outputs="x")(lambda x: x)
    raises(TypeError, "tile_py::c4: run returns a Tensor, but it fills the results that it is given; return nothing",
           returning, x.detach())  # fmt: skip
    raises(RuntimeError, "tile_py::c5: has no outputs; give op(…) outputs=, a class a function of that name, or decorate one with "
           "@c5.outputs", made("c5"), x.detach())  # fmt: skip

    def copy_of(x, out):
        out.copy_(x)

    one = lambda grad_out: grad_out  # noqa: E731
    two = tile_ops.op("tile_py::c6(Tensor x, Tensor y) -> Tensor", outputs="x", grad=one)(copy_of)
    raises(TypeError, "tile_py::c6: grad gave 1 value; return a tuple of grad_x, grad_y, None for those without one",
           two(x, x).sum().backward)  # fmt: skip
    raises(ValueError, "tile_py::rms: w is [2]; it must be [3], the last extent of x", rms, x, torch.ones(2))

    def run(x):
        raise KeyError("mine")

    failing = tile_ops.op("tile_py::c7(Tensor x) -> Tensor", outputs="x")(run)
    raises(KeyError, "'mine'", failing, x.detach())
    plain = tile_ops.op("tile_py::c8(Tensor x) -> Tensor", outputs="x")(copy_of)
    raises(NotImplementedError,
           "tile_py::c8: has no gradient; call it under torch.no_grad() or on detached tensors (the operator's author can "
           "define one: docs/writing_an_operator.md)",
           plain(x).sum().backward)  # fmt: skip


PACKAGE = """
import sys, torch
import python_operators  # defines the operators that the package calls
torch.set_default_device(sys.argv[2])
model = torch._inductor.aoti_load_package(sys.argv[1])
x = torch.arange(48.0).view(2, 24)
torch.testing.assert_close(model(x, torch.ones(24)), torch.nn.functional.rms_norm(x, (24,), None, 1e-5) * 2)
"""


@pytest.mark.slow
def test_aot_package(tmp_path):
    """A package holds no operator of Python: who loads it imports the module that defines them."""

    class Model(torch.nn.Module):
        def forward(self, x, w):
            return rms(x, w) * 2

    program = torch.export.export(Model(), (torch.randn(2, 24), torch.ones(24)))
    package = torch._inductor.aoti_compile_and_package(program, package_path=str(tmp_path / "model.pt2"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(
        [sys.executable, "-c", PACKAGE, package, torch.get_default_device().type], check=True, timeout=300, env=environment
    )


@pytest.mark.parametrize("operator", [rms, rms_composite])
def test_forward_mode(operator):
    x, w = (t.detach() for t in data(torch.float64, 2, 3, 5))
    tangents = torch.randn_like(x), torch.randn_like(w)
    for ours, theirs in zip(torch.func.jvp(operator, (x, w), tangents), torch.func.jvp(reference, (x, w), tangents)):
        close(ours, theirs, torch.float64)


def test_forward_mode_of_copies_and_fills():
    """What run copies, casts or fills has the tangents of the copies."""

    @tile_ops.op("tile_py::copied(Tensor x) -> Tensor out", outputs=lambda x: torch.empty_like(x))
    def copied(x, out):
        turned = x.t().contiguous().to(torch.float32)
        out.fill_(3)
        out[0].copy_(turned[0])
        out[1].copy_(turned[1]).zero_()

    x, t = torch.randn(2, 3, 3, dtype=torch.float64)
    value, tangent = torch.func.jvp(copied, (x,), (t,))
    assert torch.equal(value, torch.stack([x.t()[0].float().double(), *torch.tensor([[0.0] * 3, [3.0] * 3]).double()]))
    assert torch.equal(tangent, torch.stack([t.t()[0].float().double(), *torch.zeros(2, 3).double()]))

    @tile_ops.op("tile_py::filled(Tensor x) -> Tensor out", outputs=lambda x: torch.empty_like(x))
    def filled(x, out):
        out.copy_(torch.empty_like(out).fill_(x[1, 2]))
        out[0].fill_(x[0, 0])
        out[1].fill_(torch.tensor(2.0))

    for ours, given, two in zip(torch.func.jvp(filled, (x,), (t,)), (x, t), (2.0, 0.0)):
        assert torch.equal(ours[:, 0], torch.stack([given[0, 0], torch.tensor(two).double(), given[1, 2]]))
        assert torch.equal(ours, ours[:, :1].expand(3, 3))

    @tile_ops.op("tile_py::summed(Tensor x) -> Tensor out", outputs=lambda x: torch.empty_like(x))
    def summed(x, out):
        out.copy_(x + x)

    with pytest.raises(NotImplementedError, match="tile_py::summed: its run calls aten::add on a tensor with a tangent"):
        torch.func.jvp(summed, (x,), (t,))


def test_forward_mode_of_lists():
    @tile_ops.op(
        "tile_py::listed(Tensor[] xs, Tensor?[] ys) -> Tensor[] outs", outputs=lambda xs, ys: [torch.empty_like(x) for x in xs]
    )
    def listed(xs, ys, outs):
        for x, y, out in zip(xs, ys, outs):
            out.copy_(x if y is None else y)

    xs, ts = torch.randn(2, 3, 4).unbind(0), torch.randn(2, 3, 4).unbind(0)
    values, tangents = torch.func.jvp(
        lambda *xs: listed(list(xs), [None, xs[0], None]), tuple(torch.unbind(xs[0])), tuple(torch.unbind(ts[0]))
    )
    close(torch.stack(values), xs[0][[0, 0, 2]], torch.float32)
    close(torch.stack(tangents), ts[0][[0, 0, 2]], torch.float32)
