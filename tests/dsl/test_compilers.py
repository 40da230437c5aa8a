"""The other compiler gives the same IR: under --long compilers_test.cpp is built with clang 16 or later too, where that
is installed."""

import concurrent.futures
import os
import pathlib
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["support", "ir", "dsl", "prims", "passes"]
NAMES = ["clang++", *(f"clang++-{major}" for major in range(16, 21))]


def run(*command):
    """Its output; it must succeed."""
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout
    return done.stdout


def clang():
    """The first clang++ of a version that we support: the one without a version in its name may be older."""
    found = filter(None, map(shutil.which, NAMES))
    return next((path for path in found if int(run(path, "-dumpversion").split(".")[0]) >= 16), None)


def test_clang_gives_the_hashes_of_gcc(long, tmp_path):
    # A minute of compiling: every other run trusts the constants, which the program that gcc built is tested with.
    compiler = clang()
    if not (long and compiler):
        return
    cached = [shutil.which("ccache")] if shutil.which("ccache") else []
    sources = [path for folder in FOLDERS for path in sorted((ROOT / "csrc" / folder).glob("*.cpp"))]
    sources.append(ROOT / "tests" / "dsl" / "compilers_test.cpp")
    objects = [tmp_path / f"{path.parent.name}_{path.stem}.o" for path in sources]

    def compile(source, target):
        run(*cached, compiler, "-std=c++20", "-O0", "-I", ROOT / "csrc", "-I", ROOT / "tests", "-c", source, "-o", target)

    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL", os.cpu_count()))) as pool:
        list(pool.map(compile, sources, objects))
    run(compiler, *objects, "-lgtest_main", "-lgtest", "-pthread", "-o", tmp_path / "compilers")
    run(tmp_path / "compilers")
