"""Counts the bytes and the floating-point operations of the operators and launches of one call."""

import dataclasses
import warnings

import torch

from .trace import KERNEL

# Operators of torch whose data decide which part of a tensor is read or written.
PARTIAL = {
    "embedding", "_embedding_bag", "_embedding_bag_forward_only", "embedding_renorm_", "gather", "grid_sampler_2d",
    "grid_sampler_3d", "index", "index_add_", "index_copy_", "index_fill_", "index_put_", "_index_put_impl_", "index_select",
    "masked_fill_", "masked_scatter_", "masked_select", "nll_loss_forward", "nll_loss2d_forward", "put_", "scatter_",
    "scatter_add_", "scatter_reduce_", "take", "_unsafe_index", "_unsafe_masked_index",
}  # fmt: skip
# They write the tensor that others of the same form also read.
WRITE_ONLY = {
    "bernoulli_", "copy_", "exponential_", "fill_", "_foreach_copy_", "_foreach_zero_", "normal_", "random_", "uniform_",
    "zero_",
}  # fmt: skip
# They touch no elements.
ALLOCATES = {
    "as_strided_", "detach_", "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "record_stream",
    "resize_", "set_", "squeeze_", "t_", "transpose_", "unsqueeze_",
}  # fmt: skip


@dataclasses.dataclass
class Count:
    bytes: int | None = None  # None: unknown
    flops: int | None = None
    dtype: torch.dtype | None = None  # of the first floating-point tensor
    where: str | None = None  # the location of a kernel of ours
    on_gpu: bool = False


class _Unknown(Exception):
    pass


def _tensors(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)


def _memory(tensor):
    """Returns (the first and the last address, bytes of the elements, of which some may lie on each other)."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.layout is not torch.strided or tensor.is_meta:
        raise _Unknown
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        raise _Unknown
    last, elements = 0, 1
    for size, stride in zip(tensor.shape, tensor.stride()):
        last += (size - 1) * stride
        elements *= size if stride else min(size, 1)
    if not tensor.numel():
        return (0, 0), 0
    start = tensor.data_ptr()
    return (start, start + last * tensor.element_size()), min(elements, last + 1) * tensor.element_size()


def _moved(schema, name, inputs, outputs):
    """Returns the bytes of the tensors that an operator reads and of those that it writes, each whole and once."""
    if any(each.alias_info is not None and not each.alias_info.is_write for each in schema.returns) or name in ALLOCATES:
        return 0  # a view
    read, written = {}, {}
    for argument, value in zip(schema.arguments, inputs):
        writes = argument.alias_info is not None and argument.alias_info.is_write
        for tensor in _tensors(value):
            place, size = _memory(tensor)
            if writes:
                written[place] = size
            if not (writes and (argument.is_out or name in WRITE_ONLY)):
                read[place] = size
    for tensor in _tensors(outputs):
        place, size = _memory(tensor)
        if place not in written:
            written[place] = size
    return sum(read.values()) + sum(written.values())


def _schema(name, overload):
    namespace, base = name.split("::")
    packet = getattr(getattr(torch.ops, namespace), base)
    return packet, getattr(packet, overload or "default")._schema


def _flops(packet, schema, inputs, outputs):
    from torch.utils.flop_counter import flop_registry

    formula = flop_registry.get(packet)
    if formula is None:
        return None
    pairs = list(zip(schema.arguments, inputs))
    positional = [value for argument, value in pairs if not argument.kwarg_only]
    named = {argument.name: value for argument, value in pairs if argument.kwarg_only}
    result = outputs[0] if len(outputs) == 1 else outputs
    try:
        return int(formula(*positional, **named, out_val=result))
    except Exception as error:  # the formula is another's
        warnings.warn(f"tile_ops.profile: the operations of {schema.name} are not counted: {error}", stacklevel=2)
        return None


def count_operator(name, overload, inputs, outputs):
    """Returns the Count of one call of an operator. Its bytes are right for torch's operators; rows.py checks others."""
    with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
        floating = [tensor for tensor in _tensors((inputs, outputs))]
        count = Count(
            dtype=next((each.dtype for each in floating if each.is_floating_point()), None),
            on_gpu=any(tensor.is_cuda for tensor in floating),
        )
        try:
            packet, schema = _schema(name, overload)
        except (AttributeError, ValueError):  # Python cannot name it
            return count
        count.flops = _flops(packet, schema, inputs, outputs)
        namespace, base = name.split("::")
        if namespace == "aten" and base in PARTIAL:
            return count
        try:
            count.bytes = _moved(schema, base if namespace == "aten" else name, inputs, outputs)
        except _Unknown:
            pass
        return count


def count_launch(inputs):
    """Returns the Count of a launch of ours. A kernel that may access much of its arrays in part has unknown bytes."""
    where, *moved = inputs
    count = Count(where=where if where and not where.startswith("<") else None)  # a text has no file
    if moved:
        least, most = moved
        count.bytes = least if most <= 1.05 * least else None
    return count


class Counter:
    """While entered, it counts each operator and launch, by the record function id that the trace also has."""

    def __init__(self):
        self.counts = {}

    def __enter__(self):
        from .. import _C
        from .._flops import register_flop_formulas

        register_flop_formulas()
        _C.observe_operators(self._observe)
        return self

    def __exit__(self, *_):
        from .. import _C

        _C.observe_operators(None)

    def _observe(self, record, name, overload, inputs, outputs):
        self.counts[record] = (
            count_launch(inputs) if name.startswith(KERNEL) else count_operator(name, overload, inputs, outputs)
        )
