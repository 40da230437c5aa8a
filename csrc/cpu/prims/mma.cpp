// The product of two tiles.
#include <algorithm>

#include "cpu/lower.h"
#include "cpu/product.h"
#include "cpu/tables.h"

namespace tile::cpu {
namespace {

struct MmaUnit final : Unit {
  int a, b, accumulator, to, slot;
  Shape a_shape, b_shape, c_shape;
  DType dtype;  // of the result
  const GemmKernels* kernels;

  Signal run(Frame& frame) const override {
    size_t mark = frame.scratch.mark();
    TileRef x = frame.tiles[static_cast<size_t>(a)], y = frame.tiles[static_cast<size_t>(b)];
    const TileRef& c = frame.tiles[static_cast<size_t>(accumulator)];
    const int rank = static_cast<int>(c_shape.size()), row = rank - 2, col = rank - 1;
    Scratch& scratch = frame.scratch;
    // k: everything there, or zero from the shorter operand's end on.
    int64_t k = std::min(reach(x, rank, col, a_shape, true, scratch).real, reach(y, rank, row, b_shape, true, scratch).real);
    Reach m = reach(x, rank, row, a_shape, c.axes[row].extent > x.axes[row].extent, scratch);
    Reach n = reach(y, rank, col, b_shape, c.axes[col].extent > y.axes[col].extent, scratch);
    int64_t extents[max_rank];
    int64_t batch = 1;
    if (rank == 3) {
      for (TileRef* each : {&x, &y})
        if (each->axes[0].valid != unlimited || each->axes[0].first > 0 || (each->axes[0].extent > 1 && each->axes[0].extent < a_shape[0]))
          *each = materialise(*each, rank, each == &x ? a_shape.data() : b_shape.data(), scratch);
      extents[0] = batch = c_shape[0];
    }
    // One more than the product's own rows where those after it are zero: the accumulator's remain there.
    auto extent = [&](const Reach& reach, int axis) {
      int64_t full = c_shape[static_cast<size_t>(axis)];
      return std::min(full, std::max(c.axes[axis].extent, reach.real + (reach.zeros && reach.real < full ? 1 : 0)));
    };
    extents[row] = extent(m, row);
    extents[col] = extent(n, col);
    char* out = frame.slots[static_cast<size_t>(slot)];
    bool covers = m.real == extents[row] && n.real == extents[col];
    bool add = begin_product(c, rank, extents, out, covers, frame);
    for (int64_t i = 0; i < batch; ++i) {
      Matrix left = matrix_of(x, row, *kernels), right = matrix_of(y, row, *kernels);
      auto shift = [&](Matrix& matrix, const TileRef& tile) {
        int64_t step = rank == 3 && tile.axes[0].extent > 1 ? tile.axes[0].stride : 0;
        matrix.view.data = static_cast<const char*>(matrix.view.data) + i * step;
      };
      shift(left, x);
      shift(right, y);
      multiply(m.real, n.real, k, left, right, out + i * extents[row] * extents[col] * kernels->element_bytes,
               extents[col], add, scratch);
    }
    TileRef result = dense_lanes(out, dtype, rank, extents);
    if (ChunkFunction round = move_row(dtype).round) round({1, batch * extents[row] * extents[col], out, 0, {out}, {0}});
    frame.tiles[static_cast<size_t>(to)] = result;
    scratch.release(mark);
    return Signal::next;
  }

  void multiply(int64_t m, int64_t n, int64_t k, const Matrix& left, const Matrix& right, char* out, int64_t ld, bool add,
                Scratch& scratch) const {
    const auto bytes = static_cast<size_t>(kernels->element_bytes);
    if (left.in_place && right.in_place) {
      kernels->direct(m, n, k, left.view.data, left.view.row_stride, right.view.data, right.view.row_stride, out, ld, add);
      return;
    }
    void* packed_b = scratch.take(static_cast<size_t>(kernels->packed_b_size(k, n)) * bytes);
    kernels->pack_b[static_cast<int>(right.dtype)](k, n, right.view, packed_b);
    if (left.in_place) {
      kernels->direct_a(m, n, k, left.view.data, left.view.row_stride, packed_b, out, ld, add);
      return;
    }
    void* packed_a = scratch.take(static_cast<size_t>(kernels->packed_a_size(m, k)) * bytes);
    kernels->pack_a[static_cast<int>(left.dtype)](m, k, left.view, packed_a);
    kernels->packed(m, n, k, packed_a, packed_b, out, ld, add);
  }
};

std::unique_ptr<Unit> lower_mma(Lower& lower, const Op& op) {
  auto unit = std::make_unique<MmaUnit>();
  unit->a = lower.tile(op.operands[0]);
  unit->b = lower.tile(op.operands[1]);
  unit->accumulator = lower.tile(op.operands[2]);
  unit->to = lower.tile(op.results[0]);
  lower.take_over(op, 2);
  unit->slot = lower.slot(op.results[0]);
  unit->a_shape = op.type(0).shape;
  unit->b_shape = op.type(1).shape;
  unit->c_shape = op.type(2).shape;
  unit->dtype = op.type(2).dtype;
  unit->kernels = &gemm_table().of(unit->dtype == DType::f16 ? DType::f32 : unit->dtype);
  lower.need_scratch(static_cast<size_t>(2 * (element_count(unit->a_shape) + element_count(unit->b_shape) +
                                              element_count(unit->c_shape))) * 8 + 65536);
  return unit;
}

const AddLowering mma_{{"mma", lower_mma}};

}  // namespace
}  // namespace tile::cpu
