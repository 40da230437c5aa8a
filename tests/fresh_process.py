"""Runs Python files as programs, each in a process of its own. The processes are forked from one that has imported torch and
tile_ops, because importing them takes longer than most of these programs do."""

import multiprocessing
import os
import runpy
import sys

import first_calls

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["torch", "tile_ops"])


def _main(path, folder, output, variables):
    os.chdir(folder)
    os.environ.update(variables)
    written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(written, 1)
    os.dup2(written, 2)
    sys.argv = [str(path)]
    sys.path.insert(0, os.path.dirname(path))
    first_calls.make_first_calls()
    runpy.run_path(str(path), run_name="__main__")


def run(path, folder, **variables):
    """Runs a file in a folder, with these environment variables. Returns its exit status and what it wrote."""
    output = os.path.join(folder, "written.txt")
    process = _context.Process(target=_main, args=(str(path), str(folder), output, variables))
    process.start()
    process.join()
    with open(output, errors="replace") as file:
        return process.exitcode, file.read()
