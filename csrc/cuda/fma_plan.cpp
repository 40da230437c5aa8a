// Selects the block of a thread and the arrangement of lanes and warps that read least from shared memory.
#include "cuda/fma_plan.h"

#include <algorithm>
#include <bit>

#include "ir/walk.h"

namespace tile::cuda {
namespace {

constexpr int vector = 4;  // f32 elements of a 16-byte access

bool divides(const Shape& shape, int lanes_m, int lanes_n) {
  return shape[0] % (lanes_m * vector) == 0 && shape[1] % (lanes_n * vector) == 0;
}

// Returns the sum of `of` over a block's products, or that of an inner block if it is larger.
int64_t most_together(const Block& block) {
  int64_t own = 0, most = 0;
  for (const auto& op : block.ops) {
    if (op->is("mma")) own += element_count(op->type(2).shape);
    for (const auto& region : op->regions) most = std::max(most, most_together(*region));
  }
  return std::max(own, most);
}

// Returns true if the product's loop computes no other tile.
bool only_product(const Op& mma) {
  return std::all_of(mma.parent->ops.begin(), mma.parent->ops.end(), [&](const auto& op) {
    return op.get() == &mma || op->is("load") || op->is("permute") || op->results.empty() ||
           !is_tile(op->results[0]);
  });
}

int warps_of(int64_t elements, int64_t of_a_thread) {
  const int64_t of_a_warp = of_a_thread * 32;
  return static_cast<int>(std::bit_ceil(static_cast<uint64_t>((elements + of_a_warp - 1) / of_a_warp)));
}

}  // namespace

bool multiplies_by_blocks(const Op& mma) {
  const Type &x = mma.type(0), &y = mma.type(1), &sums = mma.type(2);
  if (sums.rank() != 2 || x.dtype != DType::f32 || y.dtype != DType::f32 || sums.dtype != DType::f32)
    return false;
  return x.shape[1] % vector == 0 && (divides(sums.shape, 4, 8) || divides(sums.shape, 8, 4));
}

FmaPlan fma_plan(const Shape& shape, int warps) {
  FmaPlan best{};
  int64_t best_cost = INT64_MAX;
  for (const int lanes_m : {4, 8})
    for (int warps_m = warps; warps_m >= 1; warps_m /= 2)
      for (int warps_n = 1; warps_m * warps_n <= warps; warps_n *= 2) {
        const int lanes_n = 32 / lanes_m;
        if (!divides(shape, lanes_m * warps_m, lanes_n * warps_n)) continue;
        const int rows = static_cast<int>(shape[0]) / (lanes_m * warps_m),
                  columns = static_cast<int>(shape[1]) / (lanes_n * warps_n);
        // A thread reads so many elements per step of k; idle warps cost more than any reads.
        const int64_t cost = int64_t{warps / (warps_m * warps_n)} * 10000 + rows + columns;
        if (cost < best_cost) best = {lanes_m, lanes_n, warps_m, warps_n, rows, columns}, best_cost = cost;
      }
  return best;
}

Layout fma_layout(const Shape& shape, const FmaPlan& plan) {
  std::vector<Mode> modes;
  int next_register = 1;
  const auto add = [&](int axis, bool adjacent, int lanes, int count, int warp_stride, int warps) {
    const int together = adjacent ? vector : 1;
    modes.push_back({Level::reg, next_register, together, axis, 1});
    modes.push_back(
        {Level::reg, next_register * together, count / together, axis, int64_t{lanes} * together});
    next_register *= count;
    // Neighbouring pairs of lanes differ along the axis of four lanes: the memory then serves the
    // 16-byte reads of 16 lanes at once, as those of each pair, or of every other lane, are equal.
    const int64_t weight = together;
    if (lanes == 4) {
      modes.push_back({Level::lane, 1, 2, axis, weight});
      modes.push_back({Level::lane, 16, 2, axis, 2 * weight});
    } else {
      modes.push_back({Level::lane, 2, 8, axis, weight});
    }
    modes.push_back({Level::warp, warp_stride, warps, axis, int64_t{lanes} * count});
  };
  add(1, plan.adjacent_columns, plan.lanes_n, plan.columns, 1, plan.warps_n);
  add(0, plan.adjacent_rows, plan.lanes_m, plan.rows, plan.warps_n, plan.warps_m);
  return Layout(shape, std::move(modes));
}

int fma_warps(const Function& function, const StagingPlan& staging) {
  constexpr int usual = 4;  // so that the warps of small products hide each other's waits
  const Op* largest = nullptr;
  int64_t tiles = 0, products = 0;
  walk(function.body(), [&](const Op& op) {
    products += op.is("mma") ? 1 : 0;
    if (op.is("mma") && staging.by_blocks(op) &&
        (!largest || element_count(op.type(2).shape) > element_count(largest->type(2).shape)))
      largest = &op;
    if (staging.of(op) || staging.left_to_products(op)) return;
    for (const Value* result : op.results)
      if (is_tile(result)) tiles = std::max(tiles, element_count(result->type.shape));
  });
  if (!largest) return 0;
  // Twice as many sums a thread read a third less for each product. Half of the warps then hide the waits of
  // the others, which is enough if the kernel has one product, and nothing else to wait for in its loop.
  const int64_t sums = products == 1 && only_product(*largest) ? 128 : 64;
  const FmaPlan plan = fma_plan(largest->type(2).shape, usual);
  return std::max(
      {plan.warps_m * plan.warps_n, warps_of(most_together(function.body()), sums), warps_of(tiles, sums)});
}

}  // namespace tile::cuda
