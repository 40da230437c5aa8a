"""The parts that language models of transformers share: how they are built, tokens and their loss."""

import os

import torch

from . import Made

os.environ.setdefault("HF_HUB_OFFLINE", "1")


def logits(output):
    return output.logits


def next_token_loss(tokens):
    """Returns the loss of logits that predict the next token."""
    labels = tokens[:, 1:].flatten()
    return lambda scores: torch.nn.functional.cross_entropy(scores[:, :-1].flatten(0, 1).float(), labels)


def language_model(kind, config, batch, length):
    """Returns a model of a class of transformers that predicts the next token."""
    tokens = torch.randint(0, config.vocab_size, (batch, length))
    return Made(kind(config), {"input_ids": tokens, "use_cache": False}, logits, next_token_loss(tokens))
