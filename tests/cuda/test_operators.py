"""Every operator forward and backward, with the kernels that a GPU gets, run by the emulator: the numerics rule at
small shapes."""

import emulate
import operators
import pytest
import torch
import torch.nn.functional as F
from emulate_operators import Emulation
from numerics import check as check_numerics
from numerics import check_call

DTYPES = (torch.bfloat16, torch.float32, torch.float16, torch.float64)


CASES = {
    name: (operators.TABLE[row], make) for row, calls in operators.rows_with("emulated").items() for name, make in calls.items()
}


# Other configurations, as kernels have whose registers spill: the number of each in cuda::configurations.
CONFIGURATIONS = {"in_register_loops": 1, "without_prefetch": 4, "of_more_warps": 5, "of_fewer_warps": 6}
CONFIGURED = ("softmax", "layer_norm", "group_norm_silu", "matmul_in_stages", "attention_in_stages")


def check(emulation, name, dtype):
    row, make = CASES[name]
    torch.manual_seed(0)  # the same kernels each time
    args, kwargs = make(dtype)
    operator = row.functional or getattr(torch.ops.tile, row.name)
    check_call(emulation.operator(operator), row.reference, args, kwargs, what=name)


@pytest.fixture(scope="module")
def programs(request):
    """Returns the launches of the selected tests, compiled at once."""
    emulation = Emulation(runs=False)
    for item in request.session.items:
        if getattr(item, "module", None) is request.module and hasattr(item, "callspec"):
            with pytest.raises((AssertionError, RuntimeError)):  # it runs nothing, and the results are zero
                params = dict(item.callspec.params)
                emulation.configuration = params.pop("configuration", 0)
                check(emulation, **params)
    emulate.functions(emulation.programs)


# Cases that `make test` runs in float32, too: the first of each operator, and those with other kernels in that dtype.
IN_FLOAT32 = {next(iter(calls)) for calls in operators.rows_with("emulated").values()}
IN_FLOAT32 |= {"matmul_in_stages", "attention_in_stages", "attention_with_options", "attention_with_mask", "attention_deep"}


def marks_of(name, dtype):
    """`make quick` runs bfloat16, and `make test` some cases in float32; long sums take minutes, so it runs only one of
    them."""
    if (name, dtype) == ("matmul_of_long_sums_of_batches", DTYPES[0]):
        return pytest.mark.slow
    if "long_sums" in name or dtype in DTYPES[2:] or (dtype == DTYPES[1] and name not in IN_FLOAT32):
        return pytest.mark.long
    return pytest.mark.slow if dtype == DTYPES[1] else ()


@pytest.mark.parametrize(
    "name, dtype",
    [
        pytest.param(name, dtype, marks=marks_of(name, dtype), id=f"{name}-{str(dtype)[6:]}")
        for name in CASES
        for dtype in DTYPES
    ],
)
def test_operator(name, dtype, programs):
    emulation = Emulation()
    check(emulation, name, dtype)
    assert emulation.programs


def test_group_norm_of_a_large_mean_in_both_memory_orders():
    """Deviations are those from few elements, in channels_last from one pixel's; torch loses digits there."""
    for channels in (1, 4):
        x = torch.randn(1, 8 * channels, 16, 16) + 1000
        x[..., 0, 0] = 990  # far from the others, in either order the first
        x = x.half()
        theirs, exact = F.group_norm(x, 8), F.group_norm(x.double(), 8)
        for given in (x, x.contiguous(memory_format=torch.channels_last)):
            emulation = Emulation()
            ours = emulation.operator(torch.ops.tile.group_norm)(given, 8)
            assert [program["entry"] for program in emulation.programs] == ["kernel_group_norm_tile"]
            check_numerics(ours, theirs, exact, what=f"{channels} channels a group, {given.stride()}")


@pytest.mark.slow  # compiles several kernels for the emulator
def test_attention_adds_in_a_fixed_order_where_torch_asks():
    """Else blocks add to the gradient of query in memory."""
    for name in ("attention_in_stages", "attention_deep", "attention_of_96"):
        for fixed_order in (False, True):
            emulation = Emulation()
            torch.use_deterministic_algorithms(fixed_order)
            try:
                check(emulation, name, torch.bfloat16)
            finally:
                torch.use_deterministic_algorithms(False)
            assert any("add_tile<" in program["text"] for program in emulation.programs) != fixed_order
            assert any(program["entry"] == "kernel_attention_backward_query" for program in emulation.programs) == fixed_order


@pytest.mark.parametrize("configuration", CONFIGURATIONS.values(), ids=CONFIGURATIONS.keys())
@pytest.mark.parametrize("dtype", (torch.bfloat16,), ids=lambda dtype: str(dtype)[6:])
@pytest.mark.parametrize("name", CONFIGURED)
def test_operator_in_other_configurations(name, dtype, configuration, programs):
    check(Emulation(configuration=configuration), name, dtype)


def test_there_are_no_other_configurations():
    with pytest.raises(ValueError) as error:
        Emulation(configuration=9).call(lambda: None)
    assert str(error.value) == "emulate: the configuration is 9; the last is 8"
