"""Runs an action when a module is imported, so that this package need not import modules that are slow to import."""

import importlib.abc
import sys


class _Loader(importlib.abc.Loader):
    """A loader that runs an action after a module has run. Other attributes are those of the module's own loader."""

    def __init__(self, loader, finder):
        self._loader, self._finder = loader, finder

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self._loader  # inspect.getsource asks it
        self._loader.exec_module(module)  # if it raises, the finder stays: the import may be tried again
        self._finder.end(module)


class _Finder(importlib.abc.MetaPathFinder):
    """A finder that adds an action to the imports of a module, and removes itself after the first that succeeds."""

    def __init__(self, name, action):
        self.name, self._action = name, action

    def find_spec(self, name, path=None, target=None):
        """Returns the spec of the other finders. Programs may call it without importing the module."""
        if name != self.name:
            return None
        others = [each.find_spec for each in sys.meta_path if each is not self and hasattr(each, "find_spec")]
        spec = next(filter(None, (find(name, path, target) for find in others)), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self)
        return spec

    def end(self, module):
        if self in sys.meta_path:
            sys.meta_path.remove(self)
            self._action(module)


def on_import(name, action):
    """Calls action(module) once the module of this name, which is not imported yet, has run. A second call for a name while
    the first one waits does nothing."""
    if not any(isinstance(finder, _Finder) and finder.name == name for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder(name, action))


def when_imported(name, action):
    """Calls action(module) now if the module of this name is imported, or else as on_import does."""
    if name in sys.modules:
        action(sys.modules[name])
    else:
        on_import(name, action)
