// Numbers that operators are tuned with: figures of the hardware, and shared ones. They are constants, so
// that results do not depend on the machine. Extents of a single kernel's tiles are next to it.
#pragma once
#include <cstdint>

namespace tile::tuning {

inline constexpr int64_t kib = 1 << 10, mib = 1 << 20;
inline constexpr int64_t line_bytes = 128;  // of a GPU's caches

// An H100 or H200 has 132 multiprocessors. Fewer blocks leave some idle.
inline constexpr int64_t multiprocessors = 132;
// Two blocks of 8 warps on each hide each other's waits for memory.
inline constexpr int64_t two_blocks_each = 2 * multiprocessors;
// Four blocks of 128 threads are what a multiprocessor runs at once of kernels that fill its registers.
inline constexpr int64_t four_blocks_each = 4 * multiprocessors;
// Sixteen blocks each are four times what runs at once; each still has tiles enough to pay for what it loads
// once.
inline constexpr int64_t sixteen_blocks_each = 16 * multiprocessors;

// The elements of an elementwise tile. A block of a CPU costs about a microsecond before it begins, which
// 16384 elements pay for. A GPU's block of 256 threads keeps 16 elements a thread in registers.
inline constexpr int cpu_tile = 16384, gpu_tile = 4096;
// The same of a GPU where a thread keeps several arrays and both tables of a rotation.
inline constexpr int gpu_rotation_tile = 512;

// The memory that a call may take beyond its results, 64 MiB in all, because models call operators close to
// the last byte. What is larger is made in parts, and the weights are read once more for each. Matrix
// products: a gradient's chunk, the sums that several chunks add to, and those of parts of the inner extent.
inline constexpr int64_t product_chunk_bytes = 43 * mib, product_sum_bytes = 16 * mib,
                         part_sum_bytes = 4 * mib;
// linear_cross_entropy: logits, and of the backward pass sums of the input's and the weights' gradients, too.
inline constexpr int64_t forward_logits_bytes = 32 * mib, backward_logits_bytes = 16 * mib,
                         input_sums_bytes = 24 * mib, weight_sums_bytes = 8 * mib;
// linear_cross_entropy with gradients in the forward: whole rows of logits. Logits that lie in the memory of
// the weights' gradient are copied out of it in parts. Where gradients of the weights are added up over
// groups of rows, logits and sums together take fewer bytes.
inline constexpr int64_t early_logits_bytes = 59 * mib, copied_logits_bytes = 32 * mib,
                         early_groups_bytes = 48 * mib;
// Where the input is large, logits take so many times its bytes instead, and so do sums of the weights'
// gradient: a model keeps more than that of each layer, and its MLP's gradient takes as much for a while.
inline constexpr int64_t loss_inputs = 4;
// Fewer classes of all rows are a worse product than more of some rows.
inline constexpr int64_t fewest_chunk_classes = 512;
// Attention: sums of a launch. The rest per row, 8 bytes in addition to at least 256 of sums, makes 64 MiB
// of them.
inline constexpr int64_t attention_sum_bytes = 62 * mib;
// Attention on a CPU in 16 bits: sums of the queries' gradient of the key heads that run at once.
inline constexpr int64_t attention_head_sum_bytes = 40 * mib;
// linear_cross_entropy: rows whose logits are a chunk. The weights are read once for so many; more rows would
// leave a chunk few classes.
inline constexpr int64_t logit_chunk_rows = 4096;

// Products of 16-bit floats take tiles of 128 x 128 where these make a block for each multiprocessor, else of
// 64 x 64, which read operands twice as often.
inline constexpr int64_t enough_large_tiles = multiprocessors;
// Products on warpgroup instructions of an H100 or H200: the inner elements of a tile, and estimates that
// choose its rows and columns. A multiprocessor does so many multiplications of 16-bit floats in a cycle,
// twice as many of 8-bit floats, receives so many bytes from the L2 cache, stores so many sums, and adds so
// many in registers. An iteration takes at least so many
// cycles, and its barriers some more. benchmarks/product_tiles.py compares the choice with measured times.
inline constexpr int group_depth_bytes = 128;
inline constexpr int64_t group_products_a_cycle = 2048, l2_bytes_a_cycle = 64, group_stores_a_cycle = 8,
                         group_sums_a_cycle = 64, group_iteration_cycles = 240, group_barrier_cycles = 32;
// The same of 16-bit floats and float64 on mma.sync, and of float32 on FMA if the result has at most 16 rows
// or columns: two blocks run on a multiprocessor.
inline constexpr int64_t warp_products_a_cycle = 512, double_products_a_cycle = 128,
                         fma_products_a_cycle = 64, warp_iteration_cycles = 500;
// Other products of float32 on FMA: the warps of which a thread's 128 registers leave room for on a
// multiprocessor. So many warps do the products of a cycle that tiles.cpp estimates, and n of them
// n / (n + 4) of those of infinitely many.
inline constexpr int64_t fma_warps = 16, fma_half_warps = 4;
// All multiprocessors together receive so many bytes from memory in a cycle, some of them from the L2 cache.
inline constexpr int64_t memory_bytes_a_cycle = 3072;
// Products whose inner extent is divided into parts: the cycles of the launch that adds the parts, so many of
// them in a cycle, each written and read.
inline constexpr int64_t second_launch_cycles = 3600, part_sums_a_cycle = 256, most_product_parts = 64;
// Products of few rows without tensor cores: the most rows, the shortest inner extent, the cycles in which a
// block waits for what it loads at once, and from how many columns on tiles are wide.
inline constexpr int64_t thin_rows = 4, thin_inner_extent = 128, thin_iteration_cycles = 1000,
                         thin_wide_tiles = 768;
// Matrices whose rows are no multiples of 16 bytes are copied for warpgroup instructions if the result has so
// many rows and columns: products then use each copied element so often.
inline constexpr int64_t group_copied_extent = 256;
// Operands of tf32 are copied for them if that takes less time than mma.sync: so many bytes are read and
// written in a cycle.
inline constexpr int64_t copied_bytes_a_cycle = 1536;
// On a CPU threads share the x that they pack: tiles are small, and so many, while a packed x of 16 MiB stays
// in the last level of the cache.
inline constexpr int64_t cpu_product_blocks = 1024, cpu_packed_bytes = 16 * mib;
// Tensor cores cut off what a sum in float32 has no room for, always towards zero: in a chain of 65536
// products up to 2^-12 of it, a quarter of the last place of float16. Products of float32 round to nearest,
// but as often: shorter chains keep more of their digits.
inline constexpr int64_t chain_length = 65536, float32_chain = 4096;

// Attention: launches of parts have about so many blocks, almost four for each multiprocessor; parts of fewer
// than one each are not worth their cuts.
inline constexpr int64_t attention_part_blocks = 512, attention_fewest_blocks = multiprocessors;
// On warpgroup instructions, queries of at least this length take tiles of 192 rows: few of these are empty
// then.
inline constexpr int64_t attention_long_query = 2048;
// Masks of at least so many queries and keys are summed up: two launches then cost less than the tiles that
// kernels need not visit.
inline constexpr int64_t attention_summed_rows = 128, attention_summed_keys = 256;
// In bits, if these take so many bytes at most: sums of gradients beside them have the fewer.
inline constexpr int64_t attention_bits_bytes = 40 * mib;
// Queries, keys and values that warpgroup instructions cannot read where they are get copied, if the copies
// and a mask's bits take as many bytes at most. Each key has to be read by so many queries, or keys are as
// few: a copy of a long cache would cost more than it saves.
inline constexpr int64_t attention_copied_rows = 256;
// On a CPU, if at least so many heads and samples share the mask.
inline constexpr int64_t attention_cpu_shared_mask = 4;
// Blocks that the gradient of attention's bias has at least, if it has as many tiles, and the most tiles of
// keys of one: the next tile's operands are then copied ahead.
inline constexpr int64_t attention_bias_blocks = 2048, attention_bias_span = 8;
// The copies of tables of scores to which gradients are added, if they take so many bytes at most.
inline constexpr int64_t attention_table_bytes = 16 * mib, attention_cpu_tables = 64,
                         attention_gpu_tables = 16;
// Shared memory, of the 227 KiB that a block of an H100 may have: tiles of key and value, two of scores, two
// each of query and grad_out. GPUs with less take tiles of half the size.
inline constexpr int attention_large_tiles_bytes = 160 * kib;
// Decoding: blocks that share a head's keys are this many, and each has these tiles of keys at least, because
// their parts are put together by another launch. Two blocks with heads of 128 run on a multiprocessor of a
// GPU at once: those of one sequence are equally long, and fill whole turns of so many. Where longer parts
// would leave some multiprocessors idle, a block has fewer tiles.
inline constexpr int64_t gpu_decode_blocks = four_blocks_each, cpu_decode_blocks = 16;
inline constexpr int64_t gpu_decode_at_once = two_blocks_each;
inline constexpr int64_t gpu_decode_tiles = 4, cpu_decode_tiles = 2, gpu_decode_fewest_tiles = 2;

// On a GPU, losses process longer rows in tiles. A norm's gradient takes tiles of so many columns for rows of
// more than 2 * norm_block_bytes. The next tile loads while one is computed.
inline constexpr int long_row = 8192;
// Bytes of the input that a block of a norm's gradient takes in an iteration, in registers next to their
// sums.
inline constexpr int norm_block_bytes = 16384;
// On a CPU a norm's gradient adds up columns in so many parts.
inline constexpr int64_t cpu_norm_parts = 64;
// Columns of a tile of logits where rows are longer than long_row: the loss carries maxima and sums from tile
// to tile; its gradient carries nothing and takes wider tiles.
inline constexpr int loss_columns = 4096, loss_backward_columns = long_row;

// group_norm. Blocks of 128 threads that run at once, of kernels that leave a partial sum per block.
inline constexpr int64_t group_parts = four_blocks_each;
// Blocks of a kernel that loops over pixel tiles: more would not pay for loading a block's channel vectors.
inline constexpr int64_t group_loop_blocks = sixteen_blocks_each;
// With this many groups, one block per group uses the whole machine: two per multiprocessor of a GPU; on a
// CPU, whose blocks are few and long, eight.
inline constexpr int64_t enough_gpu_groups = two_blocks_each, enough_cpu_groups = 8;
// Elements of a group that one block loops over: with any number of groups, and with enough groups on a GPU.
inline constexpr int64_t small_group = 32768, large_gpu_group = 65536;
// From this many elements of a group on, a CPU's fused gradient takes less time than three kernels: its fixed
// cost is small then.
inline constexpr int64_t fused_gradient_group = 8192;
// Elements of a group times the tensors kept of it that one tile holds even if most_tile_bytes is less: 10
// channels of 64 x 64 pixels, a group of a U-Net's first level, which is then read once.
inline constexpr int64_t group_kept_elements = 40960;
// From this many elements on, the blocks of a 16-bit group wait so long at each sum that half the threads are
// faster.
inline constexpr int64_t long_group = 32768;
// U-Nets have 320, 640 and 1280 channels: a CPU's tile of 320 channels has no partial tile.
inline constexpr int unet_channels = 320;

}  // namespace tile::tuning
