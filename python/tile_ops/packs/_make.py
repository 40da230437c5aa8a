"""Collects compiled kernels from the disk cache, records, packs and calls, and writes them into a pack."""

import concurrent.futures
import os
import re
import threading
import time
import zlib

from .. import _C

PACK, RECORD = b"tilepack", b"tilerec1"  # how the files begin


def arch_number(arch):
    """Returns 90 for 90, "90", "sm_90" and "sm_90a"."""
    match = re.fullmatch(r"(?:sm_)?(\d{2,3})[af]?", str(arch).strip())
    if not match:
        raise ValueError(f"pack: the arch is {arch!r}; write it as sm_90")
    if int(match[1]) < _C.oldest_arch:
        raise ValueError(f"pack: the arch is sm_{match[1]}, and kernels need sm_{_C.oldest_arch} or newer; give another")
    return int(match[1])


def compressed(item):
    """Returns an entry, whose body is the data itself, with a compressed body."""
    key, arch, cuda, size, data = item
    body = zlib.compress(data, 9)
    return key, arch, cuda, size, body if len(body) < size else data


def kind_of(path):
    try:
        with open(path, "rb") as file:
            return file.read(8)
    except OSError as error:
        raise ValueError(f"{path}: it cannot be read: {error.strerror}; give a record or a pack") from None


class Contents:
    """The entries of a pack that is being made."""

    def __init__(self, archs):
        self.archs = archs
        self.items = {}
        self.failures = []
        self.lock = threading.Lock()

    def wants(self, arch):
        return self.archs is None or arch in self.archs

    def add(self, items):
        """Keeps the larger of two entries with one key: the other one has only the log."""
        for item in items:
            with self.lock:
                known = self.items.get(item[0])
                if self.wants(item[1]) and (known is None or known[3] < item[3]):
                    self.items[item[0]] = item

    def add_cache(self):
        for key in _C.keys_on_disk():
            item = _C.kernel_on_disk(key)
            if item and self.wants(item[1]):
                self.add([compressed(item)])

    def compile(self, kernels, jobs, progress):
        """Compiles (name, bytes of a record, arch) on as many threads: the compiler runs outside of Python's lock."""
        began = told = time.monotonic()

        def compile_one(name, record, arch):
            try:
                _C.compile_recorded(record, arch)
            # NVRTC may not know the chip, the chip may lack what the kernel needs, or the recorded program failed at it as
            # well. A pack of the other kernels is of use, and the caller shows what is left out.
            except (RuntimeError, ValueError) as error:
                with self.lock:
                    self.failures.append(f"{name} for sm_{arch}: {str(error).splitlines()[0]}")
            self.add(map(compressed, _C.take_collected()))

        _C.collect_kernels(True)
        try:
            with concurrent.futures.ThreadPoolExecutor(jobs or os.cpu_count()) as pool:
                running = [pool.submit(compile_one, *kernel) for kernel in kernels]
                try:
                    for done, each in enumerate(concurrent.futures.as_completed(running), 1):
                        each.result()
                        if progress and (time.monotonic() - told > 1 or done == len(running)):
                            told = time.monotonic()
                            progress(f"{done} of {len(running)} kernels, {told - began:.0f} s")
                except BaseException:
                    pool.shutdown(cancel_futures=True)
                    raise
        finally:
            _C.collect_kernels(False)


def traced(calls, archs):
    """Yields the kernels of the calls on each chip, each once."""
    seen = set()
    for arch in archs:
        for call in calls:
            for row in _C.inspect("record", arch, 0, call):
                if (row["cubin"], arch) not in seen:
                    seen.add((row["cubin"], arch))
                    yield row["kernel"], row["cubin"], arch


def make(path, sources, *, calls, archs, jobs, progress):
    calls = list(calls)
    archs = None if archs is None else sorted({arch_number(arch) for arch in archs})
    if calls and not archs:
        raise ValueError("pack: calls are compiled for the chips in archs, and it is empty; give archs=[90]")
    contents = Contents(archs)
    if sources is None and not calls:
        contents.add_cache()
    kernels = []
    for source in map(os.fspath, sources or ()):
        kind = kind_of(source)
        if kind == PACK:
            contents.add(_C.read_pack(source))
        elif kind == RECORD:
            kernels += [(name, bytes_, each) for name, arch, bytes_ in _C.recorded_kernels(source) for each in archs or [arch]]
        else:
            raise ValueError(f"{source}: it is neither a record of kernels nor a pack; give a file of TILE_RECORD or a pack")
    kernels += traced(calls, archs or ())
    if kernels:
        contents.compile(kernels, jobs, progress)
    if not contents.items:
        why = f"; the first failure: {contents.failures[0]}" if contents.failures else ""
        raise ValueError(
            f"{os.fspath(path)}: there are no kernels for the pack{why}; run the program first, or give its record"
        )
    _C.write_pack(os.fspath(path), list(contents.items.values()))
    return {
        "path": os.fspath(path),
        "entries": len(contents.items),
        "bytes": os.path.getsize(path),
        "archs": sorted({item[1] for item in contents.items.values()}),
        "failures": sorted(contents.failures),
    }
