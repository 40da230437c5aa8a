"""Counts what a training step keeps in memory, with and without tile_ops.patch, on a CPU.

    python benchmarks/patch_memory.py [--models Llama Qwen3]

The models are those of models.py at the scale "small", in bfloat16, patched as a GPU would have them: with torch's products, and
without logits. "a layer": what one more layer keeps of a token between forward and backward, in rows of the model's width; peak: the most that a
step without the optimizer takes beyond parameters, gradients included, in MiB. The allocator's records are counted, so that
memory inside of operators is, too. Liger needs a GPU: its row is what the source of its version 0.8.5 saves."""

import argparse
import copy

import measure
import model_families
import tile_ops
import torch
from tile_ops import _products

ALL = ("Llama", "Qwen3")
WAYS = ("eager", "patched")


def with_layers(made, count):
    """Returns a copy of a model with its first layer only, so often."""
    module = copy.deepcopy(made.module)
    layers = [copy.deepcopy(module.model.layers[0]) for _ in range(count)]
    for place, layer in enumerate(layers):
        layer.self_attn.layer_idx = place
    module.model.layers = torch.nn.ModuleList(layers)
    module.config.num_hidden_layers = count
    return module


def measured(made, way, count):
    """Returns (bytes that a forward leaves, the most bytes of a step) of a model with so many layers."""
    module = with_layers(made, count).train()
    if way == "patched":
        tile_ops.patch(module)
    made.own_loss(module).backward()  # first calls keep tables
    module.zero_grad(set_to_none=True)

    def step():
        made.own_loss(module).backward()

    _, kept, loss = measure.allocations(lambda: made.own_loss(module))
    del loss
    return kept, measure.allocations(step)[0]


def of_liger(config):
    """Returns the rows of a layer: inputs and results of the norms, query, key, value, attention's result, gate, up and product."""
    query, key = (config.head_dim * heads for heads in (config.num_attention_heads, config.num_key_value_heads))
    normed = query + key if config.model_type == "qwen3" else 0  # inputs of the norms of heads
    return (4 * config.hidden_size + 2 * query + 2 * key + normed + 3 * config.intermediate_size) / config.hidden_size


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--models", nargs="+", choices=ALL, default=ALL)
    options = options.parse_args()
    # As on a GPU: products are torch's, and the loss is ours.
    _products.loss_is_ours, _products.limits = lambda *_: True, lambda *_: ()
    print(f"torch {torch.__version__}, bfloat16")
    print(f"{'model':8} {'variant':8} {'a layer':>8} {'peak MiB':>9}")
    for name in options.models:
        made = model_families.make(name, "cpu", torch.bfloat16, "small")
        config, tokens = made.module.config, made.inputs["input_ids"].numel()
        for way in WAYS:
            (one, _), (two, most) = (measured(made, way, count) for count in (1, 2))
            of_layer = (two - one) / tokens / config.hidden_size / 2
            print(f"{name:8} {way:8} {of_layer:8.2f} {most / 2**20:9.1f}")
        print(f"{name:8} {'Liger':8} {of_liger(config):8.2f}")


if __name__ == "__main__":
    main()
