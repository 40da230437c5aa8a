"""The runner of torch's inductor suite counts tests that pass, fail, hang or end their process, and names reasons."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from torch_suite_reasons import ABOUT_CODE, normalised, reason_of

RUNNER = pathlib.Path(__file__).with_name("torch_suite.py")
SUITE = """
import os, signal, time, unittest
import torch
from torch._inductor import metrics
from torch._inductor.compile_fx import compile_fx, a_name_that_torch_lacks
from torch.testing import FileCheck


def compiled(function):
    return torch.compile(function)(torch.ones(3))


class CpuTests(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()

    def test_torch_compile(self):
        self.assertEqual(compiled(lambda x: x + 1).tolist(), [2, 2, 2])

    def test_captured_name(self):
        self.assertEqual(torch.compile(lambda x: x + 1, backend=compile_fx)(torch.ones(1)).tolist(), [2])

    def test_no_compile(self):
        pass

    def test_wrong_value(self):
        torch.testing.assert_close(compiled(lambda x: x * 3), torch.zeros(3))

    def test_backend_raises(self):
        compiled(lambda x: x.sin())

    def test_counter(self):
        self.assertEqual(metrics.generated_kernel_count, 17)

    def test_text(self):
        FileCheck().check("for (int i").run("")

    def test_ends(self):
        os.kill(os.getpid(), signal.SIGSEGV)

    def test_hangs(self):
        time.sleep(1000)

    def test_missing_name(self):
        a_name_that_torch_lacks()

    @unittest.expectedFailure
    def test_fails_as_expected(self):
        self.assertEqual(1, 2)

    @unittest.expectedFailure
    def test_passes_unexpectedly(self):
        pass


class GPUTests(unittest.TestCase):
    def test_on_a_gpu(self):
        self.fail()
"""
BACKEND = """
def backend(gm, inputs):
    if "sin" in gm.code:
        raise TypeError("no sin of 0x7f00 for buf12")
    return gm.forward
"""


def run(folder, *flags):
    """Returns the results by name and the output of a run of SUITE."""
    (folder / "test_small.py").write_text(SUITE)
    (folder / "small_backend.py").write_text(BACKEND)
    log = folder / "log"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, RUNNER, folder / "test_small.py", "--log", log, *flags]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in log.read_text().splitlines()]
    return {result["test"].rpartition("::test_")[2]: result for result in found}, done.stdout


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return run(tmp_path_factory.mktemp("suite"), "--backend", "small_backend:backend", "--seconds-a-test", "20")


@pytest.mark.long
def test_each_cpu_test_has_one_result(results):
    outcomes = {name: result["outcome"] for name, result in results[0].items()}
    passed = ("torch_compile", "captured_name", "no_compile", "passes_unexpectedly")
    failed = ("wrong_value", "backend_raises", "counter", "text", "ends", "hangs")
    skipped = ("missing_name", "fails_as_expected")
    assert outcomes == dict.fromkeys(passed, "passed") | dict.fromkeys(failed, "failed") | dict.fromkeys(skipped, "skipped")


@pytest.mark.long
def test_a_failure_has_a_reason(results):
    reasons = {name: result["reason"] for name, result in results[0].items()}
    assert reasons["wrong_value"] == "AssertionError: Tensor-likes are not close!"
    assert reasons["backend_raises"] == "TypeError: no sin of N for bufN"
    assert reasons["counter"] == reasons["text"] == ABOUT_CODE
    assert reasons["ends"] == "ends the process: SIGSEGV"
    assert reasons["hangs"] == "takes more than 20 s"
    assert reasons["missing_name"].endswith("has no torch._inductor.compile_fx.a_name_that_torch_lacks")


@pytest.mark.long
def test_the_output_counts_and_groups(results):
    text = results[1]
    assert "4 passed, 6 failed, 2 skipped: 40.0 % passed of those run." in text
    assert (
        "Of the passed tests 2 call no backend, 2 compile graphs without a kernel of ours, and 0 start a C++ compiler." in text
    )
    assert f"    2  {ABOUT_CODE}  (test_counter, test_text)" in text


@pytest.mark.slow
def test_our_backend_says_how_many_kernels_it_has(tmp_path):
    found, text = run(tmp_path, "-k", "torch_compile or captured_name or no_compile", "-n", "1")
    assert {name: (result["outcome"], result["kernels"]) for name, result in found.items()} == {
        "torch_compile": ("passed", 1),
        "captured_name": ("passed", 1),
        "no_compile": ("passed", 0),
    }
    assert "Of the passed tests 1 call no backend, 0 compile graphs without a kernel of ours" in text


def test_names_and_numbers_do_not_part_reasons():
    assert normalised("NameError: name 'buf3' is not defined") == normalised("NameError: name 'buf41' is not defined")
    assert normalised("gather: (1,8) is not (3,4)") == "gather: (N,N) is not (N,N)"
    assert normalised("in /a/b-1/c.py of arg0_1") == "in c.py of argN"
    assert len(normalised("x" * 1000)) == 160


def test_a_reason_is_that_of_the_innermost_error():
    class BackendCompilerFailed(Exception):
        inner_exception = KeyError("mul")

    assert reason_of(BackendCompilerFailed("backend raised"), "/nowhere") == "KeyError: 'mul'"
