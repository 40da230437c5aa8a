"""The base of kernels and operators: copy returns the object itself, and pickle stores the name of the object."""

import pickle
import sys


def _name_of(value):
    """Returns the name under which a value is found in its module; None: its module has no such name."""
    module = sys.modules.get(value.__module__)
    found = module
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is value:
        return value.__qualname__
    return next((name for name, each in vars(module).items() if each is value), None) if module else None


class Named:
    """The base; its objects have __module__ and __qualname__."""

    def __copy__(self):
        return self

    def __deepcopy__(self, _):
        return self

    def __reduce__(self):
        name = _name_of(self)
        return self._without_name() if name is None else name

    def __reduce_ex__(self, _):
        return self.__reduce__()

    def _without_name(self):
        """Returns the arguments from which pickle rebuilds an object without a name. Error: the object cannot be rebuilt."""
        function, _, local = self.__qualname__.rpartition(".<locals>.")
        where = f"it is local to {function}()" if function else f"no name in the module {self.__module__} leads to it"
        raise pickle.PicklingError(
            f"{self!r} cannot be pickled: {where}; define it at the top level of a module, so that its name finds it"
        )
