"""tile_ops.cutile: cuTile Python's names, its launch, its dialect, its tuner."""

import subprocess
import sys

import pytest
import tile_ops.cutile as ct
import tile_ops.language as tl
import torch

NAMES = """
launch kernel function ByTarget MemoryOrder MemoryScope PaddingMode RoundingMode DType Array ArrayAnnotation Constant
ConstantAnnotation IndexedWithInt64 ListAnnotation Scalar ScalarInt64 Slice Tile TiledView abs add arange argmax argmin
assert_ assume_divisible_by astile astype atan2 atomic_add atomic_and atomic_cas atomic_max atomic_min atomic_or
atomic_xchg atomic_xor bid bitcast bitwise_and bitwise_lshift bitwise_not bitwise_or bitwise_rshift bitwise_xor
broadcast_to cat cdiv ceil cos cosh cumprod cumsum divmod ensure_constant equal exp exp2 expand_dims extract floor
floordiv full gather greater greater_equal insert isnan less less_equal load load_advanced_indexing log log2 matmul max
maximum min minimum mma mma_scaled mod mul negative not_equal num_blocks num_tiles ones pack_to_bytes permute pow print
printf prod reduce reshape rsqrt scan scatter sin sinh sqrt static_assert static_eval static_iter store
store_advanced_indexing sub sum tan tanh transpose truediv unpack_from_bytes where zeros grid_dependency_control_wait
grid_dependency_control_launch_dependents compiler_timeout tune TileError TileSyntaxError TileTypeError TileValueError
TileRecursionError TileUnsupportedFeatureError TileInternalError TileStaticEvalError TileStaticAssertionError
UnsupportedCallError TileCompilerExecutionError TileCompilerTimeoutError bool_ int8 int16 int32 int64 uint8 uint16
uint32 uint64 float16 bfloat16 float32 float64 tfloat32 float8_e4m3fn float8_e5m2 float8_e8m0fnu float8_e5m3fnu
float4_e2m1fn
""".split()


def test_every_name_is_there():
    assert [name for name in NAMES if not hasattr(ct, name)] == []
    assert set(ct.__all__) >= set(NAMES)


def test_names_that_it_has_not():
    with pytest.raises(AttributeError, match="^module 'tile_ops.cutile' has no attribute 'frobnicate'$"):
        ct.frobnicate  # noqa: B018
    with pytest.raises(AttributeError, match=r"^module 'tile_ops.cutile' has no attribute 'erf' \(tile_ops.language has it\)$"):
        ct.erf  # noqa: B018


@ct.kernel
def saxpy(x, y, out, a: float, N: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, index=(i,), tile=a * ct.load(x, index=(i,), shape=(N,)) + ct.load(y, index=(i,), shape=(N,)))


def test_launch():
    x, y, out = torch.randn(100), torch.randn(100), torch.zeros(100)
    stream = torch.cuda.current_stream() if x.is_cuda else 0
    ct.launch(stream, (ct.cdiv(100, 32), 1, 1), saxpy, (x, y, out, 2.0, 32))
    torch.testing.assert_close(out, 2 * x + y)


def test_wrong_launches():
    with pytest.raises(TypeError, match="^launch: the stream is None; give torch.cuda.current_stream"):
        ct.launch(None, (1,), saxpy, ())
    with pytest.raises(TypeError, match="is not a kernel; decorate the function with @kernel$"):
        ct.launch(0, (1,), len, ())
    with pytest.raises(ValueError, match=r"^Grid\[1\] is too big: 2147483648, the most is 2147483647$"):
        ct.launch(0, (1, 1 << 31), saxpy, ())
    with pytest.raises(TypeError, match="^Kernel expects 5 arguments but 1 was given$"):
        ct.launch(0, (1,), saxpy, (1,))


def test_extents_are_powers_of_two_here_and_not_in_the_language():
    def body(x):
        t = tl.load(x, 0, 6)
        tl.store(x, 0, t + 1)

    x = torch.zeros(6)
    tl.kernel(body)[1](x)
    assert x.tolist() == [1] * 6
    with pytest.raises(ct.TileTypeError, match=r"extent 6 of shape \(6,\) is not a power of two"):
        ct.launch(0, (1,), ct.kernel(body), (x,))
    assert isinstance(ct.kernel(body), tl.kernel) and not isinstance(tl.kernel(body), ct.kernel)


def test_the_tuner():
    x, y, out = torch.randn(4096), torch.randn(4096), torch.zeros(4096)
    result = ct.tune.exhaustive_search(
        [128, 100, 1024],
        0,
        lambda n: (ct.cdiv(4096, n),),
        saxpy,
        lambda n: (x, y, out, 2.0, n),
        hints_fn=lambda n: {"occupancy": 2},
        quiet=True,
    )
    assert result.best.config in (128, 1024) and len(result.successes) == 2
    assert result.failures[0][:2] == (100, ct.TileTypeError)
    assert str(result).startswith("2 succeeded, 1 failed\n") and result.best.num_samples >= 5
    with pytest.raises(ValueError, match="^Search space is empty$"):
        ct.tune.exhaustive_search([], 0, None, saxpy, None)
    with pytest.raises(ValueError, match="^No valid config among 1; the first failed with TileTypeError: "):
        ct.tune.exhaustive_search([100], 0, lambda n: (1,), saxpy, lambda n: (x, y, out, 2.0, n), quiet=True)


def test_compiler_timeout_is_accepted():
    with ct.compiler_timeout(3):
        test_launch()


PROGRAM = """
import tile_ops.cutile
tile_ops.cutile.install()
import cuda.tile as ct
from cuda.tile import Constant
import torch

@ct.kernel
def double(x, N: Constant[int]):
    ct.store(x, (ct.bid(0),), 2 * ct.load(x, (ct.bid(0),), (N,)))

x = torch.arange(8.0)
ct.launch(0, (2,), double, (x, 4))
print(x.tolist() == [2.0 * i for i in range(8)], ct is tile_ops.cutile)
"""


@pytest.mark.slow
def test_programs_that_import_cuda_tile(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True)
    assert done.stdout == "True True\n"


def test_worker_warps_are_4_or_8_as_there():
    def body(x):
        pass

    with pytest.raises(ValueError) as error:
        ct.kernel(num_worker_warps=16)(body)
    assert str(error.value) == "num_worker_warps should be either 4 or 8, got 16"
    ct.kernel(num_worker_warps=8)(body)
