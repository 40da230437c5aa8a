"""Tests that kernels, tuned kernels and operators copy to the same object and pickle by name; pickling a local one raises."""

import copy
import io
import multiprocessing
import pickle
import sys

import pytest
import tile_ops
import tile_ops.cutile as ct
import tile_ops.language as tl
import torch


@tl.kernel
def scaled(x, out, N: tl.Constant[int]):
    tl.store(out, 0, tl.load(x, 0, N) * 2)


@tl.kernel
def tuned(x, out, N: tl.Constant[int]):
    tl.store(out, 0, tl.load(x, 0, N) * 2)


tuned = tuned.tune([{"N": 4}])
other_name = scaled.tune([{"N": 4}])
hinted = scaled.replace_hints(occupancy=2)


@ct.kernel
def of_cutile(x, out, N: ct.Constant[int]):
    ct.store(out, (0,), ct.load(x, (0,), (N,)) * 2)


class Holder:
    @tl.kernel
    def inside(x, out, N: tl.Constant[int]):
        tl.store(out, 0, tl.load(x, 0, N) * 2)


@tl.function
def helper(t):
    return t * 2


@tile_ops.elementwise("pickling::twice(Tensor x) -> Tensor")
def twice(x):
    return x * 2


@tile_ops.reduction("pickling::total(Tensor x) -> Tensor")
class total:
    combine = "sum"

    def map(x):
        return x


@tile_ops.op("pickling::launched(Tensor x) -> Tensor", outputs="x")
def launched(x, out):
    scaled[1](x, out, 4)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.kernel, self.tuned, self.activation, self.total, self.op = scaled, tuned, twice, total, launched

    def forward(self, x):
        x, out = self.layer(x), torch.zeros(4)
        self.kernel[1](x, out, 4)
        self.tuned[1](x, out)
        return self.activation(out) + self.total(x) + self.op(x)


THEMSELVES = {
    "a kernel": scaled, "a tuned kernel": tuned, "one of another name": other_name, "other hints": hinted,
    "of cutile": of_cutile, "of a class": Holder.__dict__["inside"], "a function": helper, "elementwise": twice,
    "a reduction": total, "an operator": launched, "of the language": tl.exp, "its other name": tl.abs,
    "a special form": tl.static_eval, "a method": tl.reshape, "a dtype": tl.float32,
}  # fmt: skip


@pytest.mark.parametrize("name", THEMSELVES)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_copies_of_named_objects_are_the_objects(name, protocol):
    value = THEMSELVES[name]
    assert copy.copy(value) is value and copy.deepcopy([value])[0] is value
    assert pickle.loads(pickle.dumps(value, protocol)) is value


def test_what_is_made_of_one_with_a_name():
    for made in (pickle.loads(pickle.dumps(scaled.replace_hints(occupancy=4))), copy.deepcopy(hinted)):
        x, out = torch.ones(4), torch.zeros(4)
        made[1](x, out, 4)
        assert out.tolist() == [2] * 4 and isinstance(made, tl.kernel)
    assert pickle.loads(pickle.dumps(scaled.replace_hints(occupancy=4)))._hints["occupancy"] == 4
    again = pickle.loads(pickle.dumps(scaled.tune([{"N": 4}, {"N": 4, "occupancy": 2}], "x")))
    assert again.configs == [{"N": 4}, {"N": 4, "occupancy": 2}] and again.kernel is scaled


@pytest.mark.parametrize("copied", ["deepcopy", "pickle", "torch.save"])
def test_modules_that_hold_them(copied):
    model, x = Model(), torch.randn(4)
    if copied == "torch.save":
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        other = torch.load(file, weights_only=False)
    else:
        other = copy.deepcopy(model) if copied == "deepcopy" else pickle.loads(pickle.dumps(model))
    assert other.kernel is scaled and other.tuned is tuned and other.activation is twice
    torch.testing.assert_close(other(x), model(x), rtol=0, atol=0)


def local_things():
    @tl.kernel
    def kernel(x):
        pass

    @tl.kernel
    def with_constant(x, N: tl.Constant[int]):
        pass

    @tile_ops.elementwise("pickling::local(Tensor x) -> Tensor")
    def local(x):
        return x

    @tl.function
    def function(t):
        return t

    return kernel, with_constant.tune([{"N": 1}]), local, function


LOCAL = [
    "<kernel kernel> cannot be pickled: it is local to local_things()",
    "<kernel with_constant> cannot be pickled: it is local to local_things()",
    "<tile_ops.op pickling::local(Tensor x) -> Tensor> cannot be pickled: it is local to local_things()",
    "<function local_things.<locals>.function> cannot be pickled: it is local to local_things()",
]


@pytest.mark.parametrize("index", range(len(LOCAL)))
def test_local_ones(index):
    value = local_things()[index]
    assert copy.deepcopy(value) is value
    with pytest.raises(pickle.PicklingError) as raised:
        pickle.dumps(value)
    assert str(raised.value) == f"{LOCAL[index]}; define it at the top level of a module, so that its name finds it"


def test_a_kernel_whose_name_leads_to_another_object():
    kernel = tl.kernel(scaled._pyfunc)
    with pytest.raises(pickle.PicklingError) as raised:
        pickle.dumps(kernel)
    assert str(raised.value) == (
        f"<kernel scaled> cannot be pickled: no name in the module {__name__} leads to it; define it at the top level of a "
        "module, so that its name finds it"
    )


def test_errors_of_kernels():
    with pytest.raises(tl.TileError) as raised:
        scaled[1](torch.zeros(1, 1), torch.zeros(1), 4)
    other = pickle.loads(pickle.dumps(raised.value))
    assert type(other) is type(raised.value) and str(other) == str(raised.value)


def in_another_process(kernel, operator, queue):
    x, out = torch.ones(4, device="cpu"), torch.zeros(4, device="cpu")
    kernel[1](x, out, 4)
    queue.put((out.tolist(), operator(x).tolist(), kernel is sys.modules[__name__].scaled))


def test_a_spawned_process():
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=in_another_process, args=(scaled, twice, queue))
    process.start()
    assert queue.get(timeout=120) == ([2] * 4, [2] * 4, True)
    process.join()
    assert process.exitcode == 0
