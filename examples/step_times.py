"""The demo's table of models: the time of a training step in plain torch, with torch.compile, and with our operators."""

import torch
import torch.nn.functional as F

import diffusion
import language
import measure  # of benchmarks/
from small_models import Denoiser, Llama, Tile, Torch
from operator_table import DTYPES, aligned, dtype_name

# On the CPU, the models that the demo trains. On a GPU, they would only measure launches.
SIZES = {
    "cpu": dict(
        language=dict(width=128, layers=3, heads=4, kv_heads=2, hidden=320, length=language.LENGTH),
        texts=language.BATCH,
        denoiser=dict(channels=32, groups=4, heads=2),
        pictures=diffusion.BATCH,
        side=diffusion.SIZE,
    ),
    "cuda": dict(
        language=dict(width=1024, layers=6, heads=16, kv_heads=4, hidden=2816, length=1024),
        texts=8,
        denoiser=dict(channels=256, groups=32, heads=4),
        pictures=16,
        side=64,
    ),
}
VOCABULARY = 128
COLUMNS = ("eager", "compile", "ours", "ours in compile")
COMPILING = 120  # limit of torch.compile for a model, in seconds


def models(device, sizes):
    """Yields name, description of the input, make(ops), and loss_of(model)."""
    length, width, layers = (sizes["language"][key] for key in ("length", "width", "layers"))
    tokens = torch.randint(VOCABULARY, (sizes["texts"], length + 1), device=device)

    def language_loss(model):
        return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1).float(), tokens[:, 1:].flatten())

    yield (
        "language model",
        f"{layers} layers of {width}, {sizes['texts']} x {length} characters",
        lambda ops: Llama(ops, VOCABULARY, **sizes["language"]),
        language_loss,
    )
    pictures, side = sizes["pictures"], sizes["side"]
    mixed, noise = torch.randn(2, pictures, 1, side, side, device=device).to(DTYPES[device])
    time = torch.rand(pictures, device=device)

    def denoiser_loss(model):
        return (model(mixed, time) - noise).float().square().mean()

    yield (
        "denoiser",
        f"{sizes['denoiser']['channels']} channels, {pictures} x {side} x {side} pixels",
        lambda ops: Denoiser(ops, **sizes["denoiser"]),
        denoiser_loss,
    )


def step_of(model, loss_of):
    """Returns a call that trains the model for one step: loss, gradients, AdamW."""
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)

    def step():
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()

    return step


def measure_models(device, seconds=0.5, compiled=None, sizes=None):
    """Returns a row of text per model, and a line for each way that did not run.

    compiled: whether to measure torch.compile; by default only on a GPU, because it takes minutes for a whole model on
    a CPU.
    """
    table, problems = [], []
    compiled = device == "cuda" if compiled is None else compiled
    for name, size, make, loss_of in models(device, sizes or SIZES[device]):
        ways = {"eager": (Torch, False), "ours": (Tile, False)}
        if compiled:
            ways |= {"compile": (Torch, True), "ours in compile": (Tile, True)}
        functions = {}
        for way, (ops, compiles) in ways.items():
            torch.manual_seed(0)
            with torch.device("cpu"):
                model = make(ops)
            model.to(device, DTYPES[device])
            try:
                with measure.time_limit(COMPILING):
                    step = step_of(torch.compile(model, dynamic=False) if compiles else model, loss_of)
                    step()
                functions[way] = step
            except Exception as problem:  # no compiler on this machine, or no memory: the other ways still run
                problems.append(f"{name}, {way}: {measure.reason(problem)}")
        times = measure.rounds_of(functions, seconds, least=3, device=device)
        table.append([name, size, *(f"{1e3 * times[way]:.2f}" if way in times else "-" for way in COLUMNS)])
        torch._dynamo.reset()
    return table, problems


def text(table, device="cpu"):
    return aligned([f"a training step ({dtype_name(device)})", "size", *(f"{way} ms" for way in COLUMNS)], table)
