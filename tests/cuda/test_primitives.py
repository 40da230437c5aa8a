"""The tests of tests/prims once more, with kernels made for a GPU: every primitive in every dtype, run by the
emulator."""

import emulate
import pytest
from prims.test_elementwise import test_astype, test_astype_saturates, test_division_by_zero_is_zero  # noqa: F401
from prims.test_elementwise import test_row as test_elementwise_row  # noqa: F401
from prims.test_structured import TABLE, test_product_onto_a_tile_outside_its_array  # noqa: F401
from prims.test_structured import test_row as test_structured_row  # noqa: F401
from tile_ops import _C


@pytest.fixture(scope="module")
def programs(request):
    """Returns the launches of the selected tests, compiled at once. The tests run for it on the CPU."""
    cases, run_ir = [], _C.run_ir

    def record(text, grid, arguments, passes=True):
        cases.append(emulate.Case(text, grid, list(arguments), passes))
        run_ir(text, grid, arguments, passes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_C, "run_ir", record)
        for item in request.session.items:
            if getattr(item, "module", None) is request.module and hasattr(item, "callspec"):
                item.obj(**item.callspec.params)
    emulate.functions([case.program for case in cases])


@pytest.fixture(autouse=True)
def on_the_emulator(programs, monkeypatch):
    monkeypatch.setattr(_C, "run_ir", emulate.run_ir)


def test_every_primitive_has_a_body_for_gpus():
    # A constant is written where it is used.
    assert [name for name, row in TABLE.items() if row["cpu"] and not row["cuda"]] == ["constant"]
