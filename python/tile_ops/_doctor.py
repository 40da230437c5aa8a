"""doctor: checks all that kernels need, and says how to fix what is missing or wrong."""

import sys

import torch

WELL, NOTE, WRONG = "ok", "--", "WRONG"
CUDA_TORCH = "install a torch for CUDA, https://pytorch.org says how"


def size(count: int) -> str:
    return f"{count} B" if count < 1024 else f"{count / 1024:.1f} KiB" if count < 2**20 else f"{count / 2**20:.1f} MiB"


def _module():
    from . import _C

    return _C


def _call(function):
    """Returns (result, None), or (None, the error's message)."""
    try:
        return function(), None
    except Exception as error:  # any error is part of the report
        return None, (str(error) or repr(error)).splitlines()[0]


def _kernel_on(device, reference):
    """Runs a small kernel on the device and returns how its result compares."""
    x = torch.linspace(-4, 4, 33 * 100, device="cpu").reshape(33, 100)
    result = torch.ops.tile.softmax(x.to(device), -1).cpu()
    difference = (result.double() - reference(x)).abs().max().item()
    if not difference < 1e-6:
        raise RuntimeError(f"a softmax there is wrong by {difference:.1e}; please report it with this whole output")
    return f"a softmax there is right within {difference:.0e}"


def _torch_version():
    return f"{torch.__version__}, " + (f"for CUDA {torch.version.cuda}" if torch.version.cuda else "for the CPU alone")


def _torch():
    yield WELL, "torch", _torch_version()
    for text in _module().registration_errors():
        yield WRONG, "operators", text


def instructions():
    """Returns the instruction set of CPU kernels as text."""
    return _module().isa() + (" with AMX" if _module().amx() else "")


def _cpu():
    said, error = _call(lambda: _kernel_on("cpu", lambda x: torch.softmax(x.double(), -1)))
    yield (WRONG, "CPU", error) if error else (WELL, "CPU", f"instruction set {instructions()}; {said}")


def _device(index, device, archs):
    subject, name = (f"device {index}", f"{device['name']}, sm_{device['arch']}, {device['multiprocessors']} multiprocessors")
    if device["arch"] < (oldest := _module().oldest_arch):
        return (WRONG, subject, f"{name}; kernels need sm_{oldest} or newer: use a GPU of the Ampere generation or a later one")
    if archs and device["arch"] not in archs:
        return WRONG, subject, f"{name}; NVRTC knows sm_{archs[0]} to sm_{archs[-1]}: pip install -U nvidia-cuda-nvrtc"
    if not torch.version.cuda:
        return NOTE, subject, f"{name}; torch cannot use it: {CUDA_TORCH}"
    if index >= torch.cuda.device_count():
        return WRONG, subject, f"{name}; torch does not see it: look at CUDA_VISIBLE_DEVICES, and restart the process"
    said, error = _call(lambda: _kernel_on(f"cuda:{index}", lambda x: torch.ops.tile.softmax(x, -1).double()))
    return (WRONG, subject, f"{name}; {error}") if error else (WELL, subject, f"{name}; {said}")


def _gpus():
    driver, no_driver = _call(_module().driver)
    nvrtc, no_nvrtc = _call(_module().nvrtc)
    # Without a GPU, kernels run on the CPU, so this is not an error.
    absent = WRONG if driver else NOTE
    yield (absent, "NVRTC", no_nvrtc) if no_nvrtc else (WELL, "NVRTC", f"{nvrtc[1]}, {nvrtc[0]}")
    if no_driver:
        expected = torch.version.cuda and torch.cuda.is_available()
        yield (WRONG if expected else NOTE), "driver", f"{no_driver}; without it kernels run on the CPU alone"
        return
    count = len(driver["devices"])
    yield WELL, "driver", f"serves CUDA {driver['version']}, and has {count} device{'s' if count != 1 else ''}"
    archs = [] if no_nvrtc else _module().nvrtc_archs()
    for index, device in enumerate(driver["devices"]):
        yield _device(index, device, archs)


def _cache():
    info, error = _call(_module().cache_info)
    if error:
        yield WRONG, "cache", error
    elif info["budget"] == 0:
        yield NOTE, "cache", "off by TILE_CACHE_MB=0: each process compiles its GPU kernels again"
    elif info["unusable"]:
        fix = "set TILE_CACHE_DIR to a folder that can be written, or each process compiles its GPU kernels again"
        yield WRONG, "cache", f"{info['folder'] or 'no folder'}: {info['unusable']}; {fix}"
    else:
        yield (WELL, "cache", f"{info['folder']}: {info['entries']} entries, {size(info['bytes'])} of {size(info['budget'])}")


def _packs():
    found, error = _call(_module().packs)
    if error:
        yield WRONG, "packs", error
        return
    if not found:
        yield NOTE, "packs", "none: kernels come from the cache or from NVRTC"
    for pack in found:
        chips = ", ".join(f"sm_{arch}" for arch in pack["archs"])
        text = (
            f"{pack['path']}: {pack['entries']} kernels for {chips}, {size(pack['bytes'])}; {pack['hits']} used by this process"
        )
        yield WELL, "packs", text


def _machine():
    driver, no_driver = _call(_module().driver)
    if no_driver:
        return no_driver
    names = [f"{device['name']} (sm_{device['arch']})" for device in driver["devices"]]
    return f"CUDA {driver['version']}, {', '.join(names) or 'no device'}"


def version() -> str:
    """Returns the first lines of a bug report: one each for this package, torch, Python, the CPU and the driver."""
    import platform

    from . import __version__

    rows = {
        "tile_ops": f"{__version__}, built for torch {_module().torch_version()}",
        "torch": _torch_version(),
        "Python": f"{platform.python_version()}, {platform.system()} {platform.machine()}",
        "CPU": instructions(),
        "driver": _machine(),
    }
    return "\n".join(f"{name:8}  {text}" for name, text in rows.items())


def doctor() -> bool:
    """Examines torch, the CPU, NVRTC, the driver, each GPU, packs and the disk cache, and prints a line for each.

    A line that begins with WRONG ends with what to do, and -- begins a note. Returns True if nothing is wrong. Errors: it
    raises none; what it finds is in the lines.
    """
    well = True
    for part in (_torch, _cpu, _gpus, _packs, _cache):
        for state, subject, text in part():
            line = f"{state:5}  {subject:9}  {text}"
            print(f"\033[31m{line}\033[0m" if state == WRONG and sys.stdout.isatty() else line, flush=True)
            well = well and state != WRONG
    return well
