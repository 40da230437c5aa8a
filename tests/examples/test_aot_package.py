"""A model of our modules packed by AOTInductor runs in a C++ program, at sizes it was not traced with."""

import subprocess

import pytest
import tile_ops
import torch
from build_cpp import build
from tile_ops import nn

pytestmark = pytest.mark.slow  # two compilations of half a minute


class Model(torch.nn.Module):
    """Tokens and targets to their loss and the last token's probabilities: what serving and evaluation call."""

    def __init__(self, words=50, dim=32):
        super().__init__()
        rotary = nn.RotaryEmbedding(8, 64)
        self.words = torch.nn.Parameter(torch.randn(words, dim))
        self.layers = torch.nn.ModuleList(nn.TransformerBlock(dim, 4, 2, 48, rotary=rotary) for _ in range(2))
        self.norm = nn.RMSNorm(dim)

    def forward(self, tokens, target):
        x = torch.ops.tile.embedding(self.words, tokens)
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        logits = tile_ops.linear(x[:, -1], self.words)
        loss = torch.ops.tile.linear_cross_entropy(x.flatten(0, 1), self.words, target.flatten())
        return loss, torch.ops.tile.softmax(logits, -1)


def data(batch, length, device):
    tokens = torch.randint(50, (batch, length + 1), device=device)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


PACKED_BY = [
    torch._inductor.aoti_compile_and_package,
    pytest.param(tile_ops.aoti_compile_and_package, marks=pytest.mark.long, id="our_kernels"),
]


@pytest.mark.parametrize("pack", PACKED_BY)
def test_a_package_runs_in_a_program_without_python(pack, tmp_path, device):
    torch.manual_seed(0)
    model = Model().to(device).eval()
    batch, length = torch.export.Dim("batch", min=2, max=64), torch.export.Dim("length", min=2, max=64)
    with torch.no_grad():
        program = torch.export.export(model, data(3, 7, device), dynamic_shapes=({0: batch, 1: length},) * 2)
        package = pack(program, package_path=str(tmp_path / "model.pt2"))
        folder = build(targets=("run_package",)).parent
        for sizes in [(3, 7), (2, 33), (5, 64)]:
            given = data(*sizes, device)
            torch.save(list(given), tmp_path / "inputs.pt")
            done = subprocess.run(
                [str(folder / "run_package"), package, str(tmp_path / "inputs.pt"), str(tmp_path / "outputs.pt")],
                capture_output=True,
                text=True,
                timeout=120,
            )
            assert done.returncode == 0 and done.stdout == "2 outputs\n", done.stdout + done.stderr
            outputs = torch.load(tmp_path / "outputs.pt", weights_only=False)
            torch.testing.assert_close(list(outputs), list(model(*given)), rtol=1e-5, atol=1e-6)
