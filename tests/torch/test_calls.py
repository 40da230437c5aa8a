"""Calls from Python: what our function for an operator does is what torch's does, of values, errors and tracing."""

import pathlib
import re
import sys
import threading
import warnings
import weakref

import pytest
import tile_ops
import torch
from tile_ops import _C
from torch.overrides import TorchFunctionMode

SYSTEM_HAS_HUGE_PAGES = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled").exists()
X = torch.arange(12.0).reshape(3, 4) / 7
W = torch.linspace(0.5, 2, 4)


class Sub(torch.Tensor):
    pass


class Logged(torch.Tensor):
    seen = []

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.seen.append(function)
        return super().__torch_function__(function, types, args, kwargs)


def named(tensor):
    """With names of dimensions, where torch still has these."""
    return tensor.refine_names("r", "c") if hasattr(tensor, "refine_names") else tensor


LISTS = [
    [],
    (torch.ones(3), torch.zeros(2)),
    [torch.nn.Parameter(torch.ones(3))],
    [torch.ones(3).as_subclass(Sub)],
    [torch.ones(3), None],
    [1.0],
    torch.ones(2, 3),
    None,
    torch.Size([3]),
]

# Operator, arguments, keywords: right and wrong ones.
CALLS = [
    ("tile::softmax", (X, 1), {}),
    ("tile::softmax", (X, -1, None), {}),
    ("tile::softmax", (X, 0, torch.float64), {}),
    ("tile::softmax", (X,), {"dim": 1}),
    ("tile::softmax", (), {"dim": 1, "input": X}),
    ("tile::softmax", (X, 1), {"dtype": torch.float64}),
    ("tile::softmax", (torch.nn.Parameter(X), 1), {}),
    ("tile::softmax", (X.as_subclass(Sub), 1), {}),
    ("tile::softmax", (named(X), 1), {}),
    ("tile::softmax", (X, True), {}),
    ("tile::softmax", (X, torch.tensor(1)), {}),
    ("tile::softmax", (X, 1.0), {}),
    ("tile::softmax", (X, 2**63), {}),
    ("tile::softmax", (X, -(2**63)), {}),
    ("tile::softmax", (X, None), {}),
    ("tile::softmax", (None, 1), {}),
    ("tile::softmax", (X, 7), {}),
    ("tile::softmax", (X.long(), 1), {}),
    ("tile::softmax", (X,), {}),
    ("tile::softmax", (), {}),
    ("tile::softmax", (X, 1, None, 2), {}),
    ("tile::softmax", (X, 1), {"dim": 1}),
    ("tile::softmax", (X,), {"dim": 1, "axis": 1}),
    ("tile::softmax", (X, 1), {"dtype": "float"}),
    ("tile::softmax", (X, 1), {"dtype": 6}),
    ("tile::softmax", ([[1.0]], 0), {}),
    ("tile::softmax", (torch.sparse_coo_tensor(size=(2, 2)), 1), {}),
    ("tile::rms_norm", (X, [4]), {}),
    ("tile::rms_norm", (X, (4,), W, 1e-3), {}),
    ("tile::rms_norm", (X, X.shape[1:], W), {"eps": 1}),
    ("tile::rms_norm", (X, 4, W), {}),
    ("tile::rms_norm", (X, [4.0], W), {}),
    ("tile::rms_norm", (X, [True], W), {}),
    ("tile::rms_norm", (X, [2**64], W), {}),
    ("tile::rms_norm", (X, "4", W), {}),
    ("tile::rms_norm", (X, [], W), {}),
    ("tile::rms_norm", (X, [4], W.double()), {}),
    ("tile::layer_norm", (X, [4], None, None, float("nan")), {}),
    ("tile::matmul", (X, X.t()), {"activation": "relu"}),
    ("tile::matmul", (X, X.t()), {"activation": "r\0lu"}),
    ("tile::matmul", (X, X.t()), {"activation": "\ud800"}),
    ("tile::matmul", (X, X.t()), {"activation": b"relu"}),
    ("tt::rope", (X, W[:2], W[:2]), {}),
    ("tt::rope", (X, W[:2], W[:2], 2), {}),
    ("tt::rope", (X, W[:2], W[:2]), {"scale": True}),
    ("tt::rope", (X, W, W), {}),
    *(("tt::fails", (X, kind), {}) for kind in ("value", "type", "unsupported", "other", "prefixed")),
    ("tt::every", (X, 6), {}),
    ("tt::every",
     (X, 6, torch.ones(6), "one", torch.float64, 2.0, [0, 100], [torch.ones(3)], 2, [5, 3], True, 0.5, 7, "abc",
      [True, False], [20], None), {}),
    ("tt::every",
     (X, 6, torch.ones(6), "one", torch.float64, 2, (0, 100), (torch.ones(3),), 2, (5, 3), 1, 1, 7.0, "abc",
      (True, False), (20,), None), {}),
    *(("tt::every",
       (X, 6, torch.ones(6), "one", torch.float64, 2, (0, 100), tensors, 2, (5, 3), 1, 1, 7.0, "abc", (True, False), (20,), None),
       {}) for tensors in LISTS),
]  # fmt: skip


def outcome(function, args, kwargs):
    """The results, or the error."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            results = function(*args, **kwargs)
        except Exception as error:
            return type(error), str(error), [str(each.message) for each in told]
    some = results if isinstance(results, tuple) else (results,)
    return (
        type(results),
        [(type(t), t.dtype, t.requires_grad, t.tolist()) for t in some],
        [str(each.message) for each in told],
    )


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_like_torchs(number, ops):
    name, args, kwargs = CALLS[number]
    namespace, bare = name.split("::")
    packet = getattr(getattr(torch.ops, namespace), bare)
    assert type(packet._op) is type(packet.default._op) is _C.OperatorCall
    of_packet, overloads = torch._C._jit_get_operation(name)
    assert overloads == [""]
    expected = outcome(of_packet, args, kwargs)
    assert str(outcome(packet, args, kwargs)) == str(expected)
    of_overload = torch._C._get_operation_overload(name, "")[0]
    expected = outcome(of_overload, args, kwargs)
    assert str(outcome(packet.default, args, kwargs)) == str(expected)


def test_what_packets_are():
    packet = torch.ops.tile.softmax
    assert isinstance(packet, torch._ops.OpOverloadPacket) and packet is tile_ops.softmax
    assert str(packet) == "tile.softmax" and repr(packet) == "<OpOverloadPacket(op='tile.softmax')>"
    assert packet.overloads() == ["default"] and packet.__module__ == torch.ops.aten.add.__module__.replace("aten", "tile")
    assert hash(packet) == hash(packet._op) and {packet: 1}[packet] == 1
    assert packet.op.__name__ == torch.ops.aten.add.op.__name__.replace("add", "softmax")
    assert isinstance(packet.op, type(torch.ops.aten.add.op)) and callable(packet.op)
    with pytest.raises(TypeError, match="cannot create 'tile_ops._C.OperatorCall' instances"):
        _C.OperatorCall()


def test_what_namespaces_are():
    ours, other = torch.ops.tile, torch.ops.prims
    assert isinstance(ours, torch._ops._OpNamespace) and type(other) is torch._ops._OpNamespace
    assert repr(ours) == repr(other).replace("prims", "tile") and ours.__file__ == other.__file__
    assert ours.__name__ == "torch.ops.tile" and "softmax" in list(ours) and ours is torch.ops.tile
    assert getattr(ours, "nothing", 1) == 1
    for name in ("nothing", "__origin__"):
        texts = []
        for namespace in (ours, other):
            with pytest.raises(AttributeError) as error:
                getattr(namespace, name)
            texts.append(str(error.value).replace("prims", "tile"))
        assert texts[0] == texts[1]


def test_arguments_are_released():
    for operator, arguments in (
        (torch.ops.tile.softmax, (1,)),
        (torch.ops.tile.softmax, (7,)),
        (torch.ops.tile.rms_norm, ([4], torch.ones(4))),
    ):
        for grad in (False, True):
            x = X.clone().requires_grad_(grad)
            count, gone = sys.getrefcount(x), weakref.ref(x)
            try:
                y = operator(x, *arguments)
            except ValueError:
                y = None
            if y is not None and grad:
                y.sum().backward()
            del y
            assert sys.getrefcount(x) == count
            del x
            assert gone() is None


def test_tensors_of_lists_are_released():
    x, operand, out = X.clone(), torch.ones(3), torch.empty(3, 3)
    counts = [sys.getrefcount(each) for each in (x, operand, out)]
    for text in ("acc + x0", "acc + x1"):
        try:
            torch.ops.tile._matmul_into(x, X.t(), [operand], (out,), epilogue=text)
        except ValueError:
            assert text == "acc + x1"
        assert [sys.getrefcount(each) for each in (x, operand, out)] == counts
    torch.testing.assert_close(out, X @ X.t() + 1)


def test_results_have_torchs_strides():
    for x in (
        torch.randn(2, 3, 4, 5).permute(3, 1, 0, 2),
        torch.randn(3, 1).expand(3, 4),
        torch.randn(6, 8)[::2, ::2],
        torch.empty(0, 3),
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
    ):
        want = torch.empty_like(x)
        for y in (torch.ops.tile.softmax(x, -1), torch.ops.tile.softmax(x.to("meta"), -1)):
            assert (y.shape, y.stride(), y.dtype) == (want.shape, want.stride(), want.dtype)


def test_torch_function():
    Logged.seen.clear()
    x = X.as_subclass(Logged)
    assert type(torch.ops.tile.softmax(x, 1)) is Logged and Logged.seen == [torch.ops.tile.softmax]
    assert type(torch.ops.tile.rms_norm(X, [4], W.as_subclass(Logged))) is Logged
    with torch._C.DisableTorchFunctionSubclass():
        assert type(torch.ops.tile.softmax(x, 1)) is torch.Tensor

    class Mode(TorchFunctionMode):
        seen = []

        def __torch_function__(self, function, types, args=(), kwargs=None):
            self.seen.append(function)
            return function(*args, **(kwargs or {}))

    with Mode() as mode:
        torch.ops.tile.softmax(X, 1)
        torch.ops.tile.softmax.default(X, 1)
    assert mode.seen == [torch.ops.tile.softmax, torch.ops.tile.softmax.default]


def test_traces():
    def function(x):
        return torch.ops.tile.softmax(x, 1)

    traced = torch.jit.trace(function, X)
    assert "tile::softmax" in str(traced.graph)
    scripted = torch.jit.script(function)
    assert "tile::softmax" in str(scripted.graph)
    symbolic = torch.fx.symbolic_trace(function)
    assert [node.target for node in symbolic.graph.nodes if node.op == "call_function"] == [torch.ops.tile.softmax]
    for made in (traced, scripted, symbolic):
        torch.testing.assert_close(made(X), torch.softmax(X, 1))


def test_gradients_and_no_results(ops):
    x = X.clone().requires_grad_()
    out = torch.ops.tile.softmax(x, 1)
    assert out.grad_fn is not None and out.requires_grad
    with torch.no_grad():
        assert not torch.ops.tile.softmax(x, 1).requires_grad
    with torch.inference_mode():
        assert torch.ops.tile.softmax(x, 1).is_inference()
    assert ops.scale_(X.clone(), 2.0) is None
    y, m = ops.rope(X, W[:2], W[:2])
    assert y.shape == (3, 4) and m.shape == (3,)


def test_redefinition(library):
    assert library.redefine("tr::called(Tensor x, int k) -> Tensor", 1.0) is None
    called = torch.ops.tr.called
    tile_ops._operator_calls.shorten_calls()
    x = torch.zeros(2)
    assert called(x, 3).tolist() == [1, 1]
    assert type(called._op) is _C.OperatorCall
    with pytest.raises(RuntimeError, match="is missing value for argument 'k'"):
        called(x)
    # The same packet, with another schema.
    assert library.redefine("tr::called(Tensor x, int k=4) -> Tensor", 2.0) is None
    assert called(x).tolist() == called(x, 3).tolist() == called(x, k=5).tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="at most 2 argument"):
        called(x, 3, 4)


def test_threads():
    x = torch.randn(64, 64)
    expected, wrong = torch.softmax(x, 1), []

    def run():
        for _ in range(200):
            if not torch.allclose(torch.ops.tile.softmax(x, 1), expected, atol=1e-6):
                wrong.append(1)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def mapping_of(address):
    """The lines of /proc/self/smaps about the memory that the address lies in."""
    lines, found = pathlib.Path("/proc/self/smaps").read_text().splitlines(), []
    for line in lines:
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            begin, end = (int(part, 16) for part in line.split()[0].split("-"))
            inside = begin <= address < end
        if inside:
            found.append(line)
    return found


def test_large_results_ask_for_huge_pages():
    x = torch.randn(8 << 20 if SYSTEM_HAS_HUGE_PAGES else 1, device="cpu")[None]
    y = torch.ops.tile.softmax(x, 1)
    flags = [line for line in mapping_of(y.data_ptr() + y.nbytes // 2) if line.startswith("VmFlags:")]
    assert not SYSTEM_HAS_HUGE_PAGES or "hg" in flags[0].split()
    torch.testing.assert_close(y, torch.softmax(x, 1))
