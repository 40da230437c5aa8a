"""Trials: runs a kernel once in a separate process, which is killed if the run takes too long. The process serves one
trial after another, and is restarted only if it was killed or has crashed."""

import atexit
import ctypes
import json
import math
import os
import select
import signal
import subprocess
import sys
import tempfile

import torch

from ..arguments import Flattener, blocks_of
from .copies import ALIGNMENT, spans_of
from .keys import device_of
from .measure import TileLaunchTimeoutError

_MAIN = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from tile_ops.language.tuning import trial; trial.serve()"


class TrialFailed(RuntimeError):
    """A run failed, or crashed its process."""


def _leaves(kernel, arguments):
    """Returns the run-time arguments as a flat list of (letter, value)."""
    found = []
    for position, (value, letter, note) in enumerate(zip(arguments, kernel.letters, kernel._annotations)):
        if letter != "c":
            flattener = Flattener(kernel._argument_names[position])
            flattener.structure(value, note)
            found += zip(flattener.letters, flattener.leaves)
    return found


def _packed(leaves):
    """Returns leaves in a form for torch.save: each memory once, and the tensors as views of it."""
    spans, packed = spans_of(leaf for _, leaf in leaves if isinstance(leaf, torch.Tensor)), []
    addresses = list(spans)
    for letter, leaf in leaves:
        if not isinstance(leaf, torch.Tensor):
            packed.append(("wide" if letter == "w" else "number", leaf))
            continue
        memory, first = None, 0
        if leaf.numel():
            memory = addresses.index(leaf.untyped_storage().data_ptr())
            first = leaf.storage_offset() * leaf.element_size() - spans[addresses[memory]][1]
        packed.append(("array", memory, first, str(leaf.device), leaf.dtype, tuple(leaf.shape), leaf.stride()))
    memories = []
    for tensor, first, behind in spans.values():
        whole = torch.empty(0, dtype=torch.uint8, device=tensor.device)
        whole.set_(tensor.untyped_storage(), first, (behind - first,))
        memories.append((whole.cpu(), str(tensor.device), whole.data_ptr() % ALIGNMENT))
    return memories, packed


def _unpacked(memories, packed):
    """Returns the arguments of run_ir, in memory of this process with the same alignment."""
    allocated = []
    for whole, device, skip in memories:
        room = torch.empty(whole.numel() + ALIGNMENT, dtype=torch.uint8, device=device)
        skip = (skip - room.data_ptr()) % ALIGNMENT
        room[skip : skip + whole.numel()].copy_(whole)
        allocated.append((room, skip))
    arguments = []
    for kind, *rest in packed:
        if kind == "array":
            memory, first, device, dtype, shape, stride = rest
            tensor = torch.empty(0, dtype=dtype, device=device)
            if memory is None:
                arguments.append(torch.empty_strided(shape, stride, dtype=dtype, device=device))
                continue
            room, skip = allocated[memory]
            offset = (skip + first) // dtype.itemsize
            arguments.append(tensor.set_(room.untyped_storage(), offset, shape, stride))
        elif kind == "wide":
            arguments.append(ctypes.c_int64(rest[0]))
        else:
            arguments.append(ctypes.c_float(rest[0]) if isinstance(rest[0], float) else rest[0])
    return arguments


def _waiting():
    """Returns the live process of an earlier search; None: no such process is left."""
    while _idle:
        process = _idle.pop()
        if process.serves():
            return process
        process.end()
    return None


class _Process:
    """A process that serves trials."""

    def __init__(self):
        self._said = b""
        theirs_in, self._write = os.pipe()
        self._read, theirs_out = os.pipe()
        arguments = [sys.executable, "-I", "-c", _MAIN, json.dumps(sys.path), str(theirs_in), str(theirs_out)]
        self._process = subprocess.Popen(
            arguments,
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)

    def send(self, request):
        os.write(self._write, (json.dumps(request) + "\n").encode())

    def answer(self, seconds=None):
        """Returns the next answer of the process. Errors: TimeoutError; EOFError if the process has ended."""
        events = select.poll()  # select() takes no descriptors above 1023
        events.register(self._read, select.POLLIN)
        while b"\n" not in self._said:
            if not events.poll(None if seconds is None else math.ceil(min(1000 * seconds, 2**31 - 1))):
                raise TimeoutError
            part = os.read(self._read, 4096)
            if not part:
                raise EOFError
            self._said += part
        line, _, self._said = self._said.partition(b"\n")
        return json.loads(line)

    def serves(self):
        return self._process.poll() is None

    def end(self):
        self._process.kill()
        code = self._process.wait()
        os.close(self._read)
        os.close(self._write)
        return code


_idle = []  # a process that waits for the next search


@atexit.register
def _end_idle():
    while _idle:
        _idle.pop().end()


class Trials:
    """Runs kernels, each for at most `limit` seconds. After the `with` block the process is kept for the next search."""

    def __init__(self, limit):
        if isinstance(limit, bool) or not isinstance(limit, (int, float)) or not limit > 0:
            raise ValueError(f"single_run_timeout_sec is {limit!r}; give seconds, more than 0, or None for no limit")
        self.limit, self._process = limit, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process is not None:
            _idle.append(self._process)
        while len(_idle) > 1:  # searches in several threads leave more than one
            _idle.pop(0).end()

    def _end(self):
        process, self._process = self._process, None
        return process.end() if process else None

    def run(self, kernel, grid, arguments):
        """Runs a kernel once, on copies. Errors: TileLaunchTimeoutError; TrialFailed; those of the kernel's source."""
        request = {"text": kernel.ir(*arguments), "grid": blocks_of(grid, arguments), "threads": torch.get_num_threads(),
                   "device": str(device_of(arguments))}  # fmt: skip
        shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        with tempfile.NamedTemporaryFile(dir=shared, prefix="tile-trial-") as file:
            torch.save(_packed(_leaves(kernel, arguments)), file)
            file.flush()
            try:
                self._process = self._process or _waiting() or _Process()
                self._process.send({**request, "file": file.name})
                said = self._process.answer()
                if said == "started":
                    said = self._process.answer(self.limit)
            except TimeoutError:
                self._end()
                raise TileLaunchTimeoutError(
                    f"{kernel.__name__}: kernel launch exceeded timeout {self.limit} sec; its process was ended"
                ) from None
            except (EOFError, OSError):
                code = self._end()
                how = signal.Signals(-code).name if code and code < 0 else f"exit code {code}"
                raise TrialFailed(f"{kernel.__name__}: a run ended its process: {how}") from None
            except BaseException:
                self._end()  # otherwise the next answer would be this run's
                raise
        if said != "done":
            raise TrialFailed(said)


# The rest runs in the process.


def serve():
    """Serves requests until its input is closed."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: it is killed when its parent ends
    requests, answers = open(int(sys.argv[2])), int(sys.argv[3])

    def say(text):
        os.write(answers, (json.dumps(text) + "\n").encode())

    for line in requests:
        try:
            _serve_one(json.loads(line), say)
        except Exception as error:  # noqa: BLE001 it is the answer
            say(f"{type(error).__name__}: {error}")


def _serve_one(request, say):
    from tile_ops import _C, synchronize

    torch.set_num_threads(request["threads"])
    device = torch.device(request["device"])
    arguments = _unpacked(*torch.load(request["file"], weights_only=True))
    with torch.cuda.device(device if device.type == "cuda" else -1):
        if device.type == "cuda":
            _C.run_ir(request["text"], tuple(request["grid"]), arguments)  # compiles and launches
            say("started")
            synchronize(device)
        else:
            _C.run_ir(request["text"], (0, 1, 1), arguments)  # compiles
            say("started")
            _C.run_ir(request["text"], tuple(request["grid"]), arguments)
    say("done")
