"""Attention of bfloat16 on each instruction set that the machine has: where the chip multiplies bfloat16, products
read it, else they widen it."""

import os
import subprocess
import sys

import pytest
from combinations import long
from sanitizers.run import machine_isas

CHECK = """
import attention_reference, numerics, tile_ops, torch
torch.manual_seed({seed})
for heads, key_heads, rows, keys, depth in ((8, 8, 200, 257, 64), (4, 2, 130, 70, 40)):
    tensors = attention_reference.inputs(1, heads, key_heads, rows, keys, depth, dtype=torch.bfloat16)
    numerics.check_call(torch.ops.tile.attention, attention_reference.peer, tensors, dict(is_causal=True))
"""


@pytest.mark.slow  # a process each
@pytest.mark.parametrize("isa", [long(isa) if isa == "avx2" else isa for isa in machine_isas()])  # the baseline widens, too
def test_attention_of_bfloat16(isa, seed):
    environment = {**os.environ, "TILE_ISA": isa, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", CHECK.format(seed=seed)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
