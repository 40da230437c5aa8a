"""The classes of products in which ours was measured to be faster: a row for each, and what is just outside of it."""

import pytest
import torch
from tile_ops import _products
from tile_ops._products import FUSED, PAIR, PLAIN

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
FLOAT, BF16, HALF = torch.float32, torch.bfloat16, torch.float16


@pytest.fixture
def machine(monkeypatch):
    """Returns a function that sets the GPU's architecture and the instructions of torch on the CPU."""

    def set_machine(arch=(9, 0), isa="AVX2"):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: arch is not None)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: arch)
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: isa)
        forget()

    def forget():
        _products.classes.cache_clear()
        _products.limits.cache_clear()
        _products._pads.cache_clear()

    yield set_machine
    monkeypatch.undo()
    forget()


ROWS = [
    # few rows, float32 on a CPU
    (CPU, FLOAT, PLAIN, (1, 512, 512), False, True),
    (CPU, FLOAT, PLAIN, (1, 512, 512), True, False),
    (CPU, FLOAT, PLAIN, (1, 511, 512), False, False),
    (CPU, FLOAT, PLAIN, (2, 512, 512), False, True),
    (CPU, FLOAT, FUSED, (8, 512, 512), True, True),
    (CPU, FLOAT, PAIR, (9, 512, 512), False, False),
    (CPU, FLOAT, PLAIN, (4, 512, 511), False, False),
    (CPU, FLOAT, PLAIN, (4, 64, 4096), False, True),
    # few rows, bfloat16 on a CPU
    (CPU, BF16, PLAIN, (1, 512, 512), False, True),
    (CPU, BF16, FUSED, (4, 512, 512), False, True),
    (CPU, BF16, PAIR, (4, 512, 512), True, False),
    (CPU, BF16, PLAIN, (8, 512, 512), False, True),
    (CPU, BF16, PLAIN, (9, 512, 512), False, False),
    (CPU, BF16, PLAIN, (512, 1024, 1024), False, False),
    (CPU, HALF, PLAIN, (4, 1024, 1024), False, False),
    # many rows, float32 on a CPU
    (CPU, FLOAT, PLAIN, (128, 512, 512), False, True),
    (CPU, FLOAT, PAIR, (4096, 1024, 1024), True, True),
    (CPU, FLOAT, FUSED, (127, 512, 512), False, False),
    (CPU, FLOAT, PLAIN, (128, 511, 1024), False, False),
    (CPU, FLOAT, PLAIN, (128, 1024, 511), False, False),
    (CPU, torch.float64, PLAIN, (128, 1024, 1024), False, False),
    # an epilogue, 16 bits on sm_90
    (GPU, BF16, FUSED, (64, 2048, 64), False, True),
    (GPU, HALF, PAIR, (4096, 4096, 4096), False, True),
    (GPU, BF16, FUSED, (4096, 4096, 4096), True, False),
    (GPU, BF16, PLAIN, (4096, 4096, 4096), False, False),
    (GPU, BF16, FUSED, (63, 2048, 64), False, False),
    (GPU, BF16, FUSED, (64, 2040, 64), False, False),
    (GPU, FLOAT, FUSED, (4096, 4096, 4096), False, False),
    # one row, 16 bits on sm_90
    (GPU, BF16, PLAIN, (1, 512, 512), False, True),
    (GPU, HALF, PLAIN, (1, 8192, 4096), False, True),
    (GPU, BF16, PLAIN, (1, 2048, 4097), False, False),
    (GPU, BF16, FUSED, (1, 2048, 4096), False, True),
    (GPU, BF16, PAIR, (1, 2048, 2048), False, True),
    (GPU, BF16, PLAIN, (1, 512, 511), False, False),
    (GPU, BF16, PLAIN, (1, 511, 4096), False, False),
    (GPU, BF16, PLAIN, (1, 2048, 2048), True, False),
    (GPU, BF16, PLAIN, (2, 2048, 2048), False, False),
    (GPU, FLOAT, PLAIN, (1, 2048, 2048), False, False),
    (torch.device("meta"), FLOAT, PLAIN, (128, 512, 512), False, False),
]  # fmt: skip


@pytest.mark.parametrize("device, dtype, kind, sizes, trains, ours", ROWS, ids=lambda value: str(value).removeprefix("torch."))
def test_classes(device, dtype, kind, sizes, trains, ours, machine):
    machine()
    limits = _products.limits(device, dtype, kind)
    assert _products.fits(limits, *sizes, trains) == ours
    assert _products.fits_for_all(limits, *sizes, trains) == ours
    assert not ours or sizes[1] * sizes[2] >= _products.LEAST_WEIGHTS


def test_each_class_has_a_row():
    def covers(each, row):
        device, dtype, kind, (rows, depth, columns), trains, ours = row
        known = device.type == each.device and dtype in each.dtypes and kind in each.kinds
        return ours and known and _products.fits([each.limits], rows, depth, columns, trains)

    assert all(any(covers(each, row) for row in ROWS) for each in _products._CLASSES)


@pytest.mark.parametrize("device, options", [(GPU, {"arch": (8, 0)}), (GPU, {"arch": None}), (CPU, {"isa": "DEFAULT"})])
def test_a_machine_on_which_nothing_was_measured(device, options, machine):
    machine(**options)
    assert not any(_products.limits(device, dtype, kind) for dtype in (FLOAT, BF16) for kind in (PLAIN, FUSED, PAIR))


def test_texts_of_a_report(machine):
    machine()
    few = "for 1 row without gradients (1.0 to 1.7) and for 2 to 8 rows (1.3 to 3.0)"
    assert _products.described(CPU, FLOAT, 1024, 1024, PLAIN) == f"{few} and from 128 rows (0.97 to 1.3)"
    assert _products.described(CPU, FLOAT, 256, 1024, PLAIN) == few
    assert _products.described(CPU, BF16, 1024, 1024, PAIR) == "for 1 to 8 rows without gradients (1.2 to 3.0)"
    assert _products.described(CPU, FLOAT, 8, 8, PLAIN) == ""
    assert _products.described(GPU, BF16, 4096, 4096, PLAIN) == "for 1 row without gradients (0.93 to 4.2)"
    both = "from 64 rows without gradients (1.0 to 1.3) and for 1 row without gradients (0.93 to 4.2)"
    assert _products.described(GPU, BF16, 4096, 4096, FUSED) == both
    assert _products.described(GPU, BF16, 1111, 5000, PLAIN) == ""


def test_extents_of_torchs_products_that_are_padded(machine):
    machine()
    none = False, False, False
    assert _products.pays_to_pad(GPU, BF16, (4096, 768, 50257)) == (False, False, True)
    assert _products.pays_to_pad(GPU, HALF, (512, 8, 4097)) == (False, False, True)
    assert _products.pays_to_pad(GPU, BF16, (4096, 50257, 768)) == (False, True, False)
    assert _products.pays_to_pad(GPU, BF16, (50257, 4096, 768)) == (True, False, False)
    assert _products.pays_to_pad(GPU, BF16, (50257, 4097, 4099)) == (True, True, True)
    for other in (
        (GPU, BF16, (4096, 768, 50304)),
        (GPU, FLOAT, (4096, 768, 50257)),
        (CPU, BF16, (4096, 768, 50257)),
        (GPU, BF16, (8, 768, 50257)),
        (GPU, BF16, (4096, 50257, 8)),
        (GPU, BF16, (4096, 1001, 1001)),
    ):
        assert _products.pays_to_pad(*other) == none
    machine(arch=(8, 0))
    assert _products.pays_to_pad(GPU, BF16, (4096, 768, 50257)) == none
