"""The report of compiled graphs. It is read from their generated modules, so that a graph of inductor's cache has one, too."""

import ast
import collections
import dataclasses
import re
import threading

import torch


@dataclasses.dataclass
class Kernel:
    """A kernel of a graph: the torch operators that are fused in it, and how often the graph launches it."""

    name: str
    operators: tuple[str, ...]
    launches: int = 0


@dataclasses.dataclass
class Product:
    """A product and what is computed of its sums, `acc`, before they are stored. operators: the torch operators in it."""

    operators: tuple[str, ...]
    epilogue: str
    launches: int = 1


@dataclasses.dataclass
class Graph:
    """A compiled graph. kind: inference, forward, backward or package. place: the user's line of its first operator.

    called: {operator: (calls, reason)}. steps: {operator that is computed as several others: reason}. computed_by: "tile", or
    "inductor" or "eager" after the error `error`. cached: True if a cache of torch had the generated code. read: False if this code
    is not known.
    """

    kind: str
    place: str = ""
    seconds: float = 0.0
    kernels: list[Kernel] = dataclasses.field(default_factory=list)
    products: list[Product] = dataclasses.field(default_factory=list)
    called: dict[str, tuple[int, str]] = dataclasses.field(default_factory=dict)
    steps: dict[str, str] = dataclasses.field(default_factory=dict)
    computed_by: str = "tile"
    error: str = ""
    cached: bool = False
    read: bool = True

    def __str__(self):
        head = f"{self.kind}{f' of {self.place}' if self.place else ''}, {self.seconds:.2f} s"
        lines = [head + (", from torch's cache" if self.cached else "")]
        if not self.read:
            lines.append("  its kernels are not known")
        if self.error:
            lines.append(f"  computed by {self.computed_by}: {self.error}")
        for each in self.kernels:
            lines.append(f"  {each.launches:>4} {each.name}: {_joined(each.operators)}")
        for each in self.products:
            lines.append(f"  {each.launches:>4} product ({_joined(each.operators)}): {each.epilogue}")
        for name, (count, why) in self.called.items():
            lines.append(f"  {count:>4} call{'' if count == 1 else 's'} of {name}: {why}")
        for name, why in self.steps.items():
            lines.append(f"       {name} in steps: {why}")
        return "\n".join(lines)


@dataclasses.dataclass
class CompileReport:
    """graphs: a Graph for each graph that torch.compile(backend="tile") compiled, in order."""

    graphs: list[Graph] = dataclasses.field(default_factory=list)

    def __str__(self):
        def total(what):
            return sum(map(what, self.graphs))

        counts = [
            _counted(total(lambda each: len(each.kernels)), "kernel"),
            _counted(total(lambda each: len(each.products)), "product"),
            _counted(total(lambda each: sum(count for count, _ in each.called.values())), "call"),
            f"{total(lambda each: each.computed_by != 'tile')} left to others",
        ]
        seconds = total(lambda each: each.seconds)
        head = f"{_counted(len(self.graphs), 'graph')} in {seconds:.2f} s: {', '.join(counts)}"
        return "\n".join([head, *map(str, self.graphs)])


_graphs = []
_lock = threading.Lock()


def compile_report(*, reset: bool = False) -> CompileReport:
    """Reports what torch.compile(backend="tile") compiled in this process, or since the last call with reset.

    For each graph: kernels, with the torch operators that are fused in them; products, with the expression that is computed of
    their sums; operators that are called instead, and why; a graph that failed, with the error and what computes it; seconds.
    reset: forgets the graphs afterwards.

    Returns a CompileReport; print() shows it as text, and its field `graphs` has the same as data. Errors: it raises none.
    """
    with _lock:
        made = CompileReport(list(_graphs))
        if reset:
            _graphs.clear()
    return made


def add(graph):
    with _lock:
        _graphs.append(graph)


def add_cached(sources, place, seconds, reason_of):
    """Adds the graphs of generated modules that one call loaded from a cache."""
    for source in sources:
        found = re.search(r"AOT ID: \['\d+_(\w+)'\]", source)
        add(Graph(found[1] if found else "graph", place, seconds / len(sources), *read(source, reason_of), cached=True))
    if not sources:
        add(Graph("graph", place, seconds, cached=True, read=False))


def _counted(count, name):
    return f"{count} {name}{'' if count == 1 else 's'}"


def _joined(operators):
    return ", ".join(operators) or "copies"


def place_of(stack_trace):
    """Returns file:line of the innermost frame outside of torch, or of the innermost one if all are inside."""
    frames = re.findall(r'File "([^"]+)", line (\d+)', stack_trace or "")
    folder = torch.__path__[0]
    own = [frame for frame in frames if not frame[0].startswith(folder)] or frames
    return ":".join(own[-1]) if own else ""


def place_of_graph(gm):
    places = (place_of(node.meta.get("stack_trace")) for node in gm.graph.nodes if node.op == "call_function")
    return next(filter(None, places), "")


# Comments of a generated module begin so. Behind them are: operator, reason; the same; and in C++ a kernel; an epilogue.
REASON, STEPS, LAUNCH, PRODUCT = "called: ", "in steps: ", "launch of ", "product: "
OWN = ("tile._run_kernel.default", "tile._matmul_into.default")  # launches and products, which their comments count
_ORIGINS = re.compile(r"\s*# .*Original ATen: \[([^\]]*)\]")
_KERNEL = re.compile(r"(\w+) = tile_kernel\(")
_LAUNCH = re.compile(r"\s+(\w+)_call\d+\(")
_PRODUCT = re.compile(r"\s+torch\.ops\.tile\._matmul_into\(.*, epilogue=(['\"].*['\"])\)$")
_CALL = re.compile(r"\s+(?:[\w, ()]+ = )?(?:extern_kernels\.(\w+)|torch\.ops\.(\w+\.\w+(?:\.\w+)?))\(")


def _operators(text):
    names = (each.strip().removeprefix("aten.") for each in text.split(","))
    return tuple(name for name in names if name and not _is_view(name))


def _is_view(name):
    overload = getattr(getattr(torch.ops.aten, name, None), "default", None)
    return overload is not None and overload.is_view


def read(source, reason_of):
    """Returns (kernels, products, called, steps) of a generated module. reason_of(operator): the text of why it is called."""
    kernels, products, calls, reasons, steps = {}, {}, collections.Counter(), {}, {}
    origins, in_text = (), False
    for line in source.splitlines():
        if in_text:  # of a kernel
            in_text = line != "''')"
        elif found := _ORIGINS.match(line):
            origins = _operators(found[1])
        elif line.startswith("# " + REASON):
            operator, _, why = line.removeprefix("# " + REASON).partition(": ")
            reasons[operator] = why
        elif line.startswith("# " + STEPS):
            operator, _, why = line.removeprefix("# " + STEPS).partition(": ")
            steps[operator] = why
        elif found := _KERNEL.match(line):
            kernels[found[1]] = Kernel(found[1], origins)
            in_text = True
        elif (found := _LAUNCH.match(line)) and found[1] in kernels:
            kernels[found[1]].launches += 1
        elif found := _PRODUCT.match(line):
            key = origins, ast.literal_eval(found[1])
            products.setdefault(key, Product(*key, launches=0)).launches += 1
        elif (found := _CALL.match(line)) and not (found[2] or "").startswith("inductor."):
            calls[f"aten.{found[1]}" if found[1] else found[2]] += 1
    return list(kernels.values()), list(products.values()), _with_reasons(calls, reasons, reason_of), steps


def _with_reasons(calls, reasons, reason_of):
    return {name: (count, reasons.get(name) or reason_of(name)) for name, count in calls.items()}


_OF_TORCH = re.compile(r"aoti_torch_(?:cpu|cuda)_(\w+?)(?:_out)?\(")
_BY_EXECUTOR = re.compile(r"aoti_torch_proxy_executor_call_function\(proxy_executor, (\d+),")


def read_package(source, targets, reason_of):
    """Returns the same of the C++ of a package. targets: the operators that its executor calls, by their numbers."""
    kernels, products, calls, reasons, steps = {}, {}, collections.Counter(), {}, {}
    origins = ()
    for line in map(str.strip, source.splitlines()):
        comment = line.removeprefix("// ") if line.startswith("// ") else ""
        if found := _ORIGINS.match(f"# {comment}"):
            origins = _operators(found[1])
        elif found := _KERNEL.match(comment):
            kernels[found[1]] = Kernel(found[1], origins)
        elif comment.startswith(REASON):
            operator, _, why = comment.removeprefix(REASON).partition(": ")
            reasons[operator] = why
        elif comment.startswith(STEPS):
            operator, _, why = comment.removeprefix(STEPS).partition(": ")
            steps[operator] = why
        elif comment.startswith(LAUNCH):
            kernels[comment.removeprefix(LAUNCH)].launches += 1
        elif comment.startswith(PRODUCT):
            key = origins, comment.removeprefix(PRODUCT)
            products.setdefault(key, Product(*key, launches=0)).launches += 1
        elif found := _BY_EXECUTOR.search(line):
            name = targets[int(found[1])]
            if name not in OWN:
                calls[name] += 1
        elif found := _OF_TORCH.search(line):
            calls[f"aten.{found[1]}"] += 1
    return list(kernels.values()), list(products.values()), _with_reasons(calls, reasons, reason_of), steps
