// The kernels that docs/language shows: x is f32[8,16] of 0, 1, 2, …, out f32[8,16] of zeros, bits i32[16] of
// zeros. A page shows the kernels whose first line names it. snippets_test.cpp runs them.
#pragma once
#include "tile.h"

// All are launched in the same way, also those that read nothing.
#pragma GCC diagnostic ignored "-Wunused-parameter"

namespace tile::snippets {

// page: load store bid
void twice(Array x, Array out) {
  View tiles = x.tiled_view({8, 16});
  Tile tile = tiles.load({bid(0), 0});
  out.tiled_view({8, 16}).store({bid(0), 0}, tile * 2.0);
}

// page: dim stride num_blocks
void sizes(Array x, Array out) {
  Tile rows = x.dim(0), each = cdiv(rows, num_blocks(0));  // i32
  Tile step = x.stride(0);                                 // i64, in elements
  out.tiled_view({8, 16}).store({0, 0}, each.astype(f32) + step.astype(f32));
}

// page: index slice permute_array
void parts(Array x, Array out) {
  Array row = x[{2}];                  // f32, one axis
  Array some = x.slice(1, 4, 8);       // columns 4 to 7
  Array permuted = x.permute({1, 0});  // 16 by 8
  Tile a = row.tiled_view({16}).load({0});
  Tile b = some.tiled_view({8, 16}).load({0, 0});  // 0 past its fourth column
  Tile c = permuted.tiled_view({16, 8}).load({0, 0}).t();
  out.tiled_view({8, 16}).store({0, 0}, a + b + c);
}

// page: detach
void below_top(Array x, Array out) {
  Tile tile = x.tiled_view({8, 16}).load({0, 0});
  Tile top = detach(tile.max(1, true));  // derivatives take it for a constant
  out.tiled_view({8, 16}).store({0, 0}, tile - top);
}

// page: add_tile
void accumulated(Array x, Array out) {
  Tile tile = x.tiled_view({8, 16}).load({0, 0});
  out.tiled_view({8, 16}).atomic_add({0, 0}, tile);
  out.tiled_view({8, 16}).atomic_add({0, 0}, 1.0);
}

// page: atomic_load atomic_store atomic_add atomic_max atomic_min atomic_xchg atomic_cas
void counters(Array x, Array out) {
  Tile column = arange(16);
  atomic_store(out, {0, column}, 3.0);
  Tile a = atomic_add(out, {0, column}, 2.0);                               // it was 3
  Tile b = atomic_max(out, {0, column}, 9.0);                               // 5
  Tile c = atomic_min(out, {0, column}, 7.0);                               // 9
  Tile d = atomic_xchg(out, {0, column}, 1.0);                              // 7
  Tile e = atomic_cas(out, {0, column}, 1.0, 4.0);                          // 1, which becomes 4
  Tile f = atomic_load(out, {0, column}, {.order = MemoryOrder::relaxed});  // 4
  scatter(out, {1, column}, a + b + c + d + e + f);
}

// page: atomic_and atomic_or atomic_xor
void flags(Array bits, Array out) {
  Tile place = arange(16);
  atomic_or(bits, {place}, 6);
  atomic_and(bits, {place}, 3, {.order = MemoryOrder::relaxed});
  atomic_or_offset(bits, 1, 4);                                  // the second element, for any strides
  Tile was = atomic_xor(bits, {place}, 1, {.mask = place < 8});  // 2 becomes 3; 0 where the mask is false
  scatter(out, {0, place}, was.astype(f32));
}

// page: gather scatter
void shifted(Array x, Array out) {
  Tile row = arange(8).expand_dims(1), column = arange(16).expand_dims(0);
  Tile next = gather(x, {row, column + 1}, -1.0);  // -1 past the last column
  scatter(out, {row, column}, next, column >= 8);
}

// page: gather_rows scatter_rows
void reversed(Array x, Array out) {
  Tile rows = arange(8, i32, 7, -1);  // 7, 6, …, 0
  Tile tile = gather_rows(x, 0, rows, {0}, {16});
  scatter_rows(out, 0, arange(8), {0}, tile);
}

// page: load_offset store_offset
void flat(Array x, Array out) {
  Tile at = arange(128);
  store_offset(out, at, load_offset(x, at, at < 64, -1.0));
}

// page: arange constant broadcast
void made(Array x, Array out) {
  Tile odd = arange(16, f32, 1, 2);  // 1, 3, 5, …
  Tile half = full({8, 1}, 0.5, f32);
  out.tiled_view({8, 16}).store({0, 0}, odd.broadcast_to({8, 16}) + half);
}

// page: reshape permute
void interleaved(Array x, Array out) {
  Tile halves = x.tiled_view({8, 16}).load({0, 0}).reshape({8, 2, -1});  // [8, 2, 8]
  out.tiled_view({8, 16}).store({0, 0}, halves.permute({0, 2, 1}).reshape({8, 16}));
}

// page: cat extract insert
void swapped(Array x, Array out) {
  Tile tile = x.tiled_view({8, 16}).load({0, 0});
  Tile left = extract(tile, {0, 0}, {8, 8}), right = extract(tile, {0, 1}, {8, 8});
  Tile both = cat(right, left, 1);
  out.tiled_view({8, 16}).store({0, 0}, insert(both, {0, 0}, -1.0));
}

// page: where
void clipped(Array x, Array out) {
  Tile tile = x.tiled_view({8, 16}).load({0, 0});
  out.tiled_view({8, 16}).store({0, 0}, where(tile > 10.0, tile, 0.0));
}

// page: astype bitcast
void magnitudes(Array x, Array out) {
  Tile tile = x.tiled_view({8, 16}).load({0, 0}) - 64.0;
  Tile rounded = tile.astype(bf16).astype(f32);
  Tile absolute = (tile.bitcast(i32) & 0x7fffffff).bitcast(f32);
  out.tiled_view({8, 16}).store({0, 0}, rounded + absolute);
}

// page: astype_rz astype_rm astype_rp astype_ra add_rz add_rm add_rp sub_rz sub_rm sub_rp mul_rz mul_rm
// page: mul_rp div_rz div_rm div_rp fma_rz fma_rm fma_rp sqrt_rz sqrt_rm sqrt_rp
void between(Array x, Array out) {
  Tile tile = x.tiled_view({8, 16}).load({0, 0}), root = sqrt(tile, Rounding::down);
  Tile low = div(tile, 3.0, Rounding::down), high = div(tile, 3.0, Rounding::up);
  Tile narrow = high.astype(f16, Rounding::zero).astype(f32);
  Tile near = high.astype(tf32, Rounding::away).astype(f32);
  Tile sum = add(root, 0.1, {Rounding::up, Subnormals::flush});
  Tile good = (low <= high) & (narrow <= near) & (sum > root);
  out.tiled_view({8, 16}).store({0, 0}, good.astype(f32));
}

// page: flush_subnormal
void flushed(Array x, Array out) {
  Tile tile = x.tiled_view({8, 16}).load({0, 0});
  Tile tiny = mul(tile, 1e-40, Subnormals::flush);  // 0: the factor is subnormal
  out.tiled_view({8, 16}).store({0, 0}, tile + tiny);
}

// page: reduce_sum reduce_prod
void sums(Array x, Array out) {
  Tile tile = x.tiled_view({8, 16}).load({0, 0});
  Tile rows = tile.sum(1, true);  // [8, 1]
  Tile all = tile.sum();          // a scalar
  Tile powers = full({8, 16}, 2.0, f32).prod({-1}, true);
  out.tiled_view({8, 16}).store({0, 0}, rows + all + powers);
}

// page: reduce_max reduce_min argmax argmin
void extremes(Array x, Array out) {
  Tile tile = x.tiled_view({8, 16}).load({0, 0});
  Tile width = tile.max(1, true) - tile.min(1, true);
  Tile places = tile.argmax(1, true) - tile.argmin(1, true);  // i32
  out.tiled_view({8, 16}).store({0, 0}, width + places.astype(f32));
}

// page: reduce_any reduce_all
void some(Array x, Array out) {
  Tile large = x.tiled_view({8, 16}).load({0, 0}) > 20.0;
  Tile count = large.any(1, true).astype(f32) + large.all(1, true).astype(f32);
  out.tiled_view({8, 16}).store({0, 0}, count);
}

// page: reduce scan
void combined(Array x, Array out) {
  Tile tile = x.tiled_view({8, 16}).load({0, 0});
  Tile last = reduce(
      tile, 1, [](Tile a, Tile b) { return maximum(a, b); }, true);
  Tile running = scan(tile, 1, [](Tile a, Tile b) { return a + b; });
  out.tiled_view({8, 16}).store({0, 0}, last + running - tile.cumsum(1));
}

// page: for yield
void looped(Array x, Array out) {
  Tile total = zeros({8, 1}, f32);
  for (Tile k : range(x.dim(1))) total += x.tiled_view({8, 1}).load({0, k});
  out.tiled_view({8, 16}).store({0, 0}, total);
}

// page: if
void chosen(Array x, Array out) {
  Tile value = 0.0;
  when(
      x.dim(0) > 5, [&] { value = 1.0; }, [&] { value = 2.0; });
  out.tiled_view({8, 16}).store({0, 0}, value);
}

// page: loop break continue
void counted(Array x, Array out) {
  Tile k = 0, sum = 0;
  while_loop([&] { return k < 10; },
             [&] {
               k += 1;
               when(k % 2 == 0, [&] { continue_loop(); });
               when(k > 6, [&] { break_loop(); });
               sum += k;  // 1, 3 and 5
             });
  out.tiled_view({8, 16}).store({0, 0}, sum.astype(f32));
}

// page: mma
void products(Array x, Array out) {
  Tile tile = x.tiled_view({8, 16}).load({0, 0});
  Tile squares = mma(tile, tile.t(), zeros({8, 8}, f32));
  out.tiled_view({8, 8}).store({0, 0}, squares);
}

// page: mma_scaled
void scaled(Array x, Array out) {
  Tile a = full({8, 32}, 1.5, f8e4m3), b = ones({32, 8}, f8e5m2);
  Tile twice = full({8, 1}, 128, u8), once = full({1, 8}, 127, u8);  // 2^(bits - 127)
  out.tiled_view({8, 8}).store({0, 0}, mma_scaled(a, twice, b, once, zeros({8, 8}, f32)));
}

// page: random_u32 random_u64
void drawn(Array x, Array out) {
  Tile u = uniform({8, 16}, 42, 0), n = normal({8, 16}, 42, 0, f32, 1);
  Tile bit = random_bits({8, 16}, 42, 0, u32, 2) >> 31;
  Tile good = (u >= 0.0) & (u < 1.0) & (n < 7.0) & (bit < 2);
  out.tiled_view({8, 16}).store({0, 0}, good.astype(f32));
}

// page: pack_to_bytes unpack_from_bytes
void bytes(Array x, Array out) {
  Tile packed = pack_to_bytes(x.tiled_view({8, 16}).load({0, 0}));  // u8[512]
  out.tiled_view({8, 16}).store({0, 0}, unpack_from_bytes(packed, f32).reshape({8, 16}));
}

// page: assert print
void watched(Array x, Array out) {
  Tile tile = x.tiled_view({8, 16}).load({0, 0});
  assert_(tile >= 0.0, "no element is negative");
  print("block %d: the sum is %.1f\n", {bid(0), tile.sum()});
  out.tiled_view({8, 16}).store({0, 0}, sqrt(tile));
}

}  // namespace tile::snippets
