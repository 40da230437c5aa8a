"""Tuned: a kernel with several configurations, of which each launch uses the fastest for its arguments."""

import concurrent.futures
import functools
import inspect
import operator
import os
import sys
import threading
import time
import warnings

import tile_ops
import torch
from torch._subclasses.fake_tensor import FakeTensor

from ..arguments import constant_key
from ..core.named import Named
from ..core.signatures import binder
from ..core.untraced import untraced
from .copies import Copies, leaves, too_large
from .keys import Key, device_of, digest
from .measure import SLOW, Candidate, drop_slow, measure
from .progress import Progress
from .table import Row, Table, load, shown, store


def _switch(name, value, meaning):
    if value not in ("0", "1"):
        raise ValueError(f"{name}={value}: it is 0 or 1, {meaning}; unset it or set it to one of these")
    return value == "1"


def _measuring():
    return _switch(
        "TILE_AUTOTUNE", os.environ.get("TILE_AUTOTUNE") or "1", "whether configurations are measured whose times are not known"
    )


def _printing():
    return _switch("TILE_AUTOTUNE_PRINT", os.environ.get("TILE_AUTOTUNE_PRINT") or "0", "whether tables of times are printed")


def _one_line(error):
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


class _Configuration:
    """One configuration. given: its dictionary; launch(grid, arguments, stream): launches the kernel with its hints and
    constants."""

    def __init__(self, given, kernel, values, order):
        self.given, self.kernel, self._values = given, kernel, values
        self._merged = order

    def merged(self, arguments):
        """Returns all arguments in the order of the kernel's parameters."""
        return self._merged((*arguments, *self._values))

    def launch(self, grid, arguments, stream=None):
        self.kernel.launch(grid, *self._merged((*arguments, *self._values)), stream=stream)


def _picker(indices):
    """Returns a function that returns the items of a tuple at these indices, as a tuple."""
    if list(indices) == list(range(len(indices))):
        return tuple
    return operator.itemgetter(*indices)  # at least two, because a single index is always in order


class Tuned(Named):
    """The result of kernel.tune: launches take the arguments without the configured constants.

    tuned[grid](*arguments) and tuned.launch(grid, *arguments, stream=None) measure the configurations if the key of the
    arguments is new, on copies of the tensors, and launch the fastest. If code or constants that the kernel reads have
    changed, they measure again. A grid that is a function takes all of the kernel's arguments, including the configured
    constants.
    """

    def __init__(self, kernel, configs, key=None, verbose=False):
        self.kernel, self._verbose, self._given_key = kernel, verbose, key
        configs = _checked(kernel, configs)
        parameters = kernel.parameters
        constants = [name for name in parameters if name in configs[0]]
        left = [name for name in parameters if name not in constants]
        order = _picker([[*left, *constants].index(name) for name in parameters])
        kernels = {}
        self.configurations = []
        for each in configs:
            hints = {name: value for name, value in each.items() if name not in parameters}
            made = kernels.setdefault(tuple(sorted(hints.items())), kernel.replace_hints(**hints) if hints else kernel)
            self.configurations.append(_Configuration(each, made, [each[name] for name in constants], order))
        self.configs = [each.given for each in self.configurations]
        self._left, self._constants = left, constants
        signature = inspect.signature(kernel._pyfunc).parameters
        self._in_order = binder(kernel.__name__, [signature[name] for name in left])
        self._generation = kernel._capture._generation  # the generation of the Python state that the kernel reads
        constant = {name for name, letter in zip(parameters, kernel.letters) if letter == "c"}
        self._key = Key(kernel.__name__, key, left, constant)
        self._memo, self._memo_of, self._tables, self._lock = {}, 0, {}, threading.RLock()
        functools.update_wrapper(self, kernel._pyfunc, updated=())

    def __getitem__(self, grid):
        return functools.partial(self.launch, grid)

    def __call__(self, *_, **__):
        raise TypeError(f"{self.__name__} is a kernel; launch it with {self.__name__}[grid](...)")

    def _without_name(self):
        return Tuned, (self.kernel, self.configs, self._given_key, self._verbose)

    @untraced
    def launch(self, grid, *arguments, stream=None, **named):
        """Runs the fastest configuration for each block of the grid. stream: as in kernel.launch."""
        if named or len(arguments) != len(self._left):
            arguments = self._all(arguments, named)
        if self._generation() != self._memo_of:
            self._forget()
        chosen = self._memo.get(self._key.exact(arguments))
        if chosen is None:
            chosen = self._chosen(grid, arguments)
        chosen.kernel.launch(grid, *chosen.merged(arguments), stream=stream)

    @untraced
    def best(self, *arguments, **named):
        """Returns the configuration that was fastest for such arguments, in this process or on disk; None if it was not
        measured yet. Tensors may be fake."""
        table = self.table(*arguments, **named)
        return None if table is None else self.configs[table.best]

    @untraced
    def table(self, *arguments, **named):
        """Returns the measurements for such arguments as a Table, which can be printed; None if there are none yet."""
        arguments = self._all(arguments, named)
        with self._lock:
            return self._known(self._key.text(arguments), device_of(arguments))

    @untraced
    def measure(self, grid, *arguments, **named):
        """Measures now, even if a choice is known, and returns a Table, which later launches use. Errors: ValueError if
        every configuration fails, or there is no room for copies of the tensors."""
        arguments = self._all(arguments, named)
        device = device_of(arguments)
        if large := too_large(arguments, device):
            raise ValueError(f"tune: {self.__name__} cannot be measured: {large}; measure with smaller tensors")
        with self._lock:
            self._memo.clear()
            return self._measured(grid, arguments, self._key.text(arguments), device)

    @untraced
    def ir(self, *arguments, passes=False, **named):
        """Returns the Tile IR of the configuration that a launch with such arguments uses, as kernel.ir does."""
        arguments = self._all(arguments, named)
        chosen = self._unmeasured(arguments)
        return chosen.kernel.ir(*chosen.merged(arguments), passes=passes)

    @untraced
    def check(self, *arguments, **named):
        """Checks that configuration, as kernel.check does."""
        arguments = self._all(arguments, named)
        chosen = self._unmeasured(arguments)
        chosen.kernel.check(*chosen.merged(arguments))

    def _forget(self):
        """Forgets the choices, which were made for other code or constants."""
        with self._lock:
            self._memo, self._memo_of = {}, self._generation()

    def _all(self, arguments, named):
        """Returns the arguments of a launch in order, with defaults. Error: Python's own TypeError."""
        try:
            return self._in_order(*arguments, **named)
        except TypeError as error:
            sets = f"its configurations set {', '.join(self._constants)}" if self._constants else ""
            raise TypeError("; ".join(filter(None, [str(error), sets]))) from None

    def _known(self, key, device):
        """Returns the table of a key, from this process or from disk; None if there is none."""
        if device.type not in ("cpu", "cuda") or (device.type == "cuda" and not torch.cuda.is_available()):
            return None
        generation = self._generation()
        if (generation, device, key) not in self._tables:
            table = load(digest(self.kernel._pyfunc, self.kernel._dialect, self.configs, device, key), self.configs)
            if table is None:
                return None
            self._tables[generation, device, key] = table
            self._print(table)
        return self._tables[generation, device, key]

    def _unmeasured(self, arguments):
        table = self.table(*arguments)
        return self.configurations[0 if table is None else table.best]

    @untraced
    def _chosen(self, grid, arguments):
        """Returns the configuration for arguments whose quick key is new."""
        measuring, key, device = _measuring(), self._key.text(arguments), device_of(arguments)
        with self._lock:
            table = self._known(key, device)
            if table is None and measuring:
                if not _may_run(arguments, device):  # the next launch asks again
                    return self.configurations[0]
                if large := too_large(arguments, device):
                    warnings.warn(
                        f"tune: {self.__name__} is not measured: {large}; it runs with {shown(self.configs[0])}. Call "
                        "measure(grid, ...) with smaller tensors of the same key",
                        RuntimeWarning,
                        stacklevel=4,
                    )
                else:
                    table = self._measured(grid, arguments, key, device)
            chosen = self.configurations[0 if table is None else table.best]
            if len(self._memo) >= 4096:  # sizes may vary without end
                self._memo.clear()
            self._memo[self._key.exact(arguments)] = chosen
            return chosen

    def _measured(self, grid, arguments, key, device):
        candidates = self._candidates(grid, arguments, device)
        if all(each.error for each in candidates):
            first = candidates[0].error
            raise ValueError(
                f"tune: every configuration of {self.__name__} fails; the first, {shown(self.configs[0])}, with "
                f"{type(first).__name__}: {first}"
            ) from first
        rows = tuple(
            Row(config, *((None, 0, _one_line(each.error)) if each.error else (each.median, len(each.times), None)))
            for config, each in zip(self.configs, candidates)
        )
        best = min((index for index, row in enumerate(rows) if row.us is not None), key=lambda index: rows[index].us)
        table = self._tables[self._generation(), device, key] = Table(self.__name__, key, rows, best)
        store(digest(self.kernel._pyfunc, self.kernel._dialect, self.configs, device, key), table)
        self._print(table)
        return table

    def _candidates(self, grid, arguments, device):
        """Compiles all configurations concurrently and measures those that run."""
        with torch.no_grad(), torch.cuda.device(device if device.type == "cuda" else -1):
            tile_ops.synchronize(device)  # other streams may still write the tensors
            copies = Copies(arguments)
            candidates = [
                Candidate(functools.partial(each.launch, grid, copies.arguments), copies.restore)
                for each in self.configurations
            ]

            def compile_one(pair):
                configuration, candidate = pair
                try:
                    configuration.launch(0, copies.arguments)  # a launch of no block only compiles
                except Exception as error:  # noqa: BLE001 it is reported
                    candidate.error = error

            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                list(pool.map(compile_one, zip(self.configurations, candidates)))
            with Progress(self.__name__, len(candidates)) as progress:
                for done, candidate in enumerate(candidates):
                    progress.show(done, sum(each.error is not None for each in candidates))
                    if candidate.error is None:
                        _first_run(candidate, copies, device)
                _drop_after_first_runs(candidates)
                progress.show(0, sum(each.error is not None for each in candidates))
                measure(candidates, device)
            return candidates

    def _print(self, table):
        if self._verbose or _printing():
            print(table, file=sys.stderr, flush=True)

    def __repr__(self):
        return f"<kernel {self.__name__}, {len(self.configs)} configurations>"


def _first_run(candidate, copies, device):
    """Finds out what a run changes, and the errors that a GPU reports late."""
    try:
        copies.restore()
        begin = time.perf_counter()
        candidate.run()
        tile_ops.synchronize(device)
        if device.type == "cpu":  # on a GPU the time includes loading the code
            candidate.times.append((time.perf_counter() - begin) * 1e6)
    except Exception as error:  # noqa: BLE001 it is reported
        candidate.error = error
    copies.note_changes()


def _drop_after_first_runs(candidates):
    """Drops the candidates with a long, slow first run; the first run of the others does not count."""
    ran = [each for each in candidates if each.times]
    if ran:
        drop_slow(ran, *SLOW)
    for each in ran:
        if not each.dropped:
            each.times.clear()


def _may_run(arguments, device):
    """Returns True if measuring is possible: all tensors have memory, and no graph is being captured."""
    if any(isinstance(each, FakeTensor) or each.is_meta for each in leaves(arguments, [])):
        return False
    return device.type != "cuda" or not torch.cuda.is_current_stream_capturing()


def _checked(kernel, configs):
    """Returns the configurations as dictionaries; raises errors for invalid ones."""
    name = kernel.__name__
    configs = list(configs)
    if not configs:
        raise ValueError(f"{name}.tune: there are no configurations; give at least one dictionary of constants")
    constants = [each for each, letter in zip(kernel.parameters, kernel.letters) if letter == "c"]
    for index, config in enumerate(configs):
        if not isinstance(config, dict):
            raise TypeError(f"{name}.tune: configuration #{index} is {config!r}; give a dictionary of constants")
        for each, value in config.items():
            if each in kernel.parameters and each not in constants:
                raise ValueError(
                    f"{name}.tune: configuration #{index} sets {each!r}, which is not a Constant parameter; annotate it "
                    "with Constant"
                )
            if each not in constants and each not in kernel.hint_names:
                raise ValueError(
                    f"{name}.tune: configuration #{index} sets {each!r}; the Constant parameters are "
                    f"{', '.join(constants) or 'none'}, and the hints {', '.join(kernel.hint_names)}"
                )
            if each in constants:
                constant_key(f"{name}.tune: configuration #{index}, {each}", value)
        sets = [[each for each in constants if each in one] for one in (config, configs[0])]
        if sets[0] != sets[1]:
            raise ValueError(
                f"{name}.tune: configuration #{index} sets the constants {', '.join(sets[0]) or 'none'}, and #0 "
                f"{', '.join(sets[1]) or 'none'}; let all set the same, since launches leave them out"
            )
    return [dict(config) for config in configs]
