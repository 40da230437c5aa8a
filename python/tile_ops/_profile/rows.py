"""Makes the rows of a report: the launches of a step by kernel or by operator, with what one call counts."""

import dataclasses
import statistics

import torch

from .counts import WRITE_ONLY, Count
from .trace import KERNEL

MOVES = {f"aten::{name}" for name in WRITE_ONLY}


@dataclasses.dataclass
class Row:
    """A kernel, or an operator, of one call. Unknown numbers are None.

    Units: seconds, bytes, operations. `bytes` counts the tensors that are read and those that are written, each once and whole.
    """

    name: str
    where: str | None  # "softmax.cpp:12", where a kernel of ours is defined
    operator: str | None  # the innermost operator that launches it
    ours: bool
    launches: int
    seconds: float
    share: float  # of the time of all rows, on a CPU of the step
    bytes: int | None = None
    flops: int | None = None
    dtype: torch.dtype | None = None  # of the operations
    roof: float | None = None  # the share of what the device can do, by bytes or by operations, whichever binds
    bound: str | None = None  # "memory" or "compute"

    @property
    def tb_per_s(self):
        return self.bytes / self.seconds / 1e12 if self.bytes and self.seconds else None

    @property
    def tflop_per_s(self):
        return self.flops / self.seconds / 1e12 if self.flops and self.seconds else None

    def set_roof(self, bandwidth, peak):
        """bandwidth in bytes a second, peak in operations a second; either may be None."""
        if not self.seconds:
            return
        parts = {}
        if self.bytes and bandwidth:
            parts["memory"] = self.bytes / bandwidth / self.seconds
        if self.flops and peak:
            parts["compute"] = self.flops / peak / self.seconds
        if parts:
            self.bound = max(parts, key=parts.get)
            self.roof = parts[self.bound]


def gpu_name(name):
    """Shortens the C++ name of a kernel."""
    return name.removeprefix("void ").replace("at::native::", "").replace("(anonymous namespace)::", "")


def kernel_key(launch, ours):
    """Returns (name, operator or None, whether the kernel is ours)."""
    operator = launch.operators[0].name if launch.operators else None
    if launch.launched is not None and launch.kind == "kernel":
        return launch.launched.name.removeprefix(KERNEL), operator, True
    if launch.kind == "operator":
        return launch.name, None, launch.name.startswith("tile::")
    compiled = launch.name.startswith("kernel_tile_")  # by torch.compile(backend="tile"), in a replayed graph
    known = launch.name.removeprefix("kernel_") if compiled else ours.get(launch.name)
    return (known, operator, True) if known else (gpu_name(launch.name), operator, False)


def operator_key(launch, ours):
    name, operator, is_ours = kernel_key(launch, ours)
    if operator is None:
        return name, None, is_ours
    return operator, None, is_ours or operator.startswith("tile::")


class Counted:
    """The launches of the counted call with what is known of them."""

    def __init__(self, launches, counts):
        self.launches, self.counts = launches, counts
        self._with_kernels = {each.operators[0].record for each in launches if each.operators and each.kind == "kernel"}
        self.working, self.computing = {}, {}  # launches by operator: those that move bytes, and those that may do operations
        for launch in launches:
            for operator in launch.operators:
                if self._works(launch):
                    self.working.setdefault(operator.record, []).append(launch)
                if self._computes(launch):
                    self.computing.setdefault(operator.record, []).append(launch)

    def of(self, found):
        return self.counts.get(found.record) or Count()

    def _works(self, launch):
        if launch.kind == "operator":
            own = launch.operators[0]
            return self.of(own).bytes != 0 and not any(map(self._may_compute, own.children))
        # A copy or fill counts where it is all that the operator does.
        return launch.kind == "kernel" or not launch.operators or launch.operators[0].record not in self._with_kernels

    def _computes(self, launch):
        if launch.kind not in ("kernel", "operator") or not self._works(launch):
            return False
        return launch.launched is not None or not launch.operators or launch.operators[0].name not in MOVES

    def _may_compute(self, part):
        """Returns True if a part of an operator, or one of its own parts, may be what computes."""
        if part.is_launch or (part.name not in MOVES and self.of(part).bytes != 0):
            return True
        return any(map(self._may_compute, part.children))

    def flops(self, operators, launches):
        """Returns (operations, dtype) of the first of the operators that has a formula, if these launches do them all."""
        launches = [each for each in launches if self._computes(each)]
        for operator in operators if launches else ():
            count = self.of(operator)
            if count.flops is not None:
                done = len(self.computing.get(operator.record, [])) == len(launches)
                return (count.flops, count.dtype) if done else (None, None)
        return None, None

    def operator_bytes(self, operator):
        """Returns the bytes of an operator; those of another library's are known only if all its launches are ours."""
        launches = self.working.get(operator.record, [])
        ours = [each for each in launches if each.launched is not None]
        bytes_ = self.of(operator).bytes
        if not ours:
            return bytes_ if operator.name.startswith("aten::") else None
        moved = _total(self.of(each.launched).bytes for each in ours)
        if moved is None or bytes_ is None or len(ours) < len(launches):
            return None
        return min(moved, bytes_)  # a schema does not say whether an argument that is written is also read

    def of_launch(self, launch):
        """Returns (bytes, flops, dtype, where) of one launch."""
        where = self.of(launch.launched).where if launch.launched else None
        if not self._works(launch):
            return 0 if launch.kind == "operator" else None, None, None, where
        flops, dtype = self.flops(launch.operators, [launch])
        if launch.launched is not None:
            return self.of(launch.launched).bytes, flops, dtype, where
        alone = launch.operators and len(self.working[launch.operators[0].record]) == 1
        return self.operator_bytes(launch.operators[0]) if alone else None, flops, dtype, where

    def of_operator(self, launches):
        """Returns the same of all launches of a row, by their operators."""
        amounts, records = [], set()
        for launch in launches:
            if not launch.operators:
                amounts.append(self.of_launch(launch))
                continue
            operator = launch.operators[0]
            if operator.record in records:
                continue
            records.add(operator.record)
            working = self.working.get(operator.record, [])
            own = [each for each in working if each.operators[0] is operator]
            composite = not own and launch.kind == "operator"
            bytes_ = 0 if composite else self.operator_bytes(operator) if len(own) == len(working) else None
            flops, dtype = (None, None) if composite else self.flops(launch.operators, own)
            amounts.append((bytes_, flops, dtype, None))
        return amounts


def _total(values):
    values = list(values)
    return None if not values or any(value is None for value in values) else sum(values)


def make(trace, counted, key, amounts_of, ours):
    """Returns the rows, the longest first, with medians over the steps. `counted` may be None.

    key: kernel_key or operator_key. amounts_of(launches): (bytes, flops, dtype, where) of launches of the counted call.
    ours: {the GPU's name of a kernel: our name}.
    """
    steps = [step.index for step in trace.steps]
    times, numbers = {}, {}
    for launch in trace.launches:
        found = key(launch, ours)
        times.setdefault(found, dict.fromkeys(steps, 0.0))[launch.step] += launch.time
        numbers.setdefault(found, dict.fromkeys(steps, 0))[launch.step] += 1
    of_call = {}
    for launch in counted.launches if counted else ():
        of_call.setdefault(key(launch, ours), []).append(launch)
    rows = []
    for found, by_step in times.items():
        name, operator, is_ours = found
        row = Row(name, None, operator, is_ours, round(statistics.median(numbers[found].values())), 0.0, 0.0)
        row.seconds = statistics.median(by_step.values()) * 1e-6
        launches = of_call.get(found, [])
        if launches:
            amounts = amounts_of(launches)
            places = {where for *_, where in amounts if where}
            row.where = places.pop() if len(places) == 1 else None
            if len(launches) == row.launches:  # the counted call did the same
                row.bytes = _total(each[0] for each in amounts)
                row.flops = _total(each[1] for each in amounts)
                types = {each[2] for each in amounts}
                row.dtype = types.pop() if row.flops and len(types) == 1 else None
        rows.append(row)
    rows.sort(key=lambda row: -row.seconds)
    return [row for row in rows if row.launches or row.seconds]
