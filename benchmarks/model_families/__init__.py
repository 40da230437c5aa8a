"""Models with random weights, at published sizes and cut in depth; nothing is downloaded. One file a family.

make("Llama", device, dtype, scale) returns a Made. Scales: "tiny" for tests, "small" for a CPU, "full" for a GPU. Models have no
dropout, so that results of several backends can be compared."""

import copy
import dataclasses
import importlib
import importlib.util
from typing import Callable

import torch

# name: (file, function there, the package that it needs)
MODELS = {
    "Llama": ("llama", "llama", "transformers"),
    "Qwen3": ("qwen3", "qwen3", "transformers"),
    "GPT-2": ("gpt2", "gpt2", "transformers"),
    "BERT": ("bert", "bert", "transformers"),
    "ViT-L": ("vit", "vit", "transformers"),
    "Mixtral": ("mixtral", "mixtral", "transformers"),
    "SD U-Net": ("stable_diffusion", "unet", "diffusers"),
    "SD VAE": ("stable_diffusion", "vae", "diffusers"),
    "DiT": ("dit", "dit", "torch"),
}
SCALES = ("tiny", "small", "full")


@dataclasses.dataclass
class Made:
    """A model that is ready to run."""

    module: torch.nn.Module
    inputs: dict  # module(**inputs) is a call
    result: Callable  # from what the module returns to the tensor that is compared
    loss: Callable  # from that tensor to the loss
    prepare_exact: Callable = lambda module: None  # changes a copy so that it runs in float64
    labels: dict = dataclasses.field(default_factory=dict)  # further inputs with which the module returns its own loss

    def own_loss(self, module):
        """Returns the loss that a module like this one computes itself, if it does, otherwise loss()."""
        result = module(**self.inputs, **self.labels)
        return result.loss if self.labels else self.loss(self.result(result))

    def exact(self, dtype=torch.float64):
        """Returns the model in a wider dtype, a copy."""
        module = copy.deepcopy(self.module)
        self.prepare_exact(module)
        inputs = {key: cast(value, dtype) for key, value in self.inputs.items()}
        return dataclasses.replace(self, module=module.to(dtype), inputs=inputs)


def lacking(name):
    """Returns the package that the model needs and that is not installed, or None."""
    package = MODELS[name][2]
    return None if importlib.util.find_spec(package) else package


def make(name, device="cpu", dtype=torch.float32, scale="small", seed=0):
    """Returns the model, the same for equal arguments."""
    if scale not in SCALES:
        raise ValueError(f"the scale is {scale!r}; the scales are {', '.join(SCALES)}")
    file, function, package = MODELS[name]
    if lacking(name):
        raise ModuleNotFoundError(f"{name} needs {package}; `pip install {package}`")
    build = getattr(importlib.import_module(f"{__name__}.{file}"), function)
    torch.manual_seed(seed)
    with torch.device(device):
        made = build(scale)
    made.module.to(dtype).requires_grad_(True)
    made.inputs = {key: cast(value, dtype) for key, value in made.inputs.items()}
    return made


def cast(value, dtype):
    """Returns a tensor of floats in another dtype, and anything else as it is."""
    return value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def squares(target):
    """Returns the mean squared difference from a target as a loss."""
    return lambda result: torch.nn.functional.mse_loss(result.float(), target)
