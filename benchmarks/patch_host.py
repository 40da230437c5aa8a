"""Measures what tile_ops.patch costs the host: microseconds of a call of each kind of module, torch's and patched.

    python benchmarks/patch_host.py [--only REGEX] [--device cuda] [--launches] [--rounds 25] [--write]

Tensors are small, so that most of the time is the host's. On a CPU the launches of our kernels are left out, unless --launches
keeps them, because a GPU would run them; torch's functions do their work, which is little. On a GPU the queue is empty before
each round and stays short. Two equal modules, one of them patched, are called alternately on one thread; the time is the lower
quartile of the rounds, because other programs only add to it.
training: the call and its gradients. The last rows are blocks and models of transformers and diffusers, where these are
installed."""

import argparse
import copy
import functools
import gc
import re
import statistics
import sys
import time

import patch_host_cases
import report
import tile_ops
import torch

HEAD = ["call", "torch", "patched", "difference", "torch, training", "patched, training", "difference, training", "bar"]
SECONDS = 2e-3  # of a round of one call
WARM = 20  # calls of each module that are not timed
ALLOWED = 1.0  # microseconds that a patched module may take longer than torch's


def tensors_in(result):
    """Returns the tensors with a gradient in a result, whatever holds them."""
    if isinstance(result, torch.Tensor):
        return [result] if result.requires_grad else []
    values = result.values() if isinstance(result, dict) else result if isinstance(result, (tuple, list)) else ()
    return [tensor for each in values for tensor in tensors_in(each)]


def inference(case, module):
    def call():
        with torch.no_grad():
            case.call(module)

    return call


def training(case, module):
    """Returns a call of a module and of its gradients, for fixed gradients of its results."""
    wanted = [each for each in (*module.parameters(), *case.inputs) if each.requires_grad]
    grads = [torch.ones_like(each) for each in tensors_in(case.call(module))]

    def call():
        torch.autograd.grad(tensors_in(case.call(module)), wanted, grads, allow_unused=True)

    return call


def times_of(calls, rounds, synchronize):
    """Returns the microseconds of each of a dict of calls, run alternately. synchronize: waits for the GPU; None on a CPU."""
    clock = time.perf_counter_ns if synchronize else time.process_time_ns  # others may use a CPU's cores
    synchronize = synchronize or (lambda: None)
    counts, taken = {}, {name: [] for name in calls}
    for name, call in calls.items():
        for _ in range(WARM):
            call()
        synchronize()
        start = time.perf_counter()
        call()
        counts[name] = max(1, min(200, int(SECONDS / (time.perf_counter() - start))))
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, call in calls.items():
                synchronize()
                start = clock()
                for _ in range(counts[name]):
                    call()
                taken[name].append((clock() - start) / counts[name])
    finally:
        gc.enable()
        synchronize()
    return {name: 1e-3 * statistics.quantiles(values, n=4)[0] for name, values in taken.items()}


def measured(case, options):
    """Returns the microseconds of torch's module and of the patched one, of inference and of training."""
    plain = case.make().to(options.device)
    case.to(options.device)
    patched = copy.deepcopy(plain)
    tile_ops.patch(patched)
    synchronize = torch.cuda.synchronize if options.device == "cuda" else None
    found = []
    for way in (inference, training):
        if way is training and not case.trains:
            return [*found, None, None]
        for module in (plain, patched):
            module.train(case.in_training or way is training and case.is_model)
        calls = {"torch": way(case, plain), "patched": way(case, patched)}
        take = functools.partial(times_of, calls, options.rounds, synchronize)
        found += (take() if options.launches else tile_ops._C.without_launches(take)).values()
    return found


def row(case, times):
    pairs = [pair for pair in (times[:2], times[2:]) if pair[0] is not None]
    allowed = 0 if case.is_model else ALLOWED
    bar = f"torch's + {allowed:g} us" if allowed else "torch's"
    numbers = [text for a, b in pairs for text in (f"{a:.2f}", f"{b:.2f}", f"{b - a:+.2f}")]
    reached = all(b <= a + allowed for a, b in pairs)
    return [case.name, *numbers, *[""] * (6 - len(numbers)), bar + ("" if reached else ", missed")]


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="", help="a regular expression of the names of rows")
    options.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    options.add_argument("--launches", action="store_true", help="run our kernels on a CPU, too")
    options.add_argument("--rounds", type=int, default=25)
    options.add_argument("--write", action="store_true", help="write the table into results/")
    options = options.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("benchmarks/patch_host.py --device cuda needs a GPU that torch sees")
    options.launches |= options.device == "cuda"
    torch.set_num_threads(1)
    torch.manual_seed(0)
    chip = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
    where = f"{report.cpu_name()}; " + (chip if chip != "cpu" else "no GPU: processor time, ")
    if chip == "cpu":
        where += "with our kernels" if options.launches else "without our kernels, which a GPU would run"
    words = [
        f"{where}; torch {torch.__version__}. Microseconds of a call in float32 of small tensors, torch's module and the patched",
        f"one, lower quartiles of {options.rounds} interleaved rounds. training: the call and its gradients. Made by",
        "`python benchmarks/patch_host.py --write`" + (", with `--device cuda`." if chip != "cpu" else "."),
    ]
    table = report.Table("The host's time of patched modules", words, HEAD, {"call", "bar"})
    for case in patch_host_cases.all_cases(lambda text: print(text, file=sys.stderr)):
        if re.search(options.only, case.name):
            table.add(*row(case, measured(case, options)))
    if options.write:
        table.write(report.file_name("patched", chip))


if __name__ == "__main__":
    main()
