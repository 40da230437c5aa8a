"""The language model's data (the text of this repository by characters), its loss, and sampling of text."""

import pathlib
import re

import torch
import torch.nn.functional as F

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("csrc", "tile_ops", "benchmarks", "docs", "examples")
BATCH, LENGTH = 12, 128


class Text:
    """The training text; its characters are the tokens."""

    def __init__(self):
        paths = [
            p for folder in FOLDERS for p in sorted((ROOT / folder).rglob("*")) if p.suffix in (".cpp", ".h", ".md", ".py")
        ]
        text = "".join(path.read_text() for path in paths).encode("ascii", "ignore").decode()
        text = re.sub(" +", " ", text)  # much of the text is indentation
        self.characters = sorted(set(text))
        number = {character: i for i, character in enumerate(self.characters)}
        self.tokens = torch.tensor([number[character] for character in text], device="cpu")

    def batch(self, step):
        """Returns inputs and targets, [BATCH, LENGTH]; they depend only on the step."""
        generator = torch.Generator().manual_seed(step)
        starts = torch.randint(len(self.tokens) - LENGTH, (BATCH,), generator=generator, device=generator.device)
        rows = torch.stack([self.tokens[start : start + LENGTH + 1] for start in starts.tolist()])
        return rows[:, :-1], rows[:, 1:]

    def loss(self, model, step):
        inputs, targets = (tokens.to(next(model.parameters()).device) for tokens in self.batch(step))
        return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())

    @torch.no_grad()
    def sample(self, model, start, count, temperature=0.7):
        """Returns `start` continued by `count` characters."""
        generator = torch.Generator().manual_seed(0)
        tokens = [self.characters.index(character) for character in start]
        for _ in range(count):
            logits = model(torch.tensor([tokens[-LENGTH:]], device=next(model.parameters()).device))[0, -1].cpu()
            tokens.append(torch.multinomial((logits / temperature).softmax(0), 1, generator=generator).item())
        return "".join(self.characters[token] for token in tokens)
