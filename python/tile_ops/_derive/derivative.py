"""derive: the gradient of one kernel, as a kernel."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import _C
from ..language.core.dtypes import of_ir
from ..language.kernel import kernel as Kernel
from .printed import printed
from .traced import is_float, traced


def _axes(grid, arguments):
    """Returns the three extents of a grid."""
    grid = grid(*arguments) if callable(grid) else grid
    grid = (grid,) if isinstance(grid, int) else tuple(grid)
    return (*grid, *(1,) * (3 - len(grid)))


class Derivative:
    """The gradient of a kernel by the compiler: derive(kernel)[grid](*arguments, *gradients of results, *gradients).

    The arguments are the kernel's. A gradient of each array of floats that the kernel writes follows, which is read, then
    one of each array that it is differentiated by, which is written. Both are in the order of the parameters. The arrays that
    the kernel writes are not touched.

    Shapes and dtypes: those of the kernel's arrays.
    Errors: NotImplementedError, with the place in the kernel, for what has no derivative. TypeError for wrong arguments,
    ValueError for gradients that share memory with other arguments and for grids whose blocks repeat each other.
    """

    kernel: Any

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
        return lambda *arguments: self.launch(grid, *arguments)

    def __repr__(self) -> str:
        return f"<derivative of {self.kernel.__name__}>"

    def launch(self, grid: Any, *arguments: Any) -> None:
        """Computes the gradients. The grid is the kernel's."""
        count = len(self.kernel.parameters)
        own, gradients = arguments[:count], arguments[count:]
        found, leaves, inputs, results = self._parts(own)
        names = [f"the gradient of {self._name(own, i)}" for i in (*results, *inputs)]
        if len(gradients) != len(names):
            raise TypeError(
                f"derivative of {self.kernel.__name__}: takes {count} arguments of the kernel, then {', '.join(names)}; "
                f"got {len(arguments)}"
            )
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

    def report(self, *arguments: Any, grid: Any = None) -> dict[str, Any]:
        """Returns how the gradient of each array is written, {name: text}, for such arguments of the kernel.

        What loops keep is in lists of tiles, {way: [tile, ...]}. grid: the kernel's, on which the way may depend, because more
        blocks keep more; without it, all that has a bound counts as kept for each iteration. With a grid "saved" lists what the
        forward of an operator saves in such a launch for its gradient.
        """
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

    def source(self, *arguments: Any, transposed: bool = False) -> str:
        """Returns the derived kernel as a file of Python, for such arguments of the kernel: to read, and to change by hand.

        Its docstring says what memory a launch takes beside the kernel's arguments. Parameters that are constants keep their
        names, and are asserted to have the values of these arguments.
        transposed: the kernels that are launched instead of it if copies of gradients would be large; empty if there are none.
        Errors: NotImplementedError, with the place in the kernel, for a primitive that the language cannot spell.
        """
        return printed(self.kernel, tuple(arguments), *self._texts(arguments, transposed))

    def ir(self, *arguments: Any, transposed: bool = False) -> str:
        """Returns what source() does as Tile IR."""
        return "\n".join(self._texts(arguments, transposed)[0])

    def _texts(self, arguments, transposed):
        """Returns the texts of the derived kernels, parameters of the inputs and of the results, and how gradients are written."""
        found, leaves, inputs, results = self._parts(arguments)
        first, *others = found.kernel.source(inputs, results)
        ways, _ = found.kernel.report(inputs, results, leaves, None)
        return others if transposed else [first], inputs, results, ways

    def _name(self, arguments, position):
        _, number = _C.passed_arguments(self.kernel, tuple(arguments))[position]
        return self.kernel.parameters[number]

    def _parts(self, arguments):
        """Returns (Traced, parameters of the IR, inputs, results)."""
        kernel = self.kernel
        arguments = tuple(arguments)
        if len(arguments) != len(kernel.parameters):
            raise TypeError(
                f"derivative of {kernel.__name__}: takes all of its arguments, {', '.join(kernel.parameters)}, by position; "
                f"got {len(arguments)}"
            )
        found = traced(kernel, arguments)
        passed = _C.passed_arguments(kernel, arguments)
        names = [kernel.parameters[number] for _, number in passed]
        for name in self._wrt or ():
            for i, array in enumerate(found.arrays):
                if names[i] == name and not is_float(array):
                    kind = f"an array of {array[0]}" if array else "no array"
                    raise TypeError(f"derive: {name!r} of {kernel.__name__} is {kind}; only arrays of floats have a gradient")
        inputs = found.inputs if self._wrt is None else [i for i, a in enumerate(found.arrays) if a and names[i] in self._wrt]
        results = found.results if self._of is None else [i for i in found.results if names[i] in self._of]
        return found, tuple(value for value, _ in passed), tuple(inputs), tuple(results)


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
