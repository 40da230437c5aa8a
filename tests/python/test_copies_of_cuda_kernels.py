"""Tests that copying a CUDA C++ kernel returns the same object, and that it pickles as its source."""

import copy
import pickle

import pytest
import tile_ops

SOURCE = """
template <class T> __global__ void scale(T* x, int n) { if (threadIdx.x < n) x[threadIdx.x] *= FACTOR * M; }
"""


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_copies_and_pickles(protocol):
    names = ["scale<float>", "scale<double>"]
    given = {"headers": {"unused.h": "#define FACTOR 7\n"}, "options": ["-DM=3", "-DFACTOR=2"], "file": "scale.cu"}
    for kernel, name in zip(tile_ops.cuda_kernel(SOURCE, names, **given), names):
        assert copy.deepcopy(kernel) is kernel and copy.copy(kernel) is kernel
        other = pickle.loads(pickle.dumps(kernel, protocol))
        assert repr(other) == repr(kernel) == f"<tile_ops.CudaKernel {name}>"
        assert other.parameters(80) == kernel.parameters(80) and other._made_of == kernel._made_of
