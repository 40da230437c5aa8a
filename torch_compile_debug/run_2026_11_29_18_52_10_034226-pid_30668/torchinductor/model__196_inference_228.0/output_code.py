# AOT ID: ['196_inference']
from ctypes import c_void_p, c_long, c_int
import torch
import math
import random
import os
import tempfile
from math import inf, nan
from cmath import nanj
from torch._inductor.hooks import run_intermediate_hooks
from torch._inductor.utils import maybe_profile
from torch._inductor.codegen.memory_planning import _align as align
from torch import device, empty_strided
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.select_algorithm import extern_kernels

aten = torch.ops.aten
inductor_ops = torch.ops.inductor
_quantized = torch.ops._quantized
assert_size_stride = torch._C._dynamo.guards.assert_size_stride
assert_alignment = torch._C._dynamo.guards.assert_alignment
empty_strided_cpu = torch._C._dynamo.guards._empty_strided_cpu
empty_strided_cpu_pinned = torch._C._dynamo.guards._empty_strided_cpu_pinned
empty_strided_cuda = torch._C._dynamo.guards._empty_strided_cuda
empty_strided_xpu = torch._C._dynamo.guards._empty_strided_xpu
empty_strided_mtia = torch._C._dynamo.guards._empty_strided_mtia
reinterpret_tensor = torch._C._dynamo.guards._reinterpret_tensor
alloc_from_pool = torch.ops.inductor._alloc_from_pool
async_compile = AsyncCompile()
empty_strided_p2p = torch._C._distributed_c10d._SymmetricMemory.empty_strided_p2p
from tile_ops._compile.launch import tile_call, tile_kernel

# Topologically Sorted Source Nodes: [input_1, input_2], Original ATen: [aten.native_layer_norm, aten.relu]
tile_fused_native_layer_norm_relu_273 = tile_kernel('tile_fused_native_layer_norm_relu_273', r'''
def tile_fused_native_layer_norm_relu_273(a0, a4, a5, o6):
    t0 = tl.bid(0)
    tmp0 = tl.load(a0, (t0, 0), (16, 32))
    tmp12 = tl.reshape(tl.load(a4, (0,), (32,)), (1, 32))
    tmp14 = tl.reshape(tl.load(a5, (0,), (32,)), (1, 32))
    tmp1 = tl.sum(tl.astype(tmp0, tl.float32), axis=1, keepdims=True)
    tmp2 = tl.full((1, 1), 32.0, tl.float32)
    tmp3 = (tmp1 / tmp2)
    tmp4 = (tmp0 - tmp3)
    tmp5 = (tmp4 * tmp4)
    tmp6 = tl.sum(tl.astype(tmp5, tl.float32), axis=1, keepdims=True)
    tmp7 = (tmp6 / tmp2)
    tmp8 = tl.full((1, 1), 1e-05, tl.float32)
    tmp9 = (tmp7 + tmp8)
    tmp10 = tl.rsqrt(tmp9)
    tmp11 = (tmp4 * tmp10)
    tmp13 = (tmp11 * tmp12)
    tmp15 = (tmp13 + tmp14)
    tmp16 = tl.where(tmp15 <= 0, tl.astype(0, tl.float32), tmp15)
    tl.store(o6, (t0, 0), tl.broadcast_to(tl.astype(tmp16, o6.dtype), (16, 32)))
''')
tile_fused_native_layer_norm_relu_273_call1 = tile_call(tile_fused_native_layer_norm_relu_273, (('array', 0, 0, (16, 32), (32, 1)), ('array', 1, 0, (32,), (1,)), ('array', 2, 0, (32,), (1,)), ('array', 3, 0, (16, 32), (32, 1))), (1, 1, 1))


async_compile.wait(globals())
del async_compile

class Runner:
    def __init__(self, partitions):
        self.partitions = partitions

    def recursively_apply_fns(self, fns):
        new_callables = []
        for fn, c in zip(fns, self.partitions):
            new_callables.append(fn(c))
        self.partitions = new_callables

    def call(self, args):
        arg0_1, arg1_1, arg2_1 = args
        args.clear()
        buf3 = empty_strided_cpu((16, 32), (32, 1), torch.float32)
        tile_fused_native_layer_norm_relu_273_call1(arg2_1, arg0_1, arg1_1, buf3)
        del arg0_1
        del arg1_1
        del arg2_1
        return (buf3, )

runner = Runner(partitions=[])
call = runner.call
recursively_apply_fns = runner.recursively_apply_fns


def get_args():
    from torch._dynamo.testing import rand_strided
    arg0_1 = rand_strided((32, ), (1, ), device='cpu', dtype=torch.float32)
    arg1_1 = rand_strided((32, ), (1, ), device='cpu', dtype=torch.float32)
    arg2_1 = rand_strided((16, 32), (32, 1), device='cpu', dtype=torch.float32)
    return [arg0_1, arg1_1, arg2_1]


def benchmark_compiled_module(args, times=10, repeat=10):
    from torch._inductor.utils import print_performance
    fn = lambda: call(list(args))
    return print_performance(fn, times=times, repeat=repeat, device='cpu')


if __name__ == "__main__":
    from torch._inductor.wrapper_benchmark import compiled_module_main
    args = get_args()
    compiled_module_main('None', lambda times, repeat: benchmark_compiled_module(args, times=times, repeat=repeat))
