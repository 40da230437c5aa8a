"""Products whose operands were written to shared memory, and whose result gets another layout through shared memory."""

import pytest
import tile_ops.language as tl
import torch
from emulate_operators import Emulation


@tl.kernel
def two_products(x, y, out, M: tl.Constant[int], N: tl.Constant[int], K: tl.Constant[int]):
    a, b = tl.load(x, (0, 0), (M, K)), tl.load(y, (0, 0), (K, N))
    p = tl.mma(tl.sin(a).astype(a.dtype), b, tl.zeros((M, N), tl.float32))
    q = tl.mma(tl.cos(b.transpose()).astype(a.dtype), a.transpose(), tl.zeros((N, M), tl.float32))
    tl.store(out, (0, 0), p + q.transpose())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("sizes", [(128, 64, 128), (64, 64, 64), (32, 128, 32)], ids=str)
def test_threads_wait_for_readers_of_operands(dtype, sizes):
    """The emulator reports accesses of two threads without a barrier in between."""
    m, n, k = sizes
    torch.manual_seed(0)
    x, y, out = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype), torch.empty(m, n)
    Emulation().call(lambda: two_products[1](x, y, out, m, n, k))
    a, b = x.double(), y.double()
    expected = a.sin().to(dtype).double() @ b + (b.T.cos().to(dtype).double() @ a.T).T
    torch.testing.assert_close(out.double(), expected, rtol=1e-2, atol=2e-2 * k**0.5)
