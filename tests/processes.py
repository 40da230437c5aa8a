"""Runs test cases in several processes, as ranks of one group: gloo on CPUs, NCCL if there are enough GPUs.

A test file marks its cases with @case and reads their results from the fixture that `fixture(count)` makes. The processes
are started once; after a failure that leaves other ranks waiting, the remaining cases run in new ones.
"""

import datetime
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback

import pytest

TESTS = pathlib.Path(__file__).resolve().parent
SECONDS = 300  # the limit for one case, compilation included


def case(function):
    """Marks a case: a function that takes its rank's device, e.g. "cuda:1", and fails by raising."""
    function.__globals__.setdefault("CASES", []).append(function.__name__)
    return function


def device_of(wanted, count):
    """Returns "cuda" if the run is on GPUs and has one for each process, otherwise "cpu"."""
    if wanted.startswith("cuda"):
        import torch

        if torch.cuda.device_count() >= count:
            return "cuda"
    return "cpu"


def _start(file, cases, count, device, folder, long):
    environment = dict(os.environ, OMP_NUM_THREADS="1", TILE_LONG="1" if long else "0", PYTHONFAULTHANDLER="1")
    environment["PYTHONPATH"] = os.pathsep.join([*sys.path, str(TESTS)])
    return [
        subprocess.Popen(
            [sys.executable, __file__, str(file), str(rank), str(count), device, folder, *cases],
            env=environment,
            stdout=open(f"{folder}/out{rank}", "w"),
            stderr=subprocess.STDOUT,
        )
        for rank in range(count)
    ]


def _told(folder, count):
    """Returns for each rank the cases that it has finished: [name, error message or None]."""
    lists = []
    for rank in range(count):
        path = pathlib.Path(folder, f"rank{rank}")
        text = path.read_text() if path.exists() else ""
        lists.append([json.loads(line) for line in text.splitlines(True) if line.endswith("\n")])
    return lists


def _all_failed(folder, count, case):
    """Returns True if the case with this number failed in every rank: then none waits, and the next case can start."""
    for _ in range(100):
        told = _told(folder, count)
        if all(len(each) >= case for each in told):
            return all(each[case - 1][1] for each in told)
        time.sleep(0.05)
    return False


def run_cases(file, cases, count, device, long=False):
    """Returns {case: "" or what went wrong}."""
    results, left = {}, list(cases)
    while left:
        with tempfile.TemporaryDirectory() as folder:
            processes = _start(file, left, count, device, folder, long)
            begin, done = time.monotonic(), 0
            while any(process.poll() is None for process in processes):
                ended = min(len(told) for told in _told(folder, count))
                if ended > done:
                    begin, done = time.monotonic(), ended
                failed = any(process.poll() not in (None, 0) for process in processes)
                if failed or time.monotonic() - begin > SECONDS:
                    time.sleep(1 if failed else 0)
                    for process in processes:
                        process.kill()
                time.sleep(0.05)
            told = _told(folder, count)
            ended = min(len(each) for each in told)
            for at, name in enumerate(left[:ended]):
                results[name] = "\n".join(filter(None, (each[at][1] for each in told)))
            if ended < len(left):  # some rank did not finish this case, which broke the group
                errors = [each[ended][1] for each in told if len(each) > ended]
                outputs = "\n".join(pathlib.Path(folder, f"out{rank}").read_text()[-3000:] for rank in range(count))
                text = "\n".join(filter(None, errors))
                results[left[ended]] = text or f"no answer within {SECONDS} s, or a crash\n{outputs}"
            left = left[ended + 1 :]
    return results


def fixture(count):
    """Returns the fixture `outcome` for a module: outcome(name) fails if that case failed."""

    @pytest.fixture(scope="module")
    def outcome(request):
        wanted = sorted(
            {
                item.callspec.params["name"]
                for item in request.session.items
                if item.path == request.path and "name" in getattr(item, "callspec", _Empty).params
            }
        )
        cases = [name for name in request.module.CASES if name in wanted]
        device = device_of(request.config.getoption("device"), count)
        results = run_cases(request.path, cases, count, device, request.config.getoption("long"))

        def check(name):
            if results[name]:
                pytest.fail(results[name], pytrace=False)

        return check

    return outcome


class _Empty:
    params = {}


def main(file, rank, count, device, folder, *cases):
    rank, count = int(rank), int(count)
    sys.path.insert(0, str(TESTS))
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    if device == "cuda":
        torch.cuda.set_device(rank)
        device = f"cuda:{rank}"
    dist.init_process_group(
        "nccl" if device != "cpu" else "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=count,
        timeout=datetime.timedelta(seconds=SECONDS),
    )
    spec = importlib.util.spec_from_file_location(pathlib.Path(file).stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    for name in cases:
        torch.manual_seed(0)
        error = None
        try:
            getattr(module, name)(device)
        except BaseException:
            error = f"rank {rank}\n{traceback.format_exc()}"
        with open(f"{folder}/rank{rank}", "a") as told:
            told.write(json.dumps([name, error]) + "\n")
        if error and not _all_failed(folder, count, len(_told(folder, count)[rank])):
            os._exit(1)  # other ranks wait for this one
    os._exit(0)  # no rank waits, so no teardown is needed


if __name__ == "__main__":
    main(*sys.argv[1:])
