"""Optimizers over torch.ops.tile, which are torch.optim's in all but who computes the step."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT


class AdamW(torch.optim.AdamW):
    """torch.optim.AdamW whose step is torch.ops.tile.adamw_: one launch for all parameters on a CPU, one for each 16 on a GPU.

    As of torch's with fused=True: the learning rate may be a tensor, steps are counted on the parameters' device, nothing
    waits for a GPU, and a GradScaler's scale and infinities are handled in the kernel. States and state_dicts are
    torch.optim.AdamW's, both ways.

    params, lr, betas, eps, weight_decay, amsgrad, maximize: as in torch (Loshchilov and Hutter, "Decoupled Weight Decay
    Regularization", 2019; Reddi et al., 2018). The host reads betas that are tensors at each step.
    foreach, fused: in torch they choose the loop that computes a step. There is only one here, so they change nothing; both
    True is an error, as in torch. Groups and state_dicts contain fused=True, foreach=None.
    capturable: changes nothing either, because a step can always be captured in a CUDA graph; for that a tensor lr must be
    on the device.
    differentiable: must be False.
    Parameters: dense and floating; each gradient has its parameter's dtype. Further limits: help(tile_ops.adamw_).

    Errors: NotImplementedError for differentiable=True and for betas that are tensors with capturable=True, RuntimeError for
    sparse gradients, TypeError for parameters that are not floating, ValueError for numbers out of range.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        if foreach and fused:
            raise RuntimeError(
                "tile_ops.optim.AdamW: fused and foreach are both True; pass at most one: there is only one loop"
            )
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
        )
        self.defaults["fused"] = True
        self._step_supports_amp_scaling = True

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group, which may have its own lr, betas, eps, weight_decay, amsgrad, maximize and capturable."""
        super().add_param_group(param_group)
        _settle(self.param_groups[-1])

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._step_supports_amp_scaling = True
        for group in self.param_groups:
            _settle(group)
            for param in group["params"]:
                own = self.state.get(param, {})
                if "step" in own:  # where another AdamW counted
                    own["step"] = own["step"].to(param.device, torch.float32)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """One step of all parameters that have a gradient; closure computes the loss again and is called first."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            params = [param for param in group["params"] if param.grad is not None]
            for param in params:
                self._start(param, group["amsgrad"])
            if params:
                self._update(group, params)
        return loss

    def _start(self, param, amsgrad):
        if param.grad.layout != torch.strided:
            raise RuntimeError(
                f"tile_ops.optim.AdamW: a gradient has layout {param.grad.layout}; use torch.optim.SparseAdam, or "
                "convert it with to_dense()"
            )
        if not param.is_floating_point():
            raise TypeError(
                f"tile_ops.optim.AdamW: a parameter is {str(param.dtype).removeprefix('torch.')}; it must be float16, "
                "bfloat16, float32 or float64"
            )
        state = self.state[param]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32, device=param.device)
            state["exp_avg"] = torch.zeros_like(param, memory_format=torch.preserve_format)
            state["exp_avg_sq"] = torch.zeros_like(param, memory_format=torch.preserve_format)
        if amsgrad and "max_exp_avg_sq" not in state:
            state["max_exp_avg_sq"] = torch.zeros_like(param, memory_format=torch.preserve_format)

    def _update(self, group, params):
        names = ["exp_avg", "exp_avg_sq", "step"] + (["max_exp_avg_sq"] if group["amsgrad"] else [])
        lists = [params, [param.grad for param in params]]
        lists += [[self.state[param][name] for param in params] for name in names]
        lr, beta1, beta2 = group["lr"], float(group["betas"][0]), float(group["betas"][1])
        for (device, *_), (params, grads, means, squares, steps, *largest) in _alike(lists):

            def there(value, device=device):
                return value.to(device, non_blocking=True) if isinstance(value, torch.Tensor) else None

            found_inf = there(getattr(self, "found_inf", None))
            torch._foreach_add_(steps, 1)
            torch.ops.tile.adamw_(
                params,
                grads,
                means,
                squares,
                steps,
                max_exp_avg_sqs=largest[0] if largest else None,
                lr=0.0 if isinstance(lr, torch.Tensor) else lr,
                lr_tensor=there(lr),
                beta1=beta1,
                beta2=beta2,
                eps=group["eps"],
                weight_decay=group["weight_decay"],
                maximize=group["maximize"],
                grad_scale=there(getattr(self, "grad_scale", None)),
                found_inf=found_inf,
            )
            if found_inf is not None:  # the step did not happen
                torch._foreach_sub_(steps, [found_inf] * len(steps))


def _settle(group):
    """Raises NotImplementedError for unsupported options of a group, and sets fused and foreach to what runs here."""
    asked = None
    if group["differentiable"]:
        asked = "differentiable=True"
    elif group["capturable"] and isinstance(group["betas"][0], Tensor):
        asked = "capturable=True and betas that are tensors"
    if asked:
        raise NotImplementedError(f"tile_ops.optim.AdamW: a param group has {asked}; use torch.optim.AdamW for it")
    group["fused"], group["foreach"] = True, None


def _alike(lists):
    """The lists in parts, each of one device and of one dtype a list."""
    groups = {}
    for tensors in zip(*lists):
        key = (tensors[0].device, *(tensor.dtype for tensor in tensors))
        for part, tensor in zip(groups.setdefault(key, [[] for _ in lists]), tensors):
            part.append(tensor)
    return groups.items()
