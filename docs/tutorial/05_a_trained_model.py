"""A trained model: a small language model whose norm and feed-forward gate are our own kernels, compared with torch's."""

# %%
# The operators: RMS norm from the file before, and SwiGLU as an expression, whose gradient needs no line.

import importlib
import pathlib
import sys

import tile_ops
import tile_ops.language as tl
import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).parent))
rms_norm = importlib.import_module("04_operators").rms_norm
device = "cuda" if torch.cuda.is_available() else "cpu"


@tile_ops.elementwise("tutorial::swiglu(Tensor gate, Tensor up) -> Tensor")
def swiglu(gate, up):
    return gate * tl.sigmoid(gate) * up


# %%
# The model: characters in, the next character out. `ours` chooses whose operators it uses; all else is the same.


class RMSNorm(nn.Module):
    def __init__(self, width, ours):
        super().__init__()
        self.weight, self.ours = nn.Parameter(torch.ones(width)), ours

    def forward(self, x):
        return rms_norm(x, self.weight) if self.ours else F.rms_norm(x, self.weight.shape, self.weight, 1e-6)


class Block(nn.Module):
    def __init__(self, width, heads, ours):
        super().__init__()
        self.heads, self.ours = heads, ours
        self.norms = nn.ModuleList(RMSNorm(width, ours) for _ in range(2))
        self.project, self.merge = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 2 * width, bias=False), nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x):
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.project(self.norms[0](x)).chunk(3, 2))
        x = x + self.merge(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        y = self.norms[1](x)
        return x + self.down(swiglu(self.gate(y), self.up(y)) if self.ours else F.silu(self.gate(y)) * self.up(y))


class Model(nn.Module):
    def __init__(self, letters, ours, width=64, heads=4, length=64):
        super().__init__()
        self.letters, self.positions = nn.Embedding(letters, width), nn.Parameter(torch.randn(length, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads, ours) for _ in range(2)), RMSNorm(width, ours))
        self.out = nn.Linear(width, letters, bias=False)

    def forward(self, x):
        return self.out(self.blocks(self.letters(x) + self.positions[: x.shape[1]]))


# %%
# The text is this folder's own. The same seed gives both models the same weights and the same batches.

text = "".join(path.read_text() for path in sorted(pathlib.Path(__file__).parent.glob("*.py")))
alphabet = sorted(set(text))
data = torch.tensor([alphabet.index(letter) for letter in text], device=device)


def train(ours, steps=300):
    torch.manual_seed(0)
    model = Model(len(alphabet), ours).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(steps):
        at = torch.randint(len(data) - 65, (16, 1), device="cpu").to(device) + torch.arange(65, device=device)
        batch = data[at]
        loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, losses


model, ours = train(True)
_, torchs = train(False)
print(f"loss {ours[0]:.3f} -> {ours[-1]:.3f} with our operators, {torchs[0]:.3f} -> {torchs[-1]:.3f} with torch's")
assert abs(ours[0] - torchs[0]) < 1e-3 and ours[-1] < 2.0 and abs(ours[-1] - torchs[-1]) < 0.2

# %%
# Trained in eager mode, it runs compiled, as one graph.

compiled = torch.compile(model.eval(), fullgraph=True)
with torch.no_grad():
    prompt = data[None, :40]
    torch.testing.assert_close(compiled(prompt), model(prompt), rtol=1e-3, atol=1e-3)
    for _ in range(24):
        prompt = torch.cat([prompt, model(prompt)[:, -1:].argmax(2)], 1)
print("".join(alphabet[i] for i in prompt[0].tolist()))
