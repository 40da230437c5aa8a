"""The loss of a patched model of transformers is computed without logits, which are there for whoever reads them."""

import copy
import inspect
import pickle

import pytest
import tile_ops
import torch
import torch.nn.functional as F
from patch_calls import error, patch
from patch_models import DECODERS, gpt2, llama, transformers
from tile_ops import _products
from tile_ops._patching.logits import Logits
from torch.utils._python_dispatch import TorchDispatchMode

pytestmark = pytest.mark.usefixtures("no_tf32")
each_decoder = pytest.mark.parametrize("make", DECODERS, ids=lambda make: make.__name__)


def inputs(batch=2, length=12, ignored=3):
    ids = torch.randint(3, 97, (batch, length))
    labels = ids.clone()
    labels[:, :ignored] = -100
    return {"input_ids": ids, "labels": labels}


def both(make=llama, **options):
    """Returns a model and an equal one that is patched."""
    model = make().train()
    patched = copy.deepcopy(model)
    patch(patched, **options)
    return model, patched


def gradients(model):
    return [each.grad for each in model.parameters() if each.grad is not None]


def agree(ours, theirs, allowed=1e-4):
    """Compares lists of gradients; the largest one is the measure for those that are rounding noise."""
    top = max(each.abs().max() for each in theirs)
    assert len(ours) == len(theirs) and max(error(a, b, top) for a, b in zip(ours, theirs)) < allowed


class Operators(TorchDispatchMode):
    """Notes the operators that are called."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.add(function.name())
        return function(*args, **(kwargs or {}))


@each_decoder
def test_a_loss_and_its_gradients_agree_with_float64(make):
    model, patched = both(make)
    given, wide = inputs(), copy.deepcopy(model).double()
    found, theirs, exact = patched(**given), model(**given), wide(**given)
    for each in (found, theirs, exact):
        each.loss.backward()
    assert type(found.logits) is Logits and found.logits.made is None
    assert found.loss.dtype == torch.float32
    ours, others, reference = ([each.double() for each in gradients(of)] for of in (patched, model, wide))
    scales = [each.abs().max() for each in reference]
    worst = [max((a - b).abs().max() / scale for a, b, scale in zip(of, reference, scales)) for of in (ours, others)]
    assert worst[0] < 2e-5 and worst[0] < 4 * worst[1] + 1e-6
    assert abs(found.loss.item() - exact.loss.item()) < 1e-5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_dtypes_of_models(dtype):
    model, patched = both()
    given, wide = inputs(), copy.deepcopy(model).double()
    found, theirs, exact = patched.to(dtype)(**given), model.to(dtype)(**given), wide(**given)
    assert found.loss.dtype == theirs.loss.dtype and found.logits.dtype == theirs.logits.dtype == dtype
    assert abs(found.loss - exact.loss) < 2 * abs(theirs.loss - exact.loss) + 0.02
    found.loss.backward()
    assert all(each.isfinite().all() for each in gradients(patched))


def test_no_logits_are_computed():
    _, patched = both()
    given = inputs()
    with Operators() as called:
        patched(**given).loss.backward()
    assert "tile::_linear_cross_entropy_saving" in {each.split(".")[0] for each in called.names}
    assert not any("cross_entropy_saving" in each and "linear" not in each for each in called.names)
    assert not any("log_softmax" in each for each in called.names)


@pytest.mark.parametrize(
    "options",
    [{"num_items_in_batch": 7}, {"num_items_in_batch": torch.tensor(5)}, {"ignore_index": 5}, {"logits_to_keep": 12}],
    ids=str,
)
def test_options_of_the_loss(options):
    model, patched = both()
    given = inputs(ignored=0)
    given["labels"][0, 3:5] = options.get("ignore_index", -100)
    found, theirs = patched(**given, **options), model(**given, **options)
    assert found.logits.made is None
    torch.testing.assert_close(found.loss, theirs.loss)


def test_targets_that_are_shifted_by_the_caller():
    model, patched = both()
    given = inputs()
    given["shift_labels"] = given["labels"].roll(-1, 1)
    torch.testing.assert_close(patched(**given).loss, model(**given).loss)


def test_autocast():
    model, patched = both()
    given = inputs()
    with torch.autocast("cpu", torch.bfloat16):
        found, theirs = patched(**given), model(**given)
        assert found.logits.made is None and found.logits.dtype == theirs.logits.dtype == torch.bfloat16
    torch.testing.assert_close(found.loss, theirs.loss, rtol=1e-2, atol=1e-2)
    found.loss.backward()
    theirs.loss.backward()
    assert all(a.dtype == b.dtype for a, b in zip(gradients(patched), gradients(model)))
    torch.testing.assert_close(found.logits.float(), theirs.logits.float(), rtol=3e-2, atol=3e-2)


READERS = {
    "values": lambda x: x + 0,
    "a sum": lambda x: x.sum(),
    "the last": lambda x: x[:, -1],
    "the largest": lambda x: x.argmax(-1),
    "a cast": lambda x: x.double(),
    "rows cut": lambda x: x[..., :-1, :].contiguous() * 2,
    "classes cut": lambda x: x[..., :5],
    "a list": lambda x: torch.tensor(x.tolist()),
    "an array": lambda x: torch.from_numpy(x.detach().numpy()),
    "pickled": lambda x: pickle.loads(pickle.dumps(x.detach())),
    "a copy": lambda x: copy.deepcopy(x.detach()),
    "a stack": lambda x: torch.stack([x, x]),
    "written": lambda x: x.clone().masked_fill_(x > 0, -1.0),
}


@pytest.mark.parametrize("name", READERS)
def test_logits_are_there_for_a_reader(name):
    model, patched = both()
    given = inputs()
    found, theirs = patched(**given).logits, model(**given).logits
    assert (found.shape, found.dtype, found.device, found.stride()) == (
        theirs.shape,
        theirs.dtype,
        theirs.device,
        theirs.stride(),
    )
    assert found.requires_grad and not found.is_leaf and found.made is None
    torch.testing.assert_close(READERS[name](found), READERS[name](theirs), rtol=1e-4, atol=1e-5)
    assert repr(found)[:20] == repr(theirs.detach())[:20]


@each_decoder
def test_gradients_through_logits_that_are_read(make):
    """Logits have a gradient, as a term of the loss needs that somebody adds."""
    model, patched = both(make)
    given = inputs()
    for each in (model, patched):
        out = each(**given)
        (out.loss + out.logits.float().logsumexp(-1).square().mean() + out.logits[:, 2].sum() * 1e-2).backward()
    agree(gradients(patched), gradients(model))


def test_a_bias_of_the_layer():
    model = llama().train()
    model.lm_head.bias = torch.nn.Parameter(torch.randn(97))
    patched = copy.deepcopy(model)
    patch(patched)
    given = inputs()
    for each in (model, patched):
        out = each(**given)
        (out.loss + out.logits.square().mean()).backward()
    agree(gradients(patched), gradients(model))


def test_logits_that_are_written_before_the_loss():
    """The loss of logits that were written to is that of what was written."""

    def change(model):
        function = type(model).loss_function.fget(model)

        def loss(logits, labels, **options):
            logits[..., :3] = -5.0
            return function(logits, labels, **options)

        return loss

    model, patched = both()
    given, found = inputs(), []
    for each in (model, patched):
        out = each(**given)
        logits = out.logits
        later = logits.float()
        logits[..., :3] = -5.0
        # A copy that was made before has the numbers from before.
        found.append([logits, later, change(each)(logits, given["labels"], vocab_size=97)])
        found[-1][2].backward()
    for ours, theirs in zip(*reversed(found)):
        torch.testing.assert_close(ours + 0, theirs, rtol=1e-4, atol=1e-5)
    agree(gradients(patched), gradients(model))


def test_logits_after_a_step_of_the_optimizer():
    _, patched = both()
    optimizer = torch.optim.SGD(patched.parameters(), lr=0.1)
    out = patched(**inputs())
    out.loss.backward()
    optimizer.step()
    with pytest.raises(RuntimeError) as error:
        out.logits.sum()
    assert str(error.value).splitlines()[0] == (
        "tile_ops.patch: these logits were not computed with the loss, and the layer's weight has changed since; read "
        "logits before optimizer.step(), or patch(model, leave='cross_entropy')"
    )
    out = patched(**inputs())
    before = out.logits.detach()
    out.loss.backward()
    optimizer.step()
    assert torch.equal(out.logits.detach(), before)


def plain(patched, given, **more):
    return type(patched(**given, **more).logits) is torch.Tensor


def test_where_logits_are_computed_at_once(monkeypatch):
    _, patched = both()
    given = inputs()
    assert not plain(patched, given)
    with torch.no_grad():
        assert plain(patched, given)
    assert plain(patched, {"input_ids": given["input_ids"]})
    handle = patched.lm_head.register_forward_hook(lambda *_: None)
    assert plain(patched, given)
    handle.remove()
    assert not plain(patched, given)
    handle = torch.nn.modules.module.register_module_forward_hook(lambda *_: None)
    assert plain(patched, given)
    handle.remove()
    patched.lm_head = torch.nn.Sequential(patched.lm_head)  # as an adapter does
    assert plain(patched, given)
    for leave in ("cross_entropy", "linear"):
        assert plain(both(leave=leave)[1], given)
    measured = both()[0]
    tile_ops.patch(measured)  # on a CPU and of these sizes ours is not faster
    assert plain(measured, given)
    monkeypatch.setattr(_products, "loss_is_ours", lambda *_: True)
    assert not plain(measured, given)


def test_for_which_sizes_the_loss_is_ours(monkeypatch):
    cuda, cpu = torch.device("cuda"), torch.device("cpu")
    monkeypatch.setattr(_products, "_is_measured", lambda device: True)
    ask = _products.loss_is_ours
    assert ask("measured", cuda, torch.bfloat16, 1024, 1024, 4096) and ask("measured", cuda, torch.float16, 8192, 1024, 151936)
    assert not ask("measured", cuda, torch.bfloat16, 1023, 1024, 4096) and not ask(
        "measured", cuda, torch.bfloat16, 1024, 1024, 4095
    )
    assert not ask("measured", cuda, torch.float32, 8192, 1024, 32000) and not ask(
        "measured", cpu, torch.bfloat16, 8192, 1024, 32000
    )
    assert not ask("measured", cuda, torch.bfloat16, 8192, 1023, 32000)
    assert ask("tile", cpu, torch.float32, 1, 1, 2) and not ask("torch", cuda, torch.bfloat16, 8192, 1024, 32000)
    monkeypatch.setattr(_products, "_is_measured", lambda device: False)
    assert not ask("measured", cuda, torch.bfloat16, 8192, 1024, 32000)


def test_functions_of_torch_func():
    model, patched = both()
    given = inputs()

    def loss(of, parameters):
        return torch.func.functional_call(of, parameters, (), given).loss

    ours, theirs = (
        torch.func.grad(lambda parameters, of=of: loss(of, parameters))({k: v.detach() for k, v in of.named_parameters()})
        for of in (patched, model)
    )
    agree(list(ours.values()), list(theirs.values()))


def test_a_second_derivative():
    model, patched = both()
    given, found = inputs(), []
    for each in (model, patched):
        weight = each.lm_head.weight
        (first,) = torch.autograd.grad(each(**given).loss, weight, create_graph=True)
        found.append(torch.autograd.grad(first.square().sum(), [weight, each.model.norm.weight]))
    agree(found[1], found[0], 1e-3)


def test_what_others_ask_of_a_patched_model():
    model, patched = both()
    assert inspect.signature(patched.forward) == inspect.signature(model.forward)  # Trainer chooses columns by it
    again = pickle.loads(pickle.dumps(patched))
    given = inputs()
    torch.testing.assert_close(again(**given).loss, patched(**given).loss)
    assert type(copy.deepcopy(patched)(**given).logits) is Logits
    tile_ops.unpatch(patched)
    assert type(patched) is transformers.LlamaForCausalLM and plain(patched, given)


def test_an_untied_and_a_tied_layer():
    for make in (llama, gpt2):
        model, patched = both(make)
        given = inputs()
        model(**given).loss.backward()
        patched(**given).loss.backward()
        agree(gradients(patched), gradients(model))


def test_the_loss_of_a_users_own_function():
    """cross_entropy of logits outside of the model computes them."""
    model, patched = both()
    given = inputs()
    for each in (model, patched):
        logits = each(**given).logits
        F.cross_entropy(logits.view(-1, 97), given["labels"].view(-1)).backward()
    agree(gradients(patched), gradients(model))
