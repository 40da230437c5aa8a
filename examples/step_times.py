"""The demo's table of models: the time of a training step in plain torch, in torch.compile and on our operators."""

import torch
import torch.nn.functional as F

import diffusion
import language
import measure  # of benchmarks/
from models import Denoiser, Llama, Tile, Torch
from operator_table import DTYPES, aligned, dtype_name

# On the CPU the models that the demo trains; a GPU would only be launching those.
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
COMPILING = 120  # at most so many seconds of torch.compile for a model


def models(device, sizes):
    """Name, what it is given, make(ops), loss_of(model)."""
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
    """A call that trains the model a little: loss, gradients, AdamW."""
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)

    def step():
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()

    return step


def measure_models(device, seconds=0.5, compiled=None, sizes=None):
    """A row of text a model, and a line for each way that did not run.

    compiled: whether torch.compile is measured; by default on a GPU only, on a CPU it takes minutes for a whole model.
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
            except Exception as problem:  # no compiler on this machine, no memory: the other ways go on
                problems.append(f"{name}, {way}: {measure.reason(problem)}")
        times = measure.rounds_of(functions, seconds, least=3, device=device)
        table.append([name, size, *(f"{1e3 * times[way]:.2f}" if way in times else "-" for way in COLUMNS)])
        torch._dynamo.reset()
    return table, problems


def text(table, device="cpu"):
    return aligned([f"a training step ({dtype_name(device)})", "size", *(f"{way} ms" for way in COLUMNS)], table)
