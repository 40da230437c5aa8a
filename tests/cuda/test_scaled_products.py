"""mma_scaled in kernels made for a GPU, run by the emulator: on tensor cores, and where these do not fit."""

import emulate
import pytest
import scaled_cases
import torch


@pytest.mark.slow
def test_is_the_product():
    cases = [scaled_cases.case(*pair, *shape) for pair in scaled_cases.PAIRS for shape in scaled_cases.SHAPES]
    launches = [emulate.Case(text, (1, 1, 1), arguments) for text, arguments, _ in cases]
    for (text, arguments, expected), launch, report in zip(cases, launches, emulate.run(launches)):
        assert report is None, f"{report}\n{text}\n{launch.program['text']}"
        assert torch.equal(arguments[-1], expected)


def test_tensor_cores_multiply():
    text, arguments, _ = scaled_cases.case("f8e4m3", "f8e5m2", (16, 16, 32), 32)
    assert "mma" in emulate.Case(text, (1, 1, 1), arguments).program["text"]
