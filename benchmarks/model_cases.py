"""The cases of models.py: each model in each way to run it."""

import model_families
from model_ways import DECODERS, WAYS


def all_names():
    """Returns the names of all cases; lacking() says which of them cannot be made here."""
    return [f"{name}, {way}" for way in WAYS for name in (DECODERS if way == "decoding" else model_families.MODELS)]


def section(case):
    """Returns the way of a case."""
    return case.split(", ")[1]


def lacking(case):
    """Returns the package that the case needs and that is not installed, or None."""
    return model_families.lacking(case.split(", ")[0])


def make(case, device, dtype, scale):
    """Returns the model of a case."""
    return model_families.make(case.split(", ")[0], device, dtype, scale)
