"""Derived kernels on the emulator: races between blocks and threads, and values against those of the CPU."""

import pytest
import tile_ops
import tile_ops.language as tl
import torch
from combinations import by_turns
from derive.biased_attention import attention_arguments, attention_reference, biased_attention, biased_attention_kernel, owners
from derive.kernels import CASES, matmul_kernel, matmul_outputs
from derive.test_gradients import arguments_of, gradients_of
from derive.saved_products import product_outputs, silu_product_kernel
from derive.ways import PARTIAL, PLACES, SEGMENTS, launched
from emulate_operators import Emulation
from tile_ops import _C

__all__ = ["owners"]  # a fixture


def close(gradients, expected, tolerance):
    """Asserts that no gradient is further from the expected one than a part of its largest element, or of 1."""
    for ours, reference in zip(gradients, expected, strict=True):
        scale = reference.abs().max().clamp(min=1)
        assert ((ours.double() - reference.double()).abs().max() / scale).item() < tolerance


def check_gradients(name, dtype):
    """Compares the gradients of a kernel on the emulator with those on the CPU."""
    case, emulation = CASES[name], Emulation()
    arguments = arguments_of(case, dtype)
    _, expected = gradients_of(case.operator, arguments)
    _, gradients = emulation.call(lambda: gradients_of(case.operator, arguments))
    assert any("_backward" in program["entry"] for program in emulation.programs)
    close(gradients, expected, 1e-4 if dtype == torch.float32 else 3e-2)


@pytest.mark.parametrize("name, dtype", by_turns(CASES.keys(), [torch.float32, torch.bfloat16]))
def test_gradients_on_the_emulator(name, dtype):
    check_gradients(name, dtype)


KEPT = ["average", "gated_delta", "cube_root", "stopped", "chosen", "until", "linked", "nests"]


@pytest.mark.parametrize("name, dtype", by_turns(KEPT, [torch.float32, torch.bfloat16]))
@pytest.mark.parametrize("way", [(PARTIAL, -1, SEGMENTS), (PARTIAL, -1, PLACES, 2)], ids=["segments", "places"])
def test_values_of_segments_on_the_emulator(name, dtype, way, monkeypatch):
    launched(monkeypatch, *way)
    check_gradients(name, dtype)


@pytest.mark.parametrize(
    "name, dtype", by_turns(["matmul", "grouped_matmul", "online_attention"], [torch.float32, torch.bfloat16])
)
def test_transposed_kernels_on_the_emulator(name, dtype, owners):
    case, emulation = CASES[name], Emulation()
    arguments = arguments_of(case, dtype)
    _, expected = gradients_of(
        case.reference,
        [each.detach().double().requires_grad_() if isinstance(each, torch.Tensor) else each for each in arguments],
    )
    _, gradients = emulation.call(lambda: gradients_of(case.operator, arguments))
    assert any("_transposed" in program["entry"] for program in emulation.programs) == (name != "grouped_matmul")
    close(gradients, expected, 1e-4 if dtype == torch.float32 else 6e-2)


# Two groups of warps need 128 rows: of keys, whose tiles become wider, or of queries for the bias.
@pytest.mark.parametrize("rows, expected_paths", [(64, ["wgmma", "mma.sync"]), (128, ["wgmma", "wgmma"])])
def test_transposed_attention_on_warpgroups(rows, expected_paths, owners):
    emulation = Emulation()
    arguments = attention_arguments(1, 256, 192, 64, rows, 64, torch.bfloat16)
    exact = [each.detach().double().requires_grad_() if isinstance(each, torch.Tensor) else each for each in arguments]
    _, expected = gradients_of(attention_reference, exact)
    _, gradients = gradients_of(emulation.operator(biased_attention), arguments)
    paths = [program["path"] for program in emulation.programs if "_transposed" in program["entry"]]
    assert paths == expected_paths
    close(gradients, expected, 6e-2)


def test_transposed_products_on_warpgroups(owners):
    """The gradients of both operands of a product are products that use wgmma."""
    emulation = Emulation()
    make = lambda *shape: torch.randn(shape).to(torch.bfloat16).requires_grad_()  # noqa: E731
    arguments = make(192, 136), make(136, 256), make(256)
    operator = tile_ops.op("derived::wide_matmul(Tensor x, Tensor w, Tensor b) -> Tensor", outputs=matmul_outputs, grad="auto")(
        lambda x, w, b, out: matmul_kernel[2, 2](x, w, b, out, 128, 128, 64, tl.float32)
    )
    exact = [each.detach().double().requires_grad_() for each in arguments]
    _, expected = gradients_of(CASES["matmul"].reference, exact)
    _, gradients = gradients_of(emulation.operator(operator), arguments)
    paths = [program["path"] for program in emulation.programs if "_transposed" in program["entry"]]
    assert paths == ["wgmma", "wgmma"]
    close(gradients, expected, 3e-2)


def test_saved_products_on_warpgroups(owners):
    """The forward saves its product, so that the derived kernel has none."""
    emulation = Emulation()
    make = lambda *shape: torch.randn(shape).to(torch.bfloat16).requires_grad_()  # noqa: E731
    arguments = make(192, 136), make(136, 256), make(256)
    exact = [each.detach().double().requires_grad_() for each in arguments]
    _, expected = gradients_of(lambda x, w, b: torch.nn.functional.silu(x @ w + b), exact)
    operator = tile_ops.op(
        "derived::saved_matmul(Tensor x, Tensor w, Tensor b) -> Tensor", outputs=product_outputs, grad="auto"
    )(lambda x, w, b, out: silu_product_kernel[2, 2](x, w, b, out, 128, 128, 64))
    _, gradients = gradients_of(emulation.operator(operator), arguments)
    ends = lambda end: [each["path"] for each in emulation.programs if each["entry"].endswith(end)]  # noqa: E731
    assert (ends("_saving"), ends("_backward"), ends("_transposed")) == (["wgmma"], [""], ["wgmma", "wgmma"])
    close(gradients, expected, 3e-2)


def large_product():
    """Launches of the gradients of a product of 4096 x 4096, of tensors without memory."""
    make = lambda *shape: torch.empty(shape, dtype=torch.bfloat16, device="meta")  # noqa: E731
    x, w, b, out = make(4096, 4096), make(4096, 4096), make(4096), make(4096, 4096)
    gradients = [torch.empty_like(each) for each in (out, x, w, b)]
    tile_ops.derive(matmul_kernel)[32, 32](x, w, b, out, 128, 128, 64, tl.float32, *gradients)


def large_attention(rows):
    """The same of 32 heads of 2048 rows, with a bias."""
    make = lambda *shape: torch.empty(shape, dtype=torch.bfloat16, device="meta")  # noqa: E731
    q, k, v, out = (make(32, 2048, 64) for _ in range(4))
    bias = make(2048, 2048)
    gradients = [torch.empty_like(each) for each in (out, q, k, v, bias)]
    derivative = tile_ops.derive(biased_attention_kernel)
    derivative[2048 // rows, 32](q, k, v, bias, out, 0.125, rows, 64, 64, *gradients)


@pytest.mark.parametrize(
    "launch, kernels",
    [
        (large_product, 3),
        (lambda: large_attention(64), 1),  # tiles of 64 rows are too small, but for keys and values
        (lambda: large_attention(128), 3),
    ],
)
def test_large_gradients_use_warpgroups_without_spills(launch, kernels):
    rows = [row for row in _C.inspect("usual", 90, 0, launch) if row["path"]]
    assert len(rows) == 3
    assert sum("_transposed" in row["kernel"] for row in rows) == 2
    assert sum(row["path"] == "wgmma" for row in rows) == kernels
    for row in rows:
        code = _C.compile_text(row["text"], row["kernel"], row["entry"], row["arch"], row["path"])
        if row["path"] == "wgmma":
            assert code["spill_stores"] + code["spill_loads"] == 0, row["kernel"]
