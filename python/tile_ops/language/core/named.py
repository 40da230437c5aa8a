"""What stands for itself: kernels and operators are copied to themselves, and pickled by the name that leads to them."""

import pickle
import sys


def _name_of(value):
    """The name in its module that leads to a value; None: there is none."""
    module = sys.modules.get(value.__module__)
    found = module
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is value:
        return value.__qualname__
    return next((name for name, each in vars(module).items() if each is value), None) if module else None


class Named:
    """A base of classes whose objects have __module__ and __qualname__."""

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
        """What pickle makes another of. Error: nothing does."""
        function, _, local = self.__qualname__.rpartition(".<locals>.")
        where = f"it is local to {function}()" if function else f"no name in the module {self.__module__} leads to it"
        raise pickle.PicklingError(
            f"{self!r} cannot be pickled: {where}; define it at the top level of a module, so that its name finds it"
        )
