"""inspect: returns the compiled form of an operator's kernels."""

import pathlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from typing import Any

import torch

KINDS = ("ir", "cuda", "ptx", "sass", "resources")


def _stand_in(value):
    """Replaces a tensor by a meta tensor that represents the same tensor on a GPU."""
    if isinstance(value, torch.Tensor):
        storage = value.untyped_storage().nbytes() // value.element_size()
        meta = torch.empty(storage, dtype=value.dtype, device="meta")
        meta = meta.as_strided(value.shape, value.stride(), value.storage_offset())
        return meta.requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(map(_stand_in, value))
    return value


def _tensors(values):
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def arch_of(device=None):
    """Returns the compute capability of a GPU, 90 for 9.0; by default of the current one."""
    major, minor = torch.cuda.get_device_capability(device)
    return major * 10 + minor


def _arch(arch, tensors):
    """Returns (arch, bytes of shared memory, or 0 for the arch's usual limit)."""
    device = next((tensor.device for tensor in tensors if tensor.is_cuda), None)
    if arch is not None or device is None:
        return arch or 90, 0
    return arch_of(device), torch.cuda.get_device_properties(device).shared_memory_per_block_optin


def _disassembled(cubin):
    """Returns the SASS of a cubin, from whichever of NVIDIA's tools is on PATH."""
    for tool, options in (("nvdisasm", ["-c"]), ("cuobjdump", ["-sass"])):
        if program := shutil.which(tool):
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, "kernel.cubin")
                path.write_bytes(cubin)
                done = subprocess.run([program, *options, str(path)], capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"inspect: {program} fails: {done.stderr.strip()}; install one of the kernel's CUDA version")
            return done.stdout
    raise RuntimeError(
        "inspect: neither nvdisasm nor cuobjdump is on PATH, and SASS is read with one of them; install the CUDA "
        "toolkit's nvdisasm, or look at what='ptx'"
    )


def _text(row, what):
    threads = (
        f", {row['threads']} threads, {row['shared_bytes']} bytes of shared memory, sm_{row['arch']}" if row["arch"] else ""
    )
    body = _disassembled(row["cubin"]) if what == "sass" else row["text"]
    return f"// {row['kernel']}, grid {row['grid']}{threads}\n{body.rstrip()}\n"


OTHERS = ("text", "cubin", "warning", "configuration", "entry", "acceptable")  # further keys that tests use


def _numbers(row):
    return {name: value for name, value in row.items() if name not in OTHERS}


def _inspect_text(kernel, what, arch):
    """Inspects a kernel given as CUDA C++."""
    if what == "ir":
        raise ValueError(f"inspect: {kernel.name} is CUDA C++ and has no Tile IR; look at what='ptx', 'sass' or 'resources'")
    if what == "cuda":
        return kernel.source
    if arch is None and torch.cuda.is_available():
        arch = arch_of()
    row = kernel._inspect("ptx" if what == "ptx" else "code", arch or 90)
    if what == "resources":
        return [{name: value for name, value in _numbers(row).items() if name not in ("grid", "threads", "path", "why")}]
    return _disassembled(row["cubin"]) if what == "sass" else row["text"]


def inspect(operator: Callable[..., Any], *args: Any, what: str = "ir", arch: int | None = None, **kwargs: Any) -> Any:
    """Returns the compiled form of the kernels that operator(*args, **kwargs) launches, in the order of their launches.

    what: "ir" (Tile IR after all passes), "cuda" (CUDA C++), "ptx", "sass" (by nvdisasm or cuobjdump, which must be on PATH)
    or "resources". "resources" gives a list of dictionaries, the others a text.
    arch: a compute capability, 90 for an H100, which is the default. Tensors on a GPU stand for that GPU.
    operator: an operator, a function that calls some, or a kernel of tile_ops.cuda_kernel, which needs no args.

    "ir" of tensors on the CPU is what the CPU runs, and the call runs. In all other cases nothing runs, and no GPU is needed:
    tensors on the CPU and meta tensors stand for tensors on a GPU.

    A dictionary of "resources" has kernel, grid, arch, threads, cluster, registers, spill_stores, spill_loads, stack_bytes,
    shared_bytes, path, why and conversions. path is the instructions of the kernel's products, "wgmma", "mma.sync" or
    "fma", or "" without products; why says what keeps them from wgmma. conversions has a dictionary for each line where a
    tile's elements go to other threads: op, where ("softmax.cpp:12"), type, from and to (layouts, and which access or
    product wants them), in_loop, way ("shuffles" or "shared memory"), shared_bytes, and reason. The text of "cuda" begins
    with them.

    Units: registers of a thread, bytes of a thread's stack and of a block's shared memory.
    Errors: ValueError for another `what`, for a call that launches no kernel, and for "ir" of CUDA C++. RuntimeError for
    "sass" without a disassembler.
    """
    from . import _C

    if what not in KINDS:
        raise ValueError(f"inspect: what is {what!r}; it is {', '.join(map(repr, KINDS[:-1]))} or {KINDS[-1]!r}")
    if isinstance(operator, _C.RawKernel):
        return _inspect_text(operator, what, arch)
    tensors = list(_tensors([*args, *kwargs.values()]))
    if what != "ir" or arch is not None or any(not tensor.is_cpu for tensor in tensors):
        args = [_stand_in(value) for value in args]
        kwargs = {name: _stand_in(value) for name, value in kwargs.items()}
    rows = _C.inspect(what, *_arch(arch, tensors), lambda: operator(*args, **kwargs))
    if not rows:
        raise ValueError(f"inspect: {operator} launches no kernel of tile_ops with these arguments; pass others")
    if what != "resources":
        return "\n".join(_text(row, what) for row in rows)
    return [_numbers(row) for row in rows]
