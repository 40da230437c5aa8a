"""Tests by a kernel's text what the passes of the GPU target do: precision, barriers, what registers hold."""

import pytest
import tile_ops
import torch
from combinations import long
from emulate import Case, run
from test_shapes import kernel
from tile_ops import _C

ops = torch.ops.tile


def text_of(operator, *args, **kwargs):
    return tile_ops.inspect(operator, *args, what="cuda", arch=90, **kwargs)


def of(*shape, dtype=torch.bfloat16):
    return torch.empty(*shape, dtype=dtype, device="meta")


def test_functions_of_what_ends_as_16_bits_are_the_archs_fast_ones():
    assert "approximate_element<math::exp_row>(" in text_of(ops.softmax, of(8, 1024), 1)
    assert "approximate" not in text_of(ops.softmax, of(8, 1024, dtype=torch.float32), 1)


@pytest.mark.parametrize("behind, approximate", [("%r: f32[64] = add %e, %t", True), ("%r: f32[64] = floor %e", False)])
def test_an_op_after_a_function_needs_the_exact_function(behind, approximate):
    body = f"""%t: f32[64] = load %a, %i {{pad=0.0, shape=[64], steps=[64]}}
%e: f32[64] = div %t, %t
{behind}
%h: bf16[64] = astype %r {{dtype=bf16}}
store %b, %h, %i {{steps=[64]}}"""
    case = Case(
        kernel([("f32", 1), ("bf16", 1)], body), (1, 1, 1), [torch.full((64,), 3.0), torch.zeros(64, dtype=torch.bfloat16)]
    )
    assert ("approximate<math::div_row>(" in case.program["text"]) == approximate
    assert run([case]) == [None]
    assert torch.equal(case.arguments[1], torch.full((64,), 4.0 if approximate else 1.0, dtype=torch.bfloat16))


@pytest.mark.parametrize("name", ["max", "sinf", "printf", "memory", "u8", "Window", "row_sum"])
def test_a_kernel_may_be_called_as_a_function_of_cuda(name):
    body = """%t: f32[64] = load %a, %i {pad=0.0, shape=[64], steps=[64]}
store %a, %t, %i {steps=[64]}"""
    x = torch.zeros(64)
    program = _C.cuda_program(kernel([("f32", 1)], body).replace("kernel k(", f"kernel {name}("), [x], 90)
    assert program["entry"].endswith(name)
    _C.compile_text(program["text"], name, program["entry"], 90, "")


def of_kernel(text):
    lines = [line.strip() for line in text.split("\n")]
    return lines[next(i for i, line in enumerate(lines) if line.startswith("TILE_KERNEL(")) :]


def test_a_kernel_first_waits_for_those_before_it():
    lines = of_kernel(text_of(ops.softmax, of(8, 1024), 1))
    assert lines[0].endswith(", u32 starts_early) {") and lines[1] == "wait_for_kernels_before(starts_early);"
    older = tile_ops.inspect(ops.softmax, of(8, 1024), 1, what="cuda", arch=89)
    assert "early" not in older and "kernels_before" not in older


@pytest.mark.parametrize("arch", [90, long(100), long(120)])
def test_no_memory_access_precedes_the_wait(arch):
    heads, weight = of(1, 4, 256, 64), of(4096)
    for operator, *arguments in [
        (ops.softmax, of(64, 1024), 1),
        (ops.rms_norm, of(64, 4096), [4096], weight),
        (ops.add_rms_norm, of(64, 4096), of(64, 4096), [4096], weight),
        (ops.rope, heads, heads, of(256, 32), of(256, 32)),
        (ops.attention, heads, heads, heads),
        (ops.matmul, of(256, 256), of(256, 256)),
    ]:
        code = tile_ops.inspect(operator, *arguments, what="ptx", arch=arch)
        for entry in code.split(".entry")[1:]:
            accesses = [entry.find(name) for name in ("ld.global", "st.global", "cp.async.c", "red.", "atom.")]
            first = min(at for at in accesses if at >= 0)
            assert 0 < entry.find("griddepcontrol.wait") < first


def test_steps_of_which_one_only_feeds_the_next_are_one_loop():
    text = text_of(ops.softmax, of(8, 8192), 1)
    loop = text[text.index("TILE_UNROLL for") :].split("\n")[:4]
    assert [step in line for step, line in zip(["", "sub(", "math::exp_row", ".x[r] = "], loop)] == [True] * 4


def test_halves_of_a_head_need_no_barrier_between_them():
    heads = of(1, 4, 64, 128)
    assert "synchronize(" not in text_of(ops.rope, heads, heads, of(64, 64), of(64, 64))


def test_parameters_stay_16_bits_wide_through_a_loop():
    statistic = of(4096, 1, dtype=torch.float32)
    text = text_of(ops.rms_norm_backward, of(4096, 4096), of(4096, 4096), [4096], of(4096), statistic, [True, True])
    loop = text[text.index("TILE_LOOP") : text.index("sum_partials, grid")]
    assert "astype_here<f32>(" in loop


def test_rows_are_converted_again_after_a_sum():
    text = text_of(ops.layer_norm, of(64, 4096), [4096], of(4096), of(4096))
    first = text.index("reduce<Sum")
    assert "astype<f32>(" in text[:first] and "astype_here<f32>(" in text[first:]


def test_reductions_take_turns_in_shared_memory():
    text = text_of(ops.softmax, of(8, 8192), 1)
    assert text.count("double_buffer(buffer)") == 2 and "synchronize(" not in text


@pytest.mark.parametrize("depth, skewed", [(64, False), (128, True)])
def test_loops_are_skewed_where_registers_hold_two_tiles_and_masks(depth, skewed):
    q, k, v = (of(2, 16, 4096, depth) for _ in range(3))
    text = text_of(ops.attention, q, k, v, is_causal=True)
    assert ("mma_awaited<1>(" in text) == skewed  # awaits the scores while the other product runs
