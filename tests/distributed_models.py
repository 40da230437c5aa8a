"""Defines small models of tile_ops.nn for the multi-process tests, and training in one process to compare with."""

import copy

import tile_ops
import tile_ops.nn as tnn
import torch
from torch.distributed.tensor import DTensor

VOCABULARY, WIDTH, LENGTH, BATCH = 37, 24, 10, 4


class Model(torch.nn.Module):
    """Computes logits of tokens by an embedding, blocks like those of Llama, a norm and a head."""

    def __init__(self, layers=2, heads=4, kv_heads=2):
        super().__init__()
        self.embed = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = torch.nn.ModuleList(
            tnn.TransformerBlock(WIDTH, heads, kv_heads, hidden=44, max_positions=LENGTH) for _ in range(layers)
        )
        self.norm = tnn.RMSNorm(WIDTH, eps=1e-5)
        self.head = tnn.Linear(WIDTH, VOCABULARY, bias=True)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def model(device, **options):
    torch.manual_seed(7)
    return Model(**options).to(device)


def batches(device, steps=3, batch=BATCH):
    """Yields tokens and the tokens that follow them, the same in every process."""
    generator = torch.Generator().manual_seed(3)
    for _ in range(steps):
        tokens = torch.randint(VOCABULARY, (batch, LENGTH + 1), generator=generator).to(device)
        yield tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def loss_of(logits, targets):
    return tile_ops.cross_entropy(logits.flatten(0, -2), targets.flatten())


def trained_alone(start, device, steps=3, clip=None, optimizer=None, batch=BATCH):
    """Trains in one process; returns (losses, gradients of the first step by name, the trained model)."""
    alone = copy.deepcopy(start)
    optimizer = optimizer or (lambda params: tile_ops.optim.AdamW(params, lr=1e-2))
    optimizer = optimizer(alone.parameters())
    losses, gradients = [], {}
    for tokens, targets in batches(device, steps, batch):
        loss = loss_of(alone(tokens), targets)
        optimizer.zero_grad()
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(alone.parameters(), clip)
        gradients = gradients or {name: param.grad.clone() for name, param in alone.named_parameters()}
        optimizer.step()
        losses.append(loss.detach())
    return losses, gradients, alone


def full_tensor(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def assert_same(found, expected, **tolerance):
    """Compares parameters by name, loosely: AdamW's first steps amplify small differences between gradients near 0."""
    tolerance = tolerance or {"rtol": 1e-3, "atol": 2e-4}
    expected = dict(expected)
    for name, tensor in found:
        torch.testing.assert_close(
            full_tensor(tensor.detach()),
            expected.pop(name).detach(),
            msg=lambda text, name=name: f"{name}: {text}",
            **tolerance,
        )
    assert not expected, expected.keys()


def _plan(sequence):
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel

    between = Shard(1) if sequence else Replicate()
    columns = lambda: ColwiseParallel(use_local_output=False)  # noqa: E731
    rows = lambda: RowwiseParallel(output_layouts=between, use_local_output=False)  # noqa: E731
    replicated = lambda *others: PrepareModuleInput(  # noqa: E731
        input_layouts=(between, *others), desired_input_layouts=(Replicate(), *others)
    )
    plan = {
        "self_attn": replicated(None), "mlp": replicated(),
        "self_attn.q_proj": columns(), "self_attn.k_proj": columns(), "self_attn.v_proj": columns(),
        "self_attn.o_proj": rows(), "mlp.gate_proj": columns(), "mlp.up_proj": columns(), "mlp.down_proj": rows(),
    }  # fmt: skip
    if sequence:
        plan |= {"input_layernorm": SequenceParallel(), "post_attention_layernorm": SequenceParallel()}
    else:
        from torch.distributed.tensor.parallel import ParallelStyle

        class Everywhere(ParallelStyle):
            """Makes the parameters replicated DTensors."""

            def _apply(self, module, mesh):
                from torch.distributed.tensor import distribute_module

                return distribute_module(module, mesh)

        plan |= {"input_layernorm": Everywhere(), "post_attention_layernorm": Everywhere()}
    return plan, between


def parallel(model, mesh, sequence, head):
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module

    """Shards the blocks, embedding, norm and head over a one-dimensional mesh. head: the placement of the logits."""
    plan, between = _plan(sequence)
    for block in model.blocks:
        parallelize_module(block, mesh, plan)
    parallelize_module(model, mesh, {
        "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=between, use_local_output=False),
        "norm": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=between if sequence else None, output_layouts=head, use_local_output=False),
    })  # fmt: skip
    return model
