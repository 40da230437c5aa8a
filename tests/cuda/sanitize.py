"""Runs compute-sanitizer over small calls of every operator and their gradients, on a GPU.

    python tests/cuda/sanitize.py [--only REGEX] [--tool memcheck] [--jobs N] [--seconds N]

Each tool runs each call in a process of its own: memcheck finds accesses outside of memory, racecheck threads of a
block that read and write shared memory at once. Exits with 1 where something is found or a call fails, with 2 where the
tool is not there or does not know this machine's GPU."""

import argparse
import concurrent.futures
import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys

TOOLS = ("memcheck", "racecheck")
SUMMARY = re.compile(r"(?:ERROR SUMMARY: |RACECHECK SUMMARY: )(\d+) (?:errors?|hazards?)")
UNSUPPORTED = re.compile(r"Device not supported|Unable to find injection library|not supported on this")


def group_norm(dtype, shape, last):
    import torch

    x = torch.randn(*shape, device="cuda").to(dtype)
    x = x.to(memory_format=torch.channels_last) if last else x
    w, b = torch.randn(2, shape[1], device="cuda").to(dtype)
    return lambda x, w, b: torch.ops.tile.group_norm(x, 32, w, b, activation="silu"), [x, w, b]


def attention(dtype, depth, causal):
    import torch

    q, k, v = torch.randn(3, 1, 2, 300, depth, device="cuda").to(dtype)
    return lambda q, k, v: torch.ops.tile.attention(q, k, v, is_causal=causal)[0], [q, k, v]


def listed():
    """{name: function that gives (function of tensors, tensors)}: every operator, and shapes that take other ways."""
    import torch

    sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
    import gpu_calls

    calls = {}
    for dtype in (torch.float32, torch.bfloat16):
        kind = str(dtype).removeprefix("torch.")
        for name in gpu_calls.calls("meta"):
            calls[f"{name} {kind}"] = lambda name=name, dtype=dtype: gpu_calls.calls("cuda", dtype)[name]
    bf16 = torch.bfloat16
    for shape in ((1, 320, 64, 64), (1, 512, 128, 128), (2, 1280, 16, 16)):
        for last in (False, True):
            calls[f"group_norm {list(shape)}{' channels_last' if last else ''}"] = functools.partial(
                group_norm, bf16, shape, last
            )
    for depth in (64, 128):
        for causal in (False, True):
            calls[f"attention [300,{depth}]{' causal' if causal else ''}"] = functools.partial(attention, bf16, depth, causal)
    return calls


def run_call(name):
    """In the process that is watched: the call and its gradient."""
    import tile_ops  # noqa: F401  registers the operators
    import torch

    function, tensors = listed()[name]()
    tensors = [tensor.detach().requires_grad_() for tensor in tensors]
    results = function(*tensors)
    results = results if isinstance(results, tuple) else (results,)
    results = [each for each in results if each.requires_grad]
    torch.autograd.grad(results, tensors, [torch.ones_like(each) for each in results])
    torch.cuda.synchronize()
    print("the call ran", flush=True)


def found_tool():
    """compute-sanitizer's path: on PATH, else in a CUDA toolkit; None: not there."""
    homes = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"]
    folders = [os.environ.get("PATH", os.defpath)]
    folders += [str(pathlib.Path(home, name)) for home in homes if home for name in ("bin", "compute-sanitizer")]
    return shutil.which("compute-sanitizer", path=os.pathsep.join(folders))


def verdict(output, code):
    """("ok", "wrong" or "unsupported", a line that says why) of a tool's output."""
    lines = output.strip().splitlines()
    if UNSUPPORTED.search(output):
        return "unsupported", next(line for line in lines if UNSUPPORTED.search(line))
    counts = [int(count) for count in SUMMARY.findall(output)]
    if counts and max(counts):
        said = [line for line in lines if re.search(r"Invalid|hazard|Misaligned|Error:|Program hit", line)]
        return "wrong", (said or lines)[0].strip()
    if "the call ran" not in output or code or not counts:
        return "wrong", lines[-1] if lines else f"ended with {code}"
    return "ok", ""


def watched(tool, name, program, seconds):
    """verdict of one call under one tool."""
    command = [program, "--tool", tool, "--error-exitcode", "99", sys.executable, __file__, "--call", name]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "wrong", f"takes longer than {seconds:g} s; try --seconds or fewer --jobs"
    return verdict(done.stdout, done.returncode)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="", metavar="REGEX", help="calls whose name it matches")
    options.add_argument("--tool", choices=TOOLS, help="this one alone")
    options.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 1), help="processes at a time")
    options.add_argument("--seconds", type=float, default=150, help="limit of each of them (default 150)")
    options.add_argument("--call", help=argparse.SUPPRESS)
    options = options.parse_args()
    if options.call:
        return run_call(options.call)
    program = found_tool()
    if not program:
        print("compute-sanitizer is neither on PATH nor in /usr/local/cuda; install the CUDA toolkit's, or set CUDA_HOME")
        return 2
    jobs = [
        (tool, name) for tool in TOOLS if options.tool in (None, tool) for name in listed() if re.search(options.only, name)
    ]
    seen = set()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for (tool, name), (state, why) in zip(jobs, pool.map(lambda job: watched(*job, program, options.seconds), jobs)):
            print(f"{tool:10} {name:45} {state}{': ' if why else ''}{why}", flush=True)
            seen.add(state)
    return 1 if "wrong" in seen else 2 if "unsupported" in seen else 0


if __name__ == "__main__":
    sys.exit(main())
