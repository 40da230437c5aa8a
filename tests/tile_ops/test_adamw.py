"""tile::adamw_ against torch's fused AdamW: dtypes, numbers of tensors, layouts, options, and every way torch can call
it."""

import pytest
import tile_ops
import torch
from numerics import check
from tile_ops import _C
from torch.library import opcheck
from threads import with_torch_threads

adamw_ = torch.ops.tile.adamw_
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
WRITTEN = (0, 2, 3, 5)


def lists_of(sizes, dtype=torch.float32, state=None, step=3.0):
    """params, grads, exp_avgs, exp_avg_sqs, steps, max_exp_avg_sqs."""

    def draw(to):
        return [torch.randn(size).to(to) for size in sizes]

    state = state or dtype
    return [
        draw(dtype),
        draw(dtype),
        [0.1 * t for t in draw(state)],
        [t.square() for t in draw(state)],
        [torch.tensor(step + i) for i in range(len(sizes))],
        [t.square() for t in draw(state)],
    ]


def copies(lists, dtype=None):
    """Returns copies with the same strides."""

    def copy(t):
        return torch.empty_strided(t.shape, t.stride(), dtype=dtype or t.dtype).copy_(t)

    return [[copy(t) if k != 4 else t.clone() for t in each] for k, each in enumerate(lists)]


def ours(lists, amsgrad=False, **options):
    assert adamw_(*lists[:5], max_exp_avg_sqs=lists[5] if amsgrad else None, **options) is None


def theirs(lists, amsgrad=False, lr_tensor=None, **options):
    options = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.01, "maximize": False} | options
    if lr_tensor is not None:
        options["lr"] = lr_tensor.item()
    torch._fused_adamw_(*lists[:4], lists[5] if amsgrad else [], lists[4], amsgrad=amsgrad, **options)


def compare(lists, **options):
    """By the numerics rule, each list as one tensor; what is not written stays."""
    peer, exact, before = copies(lists), copies(lists, torch.float64), copies(lists)
    if lists[2] and lists[2][0].dtype != lists[0][0].dtype:  # torch has one dtype: the same in float32
        peer = copies(lists, torch.float32)
    ours(lists, **options)
    theirs(peer, **options)
    wide = {name: t.double() if name == "lr_tensor" else t for name, t in options.items()}
    theirs(exact, **wide)

    def joined(each, dtype):
        return torch.cat([torch.zeros(1, dtype=dtype), *(t.flatten().to(dtype) for t in each)])

    for k in range(6):
        if k not in WRITTEN or (k == 5 and not options.get("amsgrad")):
            assert all(torch.equal(a, b) for a, b in zip(lists[k], before[k]))
        elif lists[k]:
            dtype = lists[k][0].dtype
            check(joined(lists[k], dtype), joined(peer[k], dtype), joined(exact[k], torch.float64), what=f"list {k}")


SIZES = {
    "nothing in them": [(0,), (3, 0)],
    "one element": [(1,)],
    "scalar": [()],
    "odd": [(17, 3), (1001,), (7,)],
    "longer than a block": [(70001,), (5,), (32768,)],
    "many": [(i % 41, 3) for i in range(300)],
}


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_sizes(name, dtype):
    compare(lists_of(SIZES[name], dtype), lr=0.1)


OPTIONS = {
    "amsgrad": {"amsgrad": True},
    "maximize": {"maximize": True, "weight_decay": 0.3},
    "betas": {"beta1": 0.0, "beta2": 0.5, "eps": 1e-2},
    "lr tensor": {"lr_tensor": torch.tensor(0.25)},
    "lr of float64": {"lr_tensor": torch.tensor([0.25], dtype=torch.float64), "amsgrad": True},
    "scale": {"grad_scale": torch.tensor(128.0), "found_inf": torch.tensor(0.0), "maximize": True},
    "infinity": {"grad_scale": torch.tensor(128.0), "found_inf": torch.tensor(1.0), "amsgrad": True},
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_options(name, dtype, device):
    options = {key: value.to(device) if isinstance(value, torch.Tensor) else value for key, value in OPTIONS[name].items()}
    lists = lists_of([(40, 3), (999,)], dtype)
    if "grad_scale" in options:  # torch writes the gradients without their scale; ours stay
        before, peer = copies(lists), copies(lists)
        ours(lists, **options)
        peer[1] = [g / 128 for g in peer[1]] if not options["found_inf"] else peer[1]
        plain = {k: v for k, v in options.items() if k not in ("grad_scale", "found_inf")}
        if options["found_inf"]:
            peer = before
        else:
            ours(peer, **plain)
            peer[1] = before[1]
        assert all(torch.equal(a, b) for one, other in zip(lists, peer) for a, b in zip(one, other))
        return
    compare(lists, **options)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("amsgrad", [False, True])
def test_states_of_float32(dtype, amsgrad):
    compare(lists_of([(33, 5), (100,)], dtype, torch.float32), amsgrad=amsgrad, lr=0.1)


def test_steps_of_float64():
    lists, same = lists_of([(30,), (4,)]), None
    same = copies(lists)
    lists[4] = [step.double() for step in lists[4]]
    ours(lists), ours(same)
    assert all(torch.equal(a, b) for a, b in zip(lists[0], same[0]))


LAYOUTS = {
    "channels last": lambda t: t.contiguous(memory_format=torch.channels_last),
    "permuted": lambda t: t.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0),
    "every second": lambda t: torch.stack([t, t], -1)[..., 0],
    "inside of a larger one": lambda t: torch.nn.functional.pad(t, (1, 2, 3, 0))[..., 3:, 1:-2],
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("which", [(0, 1, 2, 3, 5), (0,), (1,), (2, 5), (1, 3)])
def test_layouts(name, which):
    lists = lists_of([(2, 3, 4, 5), (3, 1, 6, 2)])
    for k in which:
        lists[k] = [LAYOUTS[name](t) for t in lists[k]]
    dense = [[t.clone(memory_format=torch.contiguous_format) for t in each] for each in lists]
    around = [t._base.clone() if t._base is not None else None for t in lists[0]]
    ours(lists, amsgrad=True), ours(dense, amsgrad=True)
    for a, b in zip(lists, dense):
        assert all(torch.equal(x, y) for x, y in zip(a, b))
    for param, before in zip(lists[0], around):
        if before is not None:  # what lies between is as it was
            mark = torch.zeros_like(before)
            mark.as_strided(param.shape, param.stride(), param.storage_offset()).fill_(1)
            assert torch.equal(param._base[mark == 0], before[mark == 0])


def test_parts_of_one_memory():
    lists, memory = lists_of([(6, 4), (6, 4), (24,)]), torch.randn(72)
    same = copies(lists)
    for i, part in enumerate(memory.split(24)):
        lists[0][i] = part.view(lists[0][i].shape).copy_(lists[0][i])
    ours(lists), ours(same)
    assert all(torch.equal(a, b) for a, b in zip(lists[0], same[0]))


def test_nan_and_infinity_stay_where_they_are():
    """torch makes NaN of an infinite gradient's mean on a GPU, and infinity on a CPU; both are not finite."""
    lists = lists_of([(50,), (50,)])
    lists[1][0][3], lists[1][0][4] = torch.nan, torch.inf
    peer = copies(lists)
    ours(lists, amsgrad=True), theirs(peer, amsgrad=True)
    for k in WRITTEN[:3]:
        for a, b in zip(lists[k], peer[k]):
            finite = b.isfinite()
            assert torch.equal(a.isfinite(), finite)
            torch.testing.assert_close(a[finite], b[finite])


def test_versions_and_gradients():
    lists = lists_of([(3,), (4,)])
    versions = [[t._version for t in each] for each in lists]
    ours(lists)
    for k, each in enumerate(lists):
        assert [t._version - v for t, v in zip(each, versions[k])] == [int(k in (0, 2, 3))] * 2
    lists[0][1].requires_grad_()
    with pytest.raises(RuntimeError) as error:
        ours(lists)
    assert str(error.value).splitlines()[0] == (
        "tile::adamw_: writes into its arguments and has no gradient, but 'params' requires grad; call it under torch.no_grad()"
    )
    with torch.no_grad():
        ours(lists)


@pytest.mark.parametrize("amsgrad", [False, True])
def test_opcheck(amsgrad):
    lists = lists_of([(3, 4), (5,)])
    opcheck(adamw_, tuple(lists[:5]), {"max_exp_avg_sqs": lists[5]} if amsgrad else {"lr_tensor": torch.tensor(0.1)})


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compile(backend):
    torch._dynamo.reset()

    def step(params, grads, *rest):
        adamw_(params, [g * 2 for g in grads], *rest, lr=0.1)
        return params[0] + 1

    compiled = torch.compile(step, fullgraph=True, backend=backend)
    lists = lists_of([(3, 4), (5,)])
    same = copies(lists)
    torch.testing.assert_close(compiled(*lists[:5]), step(*same[:5]))
    for a, b in zip(lists, same):
        torch.testing.assert_close(a, b)


def test_vmap():
    lists = lists_of([(6, 4), (6,)])
    lists[4] = [torch.tensor(3.0), torch.tensor(4.0)]
    same = copies(lists)
    batched = [[torch.stack([t, t * 2]) for t in each] for each in same[:4]]
    torch.vmap(lambda *each: adamw_(*each, same[4]), out_dims=None)(*batched)
    for sample in range(2):
        one = [[t * (1 + sample) for t in each] for each in lists[:4]] + [lists[4]]
        adamw_(*one)
        for a, b in zip(batched, one):
            torch.testing.assert_close([t[sample] for t in a], b)
    batched[2][1] = batched[2][1][0]
    in_dims = [[0, 0], [0, 0], [0, None], [0, 0]]
    with pytest.raises(ValueError) as error:
        torch.vmap(lambda *each: adamw_(*each, same[4]), in_dims=tuple(in_dims), out_dims=None)(*batched)
    assert str(error.value).splitlines()[0] == (
        "tile::adamw_: vmap: 'exp_avgs' is written for each sample of 'exp_avg_sqs', but has no batch extent; give it one "
        "(in_dims)"
    )


def test_threads_agree_bit_for_bit():
    lists = lists_of([(300, 700), (5000,)])

    def call():
        result = copies(lists)
        ours(result, amsgrad=True)
        return result

    one, other = with_torch_threads((1, 2), call)
    assert all(torch.equal(a, b) for mine, its in zip(one, other) for a, b in zip(mine, its))


def test_kernels_do_not_grow_with_tensors(device):
    """On a CPU one for each dtype; on a GPU one for each size of a group and for what its key says of vectors."""
    for count in (1, 3, 20, 2):
        ours(lists_of([(4, 4)] * count, torch.float16))
    before = dict(_C.compiled_kernels())
    for count in (1, 2, 4, 5, 16, 17, 40):
        ours(lists_of([(4, 4)] * count, torch.float16))
        if device.type == "cpu":
            ours(lists_of([(i, 7) for i in range(count)], torch.float16))
    assert dict(_C.compiled_kernels()) == before


def written_by(change):
    lists = lists_of([(2, 3), (4,)])
    change(lists)
    return lists


def put(k, i, tensor):
    def change(lists):
        lists[k][i] = tensor(lists) if callable(tensor) else tensor

    return change


def double(lists):
    return lists[0][1].double()


APART = "overlap in memory, which is written; clone() one of them"
ERRORS = [
    (ValueError, lambda lists: lists[1].pop(), {}, "params has 2 tensors and grads 1; pass one for each parameter"),
    (
        ValueError,
        lambda lists: lists[5].pop(),
        {"amsgrad": True},
        "params has 2 tensors and max_exp_avg_sqs 1; pass one for each parameter",
    ),
    (ValueError, put(3, 1, torch.ones(5)), {}, "exp_avg_sqs[1] has shape [5] and params[1] [4]; they must be alike"),
    (ValueError, put(4, 1, torch.ones(2)), {}, "steps[1] has shape [2]; it must have one element"),
    (TypeError, put(4, 0, torch.tensor(3)), {}, "steps[0] is int64; it must be float32 or float64"),
    (
        TypeError,
        put(0, 0, torch.ones(2, 3, dtype=torch.int32)),
        {},
        "params[0] is int32; it must be float16, bfloat16, float32 or float64",
    ),
    (
        TypeError,
        put(0, 1, double),
        {},
        "params[0] is float32 and params[1] float64; pass tensors of each dtype in a call of their own",
    ),
    (
        TypeError,
        lambda lists: lists.__setitem__(1, [g.double() for g in lists[1]]),
        {},
        "grads[0] is float64 and params[0] float32; it must be float32",
    ),
    (
        TypeError,
        lambda lists: lists.__setitem__(0, [p.half() for p in lists[0]])
        or lists.__setitem__(2, [m.bfloat16() for m in lists[2]]),
        {},
        "exp_avgs[0] is bfloat16 and params[0] float16; it must be float16 or float32",
    ),
    (ValueError, lambda lists: None, {"lr": -1.0}, "lr is -1; it must be 0 or more"),
    (ValueError, lambda lists: None, {"eps": -1.0}, "eps is -1; it must be 0 or more"),
    (ValueError, lambda lists: None, {"weight_decay": -1.0}, "weight_decay is -1; it must be 0 or more"),
    (ValueError, lambda lists: None, {"beta1": 1.0}, "beta1 is 1; it must be at least 0 and less than 1"),
    (ValueError, lambda lists: None, {"beta2": -0.5}, "beta2 is -0.5; it must be at least 0 and less than 1"),
    (TypeError, lambda lists: None, {"lr_tensor": torch.tensor(1)}, "lr_tensor is int64; it must be float32 or float64"),
    (ValueError, lambda lists: None, {"grad_scale": torch.ones(2)}, "grad_scale has shape [2]; it must have one element"),
    (
        TypeError,
        lambda lists: None,
        {"found_inf": torch.zeros(1, dtype=torch.float64)},
        "found_inf is float64; it must be float32",
    ),
    (ValueError, put(0, 1, torch.ones(1).expand(4)), {}, "params[1] overlaps itself in memory, and is written; clone() it"),
    (ValueError, put(2, 1, lambda lists: lists[0][1]), {}, f"params[1] and exp_avgs[1] {APART}"),
    (ValueError, put(1, 1, lambda lists: lists[3][1]), {}, f"grads[1] and exp_avg_sqs[1] {APART}"),
    (ValueError, put(0, 1, lambda lists: lists[0][0].view(-1)[2:]), {}, f"params[0] and params[1] {APART}"),
]


@pytest.mark.parametrize("index", range(len(ERRORS)))
def test_errors(index):
    kind, change, options, text = ERRORS[index]
    lists = written_by(change)
    before = copies(lists)[0] if index < len(ERRORS) - 4 else []
    with pytest.raises(kind) as error:
        ours(lists, **options)
    assert str(error.value).splitlines()[0] == f"tile::adamw_: {text}"
    assert all(torch.equal(a, b) for a, b in zip(before, lists[0]))


def test_name_is_in_the_module():
    assert tile_ops.adamw_ is adamw_ or tile_ops.adamw_.default is adamw_.default
