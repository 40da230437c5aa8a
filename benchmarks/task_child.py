"""A process with a task, given as JSON: it calls a function of a module, which tells its parent lines of JSON.

python task_child.py '{"module": "compiled_child", "task": "first", …}'"""

import importlib
import json
import os
import sys

MARK = "== "  # begins the lines for the parent; libraries print others
STARTS = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.fork", "os.forkpty")
BEGUN = {"begun": True}


def tell(**what):
    print(MARK + json.dumps(what), flush=True)


def program(event, arguments):
    """Returns the name of a program that an audit event starts; of a Python program, its script or module, too."""
    if event.startswith("os.fork"):
        return "a fork"
    words = arguments[0] if event == "os.system" else arguments[1]
    if isinstance(words, (str, bytes)):
        words = os.fsdecode(words).split()
    words = [os.fsdecode(word) for word in words]
    name = os.path.basename(words[0]) if words else event
    if not name.startswith("python"):
        return name
    if "-m" in words[:-1]:
        return f"python -m {words[words.index('-m') + 1]}"
    return " ".join(["python", *("/".join(word.split("/")[-2:]) for word in words[1:] if word.endswith(".py"))][:2])


def watched():
    """Returns a list that the names of all programs are added to that this process starts from now on."""
    found = []
    sys.addaudithook(lambda event, arguments: event in STARTS and found.append(program(event, arguments)))
    return found


def loaded(backend):
    """Returns a backend for torch.compile: a registered name, or module:function."""
    import tile_ops  # noqa: F401 registers its backend

    if ":" not in backend:
        return backend
    module, name = backend.split(":")
    return getattr(importlib.import_module(module), name)


def wait(device):
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def warmed(device):
    """Does what torch does once a process: its context, its kernels, the threads of gradients, and what it imports for them."""
    import torch

    x = torch.ones(64, 64, device=device, requires_grad=True)
    (x @ x).sum().backward()
    wait(device)


if __name__ == "__main__":
    TASK = json.loads(sys.argv[1])
    getattr(importlib.import_module(TASK["module"]), TASK["task"])(TASK)
    sys.stdout.flush()
    sys.stderr.flush()
    # While Python exits, torch's autograd threads may still release a Python object, which terminates the process.
    os._exit(0)
