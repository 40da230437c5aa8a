// mma: the product of two tiles.
#include <algorithm>

#include "cpu/interpreter/gemm_view.h"
#include "cpu/interpreter/lowering_context.h"
#include "cpu/interpreter/tables.h"

namespace tile::cpu {
namespace {

// With fewer rows than this, multiplying directly takes less time than packing the right operand.
constexpr int64_t enough_rows = 64;

struct MmaNode final : OpNode {
  int a, b, accumulator, to, slot;
  Shape a_shape, b_shape, c_shape;
  DType dtype;  // of the result
  const GemmKernels* kernels;
  bool unwritten_a, unwritten_b;  // in memory that the kernel does not write

  Signal run(Frame& frame) const override {
    size_t mark = frame.scratch.mark();
    TileRef x = frame.tiles[static_cast<size_t>(a)], y = frame.tiles[static_cast<size_t>(b)];
    const TileRef& c = frame.tiles[static_cast<size_t>(accumulator)];
    const int rank = static_cast<int>(c_shape.size()), row = rank - 2, col = rank - 1;
    Scratch& scratch = frame.scratch;
    // k includes all existing elements, or ends where the shorter operand becomes zero.
    int64_t k = std::min(reach(x, rank, col, a_shape, true, scratch).real,
                         reach(y, rank, row, b_shape, true, scratch).real);
    Reach m = reach(x, rank, row, a_shape, c.axes[row].extent > x.axes[row].extent, scratch);
    Reach n = reach(y, rank, col, b_shape, c.axes[col].extent > y.axes[col].extent, scratch);
    int64_t extents[max_rank];
    int64_t batch = 1;
    if (rank == 3) {
      for (TileRef* each : {&x, &y})
        if (each->axes[0].valid != unlimited || each->axes[0].first > 0 ||
            (each->axes[0].extent > 1 && each->axes[0].extent < a_shape[0]))
          *each = materialise(*each, rank, each == &x ? a_shape.data() : b_shape.data(), scratch);
      extents[0] = batch = c_shape[0];
    }
    // Returns one row more than the product has if the following rows are zero: the accumulator's values
    // remain there.
    auto extent = [&](const Reach& reach, int axis) {
      int64_t full = c_shape[static_cast<size_t>(axis)];
      return std::min(full,
                      std::max(c.axes[axis].extent, reach.real + (reach.zeros && reach.real < full ? 1 : 0)));
    };
    extents[row] = extent(m, row);
    extents[col] = extent(n, col);
    char* out = frame.slots[static_cast<size_t>(slot)];
    bool covers = m.real == extents[row] && n.real == extents[col];
    bool add = begin_product(c, rank, extents, out, covers, frame);
    const Unwritten unwritten{unwritten_a && x.data == frame.tiles[static_cast<size_t>(a)].data,
                              unwritten_b && y.data == frame.tiles[static_cast<size_t>(b)].data};
    take_registers(*kernels, frame);
    for (int64_t i = 0; i < batch; ++i) {
      Matrix left = matrix_of(x, row, *kernels), right = matrix_of(y, row, *kernels);
      auto shift = [&](Matrix& matrix, const TileRef& tile) {
        int64_t step = rank == 3 && tile.axes[0].extent > 1 ? tile.axes[0].stride : 0;
        matrix.view.data = static_cast<const char*>(matrix.view.data) + i * step;
      };
      shift(left, x);
      shift(right, y);
      multiply(m.real, n.real, k, left, right, unwritten,
               out + i * extents[row] * extents[col] * kernels->element_bytes, extents[col], add, frame);
    }
    TileRef result = dense_lanes(out, dtype, rank, extents);
    if (ChunkFunction round = move_row(dtype).round)
      round({1, batch * extents[row] * extents[col], out, 0, {out}, {0}});
    frame.tiles[static_cast<size_t>(to)] = result;
    scratch.release(mark);
    return Signal::next;
  }

  struct Unwritten {
    bool a, b;
  };
  void multiply(int64_t m, int64_t n, int64_t k, const Matrix& left, const Matrix& right, Unwritten unwritten,
                char* out, int64_t ld, bool add, Frame& frame) const {
    const FewRows* few = kernels->reads_in_place(m, left.dtype, right.view, right.dtype);
    // A row's bits then depend on m only where the products of more rows have registers and an order of their
    // own, as those of AMX: others add up all of k, too, before they add C.
    if (few && !(kernels->begin && few == &kernels->rows_in_place)) {
      void* rows = frame.scratch.take(static_cast<size_t>(m * (k + kernels->together) * 8));
      few->rows[static_cast<int>(left.dtype)](m, k, left.view, rows);
      few->multiply[static_cast<int>(right.dtype)](m, n, k, std::max<int64_t>(k, 1), rows, right.view, out,
                                                   ld, add);
      return;
    }
    const bool pack_right = !kernels->direct || !right.in_place || (unwritten.b && m >= enough_rows),
               left_in_place = left.in_place && m % kernels->direct_rows == 0 && k % kernels->depth_step == 0;
    if (left_in_place && !pack_right) {
      kernels->direct(m, n, k, left.view.data, left.view.row_stride, right.view.data, right.view.row_stride,
                      out, ld, add);
      return;
    }
    auto pack = [&](const Matrix& matrix, int64_t rows, int64_t columns, bool is_left, bool keep,
                    int64_t elements) {
      const GemmKernels::Pack function =
          (is_left ? kernels->pack_a : kernels->pack_b)[static_cast<int>(matrix.dtype)];
      const size_t bytes = static_cast<size_t>(elements * kernels->element_bytes);
      const MatrixView& view = matrix.view;
      PackedTiles::Buffer buffer{nullptr, false};
      if (keep)
        buffer = frame.packed.find(
            {view.data, rows, columns, view.row_stride, view.column_stride, matrix.dtype, is_left, kernels},
            bytes);
      else
        buffer.data = frame.scratch.take(bytes);
      if (!buffer.filled) function(rows, columns, view, buffer.data);
      return buffer.data;
    };
    const char* packed_b = pack(right, k, n, false, unwritten.b, kernels->packed_b_size(k, n));
    if (left_in_place) {
      kernels->direct_a(m, n, k, left.view.data, left.view.row_stride, packed_b, out, ld, add);
      return;
    }
    const char* packed_a = pack(left, m, k, true, unwritten.a, kernels->packed_a_size(m, k));
    kernels->packed(m, n, k, packed_a, packed_b, out, ld, add);
  }
};

// Scaled elements are computed in both operands and may have any magnitude, so they are widened.
const GemmKernels& kernels_of(const LoweringContext& lower, const Op& op) {
  const DType sum = op.type(2).dtype;
  return lower.memory_load(op.operands[0]) || lower.memory_load(op.operands[1])
             ? gemm_kernels(op.type(0).dtype, op.type(1).dtype, sum)
             : gemm_table().of(sum == DType::f16 ? DType::f32 : sum);
}

bool reads_elements(const LoweringContext& lower, const Op& op, size_t operand) {
  return operand < 2 && kernels_of(lower, op).in_place == op.type(operand).dtype;
}

std::unique_ptr<OpNode> lower_mma(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<MmaNode>();
  node->a = lower.tile(op.operands[0]);
  node->b = lower.tile(op.operands[1]);
  node->accumulator = lower.tile(op.operands[2]);
  node->to = lower.tile(op.results[0]);
  lower.take_over(op, 2);
  node->slot = lower.slot(op.results[0]);
  node->a_shape = op.type(0).shape;
  node->b_shape = op.type(1).shape;
  node->c_shape = op.type(2).shape;
  node->dtype = op.type(2).dtype;
  node->unwritten_a = lower.memory_load(op.operands[0]);
  node->unwritten_b = lower.memory_load(op.operands[1]);
  node->kernels = &kernels_of(lower, op);
  lower.need_scratch(static_cast<size_t>(2 * (element_count(node->a_shape) + element_count(node->b_shape) +
                                              element_count(node->c_shape))) *
                         8 +
                     65536);
  return node;
}

const AddLoweringRule mma_{{.name = "mma", .lower = lower_mma, .reads_elements = reads_elements}};

}  // namespace
}  // namespace tile::cpu
