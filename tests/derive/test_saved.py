"""Tests of tiles that the forward saves for derived gradients: values, memory, transforms of torch, and calls that save nothing."""

import contextlib

import pytest
import tile_ops
import tile_ops.language as tl
import torch
from tile_ops._derive import saving
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.checkpoint import checkpoint

from derive.cases import wide
from derive.saved_checks import close_to, saved_by
from derive.saved_products import product_outputs, silu_product_kernel

functional = torch.nn.functional


def product_run(x, w, b, out):
    rows = 64 if x.is_cuda else 32  # fake tensors have the device that they represent
    silu_product_kernel[tl.cdiv(x.shape[0], rows), tl.cdiv(w.shape[1], 32)](x, w, b, out, rows, 32, 16)


def product(name, **options):
    schema = f"saved::{name}(Tensor x, Tensor w, Tensor b) -> Tensor"
    return tile_ops.op(schema, outputs=product_outputs, grad="auto", **options)(product_run)


silu_product, lean_product = product("silu_product"), product("lean_product", saves=False)


@tl.kernel
def norm_kernel(x, w, b, out, N: tl.Constant[int]):
    t = tl.load(x, (tl.bid(0), 0), (1, N)).astype(wide(x))
    inside = tl.arange(N, dtype=tl.int32)[None, :] < x.shape[1]
    centred = tl.where(inside, t - tl.sum(t, axis=1, keepdims=True) / x.shape[1], 0)
    r = tl.rsqrt(tl.sum(centred * centred, axis=1, keepdims=True) / x.shape[1] + 1e-5)
    scale, shift = tl.load(w, (0,), (N,)).astype(wide(x)), tl.load(b, (0,), (N,)).astype(wide(x))
    tl.store(out, (tl.bid(0), 0), (centred * r * scale + shift).astype(out.dtype))


def norm(name, **options):
    def run(x, w, b, out):
        norm_kernel[x.shape[0]](x, w, b, out, 1 << (x.shape[1] - 1).bit_length())

    return tile_ops.op(f"saved::{name}(Tensor x, Tensor w, Tensor b) -> Tensor", outputs="x", grad="auto", **options)(run)


layer_norm, lean_norm = norm("layer_norm"), norm("lean_norm", saves=False)


def leaves(*shapes, dtype=torch.float32):
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=torch.float64).to(dtype).requires_grad_() for shape in shapes]


def product_leaves(m, n, k, dtype=torch.float32):
    return leaves((m, k), (k, n), (n,), dtype=dtype)


def saved_bytes(operator, arguments):
    """Returns the bytes that a call keeps for its gradient, beyond its arguments."""
    return sum(each.nbytes for each in saved_by(operator, *arguments) if each.dtype == torch.uint8)


def gradients(operator, arguments, grad=None):
    out = operator(*arguments)
    return torch.autograd.grad(out, arguments, torch.ones_like(out) if grad is None else grad)


SHAPES = [(1, 1, 1), (64, 64, 64), (67, 45, 150), (33, 1, 97), (0, 4, 5), (4, 0, 5), (4, 5, 0)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("m, n, k", SHAPES, ids=str)
def test_a_product_equals_torchs(m, n, k, dtype):
    arguments = product_leaves(m, n, k, dtype)
    exact = [each.detach().double().requires_grad_() for each in arguments]
    expected = gradients(lambda x, w, b: functional.silu(x @ w + b), exact)
    close_to(gradients(silu_product, arguments), expected, dtype)


def test_gradients_without_saving_are_equal():
    arguments = product_leaves(67, 45, 150, torch.float64)
    assert saved_bytes(silu_product, arguments) and not saved_bytes(lean_product, arguments)
    for ours, others in zip(gradients(silu_product, arguments), gradients(lean_product, arguments)):
        torch.testing.assert_close(ours, others, rtol=1e-13, atol=1e-13)
    arguments = leaves((5, 4096), (4096,), (4096,), dtype=torch.float64)
    assert saved_bytes(layer_norm, arguments) and not saved_bytes(lean_norm, arguments)
    for ours, others in zip(gradients(layer_norm, arguments), gradients(lean_norm, arguments)):
        torch.testing.assert_close(ours, others, rtol=1e-12, atol=1e-12)


def test_gradcheck(device):
    arguments = product_leaves(5, 3, 130, torch.float64)
    assert saved_bytes(silu_product, arguments) or device.type != "cpu"  # few products of float64 are no work for a GPU
    assert torch.autograd.gradcheck(silu_product, arguments)
    assert torch.autograd.gradcheck(lean_product, arguments)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(5, 4096), (400, 3000), (1, 2100)], ids=str)
def test_a_norm_equals_torchs(shape, dtype):
    arguments = leaves(shape, shape[1:], shape[1:], dtype=dtype)
    assert saved_bytes(layer_norm, arguments) == 2 * -(-4 * shape[0] // 256) * 256
    exact = [each.detach().double().requires_grad_() for each in arguments]
    expected = gradients(lambda x, w, b: functional.layer_norm(x, shape[1:], w, b), exact, torch.sin(exact[0]).detach())
    ours = gradients(layer_norm, arguments, torch.sin(exact[0]).detach().to(dtype))
    for own, reference in zip(ours, expected):
        tolerance = (2e-5 if dtype == torch.float32 else 2e-2) * reference.abs().max()
        assert ((own.double() - reference).abs() <= tolerance).all()


def test_the_report_says_what_is_saved_and_the_memory_is_that():
    x, w, b = product_leaves(64, 96, 200)
    arguments = x, w, b, torch.empty(64, 96), 32, 32, 16
    derivative = tile_ops.derive(silu_product_kernel)
    report = derivative.report(*arguments, grid=(2, 3))
    assert list(report) == ["x", "w", "b", "saved"] and "saved" not in derivative.report(*arguments)
    (text,) = report["saved"]
    assert text.startswith("f32[32, 32] of each block, 24576 bytes, in place of a loop of products at saved_products.py:")
    assert saved_bytes(silu_product, (x, w, b)) == 24576
    bfloat = product_leaves(64, 96, 200, torch.bfloat16)  # a sum that enters elementwise operations only
    assert saved_bytes(silu_product, bfloat) == 12288
    assert saved_bytes(silu_product, product_leaves(64, 96, 200, torch.float16)) == 24576  # it may overflow
    few = leaves((9, 8), (8,), (8,))
    assert saved_bytes(layer_norm, few) == 0  # rows of few elements are less work
    with torch.no_grad():
        assert silu_product(x, w, b).grad_fn is None


def test_changed_arguments_are_found():
    x, w, b = product_leaves(64, 64, 64)
    y = x * 1
    out = silu_product(y, w, b)
    with torch.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
    out = silu_product(x, w, b)
    expected = gradients(lean_product, (x, w, b))
    with torch.no_grad():
        out.zero_()  # saved arrays are no results
    torch.testing.assert_close(torch.autograd.grad(out, (x, w, b), torch.ones_like(out)), expected)


def test_transforms_of_torch():
    arguments = product_leaves(40, 30, 70)
    expected = gradients(lean_product, arguments)
    plain = [each.detach() for each in arguments]
    loss = lambda *values: silu_product(*values).sum()  # noqa: E731
    torch.testing.assert_close(torch.func.grad(loss, (0, 1, 2))(*plain), expected)
    batch = torch.stack((plain[0], 2 * plain[0]))
    each = torch.func.vmap(torch.func.grad(loss), (0, None, None))(batch, *plain[1:])
    torch.testing.assert_close(each[0], expected[0])
    of_batch = lambda x: torch.func.vmap(silu_product, (0, None, None))(x, *plain[1:]).sum()  # noqa: E731
    torch.testing.assert_close(torch.func.grad(of_batch)(batch)[0], expected[0])
    again = checkpoint(silu_product, *arguments, use_reentrant=False)
    torch.testing.assert_close(torch.autograd.grad(again, arguments, torch.ones_like(again)), expected)
    torch.library.opcheck(silu_product.overload, tuple(arguments))
    with pytest.raises(NotImplementedError, match="double backward of saved::silu_product is not implemented"):
        (first,) = torch.autograd.grad(silu_product(*arguments).sum(), arguments[:1], create_graph=True)
        first.sum().backward()


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled(dynamic):
    graphs = []

    def backend(module, inputs):
        from torch._dynamo.backends.common import aot_autograd
        from torch._dynamo.backends.debugging import boxed_nop

        def forward(graph, inputs):
            graphs.append(graph.code)
            return boxed_nop(graph, inputs)

        return aot_autograd(fw_compiler=forward)(module, inputs)

    arguments = product_leaves(40, 30, 70)
    compiled = torch.compile(lambda x, w, b: silu_product(x * 2, w, b), fullgraph=True, dynamic=dynamic, backend=backend)
    out = compiled(*arguments)
    ours = torch.autograd.grad(out, arguments, torch.ones_like(out))
    expected = gradients(lambda x, w, b: lean_product(x * 2, w, b), arguments)
    torch.testing.assert_close(ours, expected)
    assert ("saved._silu_product_saving" in graphs[0]) != dynamic  # sizes that vary save nothing


def test_fake_tensors_save_what_their_devices_save():
    saver = torch.ops.saved._silu_product_saving
    with torch.device("cpu"):
        arguments = [each.detach() for each in product_leaves(70, 30, 70)]
    saved = saver(*arguments)[1]
    assert saved.shape == (1, 12288)
    with FakeTensorMode() as mode:
        fake = saver(*(mode.from_tensor(each) for each in arguments))[1]
        assert fake.shape == saved.shape and fake.stride() == saved.stride()  # the first stride is the tag
        on_a_gpu = saver(*(torch.empty(each.shape, device="cuda") for each in arguments))[1]
        assert on_a_gpu.shape == (1, 16384) and on_a_gpu.device.type == "cuda"  # blocks of 64 rows


BLOCKS = [32]  # the rows and columns of a block, which a test changes between calls


@tile_ops.op("saved::product_of_blocks(Tensor x, Tensor w, Tensor b) -> Tensor", outputs=product_outputs, grad="auto")
def product_of_blocks(x, w, b, out):
    (n,) = BLOCKS
    silu_product_kernel[tl.cdiv(x.shape[0], n), tl.cdiv(w.shape[1], n)](x, w, b, out, n, n, 16)


@pytest.mark.parametrize("before, behind", [(32, 16), (16, 32), (32, 64)])
def test_tiles_of_other_launches_are_not_used(before, behind, monkeypatch):
    """Blocks of all these sizes save equally many bytes."""
    arguments = product_leaves(64, 64, 64)
    expected = gradients(lean_product, arguments)
    monkeypatch.setitem(globals(), "BLOCKS", [before])
    assert saved_bytes(product_of_blocks, arguments) == 64 * 64 * 4
    out = product_of_blocks(*arguments)
    monkeypatch.setitem(globals(), "BLOCKS", [behind])
    torch.testing.assert_close(gradients(lambda *_: out, arguments), expected)
    for _ in range(2):  # the plan of the first call is that of the blocks before
        torch.testing.assert_close(gradients(product_of_blocks, arguments), expected)
    assert saved_bytes(product_of_blocks, arguments) == 64 * 64 * 4


def test_a_copy_without_the_tag_is_not_used():
    arguments = product_leaves(64, 64, 64)

    def without(tensor):
        return tensor.new_zeros(tensor.shape) if tensor.dtype == torch.uint8 else tensor

    with torch.autograd.graph.saved_tensors_hooks(without, lambda each: each):
        out = silu_product(*arguments)
    torch.testing.assert_close(gradients(lambda *_: out, arguments), gradients(lean_product, arguments))


def test_launches_that_depend_on_values_save_nothing():
    def run(x, w, b, out):
        rows = 32 if x.tolist()[0][0] > 0 else 64
        silu_product_kernel[tl.cdiv(x.shape[0], rows), tl.cdiv(w.shape[1], 32)](x, w, b, out, rows, 32, 16)

    operator = tile_ops.op("saved::by_values(Tensor x, Tensor w, Tensor b) -> Tensor", outputs=product_outputs, grad="auto")(
        run
    )
    with torch.device("cpu"):  # to read a value of a GPU would be a copy, which has no derived gradient
        x, w, b = product_leaves(70, 45, 150)
    for i, sign in enumerate((1, -1, 1)):
        with torch.no_grad():
            x[0, 0] = sign
        expected = gradients(lean_product, (x, w, b))
        # After a change the first call launches other blocks than planned, so it saves nothing. The next call makes a new plan.
        for saves in (i == 0, True):
            found = []
            assert bool(saved_bytes(lambda *given: found.extend(gradients(operator, given)), (x, w, b))) == saves
            torch.testing.assert_close(found, list(expected))


def test_several_launches_and_results():
    """The second launch reads what the first has computed; both save."""

    def run(x, w, b, middle, out):
        grid = tl.cdiv(x.shape[0], 32), tl.cdiv(w.shape[1], 32)
        silu_product_kernel[grid](x, w, b, middle, 32, 32, 16)
        silu_product_kernel[grid](middle, w, b, out, 32, 32, 16)

    outputs = lambda x, w: (product_outputs(x, w), product_outputs(x, w))  # noqa: E731
    operator = tile_ops.op(
        "saved::twice(Tensor x, Tensor w, Tensor b) -> (Tensor middle, Tensor out)", outputs=outputs, grad="auto"
    )(run)
    x, w, b = product_leaves(70, 96, 96, torch.float64)
    ours = torch.autograd.grad(sum(each.sin().sum() for each in operator(x, w, b)), (x, w, b))
    middle = functional.silu(x @ w + b)
    expected = torch.autograd.grad(middle.sin().sum() + functional.silu(middle @ w + b).sin().sum(), (x, w, b))
    torch.testing.assert_close(ours, expected)
    assert saved_bytes(operator, (x, w, b)) == 2 * 3 * 3 * 32 * 32 * 8


def test_strided_arguments_and_one_tensor_twice():
    x, w, b = product_leaves(64, 64, 64, torch.float64)
    for ours, others in zip(
        gradients(silu_product, (x.mT, w[:, :33], b[:33])), gradients(lean_product, (x.mT, w[:, :33], b[:33]))
    ):
        torch.testing.assert_close(ours, others)
    (ours,) = torch.autograd.grad(silu_product(x, x, b).sum(), x)
    torch.testing.assert_close(ours, torch.autograd.grad(functional.silu(x @ x + b).sum(), x)[0])
    rows = torch.randn(1, 64, dtype=torch.float64, requires_grad=True)
    (ours,) = torch.autograd.grad(silu_product(rows.expand(64, 64), w, b).sum(), rows)
    torch.testing.assert_close(ours, torch.autograd.grad(functional.silu(rows.expand(64, 64) @ w + b).sum(), rows)[0])


def test_a_grid_that_repeats_blocks_is_refused():
    def run(x, w, b, out):
        silu_product_kernel[2, 2, 2](x, w, b, out, 32, 32, 16)

    operator = tile_ops.op("saved::repeated(Tensor x, Tensor w, Tensor b) -> Tensor", outputs=product_outputs, grad="auto")(run)
    with pytest.raises(ValueError, match=r"the grid has 2 blocks along axis 2, but the kernel does not use bid\(2\)"):
        gradients(operator, product_leaves(64, 64, 64))


def test_plans_are_few(monkeypatch):
    made, prepare = [], saving.Saving.__init__

    def caught(self, *given):
        made.append(self)
        prepare(self, *given)

    monkeypatch.setattr(saving, "_MOST_PLANS", 3)
    monkeypatch.setattr(saving.Saving, "__init__", caught)
    operator = product("plans")
    (plans,) = made
    for k in range(1, 7):
        operator(*product_leaves(1, 1, k))
        assert 0 < len(plans._plans) <= 3


@pytest.mark.parametrize("fake", [False, True])
def test_only_refusals_plan_nothing(fake):
    """Others are errors of the run itself, which no plan may hide."""

    def saving_of(error):
        def run(arguments, results):
            raise error

        return saving.Saving("saved::failing", run, lambda arguments: (torch.empty_like(arguments[0]),))

    with FakeTensorMode() if fake else contextlib.nullcontext():
        x = torch.empty(3)
        for refusal in (NotImplementedError("a"), ValueError("b"), TypeError("c")):
            assert saving_of(refusal).allocated([x]).numel() == 0
        failing = saving_of(OSError("d"))
        for _ in range(2):
            with pytest.raises(OSError, match="d"):
                failing.allocated([x])
