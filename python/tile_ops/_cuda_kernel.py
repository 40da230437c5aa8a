"""cuda_kernel: kernels given as CUDA C++."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from . import _C
from ._inspect import arch_of

_libraries = []  # torch removes operators whose library is freed


def _tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for each in value for tensor in _tensors(each)] if isinstance(value, (tuple, list)) else []


def _unshared(parsed):
    """Returns (index, name) of each argument whose memory the schema lets no result share."""
    shared = {each for result in parsed.returns if result.alias_info for each in result.alias_info.before_set}
    return [
        (index, each.name)
        for index, each in enumerate(parsed.arguments)
        if not (each.alias_info and shared & each.alias_info.before_set)
    ]


def _require_new(operator, unshared, values, results):
    """Raises ValueError if a result shares memory with an argument, which torch forbids unless the schema says so."""
    made = {tensor.untyped_storage()._cdata for tensor in _tensors(results)}
    for index, name in unshared:
        if any(tensor.untyped_storage()._cdata in made for tensor in _tensors(values[index])):
            raise ValueError(
                f"{operator}: outputs returned the memory of its argument '{name}'; return a new tensor, such as "
                f"torch.empty_like({name})"
            )


class CudaKernel(_C.RawKernel):
    """A kernel given as CUDA C++: kernel[grid, block](*arguments) or kernel[grid, block, shared_bytes](*arguments).

    The kernel runs in the current stream of its tensors' device. Tensors pass their data pointer; None is a null pointer;
    numbers are converted to the parameter's type; bytes are a struct.

    grid, block: integers or tuples of up to three.
    Shapes: any; the kernel gets a pointer alone.
    Dtypes: a tensor's dtype is the one that the parameter points to.
    Units: grid counts blocks, block counts threads, shared_bytes is dynamic shared memory in bytes.
    Errors: TypeError for arguments that do not fit the parameters, ValueError for an empty or too large grid or block,
    RuntimeError for code that NVRTC refuses and without a GPU.
    """

    def compile(self, arch: int | None = None) -> "CudaKernel":
        """Compiles now, for a compute capability (90), by default that of the current GPU, and returns the kernel."""
        self._compile(arch_of() if arch is None else arch)
        return self

    def parameters(self, arch: int = 90) -> list[str]:
        """Returns the C++ types of its parameters, as compiled for `arch`."""
        return self._compile(arch)

    def set_constant(self, name: str, value: Any, device: int | None = None) -> None:
        """Sets a __constant__ or __device__ variable of the source, in the order of the current stream.

        value: a contiguous tensor, bytes or another buffer, of as many bytes as the variable. device: the index of a
        GPU, by default that of the tensor, otherwise the current one.
        """
        if isinstance(value, torch.Tensor):
            value = value.detach().contiguous()
            if device is None and value.is_cuda:
                device = value.device.index
            elif value.is_cuda and device != value.device.index:
                value = value.cpu()
        self._set(name, -1 if device is None else device, value)

    def as_op(
        self,
        schema: str,
        *,
        grid: Any,
        block: Any,
        outputs: Callable[..., Any] | None = None,
        arguments: Callable[..., Any] | None = None,
        shared_bytes: int | Callable[..., int] = 0,
    ) -> Any:
        """Makes the kernel a torch operator, "ns::name(Tensor x, float a) -> Tensor", and returns the operator.

        outputs: a function of the operator's arguments that returns its result or tuple of results, freshly allocated;
        it also runs on fake tensors. An operator that only writes into arguments, "(Tensor(a!) y) -> ()", has none.
        arguments: a function of the operator's arguments and results that returns the kernel's arguments; by default
        they are the same.
        grid, block, shared_bytes: as in a launch, or functions of the operator's arguments and results.
        A gradient is added with torch.library.register_autograd.
        """
        parsed = torch._C.parse_schema(schema)
        if "::" not in parsed.name:
            raise ValueError(f'{self.name}: as_op: {parsed.name!r} has no namespace; write "mine::{parsed.name}(…)"')
        if bool(parsed.returns) != bool(outputs):
            fix = "give outputs=" if parsed.returns else "leave outputs out"
            raise ValueError(f"{self.name}: as_op: {parsed.name} has {len(parsed.returns)} results; {fix}")
        namespace, bare = parsed.name.split("::")
        unshared = _unshared(parsed)

        def values(given, named):
            rest = parsed.arguments[len(given) :]
            return [*given, *(named[each.name] if each.name in named else each.default_value for each in rest)]

        def allocate(*given, **named):
            every = values(given, named)
            results = outputs(*every) if outputs else None
            _require_new(parsed.name, unshared, every, results)
            return results

        def run(*given, **named):
            results = allocate(*given, **named)
            every = values(given, named)
            every += [] if results is None else results if isinstance(results, (list, tuple)) else [results]
            launch = [each(*every) if callable(each) else each for each in (grid, block, shared_bytes)]
            self[launch[0], launch[1], launch[2]](*(arguments(*every) if arguments else every))
            return results

        def refuse(*given, **named):
            raise NotImplementedError(f"{parsed.name}: runs on a GPU, and is given tensors on the CPU; move them with .cuda()")

        library = torch.library.Library(namespace, "FRAGMENT")
        library.define(schema[schema.index("::") + 2 :], tags=(torch.Tag.pt2_compliant_tag,))
        library.impl(bare, run, "CUDA")
        library.impl(bare, refuse, "CPU")
        torch.library.register_fake(parsed.name, allocate, lib=library)
        _libraries.append(library)
        return getattr(getattr(torch.ops, namespace), bare)

    def __repr__(self) -> str:
        return f"<tile_ops.CudaKernel {self.name}>"

    def __copy__(self):
        return self

    def __deepcopy__(self, _):
        return self

    def __reduce__(self):
        return _made_again, self._made_of

    def __reduce_ex__(self, _):
        return self.__reduce__()


def _made_again(index, source, names, options):
    return cuda_kernel(source, names, **options)[index]


def cuda_kernel(
    source: str,
    name: str | Sequence[str],
    *,
    headers: Mapping[str, Any] | None = None,
    options: Sequence[Any] = (),
    cluster: int | tuple[int, ...] = (1, 1, 1),
    programmatic: bool = False,
    file: str | os.PathLike[str] | None = None,
) -> Any:
    """Makes a kernel of a string of CUDA C++, or a tuple of kernels if `name` is a list of names.

    NVRTC compiles it at the first launch on a kind of chip, or at .compile(). The result is kept on disk.

    name: a C++ expression, such as "saxpy" or "ns::scale<float, 4>"; extern "C" is not needed.
    headers: names and texts of files that #include finds.
    options: NVRTC's, such as "-DN=4", "--use_fast_math" and "-Ifolder".
    cluster: blocks of a cluster, an integer or a tuple.
    programmatic: a launch may begin before the kernel before it in the stream has ended (griddepcontrol).
    file: the name of the source in compile errors, "saxpy.cu" by default.

    Shapes and dtypes: help(tile_ops.CudaKernel).
    Errors: TypeError and ValueError for arguments of a wrong type or value. RuntimeError with NVRTC's text for code that it
    refuses, at the first launch or at .compile().
    """
    names = [name] if isinstance(name, str) else list(name)
    headers = {key: str(text) for key, text in (headers or {}).items()}
    cluster = (cluster,) if isinstance(cluster, int) else tuple(cluster)
    if file is None:
        file = names[0].split("<")[0].split("::")[-1] + ".cu" if names else "kernel.cu"
    kernels = _C.raw_kernels(
        CudaKernel,
        source,
        names,
        os.fspath(file),
        list(headers),
        list(headers.values()),
        [str(option) for option in options],
        (*cluster, 1, 1)[:3],
        programmatic,
    )
    given = {"headers": headers, "options": tuple(map(str, options)), "cluster": cluster, "programmatic": programmatic}
    for index, each in enumerate(kernels):
        each._made_of = index, source, names, {**given, "file": os.fspath(file)}
    return kernels[0] if isinstance(name, str) else tuple(kernels)
