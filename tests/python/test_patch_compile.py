"""Tests patched models of transformers and diffusers under torch.compile(fullgraph=True): losses, results and gradients."""

import pytest
import torch
from patch_calls import patch
from patch_models import TEXT, calls, gpt2, images, noise, picture, text, unet, vae, vit


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
