"""Tests in two processes that a patched Llama of transformers trains as in one: parallelize_module, FSDP2 and DDP."""

import os

import processes
import pytest
from processes import case

outcome = processes.fixture(2)
CASES = []


@pytest.mark.parametrize("name", ["tensor_parallel", "fsdp2", "ddp"])
def test_trains_as_one_process(outcome, name):
    outcome(name)


def _llama(device):
    os.environ["HF_HUB_OFFLINE"] = "1"
    import tile_ops
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.manual_seed(5)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=37, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=16, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )).to(device)  # fmt: skip
    tile_ops.patch(model, products="tile")
    return model


def _compare(device, prepare, split, inner=lambda model: model):
    """Compares training with that of one process. split: True if each rank has half of the batch."""
    clip = split
    import distributed_models as dm
    import tile_ops
    import torch
    import torch.distributed as dist

    def train(model, split_batch):
        optimizer = tile_ops.optim.AdamW(model.parameters(), lr=1e-2)
        losses, first = [], {}
        for tokens, _ in dm.batches(device):
            tokens = tokens.chunk(2)[dist.get_rank()] if split_batch else tokens
            loss = model(tokens, labels=tokens).loss
            optimizer.zero_grad()
            loss.backward()
            if clip:  # torch's function rejects a mix of DTensors and plain tensors
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            first = first or {name: dm.full_tensor(param.grad).clone() for name, param in inner(model).named_parameters()}
            optimizer.step()
            loss = loss.detach().clone()
            if split_batch:
                dist.all_reduce(loss)
            losses.append(loss / (2 if split_batch else 1))
        return torch.stack(losses), first

    alone = _llama(device)
    losses, gradients = train(alone, False)
    model = prepare(_llama(device))
    found, first = train(model, split)
    torch.testing.assert_close(found, losses, rtol=1e-4, atol=1e-5)
    dm.assert_same(first.items(), gradients, rtol=1e-3, atol=1e-5)
    dm.assert_same(inner(model).named_parameters(), alone.named_parameters())


@case
def tensor_parallel(device):
    from tile_ops._sharding import dispatch
    from torch.distributed.tensor import Replicate, init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh(device.split(":")[0], (2,))

    def prepare(model):
        columns = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.gate_proj", "mlp.up_proj")
        for layer in model.model.layers:
            parallelize_module(layer, mesh, {
                **{name: ColwiseParallel() for name in columns},
                "self_attn.o_proj": RowwiseParallel(), "mlp.down_proj": RowwiseParallel(),
            })  # fmt: skip
        return parallelize_module(model, mesh, {
            "model.embed_tokens": RowwiseParallel(input_layouts=Replicate()),
            "lm_head": ColwiseParallel(output_layouts=Replicate()),
        })  # fmt: skip

    dispatch._plans.clear()
    _compare(device, prepare, False)
    ran = {key[1][0]._schema.name for key in dispatch._plans}
    assert {"tile::_matmul_saving", "tile::matmul_backward", "tile::embedding"} <= ran, ran


@case
def fsdp2(device):
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import init_device_mesh

    mesh = init_device_mesh(device.split(":")[0], (2,))

    def prepare(model):
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    _compare(device, prepare, True)


@case
def ddp(device):
    from torch.nn.parallel import DistributedDataParallel

    _compare(device, DistributedDataParallel, True, lambda model: getattr(model, "module", model))
