"""Programs under torch.compile(backend="tile"): mutation, aliases, random numbers, autocast, varying sizes, NumPy, threads."""

import os
import subprocess
import sys
import threading

import pytest
import tile_ops
import torch
import torch.nn.functional as F
from compiled_calls import check, compiled, same
from torch._dynamo.utils import counters
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("uncached")


def test_arguments_that_are_changed(device):
    def changes(x, y, counter, mask):
        x.add_(1)
        x[2:5] = y[2:5] * 2
        x.t()[3].mul_(-1)
        x[:, ::2].sub_(x[:, 1::2].clone())
        y.copy_(x.sin())
        counter += 1
        x.masked_fill_(mask, 0.5)
        x[0].zero_()
        y[:, 1:4].clamp_(min=0)
        x.diagonal().fill_(7)
        return x.sum(1), y * 2, x.view(-1)[3:9] + 1

    def arguments():
        generator = torch.Generator(device.type).manual_seed(5)
        x, y = (torch.randn(20, 30, generator=generator) for _ in range(2))
        return x, y, torch.zeros((), dtype=torch.int64), x > 1

    run, ours, theirs = compiled(changes), arguments(), arguments()
    for _ in range(2):  # the second time with what the first one left
        same(run(*ours), changes(*theirs))
        same(ours, theirs)


def test_long_rows_are_read_before_they_are_changed(device):
    """A loop reads and writes the rows; compilers of kernels may exchange both where they take these for two arrays."""

    def changes(x, y):
        weights = x.softmax(-1)
        x.mul_(2)
        total = y.sum(0)
        y.sub_(y.mean(0))
        return weights, total

    ours = [torch.randn(5, 20001), torch.randn(5000, 3)]
    theirs = [each.clone() for each in ours]
    same(compiled(changes)(*ours), changes(*theirs))
    same(ours, theirs)


def test_results_that_are_arguments_or_share_memory(device):
    def aliases(x, y):
        z = x * 2
        y.mul_(3)
        return x, x.t(), x[1:], z, z.view(-1), z.t(), y, y[:, 0], x + 0, z.expand(2, *z.shape)

    x, y = torch.randn(6, 7), torch.randn(6, 7)
    u, v = x.clone(), y.clone()
    ours, theirs = compiled(aliases)(x, y), aliases(u, v)
    same(ours, theirs)
    for one, other in zip(ours, theirs):
        assert (one.stride(), one.storage_offset()) == (other.stride(), other.storage_offset())
    memory = [each.untyped_storage().data_ptr() for each in ours]
    assert memory[0] == memory[1] == memory[2] == x.untyped_storage().data_ptr() and memory[6] == memory[7] == y.data_ptr()
    assert memory[3] == memory[4] == memory[5] == memory[9] and len({memory[0], memory[3], memory[6], memory[8]}) == 4


def test_dropout_drops_the_same_elements_in_both_directions(device):
    def dropped(x):
        def block(h):
            return F.dropout(h, 0.25).sin()

        # The backward computes a checkpointed function a second time.
        return (
            F.dropout(x, 0.5),
            checkpoint(block, x, use_reentrant=False),
            torch.rand_like(x),
            torch.randn(3, 1000, device=x.device),
        )

    x = torch.rand(100, 1001).add_(0.5).requires_grad_()
    run = compiled(dropped)
    torch.manual_seed(3)
    y, z, uniform, normal = run(x)
    (gradient,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
    assert torch.equal(gradient, torch.where(y == 0, 0.0, 2.0))
    (gradient,) = torch.autograd.grad(z.sum(), x)
    scaled = x.detach() / 0.75
    torch.testing.assert_close(z.detach(), torch.where(z == 0, 0.0, scaled.sin()))
    torch.testing.assert_close(gradient, torch.where(z == 0, 0.0, scaled.cos() / 0.75))
    assert abs((y == 0).float().mean() - 0.5) < 0.01 and abs((z == 0).float().mean() - 0.25) < 0.01
    assert 0 <= uniform.min() and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.01
    assert abs(normal.mean()) < 0.1 and abs(normal.std() - 1) < 0.1
    other = run(x)[0]
    assert not torch.equal(other, y)
    torch.manual_seed(3)
    same(run(x), (y, z, uniform, normal))


def test_autocast(device):
    def layer(x, w, b):
        with torch.autocast(x.device.type, torch.bfloat16):
            h = F.linear(x, w, b)
            h = F.layer_norm(F.gelu(h), (96,))
            return torch.softmax(h @ h.mT, -1), h.square().sum(), (h * 2).to(torch.float32)

    arguments = [torch.randn(4, 33, 64), torch.randn(96, 64) / 8, torch.randn(96)]
    ours, theirs = compiled(layer)(*arguments), layer(*arguments)
    assert [each.dtype for each in ours] == [each.dtype for each in theirs]
    for one, other in zip(ours, theirs):
        torch.testing.assert_close(one.float(), other.float(), rtol=0.02, atol=0.02 * other.abs().max().item())


def test_graph_breaks_and_branches(device):
    said = []

    def broken(x):
        y = x.sin() * 2
        torch._dynamo.graph_break()
        said.append(tuple(y.shape))
        if y.sum() > 0:
            return (y + 1).softmax(-1)
        return (y - 1).amax(0)

    run = compiled(broken, fullgraph=False)
    for x in (torch.full((5, 7), 0.5), torch.full((5, 7), -0.5)):
        same(run(x), broken(x))
    assert said == [(5, 7)] * 4

    def both(x):
        return torch.cond(x.sum() > 0, lambda x: x.exp() + 1, lambda x: x.sum(1, keepdim=True) * x, (x,))

    run = compiled(both)
    for x in (torch.rand(5, 7), -torch.rand(5, 7)):
        same(run(x), both(x))


def test_one_graph_for_all_sizes(device):
    def model(x, w, keep):
        h = F.rms_norm(x @ w, (w.shape[1],))
        s = (h @ h.mT).masked_fill(keep[:, None] < keep, float("-inf")).softmax(-1)
        pooled = (s @ h).amax(0), h.mean(0), h.argmax(0), x.flatten().sum(), torch.cat([h, x * 2], 1).t().contiguous()
        return *pooled, F.pad(h, (0, 0, 1, 2)), h[1:] - h[:-1], h.sum(1).cumsum(0), h[keep % 3], x.new_zeros(x.shape[0], 3) + 1

    w, run = torch.randn(24, 40), compiled(model, dynamic=True)
    counters.clear()
    for length in (7, 3, 4, 16, 17, 64, 100, 333, 1030, 5):  # of two rows, one is left in h[1:]
        x, keep = torch.randn(length, 24), torch.arange(length)
        same(run(x, w, keep), model(x, w, keep), rtol=1e-5, atol=1e-4)
    assert counters["stats"]["unique_graphs"] == 1


def test_rows_of_any_length(device):
    """Lengths on both sides of what a tile holds, in one graph; the length of a row and the number of rows vary."""

    def rows(x):
        return x.softmax(-1), x.sum(-1), x.amax(0), *torch.var_mean(x, -1), x.argmax(-1), (x - x.mean(0)).square().sum()

    run = compiled(rows, dynamic=True)
    counters.clear()
    for shape in ((3, 50), (2, 16384), (2, 20000), (130, 2), (5000, 3), (2, 16385)):
        x = torch.randn(shape)
        for one, exact in zip(run(x), rows(x.double())):
            torch.testing.assert_close(one.double(), exact.double(), rtol=1e-5, atol=1e-5)
    assert counters["stats"]["unique_graphs"] == 1


def test_sizes_that_are_not_known_can_be_zero_and_one(device):
    def unknown(x):
        return x * 2 + 1, x.sum(0), x.sum(1), x.softmax(-1), torch.cat([x, x + 1]), x.sum()

    run = compiled(unknown, dynamic=None)
    for rows in (5, 0, 1, 7):
        x = torch.randn(rows, 9)
        torch._dynamo.decorators.mark_unbacked(x, 0)
        same(run(x), unknown(x))


@pytest.mark.at_home
def test_numpy_functions():
    numpy = pytest.importorskip("numpy")

    def heat(u, steps):
        for _ in range(steps):
            u = u + 0.1 * (numpy.roll(u, 1, 0) + numpy.roll(u, -1, 0) + numpy.roll(u, 1, 1) + numpy.roll(u, -1, 1) - 4 * u)
        return u, numpy.sum(u * u, axis=0), numpy.where(u > 0, u, 0).max(), numpy.argmax(u, axis=1)

    u = numpy.random.randn(33, 40)
    for one, other in zip(compiled(heat)(u, 3), heat(u, 3)):
        assert isinstance(one, numpy.ndarray | numpy.generic) and one.dtype == other.dtype
        numpy.testing.assert_allclose(one, other, rtol=1e-12)


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.qkv, self.out = (
            torch.nn.LayerNorm(width),
            torch.nn.Linear(width, 3 * width),
            torch.nn.Linear(width, width),
        )
        self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)

    def forward(self, x, target):
        q, k, v = (each.view(*each.shape[:2], 4, -1).transpose(1, 2) for each in self.qkv(self.norm(x)).chunk(3, -1))
        s = (q @ k.mT / 4).masked_fill(torch.ones(x.shape[1], x.shape[1], device=x.device).triu(1).bool(), float("-inf"))
        x = x + self.out((s.softmax(-1) @ v).transpose(1, 2).flatten(2))
        x = x + self.down(F.gelu(self.up(F.rms_norm(x, x.shape[-1:])), approximate="tanh"))
        return F.cross_entropy(x.flatten(0, 1), target), x


def test_gradients_of_a_block(device):
    block = Block(64)
    names, values = zip(*block.named_parameters())

    def call(x, target, *parameters):
        return torch.func.functional_call(block, dict(zip(names, parameters)), (x, target))

    x, target = torch.randn(2, 19, 64, requires_grad=True), torch.randint(0, 64, (38,))
    target[3] = -100
    check(call, x, target, *values)


def test_gradients_of_norms_and_losses(device):
    def losses(x, w, y):
        image = x.view(4, 8, 6, 10)
        norms = F.group_norm(image, 4), F.batch_norm(image, None, None, training=True), F.instance_norm(image)
        pooled = F.avg_pool2d(image, 2), F.max_pool2d(image, 2), F.interpolate(image, scale_factor=2.0)
        return (
            *norms,
            *pooled,
            F.smooth_l1_loss(x, y),
            F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean"),
            (F.normalize(x, dim=-1) * w).std(0),
            torch.logsumexp(x, (0, 1)),
            x.cumsum(-1),
            x.amax(1),
            x.norm(dim=0),
            F.cosine_similarity(x, y),
            x.var(0).sqrt(),
        )

    check(losses, *(each.requires_grad_() for each in (torch.randn(32, 60), torch.randn(60), torch.randn(32, 60))))


def fours(x):
    """Returns x with its first axis in four parts."""
    return x.view(4, -1, *x.shape[1:])


PRODUCTS = {
    "bias and gelu": lambda x, w, b, r: F.gelu(F.linear(x, w, b)),
    "residual": lambda x, w, b, r: F.linear(x, w, b) * 0.5 + r,
    "a pre-activation": lambda x, w, b, r: (lambda h: (h, F.silu(h)))(F.linear(x, w)),
    "three axes": lambda x, w, b, r: F.relu(F.linear(fours(x), w, b) + fours(r)),
    "a batch": lambda x, w, b, r: torch.bmm(fours(x), w.t().expand(4, -1, -1)).sigmoid() * 2,
    "heads": lambda x, w, b, r: fours(F.linear(x, w, b)).view(4, -1, 8, 12).transpose(1, 2) * 2,
    "a condition": lambda x, w, b, r: torch.where(r > 0, x @ w.t(), r),
    "a product of products": lambda x, w, b, r: F.silu(x @ w.t()) * (x @ w.t() + 1),
    "a sum of rows": lambda x, w, b, r: (F.linear(x, w, b) * r).sum(1),
    "nothing": lambda x, w, b, r: F.linear(x, w, b),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_products_with_epilogues(dtype, device):
    def products(*arguments):
        made = [PRODUCTS[name](*arguments) for name in PRODUCTS]
        return tuple(each for result in made for each in (result if isinstance(result, tuple) else (result,)))

    arguments = [torch.randn(shape).to(dtype) for shape in ((100, 64), (96, 64), (96,), (100, 96))]
    tile_ops.compile_report(reset=True)
    ours = compiled(products, options={"products": "tile"})(*arguments)
    (graph,) = tile_ops.compile_report(reset=True).graphs
    assert len({each.epilogue for each in graph.products}) > 3, graph
    exact = products(*(each.double() for each in arguments))
    for one, other in zip(ours, exact):
        torch.testing.assert_close(
            one.double(), other, rtol=0, atol=(1e-5 if dtype == torch.float32 else 0.02) * other.abs().max().item()
        )


def test_products_of_any_number_of_rows(device):
    run = compiled(PRODUCTS["residual"], options={"products": "tile"}, dynamic=True)
    w, b = torch.randn(96, 64), torch.randn(96)
    for rows in (5, 2, 64, 129):
        arguments = torch.randn(rows, 64), w, b, torch.randn(rows, 96)
        torch.testing.assert_close(run(*arguments), PRODUCTS["residual"](*arguments), rtol=1e-4, atol=1e-4)


def test_reduced_overhead(device):
    """On a GPU the calls are replayed as a graph."""

    def step(x, w):
        return (x @ w).relu().softmax(-1), x.sum(0), x.argmax(1)

    run, w = compiled(step, mode="reduce-overhead"), torch.randn(32, 48)
    for _ in range(5):
        x = torch.randn(20, 32)
        same([each.clone() for each in run(x, w)], step(x, w))


def test_an_index_out_of_range_is_an_error(device):
    x = torch.randn(10, 4)
    run = compiled(lambda x, i: (x * 2)[i].sin() + x[0])
    same(run(x, torch.tensor([0, -10, 9])), (x * 2)[[0, -10, 9]].sin() + x[0])
    for wrong in (10, -11):
        with pytest.raises((RuntimeError, IndexError), match="out of (bounds|range)"):
            run(x, torch.tensor([0, wrong, 9]))
            tile_ops.synchronize(device)
    same(run(x, torch.tensor([3])), (x * 2)[[3]].sin() + x[0])


def test_threads_compile_at_once(device):
    results, errors = {}, []

    def work(k):
        try:
            run = torch.compile(lambda x: (x * k).softmax(-1) + x.sum(0), backend="tile", options={"fallback": "error"})
            x = torch.arange(60.0, device=device).view(6, 10).requires_grad_()
            y = run(x)
            y.square().sum().backward()
            results[k] = y, x.grad
        except Exception as error:
            errors.append(error)

    torch._dynamo.reset()
    threads = [threading.Thread(target=work, args=(k,)) for k in (2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for k, (y, gradient) in results.items():
        x = torch.arange(60.0, device=device).view(6, 10).requires_grad_()
        wanted = (x * k).softmax(-1) + x.sum(0)
        wanted.square().sum().backward()
        same((y, gradient), (wanted, x.grad))


def test_a_backward_is_compiled_in_the_thread_that_needs_it_first(device):
    x = torch.randn(30, 40, requires_grad=True)
    run = compiled(lambda x: x.softmax(-1).square().sum(0))
    tile_ops.compile_report(reset=True)
    y = run(x)
    kinds = [graph.kind for graph in tile_ops.compile_report().graphs]
    thread = threading.Thread(target=y.sum().backward)
    thread.start()
    thread.join()
    graphs = tile_ops.compile_report(reset=True).graphs
    assert [graph.kind for graph in graphs] in ([*kinds, "backward"], kinds)
    assert "backward" in [graph.kind for graph in graphs] and all(graph.kernels for graph in graphs)
    other = x.detach().requires_grad_()
    other.softmax(-1).square().sum().backward()
    same(x.grad, other.grad)


AUDITED = """
import os, sys
started = []
asked = ("--version", "-p", "-b")  # torch and an installed Triton ask other programs who they are
def hook(event, arguments):
    if event == "subprocess.Popen" and arguments[1][1] in asked and len(arguments[1]) <= 3:
        return
    if event in ("subprocess.Popen", "os.posix_spawn", "os.system", "os.exec", "os.fork", "os.forkpty"):
        started.append((event, str(arguments)[:200]))
import tile_ops, torch
sys.addaudithook(hook)
device = sys.argv[1]
def step(x, w):
    h = torch.nn.functional.gelu(x @ w)
    return torch.nn.functional.cross_entropy(h, torch.arange(len(x), device=x.device)) + h.var(0).sum()
x, w = torch.randn(20, 30, device=device, requires_grad=True), torch.randn(30, 40, device=device, requires_grad=True)
torch.compile(step, backend="tile", options={"fallback": "error"})(x, w).backward()
assert x.grad is not None and not started, started
assert all(graph.kernels for graph in tile_ops.compile_report().graphs)
"""


@pytest.mark.slow
def test_no_compiler_is_started(device, tmp_path):
    command = [sys.executable, "-c", AUDITED, device.type]
    done = subprocess.run(command, env=os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.slow  # starts a process
def test_the_import_of_the_package_waits_for_no_part_of_the_backend():
    code = "import sys, tile_ops; print([name for name in sys.modules if name.startswith('tile_ops._compile.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "[]\n", done.stderr[-3000:]
