"""Runs an action when a module is imported, so that this package need not import modules that are slow to import."""

import importlib.abc
import importlib.util
import sys


class _Loader(importlib.abc.Loader):
    """A loader that runs an action after a module has run."""

    def __init__(self, loader, action):
        self._loader, self._action = loader, action

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self._loader  # inspect.getsource asks it
        try:
            self._loader.exec_module(module)
        except BaseException:
            on_import(module.__name__, self._action)  # the import may be tried again
            raise
        self._action(module)


class _Finder(importlib.abc.MetaPathFinder):
    """A finder that adds an action to the next import of a module, and removes itself then."""

    def __init__(self, name, action):
        self.name, self._action = name, action

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self._action)
        return spec


def on_import(name, action):
    """Calls action(module) once the module of this name, which is not imported yet, has run. A second call for a name while
    the first one waits does nothing."""
    if not any(isinstance(finder, _Finder) and finder.name == name for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(name, action))
