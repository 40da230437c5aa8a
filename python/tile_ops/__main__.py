"""The commands of `python -m tile_ops`."""

import argparse
import sys

from . import _C, doctor
from ._doctor import size, version


def cache_info(_) -> None:
    info = _C.cache_info()
    print(f"folder    {info['folder'] or '(none)'}")
    print(f"entries   {info['entries']}")
    print(f"size      {size(info['bytes'])} of {size(info['budget'])}")
    if info["unusable"]:
        print(f"not used  {info['unusable']}")


def cache_clear(_) -> None:
    removed = _C.cache_clear()
    if removed["unusable"]:
        print(f"nothing removed: {removed['unusable']}")
    else:
        print(f"removed from {removed['folder']}: entries {removed['entries']}, size {size(removed['bytes'])}")


def show_progress():
    """Returns a function that shows its texts: on a terminal each in the place of the one before."""
    terminal = sys.stderr.isatty()

    def show(text):
        print(f"\r\033[K{text}" if terminal else text, end="" if terminal else "\n", file=sys.stderr, flush=True)

    return show


def show_pack(made) -> None:
    if sys.stderr.isatty():
        print(file=sys.stderr)  # the line of show_progress() ends
    for failure in made["failures"]:
        print(f"left out: {failure}", file=sys.stderr)
    chips = ", ".join(f"sm_{arch}" for arch in made["archs"])
    print(f"{made['path']}: {made['entries']} kernels for {chips}, {size(made['bytes'])}")


def make_pack(arguments) -> None:
    from . import packs

    archs = arguments.arch.split(",") if arguments.arch else None
    show_pack(packs.make(arguments.out, arguments.sources, archs=archs, jobs=arguments.jobs, progress=show_progress()))


def examine(_) -> None:
    if not doctor():
        raise SystemExit(1)


class Version(argparse.Action):
    """Prints the versions. It is an action because making the text opens the driver, which other commands do not need."""

    def __call__(self, parser, *_):
        print(version())
        parser.exit()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tile_ops")
    parser.add_argument(
        "--version", action=Version, nargs=0, help="print the versions of tile_ops, torch, Python, the CPU and the driver"
    )
    commands = parser.add_subparsers(required=True, metavar="command")
    cache = commands.add_parser("cache", help="compiled GPU kernels on disk")
    actions = cache.add_subparsers(required=True, metavar="action")
    actions.add_parser("info", help="where they are and how many").set_defaults(run=cache_info)
    actions.add_parser("clear", help="remove them all").set_defaults(run=cache_clear)
    examined = commands.add_parser("doctor", help="whether torch, NVRTC, the driver, each GPU and the cache are well")
    examined.set_defaults(run=examine)
    pack = commands.add_parser("pack", help="write compiled GPU kernels into a file that other machines load")
    pack.add_argument("out", help="the pack to write")
    pack.add_argument(
        "--from", dest="sources", nargs="+", metavar="FILE", help="records (TILE_RECORD) and packs; else the cache"
    )
    pack.add_argument("--arch", help="the chips, as sm_80,sm_90a; by default those of the records and of the cache")
    pack.add_argument("--jobs", type=int, help="how many kernels are compiled at once; by default one a core")
    pack.set_defaults(run=make_pack)
    arguments = parser.parse_args()
    try:
        arguments.run(arguments)
    except (RuntimeError, ValueError) as error:
        parser.exit(1, f"{error}\n")


if __name__ == "__main__":
    main()
