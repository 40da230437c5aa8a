"""opcheck, meta, torch.compile, export, compiled autograd, autocast: what the one shape rule and the node must give."""

import pytest
import tile_ops
import torch
from torch.autograd import grad
from torch.library import opcheck
from torch.utils._python_dispatch import TorchDispatchMode
from torch_rope import close, data, loss, rope


def samples():
    """Operator, arguments, keyword arguments."""
    x, c, s = data(torch.float32)
    n = torch.randn(2, 5, 8, requires_grad=True)
    w = torch.rand(8, requires_grad=True)
    for a in (x.detach(), x, x.transpose(0, 1), torch.randn(0, 5, 8, requires_grad=True)):
        yield "rope", (a, c, s, 0.5), {}
    g, m = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 5)
    for a, b in ((g, m), (None, m), (g.transpose(0, 1).contiguous().transpose(0, 1), None)):
        yield "rope_backward", (a, b, x.detach(), c, s, 0.5), {}
    yield "norm", (n, w), {}
    yield "norm", (n.detach(), w), {"eps": 0.1}
    yield "norm", (n.transpose(0, 1),), {}
    yield "norm", (n.detach(),), {}
    mean, rstd = torch.randn(2, 5), torch.rand(2, 5)
    for mask in ([True, True], [True, False], [False, True], [False, False]):
        yield "norm_backward", (torch.randn(2, 5, 8), n.detach(), w.detach(), mean, rstd, mask), {}
    yield "square", (n, True), {}
    yield "square", (n, False), {}
    yield "ex", (n,), {}
    yield "weigh", ([n, torch.randn(2, 5, 8, requires_grad=True)], [None, torch.randn(8)], [1.0, 2.0]), {}
    yield "weigh_backward", (torch.randn(3), [torch.randn(3)], [None], [2.0]), {}
    yield "twins", (n,), {}
    yield "scale_", (torch.ones(3, 4), 2.0), {}
    yield "scale_", (torch.ones(3, 4).t(), 2.0, torch.ones(3)), {}
    yield "center", (torch.randn(2, 3, 4),), {}
    e = torch.randn(3, 4)
    yield "every", (e, 6, torch.ones(6)), {"dtype": torch.float64, "s": 2.5}
    yield ("every", (e, 6), {"extra": [torch.ones(3), torch.ones(2)], "m": 2, "shape": [1, 3], "bits": [True], "more": [7]})


SAMPLES = list(samples())


@pytest.mark.parametrize("index", range(len(SAMPLES)), ids=lambda i: f"{SAMPLES[i][0]}{i}")
def test_opcheck(ops, index):
    name, args, kwargs = SAMPLES[index]
    opcheck(getattr(ops, name).default, args, kwargs)


def test_meta(ops):
    y, m = ops.rope(*(t.to("meta") for t in data()))
    assert y.shape == (2, 3, 5, 8) and m.shape == (2, 3, 5) and y.device.type == "meta"
    with pytest.raises(ValueError, match="^tt::rope: the last extent of x is 8, twice that of cos is 10; make them equal$"):
        ops.rope(torch.randn(2, 8, device="meta"), torch.randn(2, 5, device="meta"), torch.randn(2, 5, device="meta"))


def compiled(f):
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    return torch.compile(f, fullgraph=True, dynamic=True, backend="aot_eager")


def graphs():
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def test_compile_dynamic(ops):
    f = compiled(lambda x, c, s: loss(ops.rope, x * 2, c, s))
    for n in (5, 7, 11):
        x, angle = torch.randn(2, 3, n, 8, requires_grad=True), torch.randn(n, 4)
        c, s = angle.cos(), angle.sin()
        close(grad(f(x, c, s), x), grad(loss(rope, x * 2, c, s), x), 2e-4)
    assert graphs() == 1


def test_compile_saves(ops):
    def plain(x, w):
        return torch.nn.functional.layer_norm(x * 2, x.shape[-1:], w).sin().sum()

    f = compiled(lambda x, w: ops.norm(x * 2, w).sin().sum())
    for n in (5, 7):
        x, w = torch.randn(n, 8, requires_grad=True), torch.rand(8, requires_grad=True)
        close(grad(f(x, w), (x, w)), grad(plain(x, w), (x, w)), 2e-4)
    assert graphs() == 1
    close(grad(f(x, w.detach()), x), grad(plain(x, w), x), 2e-4)
    for keep in (True, False):
        g = compiled(lambda x: ops.square(x, keep).sum())
        close(grad(g(x), x), (2 * x.detach(),), 1e-5)


def test_compile_lists_symints_mutation(ops):
    f = compiled(lambda x, n: ops.every(x, n) * 2)
    x = torch.randn(3, 4)
    for n in (5, 6, 9):
        assert torch.equal(f(x, n)[:, :4], (x + 1) * 2)
    assert graphs() == 1
    f = compiled(lambda x, y: ops.weigh([x * 2, y], [None, None], [1.0, 2.0]).sin().sum() + sum(ops.twins(x)).sum())
    x, y = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
    close(grad(f(x, y), (x, y)), (2 * (2 * x + 2 * y).cos().detach() + 5, 2 * (2 * x + 2 * y).cos().detach()), 1e-5)

    def g(x):
        y = x + 1
        ops.scale_(y, 2.0)
        ops.scale_(x, 3.0)
        return y * 2

    a, b = torch.ones(5), torch.ones(5)
    assert torch.equal(compiled(g)(a), g(b)) and torch.equal(a, b)


def test_compile_vmap_of_grad(ops):
    x, w = torch.randn(3, 2, 8), torch.randn(8)
    f = torch.vmap(torch.func.grad(lambda x, w: ops.norm(x, w).sin().sum()), (0, None))
    close(compiled(f)(x, w), f(x, w), 1e-6)


class Model(torch.nn.Module):
    def __init__(self, ops):
        super().__init__()
        self.ops = ops

    def forward(self, x, c, s):
        y, m = self.ops.rope(x * 2, c, s, 0.5)
        return self.ops.norm(y).relu(), m


def test_export(ops):
    model = Model(ops)
    x, c, s = data(torch.float32)
    length = torch.export.Dim("length", min=2)
    program = torch.export.export(model, (x.detach(), c, s), dynamic_shapes=({2: length}, {0: length}, {0: length}))
    text = str(program.graph)
    assert "tt.rope.default" in text and "tt.norm.default" in text
    y, angle = torch.randn(2, 3, 9, 8), torch.randn(9, 4)
    close(program.module()(y, angle.cos(), angle.sin()), model(y, angle.cos(), angle.sin()), 1e-5)
    program.run_decompositions()
    torch.export.export(model, (x, c, s), strict=True).run_decompositions()


class Names(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.name())
        return func(*args, **(kwargs or {}))


def test_saves_only_when_needed(ops):
    x = torch.randn(2, 8, requires_grad=True)
    with Names() as seen:
        ops.norm(x.detach())
        with torch.no_grad():
            ops.norm(x)
    assert seen.names.count("tt::norm") == 2 and "tt::_norm_saving" not in seen.names
    with Names() as seen:
        assert isinstance(ops.norm(x), torch.Tensor)
    assert "tt::_norm_saving" in seen.names and "tt::norm" not in seen.names


def test_mask_says_what_is_wanted(ops):
    x, w = torch.randn(2, 8, requires_grad=True), torch.randn(8, requires_grad=True)
    seen = []

    class Masks(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if func.name() == "tt::norm_backward":
                seen.append((args[-1], [t is not None for t in out]))
            return out

    with Masks():
        for a, b in ((x, w), (x.detach(), w), (x, w.detach()), (x, None)):
            ops.norm(a, b).sum().backward()
        grad(ops.norm(x, w).sum(), w)
    want = [[True, True], [False, True], [True, False], [True, False], [False, True]]
    assert seen == [(mask, mask) for mask in want]


@pytest.mark.slow
def test_compiled_autograd(ops):
    x, c, s = data(torch.float32)
    w = torch.rand(8, requires_grad=True)
    torch._dynamo.reset()

    def value(rope, norm, square):
        y, m = rope(x, c, s, 0.5)
        return norm(y, w).sin().sum() + (m * m).sum() + square(x).sum()

    for keep in (True, False):
        with torch._dynamo.compiled_autograd._enable(torch.compile(backend="aot_eager")):
            value(ops.rope, ops.norm, lambda x: ops.square(x, keep)).backward()
        got = x.grad, w.grad
        x.grad = w.grad = None
        value(rope, lambda x, w: torch.nn.functional.layer_norm(x, (8,), w), lambda x: x * x).backward()
        close(got, (x.grad, w.grad), 1e-4)
        x.grad = w.grad = None
    xs = [torch.randn(3, requires_grad=True) for _ in range(2)]
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="aot_eager")):
        ops.weigh(xs, [None, xs[0].detach()], [1.0, 2.0]).sum().backward()
    close(xs[1].grad, 2 * xs[0].detach(), 1e-6)


def test_autocast(ops, device):
    x, c, s = data(torch.float32)
    with torch.autocast(device.type, torch.bfloat16):
        y, m = ops.rope(x, c, s)
        assert y.dtype == m.dtype == torch.bfloat16
        assert ops.rope(x.double(), c.double(), s.double())[0].dtype == torch.float64  # as torch: float64 is left alone
        kept = torch.bfloat16 if device.type == "cpu" else torch.float32  # its policies: "keep" on CPUs, "fp32" on GPUs
        assert ops.norm(x).dtype == torch.float32 and ops.norm(x.bfloat16()).dtype == kept
    y.float().sum().backward()
    assert x.grad.dtype == torch.float32


def test_profiler(ops, device):
    x = torch.randn(3, 4, requires_grad=True)
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    torch.ops.tile.softmax(x, -1).sum().backward()
    with torch.profiler.profile(activities=activities) as profile:
        torch.ops.tile.softmax(x, -1).sum().backward()
        tile_ops.synchronize()
    events = {event.key for event in profile.key_averages()}
    assert {"tile::softmax", "tile::softmax_backward"} <= events
    on_host = [event for event in profile.events() if event.device_type == torch.autograd.DeviceType.CPU]
    kernels = {event.name: event.cpu_parent.name for event in on_host if event.name.startswith("tile kernel ")}
    assert kernels == {"tile kernel softmax": "tile::softmax", "tile kernel softmax_backward": "tile::softmax_backward"}
    if device.type == "cuda":
        assert any(event.startswith("kernel_softmax_backward") for event in events)  # what ran on the GPU
