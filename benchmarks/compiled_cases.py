"""The cases of compiled.py: small graphs, the cost of a call, and models, each as a Work that any backend can run."""

import compiled_graphs
import model_families
import torch


class Work:
    """A function and its arguments. With `parameters`, a call is a step: the function returns a loss, and gradients follow."""

    def __init__(self, function, arguments, parameters=None, exact=None):
        self.function, self.arguments, self.parameters = function, arguments, parameters
        self.exact = exact  # makes the same in a wider dtype

    def run(self, function=None):
        """Calls this function, by default the work's own. Returns the results: tensors, or the loss."""
        if self.parameters is None:
            with torch.no_grad():
                return (function or self.function)(*self.arguments)
        for parameter in self.parameters:
            parameter.grad = None
        loss = (function or self.function)(*self.arguments)
        loss.backward()
        return loss

    def results(self, function=None):
        """Returns all results of a call as a list of tensors: gradients, too."""
        found = self.run(function)
        found = list(found) if isinstance(found, (tuple, list)) else [found]
        return [each.detach() for each in found] + [parameter.grad for parameter in self.parameters or ()]


def graph_work(function, make_arguments, device, dtype):
    torch.manual_seed(0)
    with torch.device(device):
        arguments = [model_families.cast(value, dtype) for value in make_arguments()]
    wide = [model_families.cast(value, torch.float64) for value in arguments]
    return Work(function, arguments, exact=lambda: Work(function, wide))


def model_work(name, training, device, dtype, scale):
    made = model_families.make(name, device, dtype, scale)

    def work_of(made):
        made.module.train(training)
        if training:
            loss = lambda module, inputs: made.loss(made.result(module(**inputs)))  # noqa: E731
            return Work(loss, (made.module, made.inputs), list(made.module.parameters()))
        return Work(lambda module, inputs: made.result(module(**inputs)), (made.module, made.inputs))

    work = work_of(made)
    # Float64 is slow on most GPUs, and full models would not fit.
    wide = torch.float32 if scale == "full" else torch.float64
    work.exact = lambda: work_of(made.exact(wide))
    return work


def all_names():
    """Returns the names of all cases; lacking() says which of them cannot be made here."""
    names = [f"graph: {name}" for name in compiled_graphs.graphs("tiny")]
    names += [f"overhead: {name}" for name in compiled_graphs.overhead()]
    return names + [f"{name}, {way}" for way in ("inference", "training") for name in model_families.MODELS]


def section(name):
    """Returns the kind of a case: graph, overhead, inference or training."""
    return name.split(": ")[0] if ": " in name else name.split(", ")[-1]


def lacking(name):
    """Returns the package that the case needs and that is not installed, or None."""
    return model_families.lacking(name.split(", ")[0]) if section(name) in ("inference", "training") else None


def make(name, device, dtype, scale):
    """Returns the Work of a case."""
    kind = section(name)
    if kind == "graph":
        return graph_work(*compiled_graphs.graphs(scale)[name.removeprefix("graph: ")], device, dtype)
    if kind == "overhead":
        return graph_work(*compiled_graphs.overhead()[name.removeprefix("overhead: ")], device, dtype)
    return model_work(name.split(", ")[0], kind == "training", device, dtype, scale)


def difference(results, exact):
    """Returns the largest error of a tensor, relative to its largest element, but at least to 1e-3 of the largest of all."""
    sizes = [wide.abs().max().item() if wide.numel() else 0.0 for wide in exact]
    least, found = 1e-3 * max(sizes, default=0.0), 0.0
    for own, wide, size in zip(results, exact, sizes, strict=True):
        if wide.numel():
            error = (own.to(wide.dtype) - wide).abs().max().item()
            found = max(found, error / max(size, least)) if error == error else error
        if found != found:
            return found
    return found
