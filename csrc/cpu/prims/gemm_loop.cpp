// A loop whose body is acc = mma(load, load, acc) becomes one blocked product.
#include <algorithm>
#include <cstring>
#include <optional>

#include "cpu/interpreter/control.h"
#include "cpu/interpreter/gemm_view.h"
#include "cpu/interpreter/lowering_context.h"
#include "cpu/interpreter/tables.h"
#include "cpu/interpreter/watch.h"

namespace tile::cpu {
namespace {

// An operand of the mma: a load with the loop index among its indices.
struct OperandLoad {
  const Op* load;
  bool transposed;  // the tile has the load's axes exchanged
  size_t k_index;   // the position of the loop index
};
struct Pattern {
  const Op* mma;
  OperandLoad a, b;
};

std::optional<OperandLoad> operand_load(const LoweringContext& lower, const Value* value, const Block& body,
                                        bool k_is_column) {
  OperandLoad found{nullptr, false, 0};
  const Op* op = value->definition;
  while (op && op->parent == &body && !op->is("load")) {
    bool widens = op->is("astype") && op->results[0]->type.dtype == DType::f32 &&
                  lane_of(op->type(0).dtype) == Lane::f32;
    if (op->is("permute"))
      found.transposed = !found.transposed;
    else if (!widens)
      return std::nullopt;
    op = op->operands[0]->definition;
  }
  if (!op || op->parent != &body || !op->is("load") || op->operands.size() != 3 ||
      lower.is_written(op->operands[0]) || op->integers("steps") != op->integers("shape") ||
      op->number("pad") != 0)
    return std::nullopt;
  found.load = op;
  found.k_index = k_is_column != found.transposed ? 1 : 0;
  const Value* index = body.arguments[0];
  bool by_loop = op->operands[1 + found.k_index] == index && op->operands[2 - found.k_index] != index;
  const Value* other = op->operands[2 - found.k_index];
  // Everything but the index must be computed outside the loop.
  auto outside = [&](const Value* v) {
    return v->owner != &body || (v->definition && v->definition->is("constant"));
  };
  if (!by_loop || !outside(other) || !outside(op->operands[0])) return std::nullopt;
  return found;
}

std::optional<Pattern> match(const LoweringContext& lower, const Op& op) {
  const Block& body = op.region();
  if (op.results.size() != 1 || op.results[0]->type.rank() != 2) return std::nullopt;
  const Op* end = body.terminator();
  const Op* mma = end->operands[0]->definition;
  if (!mma || mma->parent != &body || !mma->is("mma") || mma->operands[2] != body.arguments[1] ||
      mma->results[0]->type.dtype == DType::f16)
    return std::nullopt;
  auto a = operand_load(lower, mma->operands[0], body, true),
       b = operand_load(lower, mma->operands[1], body, false);
  if (!a || !b) return std::nullopt;
  for (const auto& inner : body.ops)  // no other op is allowed
    if (!inner->is("constant") && !inner->is("permute") && !inner->is("astype") && inner.get() != a->load &&
        inner.get() != b->load && inner.get() != mma && inner.get() != end)
      return std::nullopt;
  return Pattern{mma, *a, *b};
}

// Limits of packed operands during a launch, in bytes. A left operand of 1024 x 1024 float32 fits in each
// thread's cache, one of 2048 x 2048 in the shared cache: blocks of rows, rounded up to whole panels, take
// slightly more than 4 and 16 MiB.
struct Room {
  size_t strips, left;
};
constexpr Room own_room{size_t{2} << 20, size_t{5} << 20}, shared_room{size_t{20} << 20, size_t{20} << 20};
// The number of multiplications of a block from which operands are shared. Below it, packing is faster than
// waiting for other threads.
constexpr int64_t shared_from = int64_t{1} << 23;

struct GemmLoopNode final : OpNode {
  ScalarSlot low, high, step;
  TileAddress a, b;  // their loop index is a scalar of this node, set to the first index
  size_t a_k, b_k;
  bool a_transposed, b_transposed;
  int index, accumulator, to, slot;
  int64_t m, n, block_k;
  size_t loops;  // number of such loops in the block: each may have its own operands
  DType dtype;
  const GemmKernels* kernels;
  OpNodes plain;  // for cases that the blocked product does not support: padding in front, a step

  Signal run(Frame& frame) const override {
    const int64_t first = integer(frame, low),
                  iterations = std::max<int64_t>(integer(frame, high) - first, 0);
    TileRef x = all_iterations(frame, a, a_k, first, iterations),
            y = all_iterations(frame, b, b_k, first, iterations);
    bool front = false;
    for (int i = 0; i < 2; ++i) front |= x.axes[i].first > 0 || y.axes[i].first > 0;
    if (front || integer(frame, step) != 1) return run_nodes(plain, frame);
    auto there = [](const TileRef& tile, size_t axis, int64_t most) {
      return std::clamp<int64_t>(tile.axes[axis].valid, 0, most);
    };
    const int64_t depth = iterations * block_k;
    const int64_t k = std::min(there(x, a_k, depth), there(y, b_k, depth));
    const int64_t rows = there(x, 1 - a_k, m), cols = there(y, 1 - b_k, n);
    const TileRef& c = frame.tiles[static_cast<size_t>(accumulator)];
    int64_t extents[2] = {std::min(m, std::max(c.axes[0].extent, rows + (rows < m))),
                          std::min(n, std::max(c.axes[1].extent, cols + (cols < n)))};
    size_t mark = frame.scratch.mark();
    char* out = frame.slots[static_cast<size_t>(slot)];
    bool add = begin_product(c, 2, extents, out, rows == extents[0] && cols == extents[1], frame);
    if (rows > 0 && cols > 0) {
      MatrixView left = view(x, a_transposed), right = view(y, b_transposed);
      // If one block has all rows, no other block uses these columns: they are packed piece by piece, or not
      // at all.
      const bool once = frame.arrays[static_cast<size_t>(a.array)].size[1 - a_k] <= m;
      if (const FewRows* few = once ? kernels->reads_in_place(rows, x.dtype, right, y.dtype) : nullptr) {
        few_rows(*few, frame, rows, cols, k, left, x.dtype, right, y.dtype, out, extents[1], add);
      } else if (take_registers(*kernels, frame); once) {
        streamed(frame, rows, cols, k, left, x.dtype, right, y.dtype, out, extents[1], add);
      } else {
        by_blocks(frame, rows, cols, k, left, x.dtype, right, y.dtype, out, extents[1], add);
      }
    }
    frame.tiles[static_cast<size_t>(to)] = dense_lanes(out, dtype, 2, extents);
    frame.scratch.release(mark);
    return Signal::next;
  }

  // Returns a descriptor of the tiles of all iterations, which are adjacent.
  TileRef all_iterations(Frame& frame, const TileAddress& address, size_t k_axis, int64_t first,
                         int64_t iterations) const {
    frame.scalars[static_cast<size_t>(index)].i = first;
    TileRef tile = address.resolve(frame);
    const ArrayRef& array = frame.arrays[static_cast<size_t>(address.array)];
    int64_t left = array.size[k_axis] - first * block_k;
    tile.axes[k_axis].valid = left >= iterations * block_k ? unlimited : std::max<int64_t>(left, 0);
    return tile;
  }

  static MatrixView view(const TileRef& tile, bool transposed) {
    const long bytes = info(tile.dtype).bytes;
    long rows = tile.axes[0].stride / bytes, cols = tile.axes[1].stride / bytes;
    return transposed ? MatrixView{tile.data, cols, rows} : MatrixView{tile.data, rows, cols};
  }

  // Blocks of one column of the grid share the packed strip; those of one row share the left operand.
  void by_blocks(Frame& frame, int64_t rows, int64_t cols, int64_t k, const MatrixView& left,
                 DType left_dtype, const MatrixView& right, DType right_dtype, void* out, long row_stride,
                 bool add) const {
    const auto key = [&](const MatrixView& view, int64_t rows, int64_t columns, DType dtype, bool is_left) {
      return PackedOperandCache::Key{view.data,          rows,  columns, view.row_stride,
                                     view.column_stride, dtype, is_left, kernels};
    };
    const bool shared = frame.shared_panels && m * n * k >= shared_from;
    const Room& room = shared ? shared_room : own_room;
    PackedOperands& panels = shared ? *frame.shared_panels : *frame.own_panels;
    const size_t strip_bytes = bytes_of(kernels->strip_size(k, n));
    const PackedOperandCache::Held strip =
        panels.right.hold(key(right, k, cols, right_dtype, false), strip_bytes,
                          std::max(static_cast<size_t>(panels.threads), room.strips / strip_bytes));
    const size_t blocks_bytes = bytes_of(kernels->blocks_size(m, k)),
                 kept = blocks_kept(frame, blocks_bytes, room.left / loops);
    const auto fill_strip = [&] {
      strip.fill(kernels->strip_parts(k, cols),
                 [&](int64_t part) { kernels->pack_strip(k, cols, right, right_dtype, strip.data(), part); });
    };
    if (kept == 0) {
      fill_strip();
      kernels->blocked(rows, cols, k, left, left_dtype, strip.data(), out, row_stride, add,
                       take(frame, kernels->blocked_scratch_size(rows, k)));
      return;
    }
    const PackedOperandCache::Held blocks =
        panels.left.hold(key(left, rows, k, left_dtype, true), blocks_bytes, kept);
    blocks.fill(kernels->block_parts(k),
                [&](int64_t part) { kernels->pack_blocks(rows, k, left, left_dtype, blocks.data(), part); });
    fill_strip();
    kernels->packed_blocks(rows, cols, k, blocks.data(), strip.data(), out, row_stride, add);
  }

  // Returns how many blocks of left operands are kept for the next strip of columns; 0 if a whole matrix does
  // not fit.
  size_t blocks_kept(const Frame& frame, size_t bytes, size_t room) const {
    const int64_t all_rows = frame.arrays[static_cast<size_t>(a.array)].size[1 - a_k],
                  all_columns = frame.arrays[static_cast<size_t>(b.array)].size[1 - b_k];
    const auto count = static_cast<size_t>((all_rows + m - 1) / m);
    return all_columns > n && count * bytes <= room ? room / bytes : 0;
  }
  // Returns at least 1, because limits are divided by it.
  size_t bytes_of(int64_t elements) const {
    return static_cast<size_t>(std::max<int64_t>(elements, 1) * kernels->element_bytes);
  }

  void* take(Frame& frame, int64_t elements) const {
    return frame.scratch.take(static_cast<size_t>(elements * kernels->element_bytes));
  }

  static constexpr int64_t few_rows_step = 1024;  // so that the rows of A fit L1
  static constexpr long few_rows_run = 16;  // a processor reads ahead along the rows of B if these are few
  void few_rows(const FewRows& functions, Frame& frame, int64_t rows, int64_t cols, int64_t k,
                MatrixView left, DType left_dtype, MatrixView right, DType right_dtype, void* out,
                long row_stride, bool add) const {
    void* copied = frame.scratch.take(static_cast<size_t>(rows * few_rows_step * 8));
    for (int64_t at = 0; at < std::max<int64_t>(k, 1); at += few_rows_step) {
      frame.watch->look();
      const int64_t depth = std::min(few_rows_step, k - at);
      functions.rows[static_cast<int>(left_dtype)](rows, depth, left, copied);
      functions.multiply[static_cast<int>(right_dtype)](rows, cols, depth, few_rows_run, copied, right, out,
                                                        row_stride, add || at > 0);
      advance(left, few_rows_step * left.column_stride, left_dtype);
      advance(right, few_rows_step * right.row_stride, right_dtype);
    }
  }

  static void advance(MatrixView& view, long elements, DType dtype) {
    view.data = static_cast<const char*>(view.data) + elements * info(dtype).bytes;
  }
  void streamed(Frame& frame, int64_t rows, int64_t cols, int64_t k, MatrixView left, DType left_dtype,
                MatrixView right, DType right_dtype, void* out, long row_stride, bool add) const {
    const int64_t depth_step = kernels->streamed_depth;
    void* packed = take(frame, kernels->rows_size(rows, depth_step));
    void* scratch = take(frame, kernels->streamed_scratch_size(depth_step, cols));
    for (int64_t at = 0; at < std::max<int64_t>(k, 1); at += depth_step) {
      frame.watch->look();
      const int64_t depth = std::min(depth_step, k - at);
      kernels->pack_rows(rows, depth, left, left_dtype, packed);
      kernels->streamed(rows, cols, depth, packed, right, right_dtype, out, row_stride, add || at > 0,
                        scratch);
      advance(left, depth_step * left.column_stride, left_dtype);
      advance(right, depth_step * right.row_stride, right_dtype);
    }
  }
};

bool applies(const LoweringContext& lower, const Op& op) { return match(lower, op).has_value(); }

std::unique_ptr<OpNode> lower_gemm_loop(LoweringContext& lower, const Op& op) {
  Pattern pattern = *match(lower, op);
  auto node = std::make_unique<GemmLoopNode>();
  const Block& body = op.region();
  node->low = lower.index(op.operands[0]);
  node->high = lower.index(op.operands[1]);
  node->step = lower.index(op.operands[2]);
  node->index = lower.scalar(body.arguments[0]);
  node->a = lower.address(*pattern.a.load, 1, pattern.a.load->integers("shape"));
  node->b = lower.address(*pattern.b.load, 1, pattern.b.load->integers("shape"));
  node->a_k = pattern.a.k_index;
  node->b_k = pattern.b.k_index;
  node->a_transposed = pattern.a.transposed;
  node->b_transposed = pattern.b.transposed;
  const Shape &a_shape = pattern.mma->type(0).shape, &c_shape = pattern.mma->type(2).shape;
  node->m = c_shape[0];
  node->n = c_shape[1];
  node->block_k = a_shape[1];
  node->dtype = pattern.mma->type(2).dtype;
  node->kernels = &gemm_kernels(pattern.mma->type(0).dtype, pattern.mma->type(1).dtype, node->dtype);
  lower.need_panels();
  node->loops =
      static_cast<size_t>(std::count_if(op.parent->ops.begin(), op.parent->ops.end(), [&](const auto& other) {
        return other->is("for") && match(lower, *other);
      }));
  node->plain.push_back(control_node(lower, op));  // allocates the result's tile
  node->accumulator = lower.tile(op.operands[3]);
  node->to = lower.tile(op.results[0]);
  node->slot = lower.slot(op.results[0]);
  const GemmKernels& kernels = *node->kernels;
  const int64_t packed = std::max(kernels.blocked_scratch_size(node->m, kernels.block_depth),
                                  kernels.rows_size(node->m, kernels.streamed_depth) +
                                      kernels.streamed_scratch_size(kernels.streamed_depth, node->n));
  constexpr int64_t copied = GemmKernels::most_few_rows * GemmLoopNode::few_rows_step;
  lower.need_scratch(static_cast<size_t>(std::max(packed, copied) * 8 + 2 * node->m * node->n * 8) + 65536);
  return node;
}

const AddLoweringRule gemm_loop_{{"for", lower_gemm_loop, false, applies}};

}  // namespace
}  // namespace tile::cpu
