"""The commands of `python -m tile_ops`."""

import argparse

from . import _C, doctor
from ._doctor import size, version


def cache_info() -> None:
    info = _C.cache_info()
    print(f"folder    {info['folder'] or '(none)'}")
    print(f"entries   {info['entries']}")
    print(f"size      {size(info['bytes'])} of {size(info['budget'])}")
    if info["unusable"]:
        print(f"not used  {info['unusable']}")


def cache_clear() -> None:
    removed = _C.cache_clear()
    if removed["unusable"]:
        print(f"nothing removed: {removed['unusable']}")
    else:
        print(f"removed from {removed['folder']}: entries {removed['entries']}, size {size(removed['bytes'])}")


def examine() -> None:
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
    arguments = parser.parse_args()
    try:
        arguments.run()
    except (RuntimeError, ValueError) as error:
        parser.exit(1, f"{error}\n")


if __name__ == "__main__":
    main()
