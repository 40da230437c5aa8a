"""Profiles a training step of a small Llama on our operators, and draws its roofline.

    python examples/profile_step.py [--device cpu|cuda] [--torch]

It prints the tables and writes output/profile.png and output/profile.json. --torch: the model in plain torch."""

import argparse
import pathlib

import torch

import tile_ops
from small_models import Llama, Tile, Torch

OUTPUT = pathlib.Path(__file__).resolve().parent.parent / "output"
VOCABULARY = 128
SIZES = {
    "cpu": dict(width=128, layers=2, heads=4, kv_heads=2, hidden=320, length=128),
    "cuda": dict(width=2048, layers=4, heads=32, kv_heads=8, hidden=5632, length=2048),
}
DTYPES = {"cpu": torch.float32, "cuda": torch.bfloat16}


def step_of(ops, device, sizes, texts=4):
    """Returns a function that trains a step."""
    model = Llama(ops, VOCABULARY, **sizes).to(device, DTYPES[device])
    optimizer = tile_ops.optim.AdamW(model.parameters()) if ops is Tile else torch.optim.AdamW(model.parameters())
    tokens = torch.randint(VOCABULARY, (texts, sizes["length"] + 1), device=device)
    cross_entropy = tile_ops.cross_entropy if ops is Tile else torch.nn.functional.cross_entropy

    def step():
        logits = model(tokens[:, :-1]).flatten(0, 1)
        cross_entropy(logits, tokens[:, 1:].flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", choices=SIZES, default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--torch", action="store_true", help="the model in plain torch")
    chosen = parser.parse_args(arguments)
    report = tile_ops.profile(step_of(Torch if chosen.torch else Tile, chosen.device, SIZES[chosen.device]))
    print(report)
    print()
    print("\n".join(report.table(report.operators, 12)))
    OUTPUT.mkdir(exist_ok=True)
    report.save(OUTPUT / "profile.png")
    report.chrome_trace(OUTPUT / "profile.json")
    return report


if __name__ == "__main__":
    main()
