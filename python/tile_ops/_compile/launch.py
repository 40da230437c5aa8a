"""Makes kernels from their source, and launches them, for generated modules."""

import hashlib
import linecache

import tile_ops.language as tl
from tile_ops import _C

_kernels = {}


def tile_kernel(name, text):
    """Returns the kernel of a text; equal texts are one kernel."""
    text = text.strip("\n") + "\n"  # the lines that places name are then the same wherever the text comes from
    if text not in _kernels:
        # Modules of inductor's caches may have kernels of one name, and a kernel reads its source when it is launched first.
        file = f"<{name} {hashlib.sha256(text.encode()).hexdigest()[:16]}>"
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)
        space = {"tl": tl, "__name__": "tile_ops_generated"}
        exec(compile(text, file, "exec"), space)
        _kernels[text] = tl.kernel(space[name])
    return _kernels[text]


def tile_call(kernel, layout, grid):
    """Returns a function of tensors and numbers that launches the kernel; see _C.CompiledCall."""
    return _C.CompiledCall(kernel, (*layout, grid))
