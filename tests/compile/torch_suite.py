"""Runs the CPU tests of torch's own inductor suite, unmodified, with backend "tile" in inductor's place.

    python tests/compile/torch_suite.py PYTORCH/test/inductor/test_torchinductor.py … [-k EXPRESSION] [-n 2] [--write]

Neither this repository nor torch's wheel has the suite, so pass paths in a checkout of pytorch. Every torch.compile of the
tests goes through the backend; a test that crashes its process, or takes longer than --seconds-a-test, counts as failed. The
output has the counts and the failures by reason, most frequent first. Tests which look at the C++ code or at the counters of
inductor fail for any other backend; they are one reason. --compare runs the failed tests once more with inductor, which needs
g++ and time, and names those that fail there too: the suite can be of another version than torch.
"""

import argparse
import collections
import datetime
import json
import os
import pathlib
import queue
import selectors
import signal
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "development" / "torch_suite.md"
SECONDS_TO_START = 600


class Worker:
    """A process that runs tests one at a time."""

    def __init__(self, order, environment, folder):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "torch_suite_worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            env=environment,
            cwd=folder,  # for files that tests of debugging write
            start_new_session=True,
        )
        self.rest = b""
        self.first = self.ask(order, SECONDS_TO_START)

    def ask(self, question, seconds):
        """Returns the answer; None if the process died before, "late" if it does not come in time."""
        try:
            self.process.stdin.write(json.dumps(question).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        end = datetime.datetime.now().timestamp() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self.rest:
                if not selector.select(max(0, end - datetime.datetime.now().timestamp())):
                    return "late"
                more = os.read(self.process.stdout.fileno(), 1 << 16)
                if not more:
                    return None
                self.rest += more
        line, _, self.rest = self.rest.partition(b"\n")
        return json.loads(line)

    def stop(self):
        """Ends the process and those that it started; returns its exit status."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait()

    def died(self):
        """Returns the signal or the exit status of a process that ended by itself."""
        status = self.process.wait()
        return signal.Signals(-status).name if status < 0 else f"exit status {status}"

    def output(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")


def run_tests(order, processes, seconds, only=None, report=lambda result: None):
    """Returns one result for each test that the order selects, in the order in which they end."""
    environment = os.environ | {"TORCHINDUCTOR_COMPILE_THREADS": "1", "PYTHONUNBUFFERED": "1"}
    environment.setdefault("OMP_NUM_THREADS", "1")
    paths = [os.path.abspath(path) for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    with tempfile.TemporaryDirectory(prefix="torch_suite_") as cache:
        environment["TORCHINDUCTOR_CACHE_DIR"] = cache
        first = Worker(order, environment, cache)
        if not isinstance(first.first, dict) or first.first["error"] or not first.first["tests"]:
            first.stop()
            found = first.first if isinstance(first.first, dict) else {}
            sys.exit(f"torch_suite.py: no tests of {order['file']} run; {found.get('error') or first.output()[-4000:]}")
        tests = [test for test in first.first["tests"] if only is None or test in only]
        waiting, results, lock = queue.SimpleQueue(), [], threading.Lock()
        for test in tests:
            waiting.put(test)

        def work(worker):
            while True:
                try:
                    test = waiting.get_nowait()
                except queue.Empty:
                    break
                worker = worker or Worker(order, environment, cache)
                answer = worker.ask(test, seconds)
                if not isinstance(answer, dict):
                    reason = f"takes more than {seconds:g} s" if answer == "late" else f"ends the process: {worker.died()}"
                    worker.stop()
                    answer = {"test": test, "outcome": "failed", "reason": reason, "trace": worker.output()[-4000:], "calls": 1}
                    worker = None
                with lock:
                    results.append(answer)
                    report(answer)
            if worker:
                worker.stop()

        threads = [threading.Thread(target=work, args=(first if k == 0 else None,)) for k in range(processes)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return results


def counts(results):
    found = collections.Counter(result["outcome"] for result in results)
    run = found["passed"] + found["failed"]
    share = f"{100 * found['passed'] / run:.1f} %" if run else "no test ran"
    return found["passed"], found["failed"], found["skipped"], share


def by_reason(results):
    """Returns pairs of a reason and the names of the failed tests, most frequent first."""
    groups = collections.defaultdict(list)
    for result in results:
        if result["outcome"] == "failed":
            groups[result["reason"]].append(result["test"].rpartition("::")[2])
    return sorted(((reason, sorted(tests)) for reason, tests in groups.items()), key=lambda group: (-len(group[1]), group[0]))


def notes(results):
    """Says how many of the passed tests prove nothing of the backend, or used a C++ compiler."""
    passed = [result for result in results if result["outcome"] == "passed"]
    without = sum(result.get("calls") == 0 for result in passed)
    no_kernel = sum(not result.get("kernels") for result in passed) - without
    compiled = sum(bool(result.get("compilers")) for result in passed)
    return (
        f"Of the passed tests {without} call no backend, {no_kernel} compile graphs without a kernel of ours, "
        f"and {compiled} start a C++ compiler."
    )


def refusals(results):
    """Returns triples of a reason, its operators and the number of tests whose graphs call these in place of a kernel."""
    groups = collections.defaultdict(lambda: (set(), set()))
    for result in results:
        for operator, reason in result.get("refused", {}).items():
            operators, tests = groups[reason]
            operators.add(operator)
            tests.add(result["test"])
    found = [(reason, sorted(operators), len(tests)) for reason, (operators, tests) in groups.items()]
    return sorted(found, key=lambda group: (-group[2], group[0]))


def page(results, backend):
    """Returns the page of docs/development: the counts of each file, and all failures by reason."""
    import torch

    together = [result for found in results.values() for result in found]
    lines = [
        "# torch's inductor suite",
        "",
        "`tests/compile/torch_suite.py` writes this page. It runs the CPU tests of torch's own inductor suite, unmodified, with",
        f'`backend="{backend}"` in inductor\'s place. {datetime.date.today()}, torch {torch.__version__}.',
        "",
        "| tests | of torch | passed | failed | skipped | passed of those run |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for file, found in results.items():
        passed, failed, skipped, share = counts(found)
        lines.append(f"| `{file.name}` | {suite_version(file)} | {passed} | {failed} | {skipped} | {share} |")
    lines += ["", notes(together), "", "| failures | reason | tests |", "|---:|---|---|"]
    for reason, tests in by_reason(together):
        lines.append(f"| {len(tests)} | {cell(reason)} | {', '.join(f'`{test}`' for test in tests)} |")
    lines += ["", "Some operators are called as torch does, not fused:", "", "| tests | reason | operators |", "|---:|---|---|"]
    for reason, operators, tests in refusals(together):
        lines.append(f"| {tests} | {cell(reason)} | {', '.join(f'`{operator}`' for operator in operators)} |")
    return "\n".join(lines) + "\n"


def cell(text):
    """Returns a text as a cell of a table shows it."""
    return text.replace("|", "\\|").replace("<", "\\<").replace("*", "\\*")


def suite_version(file):
    """Returns the version of the pytorch that the suite belongs to."""
    version = file.parents[2] / "version.txt"
    return version.read_text().strip() if version.exists() else "unknown"


def run_file(file, arguments, report):
    """Returns the results of a file's tests; with --compare, failures that inductor has too say so."""
    order = {"file": str(file), "backend": arguments.backend, "select": arguments.select}
    results = run_tests(order, arguments.processes, arguments.seconds_a_test, report=report)
    failed = {result["test"] for result in results if result["outcome"] == "failed"}
    if arguments.compare and failed:
        print(f"{len(failed)} failed tests run with inductor", flush=True)
        order["backend"] = "inductor"
        seconds = 10 * arguments.seconds_a_test  # g++ is slow
        other = run_tests(order, arguments.processes, seconds, failed)
        fail_there = {result["test"] for result in other if result["outcome"] == "failed"}
        for result in results:
            if result["test"] in fail_there:
                result["reason"] = "fails with inductor too"
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=pathlib.Path, help="files in test/inductor of a checkout of pytorch")
    parser.add_argument("--backend", default="tile", help="tile (default), inductor, or MODULE:FUNCTION")
    parser.add_argument("-k", dest="select", default="", help="an expression of pytest that selects tests")
    parser.add_argument("-n", dest="processes", type=int, default=2, help="processes (2)")
    parser.add_argument("--seconds-a-test", type=float, default=60, help="a test that takes longer fails (60)")
    parser.add_argument("--compare", action="store_true", help="run the failed tests with inductor too")
    parser.add_argument("--log", type=pathlib.Path, help="write each result, with its traceback, as a line of JSON")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(HERE.parents[1])}")
    arguments = parser.parse_args()
    for file in arguments.files:
        if not file.is_file():
            parser.error(f"{file} is no file; give test/inductor/test_torchinductor.py of a checkout of pytorch")
    log = arguments.log.open("w") if arguments.log else None

    def report(result):
        if log:
            print(json.dumps(result), file=log, flush=True)
        if result["outcome"] == "failed":
            print(f"{result['test'].rpartition('::')[2]}: {result['reason']}", flush=True)

    results = {file.resolve(): run_file(file.resolve(), arguments, report) for file in arguments.files}
    print()
    for file, found in results.items():
        passed, failed, skipped, share = counts(found)
        print(f"{file.name}: {passed} passed, {failed} failed, {skipped} skipped: {share} passed of those run.")
    together = [result for found in results.values() for result in found]
    print(f"{notes(together)}\n")
    for reason, tests in by_reason(together):
        print(f"{len(tests):5}  {reason}  ({', '.join(tests[:3])}{', …' if len(tests) > 3 else ''})")
    print("\noperators that are called, not fused:")
    for reason, operators, tests in refusals(together):
        print(f"{tests:5}  {reason}  ({', '.join(operators[:6])}{', …' if len(operators) > 6 else ''})")
    if arguments.write:
        PAGE.write_text(page(results, arguments.backend))


if __name__ == "__main__":
    main()
