"""The names of inductor that the backend stands on are there; `make test-long` asks other versions of torch, too."""

import inductor_names
import pytest

VERSIONS = ("2.11.0", "2.12.0")


def test_this_torch_has_all_names():
    assert inductor_names.missing() == []


@pytest.mark.long
@pytest.mark.parametrize("version", VERSIONS)
def test_another_torch_has_all_names(version):
    assert inductor_names.check_version(version) == 0
