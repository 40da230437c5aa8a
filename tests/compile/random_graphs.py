"""Random small programs of torch functions, and how they are made smaller while they fail.

A program's lines are statements over its arguments a0, a1, … and values v0, v1, …; those whose numbers are small integers are
exact, whatever the order of computation, and so may be compared, counted and rounded.
"""

import dataclasses
import random
import re

import torch

SIZES = (1, 2, 3, 5, 8, 17, 33)
DTYPES = (torch.float32,) * 4 + (torch.float64, torch.int64, torch.int32)
# {a}, {b}, {c}: values that broadcast; {d}: an axis of a; {n}: a small number; {k}: True or False.
EXACT = [
    *("-{a}", "{a}.abs()", "{a}.relu()", "{a}.clamp(-3, 5)", "torch.remainder({a}, 7)", "{a} // 3", "{a} + {n}", "{a} * {n}"),
    *("{a} + {b}", "{a} - {b}", "torch.remainder({a} * {b}, 11)", "torch.maximum({a}, {b})", "torch.minimum({a}, {b})"),
    *(
        "({a} > {b}).to({a}.dtype)",
        "torch.where({a} > {b}, {a}, {c})",
        "{a}.masked_fill({b} == {c}, {n})",
        "({a} == {b}).sum({d})",
    ),
    *("torch.remainder({a}.sum({d}, keepdim={k}), 13)", "{a}.amax({d}, keepdim={k})", "{a}.amin({d}, keepdim={k})"),
    *(
        "{a}.argmax({d}, keepdim={k})",
        "{a}.argmin({d}, keepdim={k})",
        "({a} > 0).any({d}).to({a}.dtype)",
        "torch.remainder({a}.sum(), 9)",
    ),
    *(
        "({a} < 4).all({d}, keepdim={k}).int()",
        "{a}.clamp(-1, 1).prod({d})",
        "torch.remainder({a}.cumsum({d}), 5)",
        "{a}.max({d}).values",
    ),
    *(
        "{a}.to(torch.int64)",
        "{a}.to(torch.float32)",
        "{a}.clamp(0, 9).to(torch.uint8).int()",
        "{a} * torch.arange({a}.shape[-1], device={a}.device)",
    ),
]
VIEWS = [
    *(
        "{a}.transpose({d}, 0)",
        "{a}.flip([{d}][: {a}.dim()])",  # inductor of torch 2.11 fails for an axis of a tensor without axes
        "{a}.unsqueeze({d})",
        "{a}.roll({n}, {d})",
        "{a}.select({d}, 0)",
        "{a}.expand(3, *{a}.shape)",
    ),
    *(
        "{a}.narrow({d}, {a}.shape[{d}] // 2, ({a}.shape[{d}] + 1) // 2)",
        "{a}[..., ::2]",
        "{a}[..., 1:]",
        "{a}.flatten()",
        "{a}.mT",
    ),
    *(
        "torch.cat([{a}, {a} + 1], {d})",
        "torch.cat([{a}.flatten(), {b}.flatten()])",
        "torch.stack([{a}, {a}], {d})",
        "{a}.contiguous()",
    ),
    *(
        "torch.nn.functional.pad({a}, (1, {n}))",
        "{a}.reshape(-1, {a}.shape[0])",
        # Tensor.unflatten itself is untraceable in torch 2.11 where a default device is set.
        "torch.unflatten({a}, {d}, (-1, {a}.shape[{d}]))",
        "{a}[-1]",
    ),
    *(
        "{a}.index_select({d}, torch.arange(4, device={a}.device) % {a}.shape[{d}])",
        "{a}.repeat_interleave(2, {d})",
        "{a}.tril()",
    ),
]
ROUNDED = [
    *("{a}.sin()", "torch.exp(-{a}.abs())", "{a}.sigmoid()", "{a}.float().mean({d}, keepdim={k})", "{a}.float().softmax({d})"),
    *(
        "{a}.double().var({d}, correction=0)",
        "({a}.abs() + 1).rsqrt()",
        "{a}.float().logsumexp({d})",
        "{a}.float().log_softmax({d})",
    ),
]
CONTINUOUS = [
    "{r} + {a}",
    "torch.maximum({r}, {a})",
    "{r}.tanh()",
    "{r}.mean({d})",
    "{r}.amax({d})",
    "-{r}",
    "{r}.sum({d}, keepdim={k})",
]
CHANGES = [
    *(
        "{i}.add_(1)",
        "{i}[1:].mul_(-1)",
        "{i}.copy_(torch.remainder({a}, 5))",
        "{i}[..., ::2].sub_(2)",
        "{i}.sub_(torch.remainder({a}, 3))",
    ),
    *("{i}.mT.clamp_(-2, 4)", "{i}[0].fill_({n})", "{i}.flip(0).add_(1)", "{i}.flatten()[1:3].zero_()"),
]


@dataclasses.dataclass
class Program:
    arguments: list  # (shape, dtype)
    lines: list
    results: dict  # name: whether it is exact
    seed: int

    def make_arguments(self, device):
        generator = torch.Generator("cpu").manual_seed(self.seed)
        return [
            torch.randint(-4, 5, shape, generator=generator, device="cpu").to(dtype).to(device)
            for shape, dtype in self.arguments
        ]

    def text(self, name):
        names = [f"a{i}" for i in range(len(self.arguments))]
        return "\n    ".join([f"def {name}({', '.join(names)}):", *self.lines, f"return {', '.join(self.results)},"])

    def function(self, name="program"):
        space = {"torch": torch}
        exec(compile(self.text(name), f"<{name}>", "exec"), space)
        return space[name]


def make(seed):
    """Returns a random program that torch can run."""
    draw = random.Random(seed)
    shape = [draw.choice(SIZES) for _ in range(draw.randint(1, 3))]
    shapes = [shape, *([size if draw.random() < 0.7 else 1 for size in shape] for _ in range(draw.randint(1, 2)))]
    program = Program([(tuple(each), draw.choice(DTYPES)) for each in shapes], [], {}, seed)
    space = {"torch": torch} | {f"a{i}": each for i, each in enumerate(program.make_arguments("cpu"))}
    arguments = list(space)[1:]
    exact, rounded, count = list(arguments), [], draw.randint(3, 7)
    for _ in range(60):
        if len(program.lines) == count:
            break
        kind = draw.choices([EXACT, VIEWS, ROUNDED, CONTINUOUS, CHANGES], [10, 6, 3, 2 if rounded else 0, 1])[0]
        a = draw.choice([*exact, *rounded]) if kind is VIEWS else draw.choice(exact)
        words = {"a": a, "b": draw.choice(exact), "c": draw.choice(exact), "i": draw.choice(arguments)}
        words |= {"r": draw.choice(rounded or exact), "n": draw.randint(1, 3), "k": draw.random() < 0.5}
        of = space[words["r"] if kind is CONTINUOUS else a]
        text = draw.choice(kind).format(d=draw.randrange(max(1, of.dim())), **words)
        name = f"v{len(program.lines)}"
        line = text if kind is CHANGES else f"{name} = {text}"
        kept = {each: space[each].clone() for each in arguments}
        try:
            exec(line, space)
        except (RuntimeError, IndexError):  # shapes that do not fit
            for each, value in kept.items():
                space[each].copy_(value)
            continue
        if kind is not CHANGES and (space[name].dim() > 5 or space[name].numel() > 5000 or space[name].numel() == 0):
            continue
        program.lines.append(line)
        if kind is not CHANGES:
            (rounded if kind in (ROUNDED, CONTINUOUS) or (kind is VIEWS and a in rounded) else exact).append(name)
    used = re.findall(r"v\d+", " ".join(line.split(" = ")[-1] for line in program.lines))
    made = [name for name in (*exact, *rounded) if name.startswith("v")]
    program.results = {name: name in exact for name in made if name not in used or draw.random() < 0.3} or {"a0": True}
    return program


def difference(program, ours, theirs):
    """Returns what differs between (results, changed arguments) of two runs; None if nothing does."""
    exact = [*program.results.values(), *(True for _ in program.arguments)]
    names = [*program.results, *(f"a{i}, which is changed" for i in range(len(program.arguments)))]
    for name, is_exact, one, other in zip(names, exact, [*ours[0], *ours[1]], [*theirs[0], *theirs[1]]):
        if (one.dtype, one.shape) != (other.dtype, other.shape):
            return f"{name} is {one.dtype} {tuple(one.shape)}, expected {other.dtype} {tuple(other.shape)}"
        if is_exact and not torch.equal(one, other):
            return f"{name} is {one}, expected {other}"
        most = 1e-4 * max([1.0, *other.abs().flatten().tolist()])
        if not is_exact and not torch.allclose(one, other, rtol=0, atol=most, equal_nan=True):
            return f"{name} differs by {(one - other).abs().max()}"
    return None


def shrink(program, fails):
    """Leaves out lines and results while fails(program) is true; fails raises for a program that torch cannot run."""

    def still(candidate):
        try:
            return fails(candidate)
        except Exception:
            return False

    smaller = True
    while smaller:
        smaller = False
        for k in reversed(range(len(program.lines))):
            name, _, text = program.lines[k].rpartition(" = ")
            stand_ins = list(dict.fromkeys(re.findall(r"\b[av]\d+\b", text))) if name else [""]
            for other in stand_ins:
                lines = [re.sub(rf"\b{name}\b", other, line) if name else line for line in program.lines]
                results = {other if each == name else each: exact for each, exact in program.results.items()}
                candidate = dataclasses.replace(program, lines=lines[:k] + lines[k + 1 :], results=results)
                if still(candidate):
                    program, smaller = candidate, True
                    break
        for name in list(program.results):
            candidate = dataclasses.replace(program, results={k: v for k, v in program.results.items() if k != name})
            if candidate.results and still(candidate):
                program, smaller = candidate, True
    return program
