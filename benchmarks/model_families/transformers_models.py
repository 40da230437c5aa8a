"""The parts that models of transformers share: how they are configured and built, tokens and their loss."""

import os

import torch

from . import Made

os.environ.setdefault("HF_HUB_OFFLINE", "1")

# size: its name in configurations of transformers
NAMES = {
    "layers": "num_hidden_layers",
    "width": "hidden_size",
    "inner": "intermediate_size",
    "heads": "num_attention_heads",
    "key_heads": "num_key_value_heads",
    "head": "head_dim",
    "experts": "num_local_experts",
    "words": "vocab_size",
    "length": "max_position_embeddings",
    "side": "image_size",
    "patch": "patch_size",
    "labels": "num_labels",
}


def configured(kind, sizes, **more):
    """Returns a configuration, an instance of the transformers class `kind`.

    sizes: {name: size} with the names in NAMES. The size "batch" belongs to the inputs, so that the configuration leaves it out.
    """
    return kind(**{NAMES[word]: size for word, size in sizes.items() if word != "batch"}, **more)


def logits(output):
    return output.logits


def next_token_loss(tokens):
    """Returns the loss of logits that predict the next token."""
    labels = tokens[:, 1:].flatten()
    return lambda scores: torch.nn.functional.cross_entropy(scores[:, :-1].flatten(0, 1).float(), labels)


def language_model(model, kind, sizes, **more):
    """Returns a model that predicts the next token, by its class and that of its configuration."""
    config = configured(kind, sizes, **more)
    tokens = torch.randint(0, sizes["words"], (sizes["batch"], sizes["length"]))
    inputs = {"input_ids": tokens, "use_cache": False}
    return Made(model(config), inputs, logits, next_token_loss(tokens), labels={"labels": tokens})
