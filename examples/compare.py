"""Trains one model on two backends, from the same weights and batches, and compares the losses."""

import dataclasses
import sys
import time

import torch

from small_models import Tile, Torch

FIRST, FIRST_TOLERANCE = 20, 1e-3  # each of the first losses, relative
LAST, LAST_TOLERANCE = 20, 2e-2  # the mean of the last losses, relative


@dataclasses.dataclass
class Run:
    model: torch.nn.Module
    losses: list = dataclasses.field(default_factory=list)
    seconds: float = 0.0


class LossesDiffer(Exception):
    pass


def progress(name: str, done: int, total: int) -> None:
    """Prints one line that is overwritten; prints nothing if stderr is not a terminal."""
    if not sys.stderr.isatty():
        return
    width = 40
    filled = width * done // total
    end = "\n" if done == total else ""
    print(f"\r{name:<16} [{'#' * filled}{'.' * (width - filled)}] {done}/{total}{end}", end="", file=sys.stderr, flush=True)


def train_both(name, make, loss_of, steps, rate, device="cpu"):
    """Returns {"torch": Run, "tile": Run} after `steps` steps on the device, run alternately.

    make(ops) builds the model; loss_of(model, step) returns its loss on the batch of that step.
    """
    torch.manual_seed(0)
    with torch.device("cpu"):  # the same initial weights for every device
        runs = {"torch": Run(make(Torch)), "tile": Run(make(Tile))}
    for run in runs.values():
        run.model.to(device)
    finish = torch.cuda.synchronize if torch.device(device).type == "cuda" else lambda: None
    runs["tile"].model.load_state_dict(runs["torch"].model.state_dict())
    optimizers = {
        key: torch.optim.AdamW(run.model.parameters(), rate, betas=(0.9, 0.95), foreach=True) for key, run in runs.items()
    }
    for step in range(steps):
        for key, run in runs.items():
            optimizer = optimizers[key]
            warm = min(1.0, (step + 1) / 20)
            cool = min(1.0, (steps - step) / (0.4 * steps))
            for group in optimizer.param_groups:
                group["lr"] = rate * warm * cool
            finish()
            start = time.perf_counter()
            optimizer.zero_grad()
            loss = loss_of(run.model, step)
            loss.backward()
            optimizer.step()
            finish()
            run.seconds += time.perf_counter() - start
            run.losses.append(loss.item())
        progress(name, step + 1, steps)
    return runs


def smoothed(losses, count=LAST):
    """Returns the mean of the last `count` losses up to each step."""
    return [sum(losses[max(0, i - count + 1) : i + 1]) / min(count, i + 1) for i in range(len(losses))]


def difference(theirs, ours):
    """Returns the largest relative difference of the first losses, and that of the last smoothed ones."""
    first = max((abs(a - b) / abs(a) for a, b in zip(theirs[:FIRST], ours[:FIRST])), key=lambda x: (x != x, x))
    a, b = smoothed(theirs)[-1], smoothed(ours)[-1]
    return first, abs(a - b) / abs(a)


def check(name, theirs, ours):
    """Raises LossesDiffer if the tolerances are exceeded; a NaN exceeds them."""
    first, last = difference(theirs, ours)
    limits = ((f"one of the first {FIRST} losses", first, FIRST_TOLERANCE), ("the final smoothed loss", last, LAST_TOLERANCE))
    for what, value, allowed in limits:
        if not value <= allowed:
            raise LossesDiffer(f"{name}: {what} differs from plain torch's by {value:.2e} relative; allowed is {allowed:.0e}")
    return first, last
