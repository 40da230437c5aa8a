"""The rows of patch_host.py: modules that tile_ops.patch swaps, forwards that call functions, blocks and models."""

import dataclasses
import importlib.util
import os
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, ROWS, HEADS = 8, 8, 2


@dataclasses.dataclass
class Case:
    """make() returns a module, which is called with `inputs`, some of which may require gradients, and `named`."""

    name: str
    make: Callable
    inputs: tuple
    named: dict = dataclasses.field(default_factory=dict)
    trains: bool = True
    in_training: bool = False  # the mode of the module; of models only in training
    is_model: bool = False

    def call(self, module):
        return module(*self.inputs, **self.named)

    def to(self, device):
        moved = lambda each: each.detach().to(device).requires_grad_(each.requires_grad)  # noqa: E731
        self.inputs = tuple(moved(each) for each in self.inputs)
        self.named = {name: moved(each) if isinstance(each, torch.Tensor) else each for name, each in self.named.items()}


class Forward(nn.Module):
    """A forward of a model's own, with the modules that its function takes."""

    def __init__(self, *modules):
        super().__init__()
        for name, module in zip(("first", "act"), modules):
            setattr(self, name, module)


class Behind(Forward):
    def forward(self, x):
        x = self.first(x)
        x = self.act(x)
        return x


class Attention(Forward):
    def forward(self, query, key, value):
        return F.scaled_dot_product_attention(query, key, value)


class CausalAttention(Forward):
    def forward(self, query, key, value):
        return F.scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=True, scale=0.5)


class Scores(Forward):
    def forward(self, x):
        return F.softmax(x, dim=-1)


class Residual(Forward):
    def forward(self, x):
        return x + self.act(self.first(x))


def numbers(*shape):
    return torch.randn(*shape, requires_grad=True)


def modules():
    x = numbers(ROWS, WIDTH)
    image = numbers(1, WIDTH, 4, 4)
    heads = tuple(numbers(1, HEADS, ROWS, WIDTH) for _ in range(3))
    yield Case("Linear", lambda: nn.Linear(WIDTH, WIDTH), (x,))
    yield Case("Linear without bias", lambda: nn.Linear(WIDTH, WIDTH, bias=False), (x,))
    yield Case("Linear, GELU: Sequential", lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()), (x,))
    yield Case("Linear, GELU: a forward", lambda: Behind(nn.Linear(WIDTH, WIDTH), nn.GELU()), (x,))
    yield Case("Linear, GELU, residual add: a forward", lambda: Residual(nn.Linear(WIDTH, WIDTH), nn.GELU()), (x,))
    yield Case("LayerNorm", lambda: nn.LayerNorm(WIDTH), (x,))
    yield Case("RMSNorm", lambda: nn.RMSNorm(WIDTH), (x,))
    yield Case("GroupNorm", lambda: nn.GroupNorm(2, WIDTH), (image,))
    yield Case("GroupNorm, SiLU: a forward", lambda: Behind(nn.GroupNorm(2, WIDTH), nn.SiLU()), (image,))
    yield Case("Embedding", lambda: nn.Embedding(16, WIDTH), (torch.arange(ROWS),))
    yield Case("Dropout, eval", lambda: nn.Dropout(0.1), (x,), trains=False)
    yield Case("Dropout, train", lambda: nn.Dropout(0.1), (x,), in_training=True)
    yield Case("Softmax", lambda: nn.Softmax(-1), (x,))
    yield Case("LogSoftmax", lambda: nn.LogSoftmax(-1), (x,))
    yield Case("CrossEntropyLoss", lambda: nn.CrossEntropyLoss(), (x, torch.arange(ROWS) % WIDTH))
    yield Case("scaled_dot_product_attention in a forward", Attention, heads)
    yield Case("scaled_dot_product_attention, causal", CausalAttention, heads)
    yield Case("softmax in a forward", Scores, (x,))
    yield Case(
        "MultiheadAttention", lambda: nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), (numbers(1, ROWS, WIDTH),) * 3,
        {"need_weights": False}, in_training=True,
    )  # fmt: skip


def of_transformers():
    import transformers
    from transformers.models.llama import modeling_llama
    from transformers.pytorch_utils import Conv1D

    x = numbers(1, ROWS, WIDTH)
    tokens = torch.arange(ROWS)[None]
    none = {"use_cache": False}
    llama = {
        "vocab_size": 16, "hidden_size": WIDTH, "intermediate_size": WIDTH, "num_hidden_layers": 2,
        "num_attention_heads": HEADS, "num_key_value_heads": 1, "max_position_embeddings": ROWS,
    }  # fmt: skip
    plain = {name: llama[name] for name in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")}
    dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}

    def vit():
        return transformers.ViTModel(transformers.ViTConfig(**plain, **dropout, image_size=4, patch_size=2))

    def bert():
        return transformers.BertModel(transformers.BertConfig(**plain, **dropout, vocab_size=16, max_position_embeddings=ROWS))

    def gpt2():
        sizes = {"vocab_size": 16, "n_embd": WIDTH, "n_layer": 2, "n_head": HEADS, "n_positions": ROWS}
        rates = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
        return transformers.GPT2Model(transformers.GPT2Config(**sizes, **rates))

    def of_llama(name):
        return lambda: getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**llama))

    yield Case("transformers: Conv1D", lambda: Conv1D(WIDTH, WIDTH), (x,))
    yield Case("transformers: LlamaRMSNorm", lambda: modeling_llama.LlamaRMSNorm(WIDTH), (x,))
    yield Case("transformers: LlamaMLP", lambda: modeling_llama.LlamaMLP(transformers.LlamaConfig(**llama)), (x,))
    model = {"is_model": True}
    yield Case("transformers: ViT, 2 layers", vit, (numbers(1, 3, 4, 4),), **model)
    yield Case("transformers: BERT, 2 layers", bert, (tokens,), **model)
    yield Case("transformers: GPT-2, 2 layers", gpt2, (tokens,), none, **model)
    yield Case("transformers: Llama, 2 layers", of_llama("Llama"), (tokens,), none, **model)
    yield Case("transformers: Mixtral, 2 layers", of_llama("Mixtral"), (tokens,), none, **model)


def of_diffusers():
    import diffusers
    from diffusers.models.activations import GEGLU
    from diffusers.models.attention_processor import Attention as Processed
    from diffusers.models.resnet import ResnetBlock2D

    x, image = numbers(1, 16, WIDTH), numbers(1, WIDTH, 4, 4)
    wide, time = numbers(1, 4, 4, 4), torch.tensor([1])

    def unet():
        return diffusers.UNet2DConditionModel(
            sample_size=4, block_out_channels=(8, 16), layers_per_block=1, cross_attention_dim=WIDTH, attention_head_dim=4,
            norm_num_groups=4, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        )  # fmt: skip

    def dit():
        return diffusers.DiTTransformer2DModel(
            num_attention_heads=HEADS, attention_head_dim=4, in_channels=4, num_layers=2, norm_num_groups=4, sample_size=4
        )

    def vae():
        return diffusers.AutoencoderKL(
            block_out_channels=(8, 16), layers_per_block=1, norm_num_groups=4, latent_channels=4, sample_size=8,
            down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
        )  # fmt: skip

    yield Case("diffusers: Attention", lambda: Processed(WIDTH, heads=HEADS, dim_head=4), (x,))
    yield Case("diffusers: GEGLU", lambda: GEGLU(WIDTH, WIDTH), (x,))
    yield Case(
        "diffusers: ResnetBlock2D", lambda: ResnetBlock2D(in_channels=WIDTH, temb_channels=None, groups=2), (image,),
        {"temb": None},
    )  # fmt: skip
    sample = {"timestep": time, "return_dict": False}
    states = {"encoder_hidden_states": numbers(1, 4, WIDTH)}
    yield Case("diffusers: U-Net, 2 levels", unet, (wide,), sample | states, is_model=True)
    yield Case("diffusers: DiT, 2 layers", dit, (wide,), sample | {"class_labels": time}, is_model=True)
    yield Case("diffusers: VAE, 2 levels", vae, (numbers(1, 3, 8, 8),), {"return_dict": False}, is_model=True)


def all_cases(complain):
    """Yields the cases; a package that is not installed is named by complain(text)."""
    yield from modules()
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    for package, cases in (("transformers", of_transformers), ("diffusers", of_diffusers)):
        if importlib.util.find_spec(package):
            yield from cases()
        else:
            complain(f"{package} is not installed, and its rows are left out")
