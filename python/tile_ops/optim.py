"""Optimizers over torch.ops.tile, which are torch.optim's in all but who computes the step."""

import torch


class AdamW(torch.optim.AdamW):
    """torch.optim.AdamW whose step is torch.ops.tile.adamw_: one launch for all parameters on a CPU, one for each 16 on a GPU.

    As of torch's with fused=True: the learning rate may be a tensor, steps are counted on the parameters' device, nothing
    waits for a GPU, and a GradScaler's scale and infinities are handled in the kernel. States and state_dicts are
    torch.optim.AdamW's, both ways.
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *,
                 maximize=False):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, fused=True)
        self._step_supports_amp_scaling = True

    def __setstate__(self, state):
        super().__setstate__(state)
        self._step_supports_amp_scaling = True
        for group in self.param_groups:
            if group["differentiable"]:
                raise NotImplementedError(
                    "tile_ops.optim.AdamW: a param group has differentiable=True; use torch.optim.AdamW for it"
                )
            group["fused"], group["foreach"] = True, None
            for param in group["params"]:
                own = self.state.get(param, {})
                if "step" in own:  # where another AdamW counted
                    own["step"] = own["step"].to(param.device, torch.float32)

    @torch.no_grad()
    def step(self, closure=None):
        """One step of all parameters that have a gradient; closure computes the loss anew and is called first."""
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
        lr, (beta1, beta2) = group["lr"], group["betas"]
        for (device, *_), (params, grads, means, squares, steps, *largest) in _alike(lists):

            def there(value, device=device):
                return value.to(device, non_blocking=True) if isinstance(value, torch.Tensor) else None

            found_inf = there(getattr(self, "found_inf", None))
            torch._foreach_add_(steps, 1)
            torch.ops.tile.adamw_(
                params, grads, means, squares, steps,
                max_exp_avg_sqs=largest[0] if largest else None,
                lr=0.0 if isinstance(lr, torch.Tensor) else lr, lr_tensor=there(lr),
                beta1=beta1, beta2=beta2, eps=group["eps"], weight_decay=group["weight_decay"],
                maximize=group["maximize"], grad_scale=there(getattr(self, "grad_scale", None)), found_inf=found_inf,
            )
            if found_inf is not None:  # the step did not happen
                torch._foreach_sub_(steps, [found_inf] * len(steps))


def _alike(lists):
    """The lists in parts, each of one device and of one dtype a list."""
    groups = {}
    for tensors in zip(*lists):
        key = (tensors[0].device, *(tensor.dtype for tensor in tensors))
        for whole, tensor in zip(groups.setdefault(key, [[] for _ in lists]), tensors):
            whole.append(tensor)
    return groups.items()
