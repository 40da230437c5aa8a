"""make demo: trains two models on our operators and on plain torch, compares their losses, and prints tables of times.

    python examples/demo.py [--device cpu|cuda]

It uses a GPU if torch has one that kernels run on, otherwise the CPU."""

import argparse
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "output"
sys.path.insert(0, str(ROOT / "benchmarks"))
import measure  # noqa: E402

if __name__ == "__main__":
    measure.start_warm()  # before torch is imported

import torch  # noqa: E402

import compare  # noqa: E402
import diffusion  # noqa: E402
import language  # noqa: E402
import operator_table  # noqa: E402
import step_times  # noqa: E402
from small_models import Denoiser, Llama  # noqa: E402

OLDEST = (8, 0)  # minimum compute capability


class NoGpu(Exception):
    pass


def chosen_device(wanted=None):
    """Returns "cpu" or "cuda"; by default a GPU if kernels run on it. Raises NoGpu if one is wanted and not available."""
    there = torch.cuda.is_available()
    if wanted == "cuda" and not there:
        raise NoGpu("--device cuda: torch sees no GPU; `python -m tile_ops doctor` says what is missing")
    return wanted or ("cuda" if there and torch.cuda.get_device_capability() >= OLDEST else "cpu")


def report(name, runs):
    first, last = compare.check(name, runs["torch"].losses, runs["tile"].losses)
    ours, theirs = (compare.smoothed(runs[key].losses) for key in ("tile", "torch"))
    print(f"{name}: loss {ours[0]:.4f} -> {ours[-1]:.4f} on our operators, {theirs[0]:.4f} -> {theirs[-1]:.4f} in plain torch")
    print(f"  first {compare.FIRST} losses differ by at most {first:.1e} relative (allowed {compare.FIRST_TOLERANCE:.0e}),")
    print(f"  the final smoothed loss by {last:.1e} (allowed {compare.LAST_TOLERANCE:.0e})")
    print(f"  {len(ours)} steps: {runs['tile'].seconds:.1f} s on our operators, {runs['torch'].seconds:.1f} s in plain torch")
    return {"plain torch": theirs, "tile_ops": ours}


def train_language(steps, device="cpu"):
    text = language.Text()
    runs = compare.train_both("language model", lambda ops: Llama(ops, len(text.characters)), text.loss, steps, 3e-3, device)
    return text, runs


def train_denoiser(steps, device="cpu"):
    return compare.train_both("denoiser", Denoiser, diffusion.loss, steps, 2e-3, device)


def main(device):
    import charts

    start = time.perf_counter()
    OUTPUT.mkdir(exist_ok=True)
    where = torch.cuda.get_device_name() if device == "cuda" else f"the CPU, {torch.get_num_threads()} threads"
    print(f"on {where}; torch {torch.__version__}")
    text, runs = train_language(180, device)
    curves = report("language model", runs)
    charts.curves(OUTPUT / "language_loss.png", "language model: loss", curves)
    print("  it writes:", *text.sample(runs["tile"].model, "// ", 200).splitlines(), sep="\n    ")

    runs = train_denoiser(220, device)
    curves = report("denoiser", runs)
    charts.curves(OUTPUT / "denoiser_loss.png", "denoiser: loss", curves)
    drawn = diffusion.draw(10, torch.Generator().manual_seed(2))
    charts.gallery(OUTPUT / "pictures.png", [drawn, diffusion.sample(runs["tile"].model, 10).cpu()])

    table, problems = step_times.measure_models(device)
    print("", step_times.text(table, device), *problems, sep="\n")
    if device == "cpu":
        print("(torch.compile takes minutes for a whole model on a CPU; on a GPU it is measured too)")
    table, why = operator_table.measure_rows(tick=lambda done, total: compare.progress("operators", done, total), device=device)
    print()
    print(operator_table.text(table, device))
    if why:
        print(f"torch.compile did not run: {why}")
    print()
    print(f"written: {', '.join(str(path.relative_to(OUTPUT.parent)) for path in sorted(OUTPUT.glob('*.png')))}")
    print("(pictures.png: above drawn for training, below made from noise)")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--device", choices=("cpu", "cuda"), help="a GPU where there is one, else the CPU")
    try:
        main(chosen_device(options.parse_args().device))
    except (compare.LossesDiffer, NoGpu) as problem:
        sys.exit(str(problem))
