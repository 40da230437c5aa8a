"""Counts the kernels that a compiled graph calls: on a GPU by torch's profiler, on a CPU in inductor's output code."""

import ast
import contextlib


@contextlib.contextmanager
def output_codes():
    """Yields a dict whose keys become inductor's output codes of the graphs that are compiled in the block."""
    from torch._inductor.graph import GraphLowering

    found, before = {}, GraphLowering.__dict__["save_output_code"]
    GraphLowering.save_output_code = staticmethod(found.setdefault)
    try:
        yield found
    finally:
        GraphLowering.save_output_code = before


def called_kernels(code):
    """Returns the number of calls of kernels in output code. A kernel is a name that the module gives to the result of a
    call, as in `fused_0 = async_compile.triton(...)`; what functions of the module call, or run, is launched."""
    module = ast.parse(code)
    kernels = {
        target.id
        for line in module.body
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Call)
        for target in line.targets
        if isinstance(target, ast.Name)
    }

    def root(node):
        while isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        return node.id if isinstance(node, ast.Name) else None

    functions = [
        each
        for line in module.body
        for each in ([line] if isinstance(line, ast.FunctionDef) else line.body if isinstance(line, ast.ClassDef) else [])
        if isinstance(each, ast.FunctionDef) and not each.name.startswith("benchmark")
    ]
    calls = [node for function in functions for node in ast.walk(function) if isinstance(node, ast.Call)]
    return sum(root(call.func) in kernels for call in calls)


def count(codes, call, device):
    """Returns the kernels of a call whose graphs have these output codes, or None if no code was seen."""
    if device == "cuda":
        from gpu import profiled_kernels

        return profiled_kernels(call)
    return sum(map(called_kernels, codes)) if codes else None
