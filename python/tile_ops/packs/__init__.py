"""Packs: files of compiled GPU kernels, which programs load instead of compiling.

A kernel is found by the hash of its source, so a pack never gives code of another version. Kernels that no pack holds come from
the disk cache or from NVRTC. The packs in use are those that `load` opened, those of the variable TILE_PACKS, and the
files `*.pack` in the folder of this package, which may ship with tile_ops.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Path = str | os.PathLike[str]


def _module():
    from .. import _C

    return _C


def load(path: Path) -> None:
    """Opens a pack: from now on kernels are looked for in it.

    Errors: ValueError if the file cannot be read, is no pack or is damaged.
    """
    _module().load_pack(os.fspath(path))


def found() -> list[dict[str, Any]]:
    """Returns the packs in use, in the order in which kernels are looked for.

    A dictionary has path, entries, bytes (of the file), archs (90 for sm_90) and hits, the kernels that this process has
    taken from it.
    Errors: ValueError if a pack of TILE_PACKS or of the package is damaged.
    """
    return _module().packs()


@contextlib.contextmanager
def record(path: Path) -> Iterator[None]:
    """Appends the kernels that are asked for in the block to a file, from which `make` compiles them for other chips.

    Only first calls of a process ask for kernels. The variable TILE_RECORD=path records a whole program, without a change of
    it; processes of one program may share the file.
    """
    _module().record_kernels_in(os.fspath(path))
    try:
        yield
    finally:
        _module().record_kernels_in("")


def make(
    path: Path,
    sources: Iterable[Path] | None = None,
    *,
    calls: Iterable[Callable[[], Any]] = (),
    archs: Iterable[int | str] | None = None,
    jobs: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Makes a pack, and returns its path, entries, bytes, archs and failures.

    sources: records and packs. Records are compiled for `archs`; packs add their entries. Without sources and calls the pack
    holds what the user's disk cache holds.
    calls: functions without arguments. They run once for each arch, with meta tensors in the place of tensors on a GPU, and
    nothing runs on a device; so operators choose their kernels as they would on that chip.
    archs: compute capabilities, 90 or "sm_90a". By default those that the records were made on, and all of packs and the cache.
    jobs: how many kernels are compiled at once, by default one a core.
    progress: called with a text now and then.

    failures lists the kernels that cannot be compiled for a chip, with the reason; the pack is made without them.
    Errors: ValueError for a file that is neither a record nor a pack, and for calls without archs.
    """
    from ._make import make as made

    return made(path, sources, calls=calls, archs=archs, jobs=jobs, progress=progress)


__all__ = ["found", "load", "make", "record"]
