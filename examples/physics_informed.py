"""Solves u' = -u, u(0) = 1 by a network with attention, whose loss takes the derivative of the network.

    python examples/physics_informed.py [--steps N] [--device cpu|cuda]

Each training step differentiates twice through torch.ops.tile.attention: the loss reads du/dx, and its gradient is one of that gradient,
which the compiler derives. Prints the largest error of u on [0, 3] against exp(-x)."""

import argparse

import torch

import tile_ops  # noqa: F401 registers torch.ops.tile

LENGTH = 3.0  # of the interval
TOKENS, WIDTH = 64, 32


class Solution(torch.nn.Module):
    """u(x) of points [n]: each point is a query of learned keys and values."""

    def __init__(self):
        super().__init__()
        self.enter, self.leave = torch.nn.Linear(1, WIDTH), torch.nn.Linear(WIDTH, 1)
        self.key, self.value = (torch.nn.Parameter(torch.randn(1, 1, TOKENS, WIDTH)) for _ in range(2))

    def forward(self, x):
        query = torch.tanh(self.enter(x[:, None]))[None, None]
        out, _ = torch.ops.tile.attention(query, self.key, self.value)
        return self.leave(out[0, 0])[:, 0]


def train(steps=400, points=128, device="cpu"):
    """Returns the trained network and the largest error."""
    torch.manual_seed(0)
    solution, begin = Solution().to(device), torch.zeros(1, device=device)
    optimizer = torch.optim.Adam(solution.parameters(), lr=1e-2)
    for _ in range(steps):
        x = (LENGTH * torch.rand(points, device=device)).requires_grad_()
        u = solution(x)
        (slope,) = torch.autograd.grad(u.sum(), x, create_graph=True)
        loss = (slope + u).square().mean() + (solution(begin) - 1).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    x = torch.linspace(0, LENGTH, 61, device=device)
    with torch.no_grad():
        return solution, (solution(x) - torch.exp(-x)).abs().max().item()


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--steps", type=int, default=400)
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = options.parse_args()
    _, error = train(options.steps, device=options.device)
    print(f"u' = -u on [0, {LENGTH:g}] after {options.steps} steps: the largest error is {error:.2g}")


if __name__ == "__main__":
    main()
