// The k largest elements of each row, in order: the k-th largest is found two bits at a time (radix select),
// the elements that reach it are collected, and each of these k is ranked by counting those that precede it.
#include <bit>

#include "tile/op.h"

namespace {
using namespace tile;  // NOLINT: this file is written in the kernel language

// Maps floats to unsigned integers in the same order: NaN is the largest, as in torch, and -0 equals 0.
Tile key_of(const Tile& x) {
  Tile value = x.astype(f32);
  Tile bits = where(value == 0.0, 0.0, value).bitcast(u32);
  Tile negative = (bits >> 31) == 1;
  Tile key = where(negative, ~bits, bits | full({}, 0x80000000L, u32));
  return where(isnan(value), full({}, 0xffffffffL, u32), key);
}

// found: [rows, k], the indices of the k largest. Of equal elements, the first ones are taken.
void select_kernel(Array x, Array found, Tile k, int size) {
  Tile row = bid(0), columns = x.dim(1);
  View parts = x[{row}].tiled_view({size});
  const auto inside = [&](const Tile& part) { return part * size + arange(size) < columns; };
  const auto keys = [&](const Tile& part) { return where(inside(part), key_of(parts.load({part})), 0); };

  // kth: the largest number that at least k keys reach. Its next two bits are those of the largest candidate
  // that k keys reach.
  Tile kth = full({}, 0, u32);
  for (Tile digit : range(16)) {
    Tile shift = (30 - 2 * digit).astype(u32);
    const auto candidate = [&](int bits) { return kth | (full({}, bits, u32) << shift); };
    Tile one = candidate(1), two = candidate(2), three = candidate(3);
    Tile ones = zeros({size}, i32), twos = ones, threes = ones;
    for (Tile part : range(parts.num_tiles(0))) {
      Tile key = keys(part);
      ones += (key >= one).astype(i32);
      twos += (key >= two).astype(i32);
      threes += (key >= three).astype(i32);
    }
    kth = where(threes.sum() >= k, three, where(twos.sum() >= k, two, where(ones.sum() >= k, one, kth)));
  }

  Tile above = zeros({size}, i32);
  for (Tile part : range(parts.num_tiles(0))) above += (keys(part) > kth).astype(i32);
  Tile equals = k - above.sum();  // number of elements equal to it that belong to the k
  Tile taken = zeros({}, i32), met = taken;
  for (Tile part : range(parts.num_tiles(0))) {
    Tile key = keys(part), equal = ((key == kth) & inside(part)).astype(i32);
    Tile among = equal.cumsum(0) + met;
    Tile take = (key > kth) | ((equal == 1) & (among <= equals));
    Tile place = take.astype(i32).cumsum(0) - 1 + taken;
    scatter(found, {row, place}, part * size + arange(size), take);
    met += equal.sum();
    taken += take.astype(i32).sum();
  }
}
Kernel select("top_k_select", select_kernel);

// An element's rank is the number of elements that precede it: larger ones, and equal ones further to the
// left.
void order_kernel(Array x, Array found, Array values, Array indices, int size, int step) {
  Tile row = bid(0), k = found.dim(1);
  const auto load = [&](const Tile& number) { return gather(found, {row, number}); };
  Tile mine = arange(size), at = load(mine), value = gather(x, {row, at});
  Tile key = key_of(value).expand_dims(1), column = at.expand_dims(1), place = zeros({size}, i32);
  for (Tile i : range(cdiv(k, step))) {
    Tile others = i * step + arange(step), where_ = load(others);
    Tile other = key_of(gather(x, {row, where_})).expand_dims(0), left = where_.expand_dims(0);
    Tile before = ((other > key) | ((other == key) & (left < column))) & (others < k).expand_dims(0);
    place += before.astype(i32).sum(1);
  }
  scatter(values, {row, place}, value, mine < k);
  scatter(indices, {row, place}, at, mine < k);
}
Kernel order("top_k_order", order_kernel);

const auto top_k =
    op("kernels::top_k(Tensor x, int k) -> (Tensor values, Tensor indices)")
        .outputs([](const at::Tensor& x, int64_t k) {
          if (x.dim() != 2) fail(ErrorKind::value, "x is ", x.sym_sizes(), "; pass a matrix");
          if (x.scalar_type() != at::kFloat && x.scalar_type() != at::kHalf &&
              x.scalar_type() != at::kBFloat16)
            fail(ErrorKind::type, "x is ", x.scalar_type(), "; pass float32, float16 or bfloat16");
          if (k < 1 || k > 1024 || x.sym_size(1) < k)
            fail(ErrorKind::value, "k is ", k, " of rows of ", x.sym_size(1),
                 "; pass 1 to 1024, and no more than a row has");
          const auto shape = [&] { return c10::SymDimVector{x.sym_size(0), k}; };
          return std::tuple(at::empty_symint(shape(), x.options()),
                            at::empty_symint(shape(), x.options().dtype(at::kLong)));
        })
        .run([](const at::Tensor& x, int64_t k, at::Tensor& values, at::Tensor& indices) {
          const at::Tensor found = at::empty(indices.sizes(), x.options().dtype(at::kInt));
          select.launch({x.size(0)}, x, found, static_cast<int>(k), x.is_cpu() ? 16384 : 2048);
          const int size = static_cast<int>(std::max<uint64_t>(std::bit_ceil(static_cast<uint64_t>(k)), 32));
          order.launch({x.size(0)}, x, found, values, indices, size, 32);
        });

}  // namespace
