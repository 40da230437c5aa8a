"""Writes kernels and calls into the module of a graph: in Python, or in C++ for a package.

In C++ a kernel is Tile IR text, which tile::_run_kernel launches, and each call goes through AOTInductor's proxy executor.
"""

import dataclasses

import torch
from torch._inductor.virtualized import V

from . import ahead, compat, trial
from .active import current
from .report import LAUNCH, PRODUCT, REASON, STEPS


@dataclasses.dataclass
class Launch:
    """A launch of a kernel. layout, grid: as _C.CompiledCall takes them, with n0, n1, ... for `numbers`, expressions of sizes."""

    kernel: str
    source: str
    layout: list
    grid: tuple
    tensors: list  # names of buffers
    numbers: list
    likely: dict  # likely values of numbers
    written: set  # names of buffers


def kernels_of_module():
    """Returns {source: name} of the module that is being written."""
    wrapper = V.graph.wrapper_code
    if not V.graph.cpp_wrapper:
        return wrapper.src_to_kernel
    if not hasattr(wrapper, "tile_kernels"):  # src_to_kernel declares kernels of C++
        wrapper.tile_kernels = {}
    return wrapper.tile_kernels


def write_kernel(name, source, origins):
    """Writes a kernel into the head of the module. origins: comments."""
    wrapper, first = V.graph.wrapper_code, len(kernels_of_module()) == 1
    lines = []
    if first and not V.graph.cpp_wrapper:
        lines.append("from tile_ops._compile.launch import tile_call, tile_kernel")
    if first:
        compile = current()
        for begin, reasons in ((REASON, compile.reasons), (STEPS, compile.steps)):
            lines += [f"{wrapper.comment} {begin}{operator}: {' '.join(why.split())}" for operator, why in reasons.items()]
    if V.graph.cpp_wrapper:
        text = "\n".join(f"// {line}" for line in source.splitlines())
        lines.append(f"\n{origins}\n// {name} = tile_kernel(\n{text}\n// ''')\n")
    else:
        lines.append(f"\n{origins}\n{name} = tile_kernel({name!r}, r'''\n{source}''')\n")
    for line in lines:
        wrapper.header.splice(line)


def write_launch(launch):
    device = V.graph.get_current_device_or_throw()
    kinds = [(V.graph.get_dtype(each), device) for each in launch.tensors]
    trial.trace(launch.kernel, launch.source, launch.layout, launch.likely, kinds)
    stand_ins = tuple((dtype, compat.hint(compat.storage_size(name))) for name, (dtype, _) in zip(launch.tensors, kinds))
    layout = (*launch.layout, launch.grid)
    ahead.compile_kernel(device, launch.kernel, launch.source, layout, stand_ins, tuple(launch.likely.values()))
    if V.graph.cpp_wrapper:
        return _write_packaged_launch(launch, kinds)
    wrapper = V.graph.wrapper_code
    wrapper.tile_calls = getattr(wrapper, "tile_calls", 0) + 1
    call = f"{launch.kernel}_call{wrapper.tile_calls}"
    arguments = [*launch.tensors, *map(compat.print_size, launch.numbers)]
    wrapper.header.writeline(f"{call} = tile_call({launch.kernel}, {tuple(launch.layout)!r}, {tuple(launch.grid)!r})")
    wrapper.writeline(f"{call}({', '.join(arguments)})")


def _write_packaged_launch(launch, kinds):
    order = sorted(range(len(launch.tensors)), key=lambda i: launch.tensors[i] in launch.written)
    read = [launch.tensors[i] for i in order if launch.tensors[i] not in launch.written]
    written = [launch.tensors[i] for i in order if launch.tensors[i] in launch.written]
    lines = []
    for kind, *rest in launch.layout:
        if kind == "array":
            tensor, offset, sizes, strides = rest
            pairs = (each for pair in zip(sizes, strides) for each in pair)
            lines.append(" ".join(map(str, ("array", order.index(tensor), offset, *pairs))))
        else:
            lines.append(f"number {rest[0]}")
    lines.append(" ".join(map(str, ("grid", *launch.grid))))
    near, far = trial.texts(launch.kernel, launch.source, launch.layout, [dtype for dtype, _ in kinds])
    compat.write_operator_call(
        f"{LAUNCH}{launch.kernel}",
        torch.ops.tile._run_kernel.default,
        lambda: [near, far, "\n".join(lines), _buffers(read), _buffers(written), list(launch.numbers)],
    )


def _buffers(names):
    return [compat.buffer_of(name) for name in names]


@dataclasses.dataclass
class View:
    """A view of a buffer."""

    buffer: str
    offset: object
    strides: tuple
    sizes: tuple

    def text(self):
        def entries(values):
            return f"({', '.join(map(compat.print_size, values))})"

        return f"reinterpret_tensor({self.buffer}, {entries(self.sizes)}, {entries(self.strides)}, {compat.print_size(self.offset)})"

    def node(self):
        return compat.view_node(self.buffer, self.sizes, self.strides, self.offset)


def write_product(origins, inputs, operands, outs, epilogue):
    """Writes the call of a product. inputs: two nodes of inductor, or three with the op's `second`; operands, outs: views."""
    wrapper = V.graph.wrapper_code
    wrapper.writeline(origins)
    if not V.graph.cpp_wrapper:
        input, other, *second = (each.codegen_reference() for each in inputs)
        views = (f"[{', '.join(each.text() for each in group)}]" for group in (operands, outs))
        arguments = [input, other, *views, *(f"second={each}" for each in second)]
        wrapper.writeline(f"torch.ops.tile._matmul_into({', '.join(arguments)}, epilogue={epilogue!r})")
        return
    input, other, *second = inputs
    compat.write_operator_call(
        f"{PRODUCT}{epilogue}",
        torch.ops.tile._matmul_into.default,
        lambda: [
            *(input, other, [each.node() for each in operands], [each.node() for each in outs]),
            *(epilogue, second[0] if second else None, ""),
        ],
    )
