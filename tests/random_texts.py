"""Random texts of epilogues, and where their values are determined well enough to be compared."""

import random
import re

import epilogues
import torch

# The words that forms are made of.
WORDS = {
    "unary": """abs acos asin atan ceil cos cosh erf exp exp2 expm1 float32 floor gelu gelu_tanh log log1p log2 neg relu round rsqrt
        sigmoid sign silu sin sinh sqrt tan tanh trunc""".split(),
    "binary": "atan2 max maximum maximum_nan min minimum minimum_nan add sub mul div".split(),
    "operator": "+ - * / + - * **".split(),
    "comparison": "< <= > >= == !=".split(),
    "combines": "& | ^".split(),
    "test": "isnan isinf isfinite bool".split(),
}
# How often each form of a number and of a condition is written.
FORMS = {
    "number": {
        "{leaf}": 10,
        "{unary}({number})": 30,
        "{binary}({number}, {number})": 10,
        "fma({number}, {number}, {number})": 5,
        "where({condition}, {number}, {number})": 15,
        "-{number}": 5,
        "({number} {operator} {number})": 15,
        "{number} {operator} {number}": 10,
    },
    "condition": {
        "{leaf}": 10,
        "({number} {comparison} {number})": 50,
        "({condition} {combines} {condition})": 20,
        "~{condition}": 10,
        "{test}({number})": 10,
    },
}
NOISE, TOLERANCE = 1e-11, 1e-8


class Writer:
    """Writes expressions over names of numbers and of conditions."""

    def __init__(self, seed, numbers, conditions):
        self.random = random.Random(seed)
        self.numbers, self.conditions = list(numbers), list(conditions)

    def number(self, depth):
        """A number, of so many levels at most."""
        return self.written("number", depth)

    def condition(self, depth):
        return self.written("condition", depth)

    def written(self, kind, depth):
        forms = FORMS[kind]
        form = self.random.choices(list(forms), forms.values())[0] if depth else "{leaf}"

        def part(match):
            word = match[1]
            if word == "leaf":
                return self.leaf(kind)
            return self.written(word, depth - 1) if word in FORMS else self.random.choice(WORDS[word])

        return re.sub(r"\{(\w+)\}", part, form)

    def leaf(self, kind):
        return self.random.choice([*self.numbers, *self.numbers, self.literal()] if kind == "number" else self.conditions)

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
    return value * (1 + NOISE * torch.randint(-1, 2, value.shape, device=value.device).to(value.dtype))


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
