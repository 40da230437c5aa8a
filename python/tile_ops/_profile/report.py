"""The report of tile_ops.profile: its numbers, its text, its picture and the trace."""

import dataclasses
import pathlib
import shutil

from . import rows

SHOWN = 30


def _number(value, digits=3):
    """Returns a number with some significant digits; "" for an unknown one, and for none."""
    if not value:
        return ""
    return f"{value:.{digits}g}" if value < 1 else f"{value:.{max(digits - len(str(int(value))), 0)}f}"


def _percent(value):
    return "" if value is None else f"{100 * value:.1f} %"


def _cut(text, width):
    return text if len(text) <= width else text[: width - 3] + "..."


@dataclasses.dataclass
class Report:
    """Medians over some calls; print it, or read its fields. Times are in seconds.

    `seconds` and `host_seconds` are of calls without the profiler: of the whole call, and until the host is done. The other times
    are the profiler's. `gpu_seconds`: a GPU works. `gap_seconds`: it waits between the first and the last kernel of a call. Both
    are None on a CPU. `rest_seconds`: on a CPU, time outside of operators and of our kernels, Python's and that of other compiled
    code. `ours`: the share of our kernels, of the GPU's work or, on a CPU, of the call.

    `kernels` and `operators` are lists of rows: name, where, operator, ours, launches, seconds, share, bytes, flops, tb_per_s,
    tflop_per_s, roof (a share) and bound. A number that is not known is None.
    """

    device: str
    on_gpu: bool
    steps: int
    seconds: float
    host_seconds: float
    gpu_seconds: float | None
    gap_seconds: float | None
    rest_seconds: float | None
    launches: int
    ours: float
    bandwidth: float | None  # bytes a second
    peaks: dict  # operations a second by dtype
    kernels: list[rows.Row]
    operators: list[rows.Row]
    _folder: object = dataclasses.field(default=None, repr=False)  # of the trace; removed with the report

    def __str__(self):
        return "\n".join([*self._head(), "", *self.table(self.kernels)])

    def _head(self):
        ms = "{:.3f} ms".format
        yield f"{self.device}, medians of {self.steps} call{'s' if self.steps != 1 else ''}"
        parts = [f"a call takes {ms(1e3 * self.seconds)}", f"the host {ms(1e3 * self.host_seconds)}"]
        if self.on_gpu:
            parts += [
                f"the GPU works {ms(1e3 * self.gpu_seconds)}",
                f"it waits {ms(1e3 * self.gap_seconds)} between kernels",
                f"{self.launches} launches",
                f"our kernels are {_percent(self.ours)} of its work",
            ]
        else:
            parts[1:] = [
                f"{ms(1e3 * self.rest_seconds)} of a profiled one outside of operators",
                f"our kernels are {_percent(self.ours)}",
            ]
        yield "; ".join(parts)
        roofs = [f"memory {self.bandwidth / 1e12:.3g} TB/s"] if self.bandwidth else []
        roofs += [f"{str(dtype).removeprefix('torch.')} {peak / 1e12:.3g} TFLOP/s" for dtype, peak in self.peaks.items()]
        if roofs:
            yield "roofs: " + ", ".join(roofs)

    def table(self, given, shown=SHOWN):
        """Returns the lines of a table of rows, the first `shown` of them. A star marks what is ours."""
        head = [
            "kernel" if given is self.kernels else "operator",
            "launches",
            "us",
            "share",
            "MB",
            "GFLOP",
            "TB/s",
            "TFLOP/s",
            "roof",
        ]
        lines = []
        for row in given[:shown]:
            place = f" ({row.where})" if row.where else ""
            operator = f", {row.operator}" if row.operator else ""
            name = f"{'* ' if row.ours else '  '}{_cut(row.name, 48)}{place}{operator}"
            lines.append(
                [_cut(name, 80), str(row.launches), f"{1e6 * row.seconds:.1f}", _percent(row.share)]
                + [_number(row.bytes and row.bytes / 1e6), _number(row.flops and row.flops / 1e9)]
                + [_number(row.tb_per_s), _number(row.tflop_per_s), _percent(row.roof)]
            )
        widths = [max(len(line[column]) for line in [head, *lines]) for column in range(len(head))]
        for line in [head, *lines]:
            cells = [
                cell.ljust(width) if not column else cell.rjust(width) for column, (cell, width) in enumerate(zip(line, widths))
            ]
            yield "  ".join(cells).rstrip()
        if left := given[shown:]:
            yield f"  {len(left)} more: {_percent(sum(row.share for row in left))}"

    def save(self, path):
        """Writes a roofline of the operators as a picture, whose name ends with .png. It needs Pillow."""
        if pathlib.Path(path).suffix.lower() != ".png":
            raise ValueError(f"save: the file is {str(path)!r}; its name ends with .png")
        from . import picture

        picture.draw_report(self, path)

    def chrome_trace(self, path):
        """Writes the profiler's trace of the calls, for chrome://tracing or https://ui.perfetto.dev."""
        shutil.copyfile(pathlib.Path(self._folder.name, "trace.json"), path)
