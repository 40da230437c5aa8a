// extract and insert. Of a tile in memory only the sub-tile is read.
#include <algorithm>
#include <cstring>

#include "cpu/interpreter/operand.h"
#include "cpu/interpreter/tables.h"

namespace tile::cpu {
namespace {

// A sub-tile within a tile of lanes.
struct Box {
  Shape whole, part;
  std::vector<ScalarSlot> index;
  int64_t bytes;  // of a lane

  Box(LoweringContext& lower, const Op& op, size_t first_index, const Shape& shape)
      : whole(op.type(0).shape),
        part(shape.empty() ? Shape(whole.size(), 1) : shape),
        bytes(lane_bytes(lane_of(op.type(0).dtype))) {
    for (size_t i = first_index; i < op.operands.size(); ++i) index.push_back(lower.index(op.operands[i]));
  }
  Box() = default;

  // Returns the sub-tile's first element along an axis.
  int64_t start(const Frame& frame, size_t axis) const {
    const int64_t last = whole[axis] / part[axis] - 1;
    return std::clamp<int64_t>(integer(frame, index[axis]), 0, last) * part[axis];
  }
  // Returns a descriptor of the sub-tile, given that of the tile.
  TileRef within(const Frame& frame, const TileRef& tile) const {
    TileRef view = tile;
    for (size_t i = 0; i < whole.size(); ++i) {
      const auto axis = static_cast<int>(i);
      TileRef::Axis& along = view[axis];
      // An axis without limits repeats its last element.
      const int64_t first = start(frame, i),
                    shift = tile.limited(axis) ? first : std::min(first, along.extent - 1);
      view.data += shift * along.stride;
      along.extent = std::clamp<int64_t>(along.extent - shift, 1, part[i]);
      along.first = std::max<int64_t>(along.first - shift, 0);
      if (along.valid != unlimited) along.valid = std::max<int64_t>(along.valid - shift, 0);
    }
    return view;
  }
  // Calls visit(byte of the tile, byte of the sub-tile, bytes) for each line along the last axis.
  template <class Visit>
  void each_line(const Frame& frame, const Visit& visit) const {
    const size_t rank = whole.size();
    int64_t starts[max_rank], at[max_rank] = {};
    for (size_t i = 0; i < rank; ++i) starts[i] = start(frame, i);
    const int64_t line = rank ? part[rank - 1] : 1;
    for (int64_t done = 0, all = element_count(part); done < all; done += line) {
      int64_t offset = 0;
      for (size_t i = 0; i < rank; ++i) offset = offset * whole[i] + starts[i] + at[i];
      visit(offset * bytes, done * bytes, static_cast<size_t>(line * bytes));
      for (size_t i = rank; i-- > 1;) {
        if (++at[i - 1] < part[i - 1]) break;
        at[i - 1] = 0;
      }
    }
  }
};

struct ExtractNode final : OpNode {
  WholeOperand from;
  WholeResult to;
  Box box;
  Signal run(Frame& frame) const override {
    char* out = to.lanes(frame);
    if (from.scalar >= 0)
      std::memcpy(out, from.lanes(frame), static_cast<size_t>(box.bytes));
    else
      copy_lanes(box.within(frame, frame.tiles[static_cast<size_t>(from.tile)]),
                 static_cast<int>(box.part.size()), box.part.data(), out);
    if (to.scalar < 0) to.finish(frame);
    return Signal::next;
  }
};
std::unique_ptr<OpNode> lower_extract(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<ExtractNode>();
  node->from = WholeOperand::of(lower, op.operands[0]);
  node->to = WholeResult::of(lower, op.results[0]);
  node->box = Box(lower, op, 1, op.integers("shape"));
  return node;
}

struct InsertNode final : OpNode {
  WholeOperand from, value;
  WholeResult to;
  Box box;
  Signal run(Frame& frame) const override {
    size_t mark = frame.scratch.mark();
    const char *lanes = from.lanes(frame), *given = value.lanes(frame);
    char* out = to.lanes(frame);
    std::memcpy(out, lanes, static_cast<size_t>(to.count() * box.bytes));
    box.each_line(frame, [&](int64_t whole, int64_t part, size_t bytes) {
      std::memcpy(out + whole, given + part, bytes);
    });
    if (to.scalar < 0) to.finish(frame);
    frame.scratch.release(mark);
    return Signal::next;
  }
};
std::unique_ptr<OpNode> lower_insert(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<InsertNode>();
  node->from = WholeOperand::of(lower, op.operands[0]);
  node->value = WholeOperand::of(lower, op.operands[1]);
  node->to = WholeResult::of(lower, op.results[0]);
  node->box = Box(lower, op, 2, op.type(1).shape);
  return node;
}

const AddLoweringRule extract_{{"extract", lower_extract}};
const AddLoweringRule insert_{{"insert", lower_insert}};

}  // namespace
}  // namespace tile::cpu
