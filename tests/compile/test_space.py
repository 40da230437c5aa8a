"""The tiles of generated kernels: which axes they cover, by the strides of the arrays."""

from tile_ops._compile import space


def choose(extents, rows, reduced=(), whole=False, is_gpu=False, varying=(), **more):
    count = len(extents)
    are_reduced, are_static = [i in reduced for i in range(count)], [i not in varying for i in range(count)]
    return space.choose([None] * count, rows, list(extents), are_reduced, whole, is_gpu, are_static, **more)


def test_elementwise_tiles_cover_several_small_axes():
    found = choose((4, 32, 2, 32), [[2048, 64, 32, 1]])
    assert found.dims == ([0, 1, 2], [3]) and found.extents == ((4, 32, 2), (32,)) and not found.blocks


def test_a_transposed_array_gives_a_tile_of_both_directions():
    found = choose((1024, 1000), [[1000, 1], [1, 1024]])
    assert found.dims == ([0], [1]) and found.extents == ((32,), (512,))
    assert choose((1024, 40), [[40, 1], [1, 1024]]).extents == ((256,), (40,))
    assert choose((1024, 1000), [[1000, 1], [1, 1024]], is_gpu=True).extents == ((64,), (64,))
    assert choose((1024, 1000), [[1000, 1], [1, 0]]).extents[1] == (1000,)  # a value for each row crosses nothing


def test_rows_are_whole_or_walked():
    found = choose((512, 1000), [[1000, 1]], reduced=[1], whole=True)
    assert found.reduced == 1 and not found.walked and found.extents[1] == (1000,)
    found = choose((3, 500_000), [[500_000, 1]], reduced=[1])
    assert found.walked and found.extents == ((1,), (250_000,))  # which divides the row
    found = choose((3, 50_000), [[50_000, 1]], reduced=[1], most_walked=space.KEPT)
    assert found.walked and found.extents == ((3,), (4096,))


def test_columns_are_walked_side_by_side():
    found = choose((4096, 1000), [[1, 4096]], reduced=[1])
    assert found.reduced == 0 and found.walked and found.dims == ([1], [0]) and found.extents == ((500,), (512,))
    assert choose((1000, 4096), [[1, 1000]], reduced=[1]).extents == ((256,), (1000,))  # rows of the memory are whole
    assert choose((1000, 4096), [[1, 1000]], reduced=[1], most_walked=space.KEPT).extents == ((64,), (1000,))
    assert choose((4096, 1000), [[1, 4096]], reduced=[1], is_gpu=True).extents == ((128,), (32,))
    assert choose((64, 2048, 256), [[524288, 1, 2048]], reduced=[2], is_gpu=True).extents == ((32,), (128,))
    # A number for each of the summed rows does not decide.
    rows = [[524288, 1, 2048], [524288, 1, 2048], [256, 0, 1]]
    assert choose((64, 2048, 256), rows, reduced=[2], is_gpu=True).extents == ((32,), (128,))
    assert choose((64, 2048, 256), rows, reduced=[2]).dims[1] == [1]


def test_few_columns_of_several_matrices_are_one_tile():
    found = choose((257, 65, 33), [[2145, 1, 65]], reduced=[2], whole=True)
    assert found.batch == {0: 4} and found.dims == ([2], [1]) and found.extents == ((33,), (65,)) and not found.blocks
    assert choose((257, 65, 33), [[2145, 1, 65]], reduced=[2], whole=True, is_gpu=True).batch == {}


def test_a_gpu_has_a_block_for_each_of_few_rows():
    assert choose((1024, 32768), [[32768, 1]], reduced=[1], is_gpu=True).extents == ((1,), (4096,))
    assert choose((4, 1 << 20), [[1 << 20, 1]], reduced=[1], is_gpu=True).extents == ((1,), (4096,))
    assert choose((1 << 20, 64), [[64, 1]], reduced=[1], whole=True, is_gpu=True).extents[0] == (64,)


def test_lengths_that_vary_may_be_longer_than_at_first():
    assert choose((28,), [[1]], varying=[0]).extents == ((), (1024,))
    assert choose((4, 7), [[7, 1]], varying=[0, 1]).extents == ((16,), (1024,))
    assert choose((4, 7), [[7, 1]], varying=[0]).extents == ((1024,), (7,))
    assert choose((4, 7), [[7, 1]], reduced=[1], varying=[0, 1]).extents == ((16,), (1024,))
    assert choose((4, 7), [[7, 1]], varying=[0, 1], is_gpu=True).extents == ((32,), (128,))
    assert choose((4, 5000), [[5000, 1]], varying=[0, 1]).extents == ((4,), (4096,))
