"""A user's typed program that uses all of tile_ops except kernels; mypy --strict must accept it."""

import torch
import tile_ops
import tile_ops.functional as F
import tile_ops.nn as tnn
from tile_ops import TorchOp
from tile_ops.optim import AdamW
from torch import Tensor


class Model(torch.nn.Module):
    def __init__(self, dim: int, classes: int) -> None:
        super().__init__()
        rotary = tnn.RotaryEmbedding(dim // 4, max_positions=128)
        self.block = tnn.TransformerBlock(dim, 4, kv_heads=2, rotary=rotary)
        self.attention = tnn.SelfAttention(dim, 4, rotary, causal=False)
        self.mlp = tnn.GatedMLP(dim, 2 * dim, activation="gelu")
        self.norms = torch.nn.ModuleList([tnn.LayerNorm(dim), tnn.RMSNorm(dim, eps=1e-6), tnn.AddRMSNorm(dim)])
        self.groups = tnn.GroupNorm(4, dim, activation="silu")
        self.dropout = tnn.Dropout(0.1)
        self.other = tnn.MultiheadAttention(dim, 4, batch_first=True)
        self.head = tnn.Linear(dim, classes, bias=False, activation="none")

    def forward(self, x: Tensor) -> Tensor:
        x = self.dropout(self.mlp(self.block(x)))
        attended, _ = self.other(x, x, x, need_weights=False)
        normed: Tensor = self.norms[0](attended)
        logits: Tensor = self.head(normed)
        return logits


@tile_ops.elementwise("strict::swish(Tensor x, float beta) -> Tensor")
def swish(x, beta):  # type: ignore[no-untyped-def]
    return x / (1 + tile_ops.language.exp(-beta * x))


@tile_ops.op("strict::twice(Tensor x) -> Tensor", outputs="x")
def twice(x: Tensor, out: Tensor) -> None:
    out.copy_(2 * x)


@twice.grad
def twice_backward(grad_out: Tensor) -> tuple[Tensor]:
    return (2 * grad_out,)


def losses(model: Model, x: Tensor, y: Tensor) -> list[float]:
    optimizer = AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), fused=True, foreach=None, capturable=False)
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(3))], "weight_decay": 0.0})
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    found = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = tile_ops.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        scheduler.step()
        found.append(loss.item())
    return found


def functions(x: Tensor, weight: Tensor) -> Tensor:
    out = F.linear(x, weight, None, "relu") + F.gated_linear(x, weight, weight, activation="silu")
    out = tile_ops.dropout(out, p=0.5, training=True)
    heads = out.view(*out.shape[:-1], 2, -1).transpose(-3, -2)
    heads = tile_ops.scaled_dot_product_attention(heads, heads, heads, is_causal=True, enable_gqa=True)
    query, key = tile_ops.rope_(heads, heads.clone(), torch.ones(1, 8), torch.zeros(1, 8), interleaved=False)
    operator: TorchOp = twice
    doubled: Tensor = operator(query + key)
    soft = tile_ops.softmax(doubled, -1, dtype=torch.float32)
    seed = F.dropout_seed(soft)
    return tile_ops.layer_norm(tile_ops.embedding(soft, seed), [soft.shape[-1]])


def patched(model: torch.nn.Sequential) -> torch.nn.Sequential:
    report = tile_ops.patch(model, leave="softmax", products="torch")
    for path, name, operator in report.swapped + report.products:
        print(path.upper(), name.upper(), operator.upper())
    print(report, report.left, report.model)
    tile_ops.enable_inductor_fusion()
    tile_ops.disable_inductor_fusion()
    tile_ops.register_flop_formulas()
    tile_ops.synchronize("cpu")
    print(tile_ops.inspect(tile_ops.softmax, torch.ones(2, 3), -1), tile_ops.doctor(), tile_ops.__version__)
    kernel = tile_ops.cuda_kernel("__global__ void one(float* x) { *x = 1; }", "one", options=["-DN=1"])
    print(kernel.parameters(90), twice.overload, twice.schema_text, swish(torch.ones(2), 1.0))
    return tile_ops.unpatch(model)
