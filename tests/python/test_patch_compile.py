"""Tests patched models of transformers and diffusers under torch.compile(fullgraph=True): losses, results and gradients."""

import pytest
import tile_ops
import torch
import torch.nn as nn
import torch.nn.functional as F
from patch_calls import patch
from patch_cases import MLP, OwnNorm
from patch_models import TEXT, calls, gpt2, images, noise, picture, text, unet, vae, vit
from tile_ops._patching import calls as patched_calls


def with_labels(inputs):
    labels = inputs["input_ids"].masked_fill(inputs.get("attention_mask", torch.ones(1)) == 0, -100)
    return {**inputs, "labels": labels}


CASES = [
    *((make, lambda: with_labels(text("right")), make.__name__) for make in TEXT),
    (vit, lambda: {**picture(), "labels": torch.tensor([4, 0])}, "vit"),
    (unet, noise, "unet"),
    (vae, images, "vae"),
]


@pytest.mark.slow
@pytest.mark.parametrize("make, inputs", [case[:2] for case in CASES], ids=[case[2] for case in CASES])
def test_one_graph(make, inputs, no_tf32):
    model, inputs = make(), inputs()
    if make is gpt2:
        model.loss_type = "ForCausalLM"  # otherwise transformers logs its guess, which breaks the graph
    patch(model)
    out, grads = calls(model, inputs)
    torch._dynamo.reset()
    model.compile(backend="eager", fullgraph=True)
    compiled, compiled_grads = calls(model, inputs)
    torch.testing.assert_close(compiled, out, rtol=1e-5, atol=1e-5)
    assert grads.keys() == compiled_grads.keys()
    top = max(grad.abs().max().item() for grad in grads.values())
    for name, grad in grads.items():
        torch.testing.assert_close(compiled_grads[name], grad, rtol=1e-4, atol=1e-5 * top)


class Parts(nn.Module):
    """Parts that inductor fuses on a GPU, and a norm of groups, which stays ours."""

    def __init__(self):
        super().__init__()
        self.layer_norm, self.rms_norm, self.group_norm = nn.LayerNorm(16), nn.RMSNorm(16), nn.GroupNorm(2, 4)
        self.dropout, self.softmax = nn.Dropout(0.5), nn.Softmax(-1)

    def forward(self, x):
        return F.log_softmax(self.softmax(self.dropout(self.rms_norm(self.layer_norm(self.group_norm(x))))), -1)


def ours_in(model, *inputs):
    """Returns the names of our operators in the graph of a model."""
    graphs = []

    def backend(module, _):
        graphs.append(module.graph)
        return module

    torch._dynamo.reset()
    torch.compile(model, backend=backend, fullgraph=True)(*inputs)
    (graph,) = graphs
    return {str(node.target).split(".")[1] for node in graph.nodes if str(node.target).startswith("tile.")}


@pytest.mark.at_home
def test_inductor_computes_what_it_fuses_on_a_gpu(monkeypatch):
    parts, mlp, norm, loss = Parts(), MLP(nn.SiLU()), OwnNorm(8), nn.CrossEntropyLoss()
    for model in (parts, mlp, norm, loss):
        tile_ops.patch(model, products="torch")
    x, rows, targets = torch.randn(3, 4, 16), torch.randn(3, 8), torch.arange(3)
    assert ours_in(parts, x) == {"group_norm", "layer_norm", "rms_norm", "dropout", "softmax", "log_softmax"}
    assert ours_in(mlp, rows) == {"swiglu"} and ours_in(norm, rows) == {"rms_norm"}
    assert ours_in(loss, rows, targets) == {"cross_entropy"}
    monkeypatch.setattr(patched_calls, "fused_by_compiler", lambda tensor: torch.compiler.is_dynamo_compiling())
    assert ours_in(parts, x) == {"group_norm"}
    assert not ours_in(mlp, rows) and not ours_in(norm, rows) and not ours_in(loss, rows, targets)
