"""Collects the GoogleTest cases of tests/<folder>/*.cpp, so that one pytest run counts, shards and times both
languages."""

import json
import pathlib
import subprocess
import tempfile

import pytest
from built import BUILD

ROOT = pathlib.Path(__file__).resolve().parent.parent


def pytest_addoption(parser):
    group = parser.getgroup("tile_ops")
    group.addoption("--without-cpp", action="store_true", help="leave the GoogleTest programs out")


def pytest_collect_file(file_path, parent):
    inside = file_path.suffix == ".cpp" and file_path.parent.parent == ROOT / "tests"
    if inside and not parent.config.getoption("without_cpp"):
        return CppFile.from_parent(parent, path=file_path)
    return None


def _run(program: pathlib.Path, *flags: str):
    """Runs a test program; gives its JSON report (None where it died), exit code and output."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        command = [str(program), f"--gtest_output=json:{report}", *flags]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        return (json.loads(report.read_text()) if report.exists() else None), done.returncode, done.stdout


class CppFile(pytest.File):
    _listed = {}

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.program = BUILD / "tests" / f"test_{self.path.parent.name}"
        self.results = None

    def collect(self):
        if not self.program.exists():
            raise self.CollectError(f"{self.program} is not built; run `make build-tests`, or pytest with --without-cpp")
        if self.program not in self._listed:
            self._listed[self.program] = _run(self.program, "--gtest_list_tests")[0]
        files = {path.name for path in self.path.parent.glob("*.cpp")}
        for suite in self._listed[self.program]["testsuites"]:
            for case in suite["testsuite"]:
                if pathlib.Path(case["file"]).name not in files:
                    raise self.CollectError(f"{case['file']}:{case['line']}: a test stands in a .cpp file, or it would not run")
                if pathlib.Path(case["file"]).name == self.path.name:
                    yield CppTest.from_parent(self, name=f"{suite['name']}.{case['name']}")

    def result(self, name: str, wanted: list):
        """One run of the program serves all tests of the file that were selected."""
        if self.results is None:
            report, code, output = _run(self.program, f"--gtest_filter={':'.join(wanted)}")
            suites = report["testsuites"] if report else []
            self.results = {f"{s['name']}.{c['name']}": c for s in suites for c in s["testsuite"]}
            self.code, self.output = code, output
        return self.results.get(name)


class CppTest(pytest.Item):
    def runtest(self):
        wanted = [item.name for item in self.session.items if item.parent is self.parent]
        case = self.parent.result(self.name, wanted)
        if case is None or case["result"] != "COMPLETED":
            raise CppFailure(
                f"no result: {self.parent.program.name} ended with {self.parent.code}\n{self.parent.output[-4000:]}"
            )
        if "failures" in case:
            raise CppFailure("\n".join(failure["failure"] for failure in case["failures"]))

    def repr_failure(self, excinfo):
        return str(excinfo.value) if isinstance(excinfo.value, CppFailure) else super().repr_failure(excinfo)

    def reportinfo(self):
        return self.path, None, self.name


class CppFailure(Exception):
    """A GoogleTest case that failed."""
