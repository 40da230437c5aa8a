"""Tables of times, printed row by row and written into results/, and the names of machines."""

import argparse
import math
import pathlib
import platform
import re
import subprocess

RESULTS = pathlib.Path(__file__).resolve().parent / "results"


def digits(value):
    """Returns three significant digits, without an exponent."""
    if value == 0:
        return "0"
    return f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"


def cpu_name():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown CPU"


def driver():
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def of_device(doc):
    """Returns the options --device, --seconds and --write of a script with one table, for its own ones to be added."""
    import torch

    options = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options.add_argument("--seconds", type=float, default=0.3)
    options.add_argument("--write", action="store_true")
    return options


def machine(device):
    """Returns (the chip in a file's name, the words that begin a table) of this machine's "cpu" or "cuda"."""
    import torch

    if device == "cuda":
        chip = torch.cuda.get_device_name()
        return chip, f"{chip}, driver {driver()}"
    return "cpu", f"{cpu_name()}, {torch.get_num_threads()} threads"


def file_name(kind, chip):
    """Returns the path results/<kind>-<chip>.md, such as gpu-h200.md for "NVIDIA H200"."""
    return RESULTS / f"{kind}-{re.sub(r'[^a-z0-9]+', '-', chip.lower().replace('nvidia', '')).strip('-')}.md"


def ratio_bars(ratios, own, others):
    """Yields (text, whether it is reached) for each bar {peer: required ratio of its time to ours}. others: the peers'
    times."""
    for name, ratio in ratios.items():
        there = name in others
        text = f"{ratio:g}x {name}" + ("" if there else " not measured")
        yield text, not there or others[name] / own >= ratio


def judged(bars):
    """Returns the bars as text, with those that are missed marked."""
    return "; ".join(text + ("" if reached else ", missed") for text, reached in bars)


class Table:
    """A Markdown table. `head` names the columns; the columns in `words` are texts, the others numbers."""

    def __init__(self, title, lines, head, words):
        self.lines = [f"# {title}", "", *lines, "", self._line(head)]
        self.lines.append("|" + "".join("---|" if name in words else "---:|" for name in head))
        self.columns = len(head)
        print("\n".join(self.lines), flush=True)

    @staticmethod
    def _line(cells):
        return "| " + " | ".join(cells) + " |"

    def add(self, *cells):
        """Adds a row; missing cells at its end are empty."""
        cells = [cell.replace("|", "/") for cell in cells]
        self.lines.append(self._line([*cells, *[""] * (self.columns - len(cells))]))
        print(self.lines[-1], flush=True)

    def write(self, path, ending=()):
        """Writes the table and the lines that follow it."""
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join([*self.lines, *ending]) + "\n")
        print(f"written: {path.relative_to(RESULTS.parent.parent)}")


def cells(line):
    """Returns the texts of a table's line."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def records(path):
    """Returns the rows of such a file, each as {column: text}."""
    head, _, *rows = [cells(line) for line in path.read_text().splitlines() if line.startswith("|")]
    return [dict(zip(head, each)) for each in rows]


def read(path):
    """Returns (the lines around the table, {case: {column: text}}) of such a file."""
    notes = [line for line in path.read_text().splitlines() if not line.startswith("|")]
    return notes, {next(iter(row.values())): row for row in records(path)}
