"""Memory and streams on a GPU: what the allocator hands out again and when, temporaries of operators, gradients on
other streams.

The rules are those of docs/on_a_gpu.md."""

import pytest
import tile_ops
import tile_ops.language as tl
import torch
from gpu_calls import assert_equal, busy, calls, late, results

pytestmark = pytest.mark.usefixtures("deterministic")

NAMES = list(calls("meta"))
TWICE = """
__global__ void twice(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 2;
}
"""
SHAPE = 1024, 16384  # 64 MiB: a block of memory that nothing else has


@tl.kernel
def shifted(x, y, blocks: int):
    """Each block's elements are those of the block before it, plus 1."""
    i = tl.bid(0)
    tl.store(y, (i + 1) % blocks, tl.load(x, i, 64) + 1)


@pytest.fixture
def main(device):
    """The current stream; the allocator keeps nothing that a test before has freed."""
    torch.cuda.synchronize(device)
    torch.cuda.empty_cache()
    return torch.cuda.current_stream(device)


@pytest.fixture
def side(device, main):
    """Another stream, which has waited for what the current one has to do."""
    stream = torch.cuda.Stream(device)
    stream.wait_stream(main)
    return stream


def take_memory(device):
    """Tensors of many sizes in the current stream's memory, full of NaN: what was freed too early is overwritten."""
    return [torch.full((2**power,), torch.nan, device=device) for power in range(5, 24) for _ in range(2)]


def called_late(main, side, function, *args):
    """A call on the other stream, whose kernels have not begun when this returns."""
    side.wait_stream(main)
    with torch.cuda.stream(side):
        busy()
        return function(*args)


def given(tensors):
    """Copies, in memory of the current stream's."""
    return [tensor.detach().clone().requires_grad_() for tensor in tensors]


# Inputs.
def read_late(device, main, side):
    """A tensor of the current stream, its softmax, and the same by the other stream, which has not begun."""
    x = torch.randn(SHAPE, device=device)
    return x, tile_ops.softmax(x, -1), called_late(main, side, tile_ops.softmax, x, -1)


def test_an_input_is_kept_by_record_stream(device, main, side):
    x, expected, got = read_late(device, main, side)
    address = x.data_ptr()
    x.record_stream(side)
    del x
    other = torch.full(SHAPE, torch.nan, device=device)
    assert other.data_ptr() != address and not side.query()
    side.synchronize()
    assert torch.equal(got, expected)


def test_without_record_stream_the_owner_has_to_wait(device, main, side):
    """The memory is handed out again at once, while the other stream has not begun."""
    x, expected, got = read_late(device, main, side)
    address = x.data_ptr()
    main.wait_stream(side)
    del x
    other = torch.full(SHAPE, torch.nan, device=device)
    assert other.data_ptr() == address and not side.query()
    torch.cuda.synchronize(device)
    assert torch.equal(got, expected) and other.isnan().all()


# Results.
def test_a_result_belongs_to_the_stream_of_the_call(device, main, side):
    x = torch.randn(SHAPE, device=device)
    expected = tile_ops.softmax(x, -1)
    side.wait_stream(main)
    with torch.cuda.stream(side):
        got = tile_ops.softmax(x, -1)
    address = got.data_ptr()
    main.wait_stream(side)
    busy()
    copy = got.clone()
    got.record_stream(main)
    del got
    with torch.cuda.stream(side):
        other = torch.full(SHAPE, torch.nan, device=device)
    assert other.data_ptr() != address and not main.query()
    del other
    main.synchronize()
    with torch.cuda.stream(side):  # now it is free, and the stream's again
        held = [torch.full(SHAPE, torch.nan, device=device) for _ in range(2)]
    assert address in [each.data_ptr() for each in held]
    assert torch.equal(copy, expected)


def test_a_result_is_freed_into_the_stream_of_the_call(device, main, side):
    """Without record_stream nor a wait by another stream: later work of the same one may have it at once."""
    x = torch.randn(SHAPE, device=device)
    expected = tile_ops.softmax(x, -1)
    side.wait_stream(main)
    with torch.cuda.stream(side):
        busy()
        first = tile_ops.softmax(x, -1)
        address = first.data_ptr()
        del first
        second = tile_ops.softmax(x, -1)
        assert second.data_ptr() == address and not side.query()
    side.synchronize()
    assert torch.equal(second, expected)


# Temporaries.
@pytest.mark.parametrize("name", NAMES)
def test_temporaries_are_the_stream_s_of_the_call(device, main, side, name):
    """They are freed when the call returns, before its kernels have run; other streams do not get them."""
    function, tensors = calls(device)[name]
    expected = results(function, tensors)
    got = called_late(main, side, results, function, tensors)
    taken = take_memory(device)
    assert not side.query(), "the call waited for the stream"
    side.synchronize()
    assert_equal(got, expected)
    assert all(each.isnan().all() for each in taken)


@pytest.mark.parametrize("name", NAMES)
def test_calls_in_a_row_share_temporaries(device, main, side, name):
    function, tensors = calls(device)[name]
    inputs = [[(tensor.detach() * scale).requires_grad_() for tensor in tensors] for scale in (1, 0.5, 2, -1)]
    expected = [results(function, each) for each in inputs]
    got = called_late(main, side, lambda: [results(function, each) for each in inputs])
    side.synchronize()
    for ours, theirs in zip(got, expected):
        assert_equal(ours, theirs)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_saved_is_freed_by_backward(device, main, side, name):
    function, tensors = calls(device)[name]
    expected = results(function, tensors)
    own = given(tensors)
    got = called_late(main, side, results, function, own)
    for tensor in own:
        tensor.record_stream(side)
    del own, tensor
    taken = take_memory(device)
    assert not side.query(), "the call waited for the stream"
    side.synchronize()
    assert_equal(got, expected)
    assert all(each.isnan().all() for each in taken)


# Gradients.
def outputs(function, tensors):
    out = function(*tensors)
    return list(out) if isinstance(out, tuple) else [out]


@pytest.mark.parametrize("name", NAMES)
def test_gradients_run_on_the_stream_of_forward(device, main, side, name):
    """backward is called on another stream, which then waits for them."""
    function, tensors = calls(device)[name]
    expected = results(function, tensors)
    side.wait_stream(main)
    with torch.cuda.stream(side):
        inputs = late(tensors)
        out = outputs(function, inputs)
    gradients = torch.autograd.grad(out, inputs, [torch.ones_like(each) for each in out])
    assert not side.query(), "the host waited for the stream"
    assert_equal(gradients, expected[len(out) :])
    assert side.query()  # the current stream had waited for it


@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_what_another_stream_brings(device, main, side, name):
    """Forward on the current stream; backward is called on another, on which the incoming gradients come late."""
    function, tensors = calls(device)[name]
    expected = results(function, tensors)
    out = outputs(function, tensors)
    side.wait_stream(main)
    with torch.cuda.stream(side):
        incoming = [torch.full_like(each, torch.nan) for each in out]
        busy()
        for each in incoming:
            each.fill_(1)
        gradients = torch.autograd.grad(out, tensors, incoming)
        assert not side.query(), "the host waited for the stream"
    side.synchronize()
    assert_equal(gradients, expected[len(out) :])


# Kernels of a user.
def test_raw_kernels_follow_the_current_stream(device, main, side):
    twice = tile_ops.cuda_kernel(TWICE, "twice")
    x = torch.randn(1000, device=device)
    twice[4, 256](torch.zeros_like(x), 1000)
    side.wait_stream(main)
    with torch.cuda.stream(side):
        (y,) = late([x])
        twice[4, 256](y.detach(), 1000)
        assert not side.query(), "the launch waited for the stream"
    side.synchronize()
    assert torch.equal(y, 2 * x)


# Kernels that begin while the one before them ends.
@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("blocks", [1, 100, 2112, 2113, 6000])
def test_a_kernel_reads_what_the_one_before_it_wrote(device, main, blocks, captured):
    """Launches that add one, each from a row of its own to the next, so that what is read early is seen."""
    count, launches = 64 * blocks, 50
    rows = torch.full((launches + 1, count), torch.nan, device=device)

    def chain():
        for i in range(launches):
            shifted[(blocks,)](rows[i], rows[i + 1], blocks)

    expected = torch.arange(count, device=device, dtype=torch.float32)
    rows[0] = expected
    chain()
    torch.cuda.synchronize(device)
    rounds = torch.cuda.CUDAGraph() if captured else None
    if captured:
        with torch.cuda.graph(rounds):
            chain()
    for _ in range(20):
        rows[1:] = torch.nan
        rounds.replay() if captured else chain()
        assert torch.equal(rows[-1], expected.roll(64 * (launches % blocks)) + launches)
