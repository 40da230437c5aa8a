"""Every operator forward and backward, with the kernels that a GPU gets, run by the emulator: the numerics rule at
small shapes."""

import emulate
import pytest
import torch
import torch.nn.functional as F
from attention_reference import inputs, peer
from emulate_operators import Emulation
from numerics import check as check_numerics
from numerics import check_call
from rope_reference import turn

DTYPES = (torch.bfloat16, torch.float32, torch.float16, torch.float64)


def make(*shape, dtype):
    return torch.randn(*shape).to(dtype).requires_grad_()


def channels_last(x):
    return x.detach().contiguous(memory_format=torch.channels_last).requires_grad_()


def add_rms_norm(input, residual, *options):
    return F.rms_norm(input + residual, *options), input + residual


def group_norm(input, groups, weight, bias, *, activation="none"):
    out = F.group_norm(input, groups, weight, bias)
    return F.silu(out) if activation == "silu" else out


def swiglu(gate, up):
    return F.silu(gate) * up


def geglu(gate, up, *, approximate="none"):
    return F.gelu(gate, approximate=approximate) * up


def matmul(input, other, *, activation="none"):
    return F.gelu(input @ other) if activation == "gelu" else input @ other


def rope(query, key, cos, sin, *, interleaved=False, rotary_dim=None):
    return tuple(turn(x, cos, sin, interleaved, rotary_dim) for x in (query, key))


def transposed(x):
    return x.detach().transpose(0, 1).requires_grad_()


def halves(x):
    return [half.detach().requires_grad_() for half in x.chunk(2, -1)]


def rope_in_place(query, key, cos, sin):
    torch.ops.tile.rope_(query, key, cos, sin)
    return query, key


def step_inputs(dtype, *sizes, state=None):
    """params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs and steps, one list behind the other."""
    draws = [[torch.randn(size).to(to) for size in sizes] for to in (dtype, dtype, *[state or dtype] * 3)]
    for squares in draws[3:]:
        squares[:] = [square.square() for square in squares]
    return *(tensor for draw in draws for tensor in draw), *(torch.tensor(2.0 + i) for i in range(len(sizes)))


def lists_of(tensors):
    count = len(tensors) // 6
    params, grads, means, squares, largest, steps = (list(tensors[i * count : (i + 1) * count]) for i in range(6))
    return (params, grads, means, squares, steps), largest


def adamw(*tensors, amsgrad=False, **options):
    lists, largest = lists_of(tensors)
    torch.ops.tile.adamw_(*lists, max_exp_avg_sqs=largest if amsgrad else None, **options)
    return *lists[0], *lists[2], *lists[3], *largest


def torchs_adamw(*tensors, amsgrad=False, lr_tensor=None, grad_scale=None, **options):
    (params, grads, means, squares, steps), largest = lists_of([tensor.detach().clone() for tensor in tensors])
    grads = [grad if grad_scale is None else grad / grad_scale.to(grad.dtype) for grad in grads]
    options = {"lr": 1e-3 if lr_tensor is None else lr_tensor.item(), "maximize": False, **options}
    torch._fused_adamw_(
        params,
        grads,
        means,
        squares,
        largest if amsgrad else [],
        [step.float() for step in steps],
        beta1=0.9,
        beta2=0.999,
        weight_decay=0.01,
        eps=1e-8,
        amsgrad=amsgrad,
        **options,
    )
    return *params, *means, *squares, *largest


def gated_matmul(input, gate_weight, up_weight):
    return F.silu(input @ gate_weight) * (input @ up_weight)


def dropout(input, p, seed):
    """On the CPU: the mask is the same."""
    return torch.ops.tile.dropout(input, p, seed)


def tables(positions, width):
    angle = torch.rand(positions, width) * 7
    return angle.cos(), angle.sin()


STARTS = torch.tensor([0, 40, 45, 45]), torch.tensor([0, 70, 71, 90])


def packed_inputs(dtype):
    query, key = make(45, 2, 64, dtype=dtype), make(90, 1, 64, dtype=dtype)
    return query, key, make(90, 1, 64, dtype=dtype), *STARTS, 40, 70


def of_packed(query, key, value, *starts, is_causal):
    parts = []
    for i in range(2):
        rows, keys = (slice(*start[i : i + 2].tolist()) for start in STARTS)
        one = peer(*(x.transpose(0, 1).unsqueeze(0) for x in (query[rows], key[keys], value[keys])), is_causal=is_causal)
        parts.append((one[0][0].transpose(0, 1), one[1][0]))
    return torch.cat([part for part, _ in parts]), torch.cat([part for _, part in parts], 1)


def decode_inputs(dtype, length, paged=False):
    shape = (4, 1, 16, 64) if paged else (2, 1, length, 64)
    tensors = (torch.randn(size).to(dtype) for size in ((2, 3, 1, 64), shape, shape))
    return *tensors, torch.tensor([length, length // 2])


def decoded(query, key, value, lengths, *, block_table=None):
    if block_table is not None:
        key, value = (cache[block_table.long()].transpose(1, 2).flatten(2, 3) for cache in (key, value))
    parts = [peer(query[b : b + 1], key[b : b + 1, :, :n], value[b : b + 1, :, :n]) for b, n in enumerate(lengths.tolist())]
    return tuple(torch.cat(each) for each in zip(*parts))


def cross_entropy(input, target, *, label_smoothing=0.0, **kwargs):
    # Of float16 torch's sum over classes overflows.
    wide = input.float() if input.dtype == torch.float16 else input
    return F.cross_entropy(wide, target, label_smoothing=label_smoothing, **kwargs).to(input.dtype)


def linear_cross_entropy(input, weight, target, *, bias=None):
    return F.cross_entropy(F.linear(input, weight, bias).to(torch.promote_types(input.dtype, torch.float32)), target)


def embedding(weight, indices, padding_idx=-1):
    return F.embedding(indices, weight, padding_idx)


# Name: operator or a function that calls it, torch's, arguments of a dtype, keyword arguments.
CASES = {
    "softmax": ("softmax", torch.softmax, lambda dtype: (make(5, 300, dtype=dtype), -1), {}),
    "softmax_of_columns": ("softmax", torch.softmax, lambda dtype: (make(3, 37, 6, dtype=dtype), 1), {}),
    "softmax_of_one": ("softmax", torch.softmax, lambda dtype: (make(7, 1, dtype=dtype), -1), {}),
    "log_softmax": ("log_softmax", torch.log_softmax, lambda dtype: (make(5, 300, dtype=dtype), -1), {}),
    "log_softmax_of_long_columns": ("log_softmax", torch.log_softmax, lambda dtype: (make(2, 70, 6, dtype=dtype), 1), {}),
    "layer_norm": (
        "layer_norm",
        F.layer_norm,
        lambda dtype: (make(9, 200, dtype=dtype), (200,), make(200, dtype=dtype), make(200, dtype=dtype)),
        {},
    ),
    "layer_norm_alone": ("layer_norm", F.layer_norm, lambda dtype: (make(3, 5, 7, dtype=dtype), (5, 7)), {}),
    "rms_norm": ("rms_norm", F.rms_norm, lambda dtype: (make(11, 96, dtype=dtype), (96,), make(96, dtype=dtype), 1e-5), {}),
    "add_rms_norm": (
        "add_rms_norm",
        add_rms_norm,
        lambda dtype: (make(11, 96, dtype=dtype), make(11, 96, dtype=dtype), (96,), make(96, dtype=dtype), 1e-5),
        {},
    ),
    "add_rms_norm_of_long_columns": (
        "add_rms_norm",
        add_rms_norm,
        lambda dtype: (transposed(make(70, 40, dtype=dtype)), transposed(make(70, 40, dtype=dtype)), (70,)),
        {},
    ),
    "add_rms_norm_of_wide_rows": (
        "add_rms_norm",
        add_rms_norm,
        lambda dtype: (make(2, 16384, dtype=dtype), make(2, 16384, dtype=dtype), (16384,), make(16384, dtype=dtype), 1e-5),
        {},
    ),
    "group_norm": (
        "group_norm",
        group_norm,
        lambda dtype: (make(2, 6, 5, 7, dtype=dtype), 3, make(6, dtype=dtype), make(6, dtype=dtype)),
        {},
    ),
    "group_norm_silu": (
        "group_norm",
        group_norm,
        lambda dtype: (channels_last(make(2, 32, 4, 4, dtype=dtype)), 8, make(32, dtype=dtype), make(32, dtype=dtype)),
        {"activation": "silu"},
    ),
    "layer_norm_of_exact_rows": (
        "layer_norm",
        F.layer_norm,
        lambda dtype: (make(3, 1280, dtype=dtype), (1280,), make(1280, dtype=dtype), make(1280, dtype=dtype)),
        {},
    ),
    "layer_norm_of_long_rows": (
        "layer_norm",
        F.layer_norm,
        lambda dtype: (make(2, 9000, dtype=dtype), (9000,), make(9000, dtype=dtype), make(9000, dtype=dtype)),
        {},
    ),
    "group_norm_in_a_tile": (
        "group_norm",
        group_norm,
        lambda dtype: (make(2, 6, 16, 16, dtype=dtype), 2, make(6, dtype=dtype), make(6, dtype=dtype)),
        {"activation": "silu"},
    ),
    "group_norm_of_large_groups": (
        "group_norm",
        group_norm,
        lambda dtype: (make(1, 2, 190, 190, dtype=dtype), 2, make(2, dtype=dtype), make(2, dtype=dtype)),
        {},
    ),
    "swiglu": ("swiglu", swiglu, lambda dtype: (make(3, 1000, dtype=dtype), make(3, 1000, dtype=dtype)), {}),
    "swiglu_of_halves": ("swiglu", swiglu, lambda dtype: halves(make(9, 600, dtype=dtype)), {}),
    "geglu_of_two_orders": (
        "geglu",
        geglu,
        lambda dtype: (make(70, 40, dtype=dtype), transposed(make(40, 70, dtype=dtype))),
        {},
    ),
    "cross_entropy": (
        "cross_entropy",
        cross_entropy,
        lambda dtype: (make(5, 300, dtype=dtype), torch.tensor([0, 299, -100, 7, 123])),
        {},
    ),
    "cross_entropy_of_long_rows": (
        "cross_entropy",
        cross_entropy,
        lambda dtype: (make(3, 8200, dtype=dtype), torch.tensor([8199, 0, 4000])),
        {"reduction": "sum"},
    ),
    "cross_entropy_of_columns": (
        "cross_entropy",
        cross_entropy,
        lambda dtype: (make(2, 9, 7, dtype=dtype), torch.arange(14).reshape(2, 7) % 9),
        {"reduction": "none", "label_smoothing": 0.1},
    ),
    "linear_cross_entropy": (
        "linear_cross_entropy",
        linear_cross_entropy,
        lambda dtype: (make(40, 64, dtype=dtype), make(72, 64, dtype=dtype), torch.arange(40) * 7 % 72),
        {},
    ),
    "embedding": (
        "embedding",
        embedding,
        lambda dtype: (make(30, 70, dtype=dtype), torch.arange(40).reshape(4, 10) ** 2 % 30, 4),
        {},
    ),
    "embedding_of_transposed_indices": (
        "embedding",
        embedding,  # copied by the operator
        lambda dtype: (make(50, 40, dtype=dtype), (torch.arange(48).reshape(6, 8) ** 2 % 50).int().t(), 3),
        {},
    ),
    "rope": ("rope", rope, lambda dtype: (make(2, 4, 5, 64, dtype=dtype), make(2, 2, 5, 64, dtype=dtype), *tables(5, 32)), {}),
    "rope_interleaved": (
        "rope",
        rope,
        lambda dtype: (make(1, 3, 7, 20, dtype=dtype), make(1, 1, 7, 20, dtype=dtype), *tables(7, 4)),
        {"interleaved": True, "rotary_dim": 8},
    ),
    "rope_in_place": (
        rope_in_place,
        rope,
        lambda dtype: (*(make(1, 7, heads, 68, dtype=dtype).detach().transpose(1, 2) for heads in (3, 1)), *tables(7, 34)),
        {},
    ),
    "adamw": (adamw, torchs_adamw, lambda dtype: step_inputs(dtype, (3, 6000)), {"lr": 0.1}),
    "adamw_of_three": (
        adamw,
        torchs_adamw,
        lambda dtype: step_inputs(dtype, (40, 13), (16387,), (3, 101)),
        {"lr_tensor": torch.tensor(0.1), "grad_scale": torch.tensor(4.0), "maximize": True},
    ),
    "adamw_of_six": (
        adamw,
        torchs_adamw,
        lambda dtype: step_inputs(dtype, *[(264 * i,) for i in (1, 7, 64, 2, 1, 3)]),
        {"lr": 0.1, "amsgrad": True},
    ),
    "dropout": ("dropout", dropout, lambda dtype: (make(3, 1500, dtype=dtype), 0.3, torch.tensor([-5, 7])), {}),
    "dropout_of_columns": ("dropout", dropout, lambda dtype: (make(70, 9, dtype=dtype).t(), 0.3, torch.tensor([-5, 7])), {}),
    "matmul": ("matmul", matmul, lambda dtype: (make(37, 70, dtype=dtype), make(70, 45, dtype=dtype)), {}),
    "matmul_in_stages": ("matmul", matmul, lambda dtype: (make(72, 160, dtype=dtype), make(160, 136, dtype=dtype)), {}),
    "matmul_of_80_and_176": ("matmul", matmul, lambda dtype: (make(96, 80, dtype=dtype), make(80, 176, dtype=dtype)), {}),
    "matmul_of_batches": (
        "matmul",
        matmul,
        lambda dtype: (make(2, 5, 33, dtype=dtype), make(33, 17, dtype=dtype)),
        {"activation": "gelu"},
    ),
    "matmul_of_vectors": ("matmul", matmul, lambda dtype: (make(7, dtype=dtype), make(7, dtype=dtype)), {}),
    "matmul_of_long_sums": ("matmul", matmul, lambda dtype: (make(3, 70001, dtype=dtype), make(70001, 4, dtype=dtype)), {}),
    "matmul_of_long_sums_of_batches": (
        "matmul",
        matmul,
        lambda dtype: (transposed(make(64, 1100, 8, dtype=dtype)), make(8, 4, dtype=dtype)),
        {},
    ),
    "gated_matmul": (
        "gated_matmul",
        gated_matmul,
        lambda dtype: (make(37, 72, dtype=dtype), *(make(72, 48, dtype=dtype) for _ in range(2))),
        {},
    ),
    "gated_matmul_of_long_sums": (
        "gated_matmul",
        gated_matmul,
        lambda dtype: (make(2, 65600, dtype=dtype), *(make(65600, 3, dtype=dtype) for _ in range(2))),
        {},
    ),
    "attention": ("attention", peer, lambda dtype: inputs(1, 2, 1, 20, 33, 16, dtype=dtype), {}),
    "attention_in_stages": ("attention", peer, lambda dtype: inputs(1, 2, 1, 70, 130, 64, dtype=dtype), {}),
    "attention_causal": ("attention", peer, lambda dtype: inputs(2, 2, 2, 40, 40, 40, dtype=dtype), {"is_causal": True}),
    "attention_of_odd_depth": ("attention", peer, lambda dtype: inputs(1, 2, 1, 40, 70, 20, dtype=dtype), {"is_causal": True}),
    "attention_of_deep_odd_depth": (
        "attention",
        peer,
        lambda dtype: inputs(1, 2, 1, 40, 70, 68, dtype=dtype),
        {"is_causal": True},
    ),
    "attention_deep": ("attention", peer, lambda dtype: inputs(1, 2, 1, 100, 150, 128, dtype=dtype), {"is_causal": True}),
    "attention_of_80": ("attention", peer, lambda dtype: inputs(1, 2, 1, 70, 130, 80, dtype=dtype), {}),
    "attention_of_96": ("attention", peer, lambda dtype: inputs(1, 2, 2, 70, 70, 96, dtype=dtype), {"is_causal": True}),
    "attention_of_176": ("attention", peer, lambda dtype: inputs(1, 2, 1, 40, 70, 176, dtype=dtype), {}),
    "attention_of_192": ("attention", peer, lambda dtype: inputs(1, 1, 1, 40, 40, 192, dtype=dtype), {"is_causal": True}),
    "attention_with_bias": (
        "attention",
        peer,
        lambda dtype: inputs(1, 2, 2, 40, 70, 64, dtype=dtype),
        {"attn_bias": torch.linspace(-3, 2, 2800).reshape(40, 70)},
    ),
    "attention_with_mask": (
        "attention",
        peer,
        lambda dtype: inputs(1, 2, 2, 40, 70, 64, dtype=dtype),
        {"attn_bias": torch.arange(2800).reshape(40, 70) % 3 > 0},
    ),
    "attention_with_options": (
        "attention",
        peer,
        lambda dtype: inputs(1, 2, 1, 70, 130, 64, dtype=dtype),
        {"window": (40, 5), "softcap": 3.0, "alibi_slopes": torch.linspace(0, 1, 2), "sinks": torch.linspace(-1, 1, 2)},
    ),
    "attention_of_packed": ("attention_varlen", of_packed, lambda dtype: packed_inputs(dtype), {"is_causal": True}),
    "attention_decode": ("attention_decode", decoded, lambda dtype: decode_inputs(dtype, 33), {}),
    "attention_decode_in_parts": ("attention_decode", decoded, lambda dtype: decode_inputs(dtype, 600), {}),
    "attention_decode_in_pages": (
        "attention_decode",
        decoded,
        lambda dtype: decode_inputs(dtype, 32, paged=True),
        {"block_table": torch.tensor([[2, 1], [0, 3]], dtype=torch.int32)},
    ),
}


# Kernels cut otherwise, as those are whose registers spill: the number of each in cuda::configurations.
CONFIGURATIONS = {"in_register_loops": 1, "without_prefetch": 4, "of_more_warps": 5, "of_fewer_warps": 6}
CUT_OTHERWISE = ("softmax", "layer_norm", "group_norm_silu", "matmul_in_stages", "attention_in_stages")


def check(emulation, name, dtype):
    operator, theirs, args, kwargs = CASES[name]
    torch.manual_seed(0)  # the same kernels each time
    operator = getattr(torch.ops.tile, operator) if isinstance(operator, str) else operator
    check_call(emulation.operator(operator), theirs, args(dtype), kwargs, what=name)


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


def marks_of(name, dtype):
    """`make quick` runs bfloat16, and `make test` float32 as well; long sums take minutes, so it runs only one of them."""
    if (name, dtype) == ("matmul_of_long_sums_of_batches", DTYPES[0]):
        return pytest.mark.slow
    if "long_sums" in name or dtype in DTYPES[2:]:
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
        for given in (x, channels_last(x).detach()):
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
@pytest.mark.parametrize("name", CUT_OTHERWISE)
def test_operator_cut_otherwise(name, dtype, configuration, programs):
    check(Emulation(configuration=configuration), name, dtype)


def test_there_are_no_other_configurations():
    with pytest.raises(ValueError) as error:
        Emulation(configuration=9).call(lambda: None)
    assert str(error.value) == "emulate: the configuration is 9; the last is 7"
