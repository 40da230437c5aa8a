"""Runs tests of torch's inductor suite one at a time, as torch_suite.py asks over a pipe, with another backend in inductor's place.

The first line of the input is a JSON object: file, backend, select. The answer to it lists the tests; each further line of the
input is the name of one, and is answered by its result. A process of its own lets a test crash or hang alone.
"""

import ast
import contextlib
import importlib
import json
import os
import pathlib
import re
import sys
import time
import unittest

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from inductor_names import has  # noqa: E402
from torch_suite_reasons import normalised, reason_of  # noqa: E402


def is_cpu_test(item):
    return bool(re.search("cpu", item.cls.__name__ if item.cls else "", re.IGNORECASE)) or "_cpu" in item.name


class Counts:
    """Counts calls of the backend, and C++ compilers that torch starts, of the running test."""

    backend = compilers = 0
    compiles = []  # what backend "tile" notes of each graph
    skip = ""  # why a failure says nothing


def load_backend(name):
    """Returns the function behind a name: tile, inductor (None), or MODULE:FUNCTION."""
    if name == "inductor":
        return None
    if name == "tile":
        note_compiles()
    module, _, function = ("tile_ops._compile:backend" if name == "tile" else name).partition(":")
    return getattr(importlib.import_module(module), function)


def note_compiles():
    from tile_ops._compile import compiler

    class Noted(compiler.Compile):
        def __init__(self, *args, **options):
            super().__init__(*args, **options)
            Counts.compiles.append(self)

    compiler.Compile = Noted


def kernels_and_refusals():
    """Returns how many kernels of ours the graphs of a test have, and why which operators are called in place of one."""
    reasons = {}
    for compile in Counts.compiles:
        reasons |= {operator: normalised(reason) for operator, reason in compile.reasons.items()}
    return {"kernels": sum(len(compile.kernels) for compile in Counts.compiles), "refused": reasons}


def replace_inductor(backend):
    """Puts `backend` where torch and the tests look up compile_fx; called before the tests are imported, since they capture it."""
    from torch._inductor import compile_fx as module
    from torch._inductor import cpp_builder
    from torch._inductor.virtualized import V

    original, build = module.compile_fx, cpp_builder.CppBuilder.build

    def compile_fx(model_, example_inputs_, *args, **options):
        if V.aot_compilation and backend:
            Counts.skip = "AOTInductor makes C++ libraries, and is no torch.compile"
            raise unittest.SkipTest(Counts.skip)
        Counts.backend += 1
        # A backend that is made of inductor calls compile_fx, which calls itself.
        module.compile_fx = original
        try:
            if backend is None:
                return original(model_, example_inputs_, *args, **options)
            patches = options.get("config_patches")
            if backend.__module__ == "tile_ops._compile":  # eager mode after an error would hide it
                patches = {"fallback": "error", **(patches or {})}
            return backend(model_, example_inputs_, options=patches) if patches else backend(model_, example_inputs_)
        finally:
            module.compile_fx = compile_fx

    def counted(self, *args, **options):
        Counts.compilers += 1
        return build(self, *args, **options)

    module.compile_fx = compile_fx
    cpp_builder.CppBuilder.build = counted


class Missing:
    """Stands for a name that the tests import and the installed torch lacks: tests that call it are skipped."""

    def __init__(self, name):
        self.name = name

    def __call__(self, *args, **options):
        import torch

        raise unittest.SkipTest(f"torch {torch.__version__} has no {self.name}")


def supply_missing_names(path, seen):
    """Lets a file of another version of torch be imported: each name that it imports from torch exists afterwards."""
    if path in seen:
        return
    seen.add(path)
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or node.level or not node.module:
            continue
        sibling = path.parent / (node.module.rpartition(".")[2] + ".py")
        if node.module.startswith("torch."):
            with contextlib.suppress(ImportError):
                module = importlib.import_module(node.module)
                for alias in node.names:
                    if alias.name != "*" and not has(node.module, alias.name):
                        setattr(module, alias.name, Missing(f"{node.module}.{alias.name}"))
        elif sibling.exists():
            supply_missing_names(sibling, seen)


class Runner:
    """A plugin of pytest that replaces its loop over all tests."""

    def __init__(self, directory, read, write):
        self.directory, self.read, self.write = directory, read, write
        self.errors = []

    def pytest_collectreport(self, report):
        if report.failed:
            self.errors.append(str(report.longrepr))

    def pytest_runtestloop(self, session):
        tests = {item.nodeid: item for item in session.items if is_cpu_test(item)}
        self.send({"tests": list(tests), "error": "\n".join(self.errors)})
        for line in self.read:
            self.result = {"test": json.loads(line), "outcome": "passed", "reason": ""}
            Counts.backend, Counts.compilers, Counts.compiles, Counts.skip = 0, 0, [], ""
            start = time.monotonic()
            item = tests[self.result["test"]]
            # The class is set up and left for each test: the next test may run in another process.
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
            if Counts.skip and self.result["outcome"] == "failed":
                self.result |= {"outcome": "skipped", "reason": Counts.skip}
            self.result |= {"seconds": round(time.monotonic() - start, 2)}
            self.result |= {"calls": Counts.backend, "compilers": Counts.compilers}
            self.send(self.result | kernels_and_refusals())
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if report.failed and "Unexpected success" in report.longreprtext:
            pass  # a test that inductor fails
        elif report.failed and self.result["outcome"] != "failed":
            error = call.excinfo.value if call.excinfo else AssertionError(report.longreprtext)
            self.result |= {"outcome": "failed", "reason": reason_of(error, self.directory), "trace": report.longreprtext}
        elif report.skipped and self.result["outcome"] == "passed":
            expected = hasattr(report, "wasxfail")
            text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.result |= {"outcome": "skipped", "reason": "fails as expected" if expected else text}
        return report

    def send(self, message):
        print(json.dumps(message), file=self.write, flush=True)


def main():
    # Tests print, and pytest replaces the standard streams: the pipes move to descriptors of their own.
    read, write = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    order = json.loads(next(read))
    file = pathlib.Path(order["file"])
    replace_inductor(load_backend(order["backend"]))
    supply_missing_names(file, set())
    options = ["--noconftest", "-p", "no:cacheprovider", "-p", "no:xdist", "-c", os.devnull, "--rootdir", str(file.parent)]
    # Errors of import are sent in place of the tests.
    options += ["--continue-on-collection-errors", "-q", "-W", "ignore", "-k", order["select"]]
    sys.argv = sys.argv[:1]
    pytest.main([*options, str(file)], plugins=[Runner(file.parent, read, write)])


if __name__ == "__main__":
    main()
