"""Attention's gradients of whole tiles of keys, which need no mask, and the part of the values' tile that registers hold."""

import pytest
import torch
from attention_reference import inputs, peer
from emulate_operators import Emulation
from numerics import check_call


@pytest.mark.parametrize("options", [{}, {"is_causal": True}], ids=["full", "causal"])
@pytest.mark.parametrize("depth, held", [(64, False), (128, True), pytest.param(256, True, marks=pytest.mark.long)])
def test_gradients_of_whole_tiles(depth, held, options):
    emulation = Emulation(wgmma=True)
    check_call(
        emulation.operator(torch.ops.tile.attention), peer, inputs(1, 2, 1, 130, 256, depth, dtype=torch.bfloat16), options
    )
    text = next(program["text"] for program in emulation.programs if "backward_transposed" in program["entry"])
    assert ("mma_issued_with<" in text, "read_left<" in text) == (held, held)
    # Nothing is compared where every query sees every key.
    assert ("where(" in text) == bool(options)
    assert text.count("add_tile<") == text.count(", 4, in_bounds>(")


@pytest.mark.parametrize("keys", [1, 127, 129])
def test_keys_of_a_part_of_a_tile(keys):
    emulation = Emulation(wgmma=True)
    check_call(emulation.operator(torch.ops.tile.attention), peer, inputs(1, 2, 1, 65, keys, 128, dtype=torch.bfloat16), {})
    text = next(program["text"] for program in emulation.programs if "backward_transposed" in program["entry"])
    assert "where(" in text and "mma_issued_with<" in text


def test_past_keys_of_large_scores_stay_out_of_the_gradients():
    """Where all scores of a row are far below 0, exp2(0 - their maximum) would be infinite for a key past the last."""
    q, k, v = (x.detach() for x in inputs(1, 1, 1, 64, 100, 128, dtype=torch.bfloat16))
    q, k = 8 + 0 * q, -8 + k / 8
    emulation = Emulation(wgmma=True)
    args = [x.to(torch.bfloat16).requires_grad_() for x in (q, k, v)]
    out = emulation.operator(torch.ops.tile.attention)(*args)[0]
    grads = torch.autograd.grad(out, args, torch.randn_like(out))
    assert all(torch.isfinite(grad).all() for grad in grads)
