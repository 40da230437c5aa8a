"""derive: the gradient of one kernel, as a kernel."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import _C
from ..language.core.dtypes import of_ir
from ..language.core.untraced import untraced
from ..language.kernel import kernel as Kernel
from .binding import bound, name_of_leaf, split
from .printed import printed
from .traced import is_float, traced


def _axes(grid, arguments):
    """Returns the three extents of a grid."""
    grid = grid(*arguments) if callable(grid) else grid
    grid = (grid,) if isinstance(grid, int) else tuple(grid)
    return (*grid, *(1,) * (3 - len(grid)))


class Derivative:
    """The gradient of a kernel by the compiler: derive(kernel)[grid](*arguments, *gradients of results, *gradients).

    The arguments are the kernel's: by position or by name, and without those that have a default, as in its own launches. A
    gradient of each array of floats that the kernel writes follows, which is read, then one of each array that it is
    differentiated by, which is written. Both are in the order of the parameters. The arrays that the kernel writes are not
    touched.

    Shapes and dtypes: those of the kernel's arrays.
    Errors: NotImplementedError, with the place in the kernel, for what has no derivative. TypeError for wrong arguments,
    ValueError for gradients that share memory with other arguments and for grids whose blocks repeat each other.
    """

    kernel: Any
    launches_in_graphs = True  # torch.compile makes an operator of each (tile_ops._graphs)

    def __init__(self, kernel: Any, wrt: Sequence[str] | None, of: Sequence[str] | None) -> None:
        self.kernel = kernel
        for names in (wrt or (), of or ()):
            for name in names:
                if name not in kernel.parameters:
                    raise ValueError(
                        f"derive: {kernel.__name__} has no parameter {name!r}; they are {', '.join(kernel.parameters)}"
                    )
        self._wrt, self._of = wrt, of

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return functools.partial(self.launch, grid)

    def __repr__(self) -> str:
        return f"<derivative of {self.kernel.__name__}>"

    @untraced
    def launch(self, grid: Any, /, *arguments: Any, **named: Any) -> None:
        """Computes the gradients. The grid is the kernel's."""
        parts, names = None, []

        def gradients_of(own):
            nonlocal parts, names
            parts = self._parts(own)
            names = self._gradient_names(own, parts)
            return names

        own, gradients = split(self.kernel, arguments, named, gradients_of)
        found, leaves, inputs, results = parts
        for i, name, gradient in zip((*results, *inputs), names, gradients):
            leaf = leaves[i]
            if not isinstance(gradient, torch.Tensor) or gradient.shape != leaf.shape or gradient.dtype != leaf.dtype:
                given = f"{gradient.dtype} {tuple(gradient.shape)}" if isinstance(gradient, torch.Tensor) else repr(gradient)
                raise TypeError(
                    f"derivative of {self.kernel.__name__}: {name} is {given}; give a tensor like the argument, "
                    f"{leaf.dtype} {tuple(leaf.shape)}"
                )
        self._check_memory(names, gradients, len(results), leaves)
        targets = {i: (gradient, False) for i, gradient in zip(inputs, gradients[len(results) :])}
        found.launch(self.kernel.__name__, _axes(grid, own), leaves, gradients[: len(results)], targets, results)

    def _check_memory(self, names, gradients, given, leaves):
        """Raises ValueError if a gradient that is written shares memory with another tensor."""
        others = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        for i in range(given, len(gradients)):
            if _C.overlap(gradients[i]) or any(_C.overlap(gradients[i], each) for each in (*others, *gradients[:i])):
                raise ValueError(
                    f"derivative of {self.kernel.__name__}: {names[i]} shares memory with another argument, or its elements do; "
                    "give memory of its own"
                )

    def _gradient_names(self, own, parts):
        """Returns the names of the gradients that a launch takes, of which those that it writes come last."""
        _, _, inputs, results = parts
        return [f"the gradient of {self._name(own, i)}" for i in (*results, *inputs)]

    def report(self, *arguments: Any, grid: Any = None, **named: Any) -> dict[str, Any]:
        """Returns how the gradient of each array is written, {name: text}, for such arguments of the kernel. Arrays in a tuple or
        list have names such as pair[0].

        What loops keep is in lists of tiles, {way: [tile, ...]}. grid: the kernel's, on which the way may depend, because more
        blocks keep more; without it, all that has a bound counts as kept for each iteration. With a grid "saved" lists what the
        forward of an operator saves in such a launch for its gradient.
        """
        arguments = bound(self.kernel, arguments, named)
        found, leaves, inputs, results = self._parts(arguments)
        axes = None if grid is None else _axes(grid, arguments)
        texts, kept = found.kernel.report(inputs, results, leaves, axes)
        report: dict[str, Any] = {self._name(arguments, i): text for i, text in zip(inputs, texts)}
        for way, tile in kept:
            report.setdefault(way, []).append(tile)
        saving = found.saving(axes, leaves) if axes else None
        saved = [self._saved_text(axes, *each) for each in saving.kernel.saved] if saving else []
        if saved:
            report["saved"] = saved
        return report

    @staticmethod
    def _saved_text(grid, dtype, shape, replaces):
        size = math.prod(grid) * math.prod(shape) * of_ir(dtype).torch.itemsize
        return f"{dtype}{list(shape)} of each block, {size} bytes, in place of {replaces}"

    def source(self, *arguments: Any, transposed: bool = False, **named: Any) -> str:
        """Returns the derived kernel as a file of Python, for such arguments of the kernel: to read, and to change by hand.

        Its docstring says what memory a launch takes beside the kernel's arguments. Parameters that are constants keep their
        names, and are asserted to have the values of these arguments.
        transposed: the kernels that are launched instead of it if copies of gradients would be large; empty if there are none.
        Errors: NotImplementedError, with the place in the kernel, for a primitive that the language cannot spell.
        """
        own = bound(self.kernel, arguments, named)
        return printed(self.kernel, own, *self._texts(own, transposed))

    def ir(self, *arguments: Any, transposed: bool = False, **named: Any) -> str:
        """Returns what source() does as Tile IR."""
        return "\n".join(self._texts(bound(self.kernel, arguments, named), transposed)[0])

    def _texts(self, arguments, transposed):
        """Returns the texts of the derived kernels, parameters of the inputs and of the results, and how gradients are written."""
        found, leaves, inputs, results = self._parts(arguments)
        first, *others = found.kernel.source(inputs, results)
        ways, _ = found.kernel.report(inputs, results, leaves, None)
        return others if transposed else [first], inputs, results, ways

    def _name(self, arguments, position):
        return name_of_leaf(self.kernel, arguments, _C.passed_arguments(self.kernel, arguments), position)

    # Methods that torch.compile's graphs call, in the place of a kernel's.

    @property
    def __name__(self):
        return f"{self.kernel.__name__}_backward"

    @property
    def letters(self):
        return self.kernel.letters

    def split_in_graph(self, arguments, named, stand_ins, is_tensor):
        """Returns all arguments of a launch in order. stand_ins(arguments): values that represent those of the kernel."""

        def gradients_of(own):
            own = stand_ins(own)
            return self._gradient_names(own, self._parts(own))

        own, gradients = split(self.kernel, arguments, named, gradients_of, is_tensor)
        return (*own, *gradients)

    def _written(self, arguments):
        count = len(self.kernel.parameters)
        _, _, inputs, _ = self._parts(arguments[:count])
        read = len(arguments) - len(inputs)
        return [i >= read for i in range(len(arguments))]

    def _parts(self, arguments):
        """Returns (Traced, parameters of the IR, inputs, results)."""
        kernel = self.kernel
        found = traced(kernel, arguments)
        passed = _C.passed_arguments(kernel, arguments)
        names = [kernel.parameters[number] for _, number in passed]
        by_name = {name: [array for i, array in enumerate(found.arrays) if names[i] == name] for name in kernel.parameters}
        for name in self._wrt or ():
            self._check_input(name, by_name[name])
        for name in self._of or ():
            self._check_result(name, by_name)
        inputs = found.inputs if self._wrt is None else [i for i, a in enumerate(found.arrays) if a and names[i] in self._wrt]
        results = found.results if self._of is None else [i for i in found.results if names[i] in self._of]
        return found, tuple(value for value, _ in passed), tuple(inputs), tuple(results)

    def _check_input(self, name, arrays):
        """Raises TypeError if a name of wrt is not that of arrays of floats which the kernel only reads."""
        for array in arrays or [None]:
            if not is_float(array):
                kind = f"an array of {array[0]}" if array else "no array"
                raise TypeError(f"derive: {name!r} of {self.kernel.__name__} is {kind}; only arrays of floats have a gradient")
            if array[3] or array[4]:
                raise TypeError(
                    f"derive: {name!r} of {self.kernel.__name__} is written by it; wrt names arrays that it only reads"
                )

    def _check_result(self, name, by_name):
        """Raises TypeError if a name of `of` is not that of arrays of floats which the kernel writes."""
        written = [
            each for each, arrays in by_name.items() if any(is_float(array) and (array[3] or array[4]) for array in arrays)
        ]
        if name not in written:
            raise TypeError(
                f"derive: {name!r} is no array of floats that {self.kernel.__name__} writes; `of` names results: "
                f"{', '.join(written)}"
            )


def derive(kernel: Any, wrt: str | Sequence[str] | None = None, of: str | Sequence[str] | None = None) -> Derivative:
    """Returns the Derivative of a kernel of tile_ops.language.

    wrt: names of the arrays that it is differentiated by; by default all arrays of floats that the kernel only reads. of: names
    of the results, arrays that it writes; by default all of floats.

    Returns a Derivative. Errors: TypeError for what is no kernel, ValueError for names that are no parameters. A launch raises
    NotImplementedError, with the place in the kernel, for what has no derivative.
    """
    if not isinstance(kernel, Kernel):
        raise TypeError(f"derive: {kernel!r} is no kernel; make one with tile_ops.language.kernel")
    one = lambda names: (names,) if isinstance(names, str) else names  # noqa: E731
    return Derivative(kernel, one(wrt), one(of))
