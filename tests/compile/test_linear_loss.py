"""Linear layers and their cross entropy in compiled graphs: one operator, with its gradient, or the reason why not."""

import pathlib
import sys

import compiled_calls
import pytest
import tile_ops
import torch
import torch.nn.functional as F
from combinations import by_turns, long
from numerics import check_call
from tile_ops._compile import choice
from tile_ops._compile.active import Compile
from torch._inductor.utils import run_and_get_code

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))

import compiled_cases  # noqa: E402
import model_families  # noqa: E402

OURS = ("tile.linear_cross_entropy.default(", "tile._linear_cross_entropy_saving.default(")
OPTIONS = {"losses": "tile"}
WAYS = {"inference": False, "training": True}


@pytest.fixture(autouse=True)
def no_caches():
    with torch._inductor.config.patch(force_disable_caches=True):  # code that is found in a cache is not shown
        tile_ops.compile_report(reset=True)
        yield


def compiled(function, options=None, **arguments):
    return compiled_calls.compiled(function, options=options or OPTIONS, **arguments)


def losses_in(function, args):
    """Returns how often the code of a function, and of its gradient, calls our loss."""

    def run():
        result = function(*args)
        if isinstance(result, torch.Tensor) and result.requires_grad:
            result.sum().backward()

    _, codes = run_and_get_code(run)
    for each in args:
        if isinstance(each, torch.Tensor):
            each.grad = None
    return sum(code.count(name) for code in codes for name in OURS)


def agrees(function, args, count=1, **options):
    fast = compiled(function, **options)
    assert losses_in(fast, args) == count
    check_call(fast, function, args)


def why_not():
    """Returns the reasons of the reported graphs."""
    return {why for graph in tile_ops.compile_report(reset=True).graphs for why in graph.steps.values()}


def stays(function, args, why, count=0):
    agrees(function, args, count)
    assert why_not() == ({why} if why else set())


def tensors(lead=(2, 9), depth=16, classes=50, dtype=torch.float32, trains=True, ignored=3):
    hidden = torch.randn(*lead, depth, dtype=dtype).requires_grad_(trains)
    weight = (torch.randn(classes, depth, dtype=dtype) * 0.3).requires_grad_(trains)
    target = torch.randint(0, classes, lead)
    target.view(-1)[:ignored] = -100
    return hidden, weight, target


def wide(logits):
    """Casts logits as models do; references in float64 stay exact."""
    return logits if logits.dtype == torch.float64 else logits.float()


def flat(hidden, weight, target):
    return F.cross_entropy(F.linear(hidden, weight).flatten(0, 1), target.flatten())


def shifted_by_hand(hidden, weight, target):
    logits = wide(F.linear(hidden, weight))
    logits = logits[..., :-1, :].contiguous()
    return F.cross_entropy(logits.view(-1, logits.size(-1)), target[..., 1:].contiguous().view(-1))


def shifted_as_transformers(hidden, weight, target):
    logits = wide(F.linear(hidden, weight))
    target = F.pad(target, (0, 1), value=-100)[..., 1:].contiguous()
    return F.cross_entropy(logits.view(-1, 50), target.view(-1), ignore_index=-100, reduction="sum") / 7


FORMS = {
    "flat": flat,
    "shifted by hand": shifted_by_hand,
    "shifted as transformers": shifted_as_transformers,
    "a product": lambda h, w, t: F.cross_entropy((h @ w.t()).reshape(-1, 50), t.reshape(-1)),
    "a called product": lambda h, w, t: F.cross_entropy(torch.matmul(h, w.mT).view(-1, 50), t.view(-1)),
    "rows cut": lambda h, w, t: F.cross_entropy(F.linear(h, w)[:, 2:7:2].flatten(0, 1), t[:, 2:7:2].flatten()),
    "a row chosen": lambda h, w, t: F.cross_entropy(F.linear(h, w)[:, 3], t[:, 3]),
    "a row chosen with its classes": lambda h, w, t: F.cross_entropy(F.linear(h, w)[:, 3, :], t[:, 3]),
    "one row": lambda h, w, t: F.cross_entropy(F.linear(h, w)[1, 8], t[1, 8]),
    "the last row": lambda h, w, t: F.cross_entropy(F.linear(h, w)[1][-1], t[1, -1]),
    "transposed": lambda h, w, t: F.cross_entropy(F.linear(h, w).transpose(1, 2), t),
    "transposed from the end": lambda h, w, t: F.cross_entropy(wide(F.linear(h, w)).transpose(-1, -2).contiguous(), t),
    "permuted": lambda h, w, t: F.cross_entropy(F.linear(h, w)[:, 1:].permute(0, 2, 1), t[:, 1:]),
    "moved": lambda h, w, t: F.cross_entropy(F.linear(h, w).movedim(2, 1), t, reduction="none"),
    "the same view": lambda h, w, t: F.cross_entropy(F.linear(h, w).view(2, 9, 50).view(18, 50).view(-1, 50), t.view(-1)),
    "a module": lambda h, w, t: torch.nn.CrossEntropyLoss()(F.linear(h, w).view(-1, 50), t.view(-1)),
    "rows without names": lambda h, w, t: F.cross_entropy(F.linear(h.view(18, 16), w), t.view(18)),
}


DTYPES = [torch.float32, torch.bfloat16, torch.float64, torch.float16]


@pytest.mark.parametrize("name, dtype, trains", by_turns(FORMS.keys(), DTYPES, WAYS, kept=2))
def test_views_casts_and_slices_may_stand_between(name, dtype, trains):
    agrees(FORMS[name], tensors(dtype=dtype, trains=trains))


@pytest.mark.parametrize(
    "reduction, smoothing, bias",
    by_turns(["none", "mean", "sum"], {"sharp": 0.0, "smooth": 0.2}, {"no bias": False, "bias": True}, kept=2),
)
def test_options_of_the_loss(reduction, smoothing, bias):
    def function(hidden, weight, target, bias):
        logits = wide(F.linear(hidden, weight, bias)).view(-1, 50)
        return F.cross_entropy(logits, target.view(-1), ignore_index=7, reduction=reduction, label_smoothing=smoothing)

    hidden, weight, target = tensors(ignored=0)
    target[0, :4] = 7
    agrees(function, (hidden, weight, target, torch.randn(50, requires_grad=True) if bias else None))


@pytest.mark.parametrize("lead, reduction", by_turns([(0, 9), (2, 0), (1, 1), (3, 1), (1, 70)], ["none", "sum"]))
def test_any_number_of_rows(lead, reduction):
    def function(hidden, weight, target):
        return F.cross_entropy(F.linear(hidden, weight).flatten(0, 1), target.flatten(), reduction=reduction)

    agrees(function, tensors(lead, ignored=0))


def test_a_mean_of_no_row_is_no_number():
    hidden, weight, target = tensors(ignored=18)
    assert compiled(flat)(hidden, weight, target).isnan()


@pytest.mark.parametrize("shape", [(1, 1), (1, 16), (50, 1), (3, 5)], ids=str)
def test_any_number_of_classes(shape):
    def function(hidden, weight, target):
        return F.cross_entropy(F.linear(hidden, weight).flatten(0, 1), target.flatten())

    agrees(function, tensors((4, 5), shape[1], shape[0], ignored=1))


@pytest.mark.parametrize("which", [0, 1, 2], ids=["input", "weight", "bias"])
def test_only_one_operand_may_be_trained(which):
    hidden, weight, target = tensors(trains=False)
    operands = [hidden, weight, torch.randn(50)]
    operands[which].requires_grad_()

    def function(hidden, weight, bias, target):
        return F.cross_entropy(F.linear(hidden, weight, bias).flatten(0, 1), target.flatten()) * 3

    agrees(function, (*operands, target))


def test_a_weight_may_also_be_the_embedding():
    def function(tokens, weight, target):
        hidden = F.embedding(tokens, weight).sin()
        return F.cross_entropy(F.linear(hidden, weight).flatten(0, 1), target.flatten())

    _, weight, target = tensors()
    agrees(function, (torch.randint(0, 50, (2, 9)), weight, target))


def test_two_heads_have_two_losses():
    def function(hidden, weight, other, target):
        first, second = F.linear(hidden, weight), F.linear(hidden, other)
        return sum(F.cross_entropy(each.flatten(0, 1), target.flatten()) for each in (first, second))

    hidden, weight, target = tensors()
    agrees(function, (hidden, weight, torch.randn(50, 16, requires_grad=True), target), 2)


@pytest.mark.parametrize("dynamic", [None, True])
def test_one_compile_serves_many_lengths(dynamic):
    torch._dynamo.reset()
    fast = torch.compile(shifted_by_hand, backend="tile", dynamic=dynamic, fullgraph=True, options=OPTIONS)
    for length in (9, 12, 31):
        check_call(fast, shifted_by_hand, tensors((2, length), depth=80))
    graphs = tile_ops.compile_report().graphs
    assert [each.kind for each in graphs].count("forward") == (1 if dynamic else 2)
    assert all("tile._linear_cross_entropy_saving.default" in each.called for each in graphs if each.kind == "forward")


# Graphs that stay as they are.


def left(name, function, why):
    return pytest.param(function, why, id=name)


def with_logits(function):
    def call(hidden, weight, target):
        return function(F.linear(hidden, weight), target)

    return call


LEFT = [
    left(
        "logits are returned",
        with_logits(lambda x, t: (F.cross_entropy(x.flatten(0, 1), t.flatten()), x)),
        "others read the logits",
    ),
    left(
        "a sum is added",
        with_logits(lambda x, t: F.cross_entropy(x.flatten(0, 1), t.flatten()) + x.logsumexp(-1).square().mean()),
        "others read the logits",
    ),
    left(
        "classes have weights",
        with_logits(lambda x, t: F.cross_entropy(x.flatten(0, 1), t.flatten(), weight=t.new_ones(50, dtype=x.dtype))),
        "classes have weights",
    ),
    left(
        "probabilities",
        with_logits(lambda x, t: F.cross_entropy(x.flatten(0, 1), t.new_full((18, 50), 0.02, dtype=x.dtype))),
        "the targets are no int64 tensor",
    ),
    left(
        "float64 between",
        with_logits(lambda x, t: F.cross_entropy(x.double().flatten(0, 1), t.flatten())),
        "logits become float64",
    ),
    left("a step between", with_logits(lambda x, t: F.cross_entropy(x.tanh().flatten(0, 1), t.flatten())), None),
    left("a factor between", with_logits(lambda x, t: F.cross_entropy((x / 3).flatten(0, 1), t.flatten())), None),
    left("classes are cut", with_logits(lambda x, t: F.cross_entropy(x[0, :, :10], t[0] % 10)), "classes are chosen"),
    left(
        "classes are cut behind an ellipsis",
        with_logits(lambda x, t: F.cross_entropy(x[..., 1:11].flatten(0, 1), t.flatten() % 10)),
        "classes are chosen",
    ),
    left(
        "rows are chosen by a tensor",
        with_logits(lambda x, t: F.cross_entropy(x[torch.tensor([1, 0], device=x.device)].flatten(0, 1), t.flatten())),
        "logits are chosen by a tensor",
    ),
    left("a new axis", with_logits(lambda x, t: F.cross_entropy(x[0, :, None].squeeze(1), t[0])), None),
    left(
        "rows become classes",
        with_logits(lambda x, t: F.cross_entropy(x.view(-1, 25), t.flatten().repeat(2) % 25)),
        "a view mixes rows and classes",
    ),
    left(
        "classes are the second axis by chance",
        with_logits(lambda x, t: F.cross_entropy(x, t.new_zeros(2, 50))),
        "the classes are the second axis",
    ),
    left(
        "rows and batches change places",
        with_logits(lambda x, t: F.cross_entropy(x.transpose(0, 1), t.new_zeros(9, 50) % 2)),
        "a view mixes rows and classes",
    ),
    left(
        "a view behind a transposition",
        with_logits(lambda x, t: F.cross_entropy(x.transpose(1, 2).reshape(-1, 9), t.new_ones(100))),
        "a view mixes rows and classes",
    ),
]


@pytest.mark.filterwarnings("ignore:size_average and reduce")
@pytest.mark.parametrize("function, why", LEFT)
def test_a_graph_stays_as_it_is(function, why):
    stays(function, tensors(ignored=0), why)


def test_bytes_that_are_read_in_another_dtype_stay():
    def function(hidden, weight, target):
        logits = F.linear(hidden, weight).view(torch.int32).view(torch.float32)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten())

    args = tensors(trains=False)
    torch.testing.assert_close(compiled(function)(*args), function(*args))
    assert why_not() == {"a view changes the dtype"}


def test_logits_without_a_linear_layer_are_not_mentioned():
    def function(logits, target):
        return F.cross_entropy(logits, target, weight=logits.new_ones(7))

    stays(function, (torch.randn(5, 7, requires_grad=True), torch.randint(0, 7, (5,))), None)


def test_a_layer_of_another_library_is_not_torchs():
    def function(hidden, weight, target):
        return F.cross_entropy(torch.ops.tile.matmul(hidden, weight.t()).flatten(0, 1), target.flatten())

    stays(function, tensors(), None)


@pytest.mark.parametrize("write", ["hidden", "view", "weight", "unknown"])
def test_operands_that_are_written_before_the_loss_stay(write):
    def function(hidden, weight, target):
        hidden, weight = hidden * 1, weight * 1
        logits = F.linear(hidden, weight)
        if write == "hidden":
            hidden.mul_(2)
        elif write == "view":
            hidden[0] = 1
        elif write == "weight":
            torch._foreach_mul_([weight], 3)
        else:
            F.relu(hidden, True)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten()), hidden.sum() + weight.sum()

    stays(function, tensors(trains=False), "something may write to the operands")


def test_targets_may_be_written_before_the_loss():
    def function(hidden, weight, target):
        logits, target = F.linear(hidden, weight), target.clone()
        target[:, 0] = -100
        return F.cross_entropy(logits.flatten(0, 1), target.flatten())

    agrees(function, tensors())


@pytest.mark.parametrize("outside", [False, True], ids=["in the graph", "around the graph"])
def test_autocast_lowers_the_operands(outside, device):
    def loss(hidden, weight, target):
        return F.cross_entropy(F.linear(hidden, weight).flatten(0, 1), target.flatten())

    def function(hidden, weight, target):
        if outside:
            return loss(hidden, weight, target)
        with torch.autocast(device.type, torch.bfloat16):
            return loss(hidden, weight, target)

    args = tensors()
    with torch.autocast(device.type, torch.bfloat16, enabled=outside):
        agrees(function, args)


def test_autocast_that_ends_between_stays(device):
    def function(hidden, weight, target):
        with torch.autocast(device.type, torch.bfloat16):
            logits = F.linear(hidden, weight)
        return F.cross_entropy(logits.float().flatten(0, 1), target.flatten())

    stays(function, tensors(), "the context changes between")


def test_a_layer_without_gradients_stays():
    def function(hidden, weight, target):
        with torch.no_grad():
            logits = F.linear(hidden, weight)
        return F.cross_entropy(logits.flatten(0, 1), target.flatten()) + hidden.sum() + weight.sum()

    stays(function, tensors(), "the context changes between")


def test_a_checkpoint_computes_the_forward_twice():
    def function(hidden, weight, target):
        return torch.utils.checkpoint.checkpoint(flat, hidden.sin(), weight, target, use_reentrant=False)

    agrees(function, tensors(), 2)


@pytest.mark.parametrize("way", ["grad", "vmap"])
def test_a_function_that_is_transformed_stays(way):
    def function(hidden, weight, target):
        if way == "grad":
            return torch.func.grad(flat)(hidden, weight, target)
        return torch.vmap(lambda h, t: F.cross_entropy(F.linear(h, weight), t))(hidden, target)

    args = tensors(trains=False)
    stays(function, args, None)


def test_an_exported_program_has_the_loss():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.head = torch.nn.Linear(16, 50)

        def forward(self, hidden, target):
            logits = self.head(hidden)[:, :-1].float()
            return F.cross_entropy(logits.reshape(-1, 50), target[:, 1:].reshape(-1))

    hidden, _, target = tensors(trains=False)
    model = Model()
    program = torch.export.export(model, (hidden, target)).module()
    with torch.no_grad():
        fast = compiled(program)
        assert losses_in(fast, (hidden, target)) == 1
        torch.testing.assert_close(fast(hidden, target), model(hidden, target))


def test_an_error_of_the_search_leaves_the_loss(monkeypatch):
    from tile_ops._compile import linear_loss

    def fail(*_):
        raise RuntimeError("a mistake")

    monkeypatch.setattr(linear_loss, "_ours", fail)
    args = tensors()
    with pytest.warns(UserWarning, match=r"RuntimeError: a mistake.*Torch computes its cross entropy"):
        result = compiled(flat, {**OPTIONS, "fallback": "eager"})(*args)
    torch.testing.assert_close(result, flat(*args))
    with pytest.raises(Exception, match="a mistake"):
        compiled(flat)(*args)


def test_options_decide():
    args = tensors()
    assert losses_in(compiled(flat, {"losses": "torch"}), args) == 0
    assert why_not() == {"options ask for it"}
    assert losses_in(compiled(flat, {"losses": "tile"}), args) == 1
    assert why_not() == set()


@pytest.mark.parametrize("name", ["Llama", long("Qwen3"), long("GPT-2"), "BERT", long("ViT-L")])
def test_a_model_computes_its_own_loss(name, device):
    pytest.importorskip("transformers")
    made = model_families.make(name, device.type, scale="tiny")
    exact = made.exact()

    def step(made, run):
        made.module.zero_grad()
        loss = run(made.module)
        loss.backward()
        return [loss.detach(), *(each.grad for each in made.module.parameters() if each.grad is not None)]

    fast = compiled(made.own_loss)
    results, codes = run_and_get_code(lambda: step(made, fast))
    assert sum(code.count(each) for code in codes for each in OURS) == 1
    assert compiled_cases.difference(results, step(exact, exact.own_loss)) < 2e-5


def call(device="cuda", dtype=torch.bfloat16, rows=4096, depth=4096, classes=32000, **given):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        hidden = torch.empty(rows, depth, device=device, dtype=dtype)
    return choice.Loss(hidden, classes, **{"trains": True, "is_early": True, **given})


@pytest.mark.parametrize(
    "given, why_not",
    [
        ({}, None),
        ({"is_early": False}, "the gradient would compute logits twice"),
        ({"is_early": False, "trains": False}, None),
        ({"rows": 1000}, "too few rows"),
        ({"depth": 768}, "too small a depth"),
        ({"classes": 1000}, "too few classes"),
        ({"dtype": torch.float32}, "not measured in this dtype"),
        ({"device": "cpu"}, "torch's products are as fast"),
        ({"device": "cpu", "dtype": torch.float32}, "torch's products are as fast"),
        ({"device": "cpu", "dtype": torch.float32, "trains": False}, None),
        ({"device": "cpu", "dtype": torch.float32, "trains": False, "rows": 100}, "too few rows"),
        ({"device": "cpu", "dtype": torch.float32, "trains": False, "classes": 1000}, "too few classes"),
    ],
    ids=str,
)
def test_a_loss_stays_with_torch_where_ours_is_not_faster(given, why_not, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    assert choice.keeps_loss(Compile({}), call(**given)) == why_not


def test_another_gpu_keeps_torchs(monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    assert choice.keeps_loss(Compile({}), call()) == "not measured here"
    assert choice.keeps_loss(Compile({"losses": "tile"}), call()) is None
    assert choice.keeps_loss(Compile({"losses": "torch"}), call()) == "options ask for it"
