"""Tables of measured configurations, and their files on disk."""

import dataclasses
import json

from ..._C import cache_load, cache_store


@dataclasses.dataclass(frozen=True)
class Row:
    """A configuration: its median time in microseconds over `runs`, or its error."""

    config: dict
    us: float | None
    runs: int
    error: str | None


@dataclasses.dataclass(frozen=True)
class Table:
    """kernel and key: what was measured, as text; rows: in the order of the configurations; iterating over the table
    yields them; best: the index of the fastest; stored: whether it was found on disk."""

    kernel: str
    key: str
    rows: tuple
    best: int
    stored: bool = False

    def __iter__(self):
        return iter(self.rows)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]

    def __str__(self):
        """Returns the rows, fastest first. ratio: the fastest time divided by the row's."""
        lines = [f"{self.kernel}: {len(self.rows)} configurations{', from disk' if self.stored else ''}; {self.key}"]
        lines.append(f"  {'us':>10}  {'ratio':>5}  {'runs':>4}  configuration")
        least = self.rows[self.best].us
        for row in sorted((row for row in self.rows if row.us is not None), key=lambda row: row.us):
            lines.append(f"  {row.us:10.2f}  {least / row.us if row.us else 1:5.2f}  {row.runs:4}  {shown(row.config)}")
        failed = [row for row in self.rows if row.us is None]
        lines += [f"  {'failed':>10}  {'':5}  {'':4}  {shown(row.config)}: {row.error}" for row in failed]
        return "\n".join(lines)


def shown(config):
    """Returns a text such as "N=128, num_ctas=2"."""
    return ", ".join(f"{name}={value!r}" for name, value in config.items())


def store(digest, table):
    """Stores a table on disk, if possible."""
    rows = [[row.us, row.runs, row.error] for row in table.rows]
    text = json.dumps({"kernel": table.kernel, "key": table.key, "best": table.best, "rows": rows})
    cache_store(digest, text.encode())


def load(digest, configurations):
    """Returns the stored table of these configurations; None if there is none, or it is damaged."""
    entry = cache_load(digest)
    try:
        found = json.loads(entry) if entry else None
        if found is None or len(found["rows"]) != len(configurations):
            return None
        rows = tuple(Row(config, *row) for config, row in zip(configurations, found["rows"]))
        best = range(len(rows))[found["best"]]
        return None if rows[best].us is None else Table(found["kernel"], found["key"], rows, best, True)
    except (ValueError, KeyError, TypeError, IndexError):
        return None
