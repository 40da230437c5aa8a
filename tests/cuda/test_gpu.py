"""A GPU: streams, captured graphs, dtypes, devices that differ, repeated results, running out of memory."""

import pytest
import tile_ops
import torch
from gpu_calls import assert_equal, calls, late, results
from random_meaning import DTYPES
from tile_ops import _C
from tile_ops._inspect import arch_of

pytestmark = pytest.mark.usefixtures("deterministic")

NAMES = list(calls("meta"))
COPY = """kernel copy(%x: array<DT,1>, %y: array<DT,1>) {
  %b: i32 = bid {axis=0}
  %t: DT[256] = load %x, %b {pad=PAD, shape=[256], steps=[256]}
  store %y, %t, %b {steps=[256]}
}
"""


def copy(x, y, dtype="f32"):
    text = COPY.replace("DT", dtype).replace("PAD", "0.0" if x.is_floating_point() else "0")
    _C.run_ir(text, ((len(x) + 255) // 256, 1, 1), [x, y])


# Streams and graphs.
def test_a_kernel_runs_on_the_current_stream(device):
    x = torch.randn(300, 1000, device=device)
    expected = tile_ops.softmax(x, -1)
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side), torch.no_grad():
        got = tile_ops.softmax(*late([x]), -1)  # on another stream it would come before the copy
        assert not side.query(), "the launch waited for the stream"
    side.synchronize()
    assert torch.equal(got, expected)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_on_a_side_stream(device, name):
    function, tensors = calls(device)[name]
    expected = results(function, tensors)
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        got = results(function, late(tensors))
    side.synchronize()
    assert_equal(got, expected)


@pytest.mark.parametrize("name", NAMES)
def test_a_captured_graph(device, name):
    function, tensors = calls(device)[name]
    expected = results(function, tensors)
    given = [torch.zeros_like(tensor).requires_grad_() for tensor in tensors]
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):  # torch's own gradient kernels are to be loaded before a capture
        results(function, given)
    torch.cuda.current_stream(device).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = results(function, given)
    for _ in range(2):
        with torch.no_grad():
            for there, tensor in zip(given, tensors):
                there.copy_(tensor)
        for each in got:
            each.fill_(torch.nan)
        graph.replay()
        assert_equal(got, expected)


# Data.
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [0, 1, 255, 1003, 100_000])
def test_copies_keep_every_bit(device, dtype, size):
    own = DTYPES[dtype]
    high = 2 if dtype == "bool" else 256

    def memory(count):
        return torch.randint(0, high, (count * own.itemsize,), dtype=torch.uint8, device=device).view(own)

    def numbers(tensor):
        """Bytes; those of a NaN, which may be any, are those of one."""
        dense = torch.empty(len(tensor), dtype=own, device=device).copy_(tensor)
        nan = dense.float().isnan() if own.is_floating_point else torch.zeros_like(dense, dtype=torch.bool)
        return dense.view(torch.uint8).view(len(tensor), own.itemsize).masked_fill(nan[:, None], 127)

    x = memory(3 * size + 3)
    for name, source, target in [
        ("whole", x[:size], memory(size)),
        ("odd places", x[1 : size + 1], memory(size + 3)[3:]),
        ("every third", x[: 3 * size : 3], memory(2 * size)[::2]),
        ("one element", x[:1].expand(size), memory(size)),
    ]:
        copy(source, target, dtype)
        assert torch.equal(numbers(target), numbers(source)), name


def test_writes_stay_inside(device):
    memory = torch.zeros(1003 + 512, device=device)
    copy(torch.ones(1003, device=device), memory[256:-256])
    assert memory[256:-256].all() and not memory[:256].any() and not memory[-256:].any()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_results_repeat_bit_for_bit(device, name, dtype):
    function, tensors = calls(device, dtype)[name]
    first = results(function, tensors)
    for _ in range(100):
        assert_equal(results(function, tensors), first)


# Errors.
def test_tensors_on_different_devices(device):
    x = torch.ones(3, 4, device=device)
    for call, text in [
        (
            lambda: tile_ops.matmul(x, torch.ones(4, 5)),
            f"tile::matmul: 'input' is on {x.device}, but 'other' is on cpu; move them to one device",
        ),
        (
            lambda: tile_ops.rms_norm(torch.ones(3, 4), [4], x[0]),
            f"tile::rms_norm: 'input' is on cpu, but 'weight' is on {x.device}; move them to one device",
        ),
    ]:
        with pytest.raises(RuntimeError) as error:
            call()
        assert str(error.value).splitlines()[0] == text
    with pytest.raises(ValueError) as error:
        copy(x[0], torch.ones(4))
    assert str(error.value) == "launch of copy: its arrays are on different devices; move them to one"


def test_a_grid_that_is_too_large(device):
    x = torch.zeros(4, device=device)
    with pytest.raises(ValueError) as error:
        _C.run_ir(COPY.replace("DT", "f32").replace("PAD", "0.0"), (1, 65536, 65536), [x, x])
    assert str(error.value) == (
        "launch of copy: the grid is (1, 65536, 65536); on a GPU one axis must be at most 2147483647 and the others at most 65535"
    )


def test_out_of_memory(device):
    """The error is torch's own, of a result or of a gradient; what comes next works."""
    x = torch.ones(1, 1, device=device, requires_grad=True)
    huge = x.expand(2**22, 2**22)  # 64 TiB
    weight = torch.ones(2**22, device=device, requires_grad=True)
    for call in (
        lambda: tile_ops.softmax(huge, -1),
        lambda: tile_ops.rms_norm(huge, [2**22], weight),
        lambda: tile_ops.matmul(huge, huge),
        lambda: torch.ops.tile.softmax_backward(huge, huge, -1),
    ):
        with pytest.raises(torch.OutOfMemoryError):
            call()
    small = torch.randn(5, 7, device=device)
    torch.testing.assert_close(tile_ops.softmax(small, -1), torch.softmax(small, -1))


def test_inspect_shows_the_gpu_s_own_kernel_and_runs_nothing(device):
    x = torch.randn(5, 300, device=device)
    (row,) = tile_ops.inspect(torch.ops.tile.softmax, x, -1, what="resources")
    assert row["arch"] == arch_of(device) and row["spill_stores"] == 0


def test_the_doctor_finds_no_fault(device, capsys):
    tile_ops.doctor()
    lines = [line.split(None, 3) for line in capsys.readouterr().out.splitlines()]
    assert [line[0] for line in lines if line[1] == "device"] == ["ok"] * torch.cuda.device_count()
