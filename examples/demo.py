"""make demo: two models trained on our operators and on plain torch, their losses compared, and a table of operators."""

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
from models import Denoiser, Llama  # noqa: E402


def report(name, runs):
    first, last = compare.check(name, runs["torch"].losses, runs["tile"].losses)
    ours, theirs = (compare.smoothed(runs[key].losses) for key in ("tile", "torch"))
    print(f"{name}: loss {ours[0]:.4f} -> {ours[-1]:.4f} on our operators, {theirs[0]:.4f} -> {theirs[-1]:.4f} in plain torch")
    print(f"  first {compare.FIRST} losses differ by at most {first:.1e} relative (allowed {compare.FIRST_TOLERANCE:.0e}),")
    print(f"  the final smoothed loss by {last:.1e} (allowed {compare.LAST_TOLERANCE:.0e})")
    print(f"  {len(ours)} steps: {runs['tile'].seconds:.1f} s on our operators, {runs['torch'].seconds:.1f} s in plain torch")
    return {"plain torch": theirs, "tile_ops": ours}


def train_language(steps):
    text = language.Text()
    runs = compare.train_both("language model", lambda ops: Llama(ops, len(text.characters)), text.loss, steps, 3e-3)
    return text, runs


def train_denoiser(steps):
    return compare.train_both("denoiser", Denoiser, diffusion.loss, steps, 2e-3)


def main():
    import charts

    start = time.perf_counter()
    OUTPUT.mkdir(exist_ok=True)
    text, runs = train_language(180)
    curves = report("language model", runs)
    charts.curves(OUTPUT / "language_loss.png", "language model: loss", curves)
    print("  it writes:", *text.sample(runs["tile"].model, "// ", 200).splitlines(), sep="\n    ")

    runs = train_denoiser(220)
    curves = report("denoiser", runs)
    charts.curves(OUTPUT / "denoiser_loss.png", "denoiser: loss", curves)
    drawn = diffusion.draw(10, torch.Generator().manual_seed(2))
    charts.gallery(OUTPUT / "pictures.png", [drawn, diffusion.sample(runs["tile"].model, 10)])

    table, why = operator_table.measure_rows(tick=lambda done, total: compare.progress("operators", done, total))
    print()
    print(operator_table.text(table))
    if why:
        print(f"torch.compile did not run: {why}")
    print()
    print(f"written: {', '.join(str(path.relative_to(OUTPUT.parent)) for path in sorted(OUTPUT.glob('*.png')))}")
    print("(pictures.png: above drawn for training, below made from noise)")
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    try:
        main()
    except compare.LossesDiffer as problem:
        sys.exit(str(problem))
