"""Random texts of epilogues, and where their values are determined well enough to be compared."""

import random
import re

import epilogues
import torch

UNARY = """abs acos asin atan ceil cos cosh erf exp exp2 expm1 float32 floor gelu gelu_tanh log log1p log2 neg relu round rsqrt sigmoid
    sign silu sin sinh sqrt tan tanh trunc""".split()
BINARY = "atan2 max maximum maximum_nan min minimum minimum_nan add sub mul div".split()
OPERATORS = ("+", "-", "*", "/", "+", "-", "*", "**")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
NOISE, TOLERANCE = 1e-11, 1e-8


class Writer:
    """Writes expressions over names of numbers and of conditions."""

    def __init__(self, seed, numbers, conditions):
        self.random = random.Random(seed)
        self.numbers, self.conditions = list(numbers), list(conditions)

    def number(self, depth):
        """A number, of so many levels at most."""
        pick = self.random.random()
        if depth == 0 or pick < 0.1:
            return self.random.choice([*self.numbers, *self.numbers, self.literal()])
        if pick < 0.4:
            return f"{self.random.choice(UNARY)}({self.number(depth - 1)})"
        if pick < 0.5:
            return f"{self.random.choice(BINARY)}({self.number(depth - 1)}, {self.number(depth - 1)})"
        if pick < 0.55:
            return f"fma({self.number(depth - 1)}, {self.number(depth - 1)}, {self.number(depth - 1)})"
        if pick < 0.7:
            return f"where({self.condition(depth - 1)}, {self.number(depth - 1)}, {self.number(depth - 1)})"
        if pick < 0.75:
            return f"-{self.number(depth - 1)}"
        text = f"{self.number(depth - 1)} {self.random.choice(OPERATORS)} {self.number(depth - 1)}"
        return f"({text})" if self.random.random() < 0.6 else text

    def condition(self, depth):
        pick = self.random.random()
        if depth == 0 or pick < 0.1:
            return self.random.choice(self.conditions)
        if pick < 0.6:
            return f"({self.number(depth - 1)} {self.random.choice(COMPARISONS)} {self.number(depth - 1)})"
        if pick < 0.8:
            return f"({self.condition(depth - 1)} {self.random.choice('&|^')} {self.condition(depth - 1)})"
        if pick < 0.9:
            return f"~{self.condition(depth - 1)}"
        return f"{self.random.choice(('isnan', 'isinf', 'isfinite', 'bool'))}({self.number(depth - 1)})"

    def literal(self):
        return str(self.random.choice([0, 1, 2, 3, 0.5, round(self.random.uniform(0, 4), 3), "1e-3", "inf"]))

    def text(self):
        """Statements, and for each result whether it is a condition."""
        parts, kinds = [], []
        for k in range(self.random.randrange(3)):
            parts.append(f"h{k} = {self.number(3)}")
            self.numbers.append(f"h{k}")
        if self.random.random() < 0.3:
            parts.append(f"c = {self.condition(2)}")
            self.conditions.append("c")
        for _ in range(self.random.randint(1, 3)):
            kinds.append(self.random.random() < 0.3)
            parts.append(self.condition(3) if kinds[-1] else self.number(4))
        return "; ".join(parts), kinds


def noisy(value):
    """The value with an error of NOISE of it."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    return value * (1 + NOISE * torch.randint(-1, 2, value.shape).to(value.dtype))


def determined(text, acc, named, draws=12):
    """The results of a text in acc's dtype, and where they stay the same although each step has an error of NOISE."""
    # Numbers as tensors divide by zero, and are arguments of torch's functions.
    text = re.sub(r"(?<![\w.])\d+(\.\d+)?(e-?\d+)?|\binf\b", r"number(\g<0>)", text)
    named = {"number": lambda value: torch.tensor(value, dtype=acc.dtype), **named}
    with torch.no_grad():
        exact = epilogues.results(text, acc, named)
        stays = [torch.ones_like(each, dtype=torch.bool) for each in exact]
        for _ in range(draws):
            with Noise():
                for k, (each, other) in enumerate(zip(exact, epilogues.results(text, acc, named))):
                    same = other == each
                    if each.is_floating_point():
                        same |= torch.isclose(other, each, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
                    stays[k] &= same
    return exact, stays


class Noise(torch.overrides.TorchFunctionMode):
    """Each of torch's functions inside gives a value with an error."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        value = function(*args, **(kwargs or {}))
        computes = function not in (torch.Tensor.expand, torch.Tensor.to, torch.tensor, torch.Tensor.is_floating_point)
        with torch._C.DisableTorchFunction():
            return noisy(value) if computes else value
