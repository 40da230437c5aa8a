"""Kernels in Python under torch.compile: a launch becomes a call of an operator that is made of what it writes.

torch._dynamo is slow to import and seldom needed: what it has to know is told when it is imported.
"""

import importlib.abc
import importlib.util
import sys

_BUILDER = "torch._dynamo.variables.builder"


def _teach():
    from . import variables

    variables.teach()


class _Loader(importlib.abc.Loader):
    def __init__(self, loader):
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self._loader  # its source is asked for later
        self._loader.exec_module(module)
        # Its package is not imported to the end yet: the first thing that is wrapped imports the rest.
        wrap = module.VariableBuilder._wrap

        def first(self, value):
            module.VariableBuilder._wrap = wrap
            _teach()
            return module.VariableBuilder._wrap(self, value)

        module.VariableBuilder._wrap = first


class _Finder(importlib.abc.MetaPathFinder):
    """Stands before the others until the module is imported."""

    def find_spec(self, name, path=None, target=None):
        if name != _BUILDER:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


def install():
    """Once, by whoever makes kernels."""
    if _BUILDER in sys.modules:
        _teach()
    elif not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


install()
