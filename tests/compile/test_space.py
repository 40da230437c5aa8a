"""The tiles of generated kernels: which axes they cover, by the strides of the arrays."""

from tile_ops._compile import space


def choose(extents, rows, reduced=(), whole=False, is_gpu=False):
    count = len(extents)
    return space.choose(
        [None] * count, rows, list(extents), [i in reduced for i in range(count)], whole, is_gpu, [True] * count
    )


def test_elementwise_tiles_cover_several_small_axes():
    found = choose((4, 32, 2, 32), [[2048, 64, 32, 1]])
    assert found.dims == ([0, 1, 2], [3]) and found.extents == ((4, 32, 2), (32,)) and not found.blocks


def test_a_transposed_array_gives_a_tile_of_both_directions():
    found = choose((1024, 1000), [[1000, 1], [1, 1024]])
    assert found.dims == ([0], [1]) and found.extents == ((256,), (64,))
    assert choose((1024, 1000), [[1000, 1], [1, 0]]).extents[1] == (1000,)  # a value for each row crosses nothing


def test_rows_are_whole_or_walked():
    found = choose((512, 1000), [[1000, 1]], reduced=[1], whole=True)
    assert found.reduced == 1 and not found.walked and found.extents[1] == (1000,)
    found = choose((3, 50000), [[50000, 1]], reduced=[1])
    assert found.walked and found.extents == ((3,), (4096,))


def test_columns_are_walked_side_by_side():
    found = choose((1000, 4096), [[1, 1000]], reduced=[1])
    assert found.reduced == 0 and found.walked and found.dims == ([1], [0]) and found.extents[1] == (512,)


def test_a_gpu_has_a_block_for_each_of_few_rows():
    assert choose((1024, 32768), [[32768, 1]], reduced=[1], is_gpu=True).extents[0] == (1,)
    assert choose((1 << 20, 64), [[64, 1]], reduced=[1], whole=True, is_gpu=True).extents[0] == (64,)
