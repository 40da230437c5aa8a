"""The report that patch() returns."""

import collections
import dataclasses


@dataclasses.dataclass
class Report:
    """swapped: (path, class, what computes it now); left: (path, class, reason); one row for each module. products: (path,
    class, for which calls of a swapped module its products are ours)."""

    model: str
    swapped: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)
    left: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)
    products: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{self.model}: {_modules(len(self.swapped))} swapped"]
        lines += [f"  {count:>4} {name}: {by}" for (name, by), count in _counted(self.swapped)]
        if self.products:
            lines.append("products, with torch's time / ours")
            lines += [f"  {count:>4} {name}: {by}" for (name, by), count in _counted(self.products)]
        lines.append(f"{_modules(len(self.left))} left")
        for (name, why), count in _counted(self.left):
            paths = [path for path, *row in self.left if tuple(row) == (name, why)]
            shown = ", ".join(path or "the model itself" for path in paths[:2]) + (", …" if len(paths) > 2 else "")
            lines.append(f"  {count:>4} {name} ({shown}): {why}")
        return "\n".join(lines)


def _modules(count):
    return f"{count} module{'' if count == 1 else 's'}"


def _counted(rows):
    return collections.Counter(tuple(row) for _, *row in rows).items()
