// Op nodes that only change descriptors: loads left in memory, broadcasts, permutations, unit axes, arange,
// and casts between lanes of the same format.
#include <algorithm>
#include <cstring>

#include "cpu/interpreter/lowering_context.h"
#include "cpu/interpreter/tables.h"

namespace tile::cpu {
namespace {

// Returns a tile of rank 0: views add axes that repeat it.
TileRef of_scalar(const Scalar& scalar, DType dtype) {
  TileRef ref;
  ref.data = const_cast<char*>(scalar.bytes);
  ref.dtype = dtype;
  return ref;
}

// A tile computed from one tile or scalar without access to elements.
struct ViewNode : OpNode {
  int from = -1, scalar = -1, to = -1;
  DType scalar_dtype = DType::f32;
  void connect(LoweringContext& lower, const Op& op) {
    const Value* operand = op.operands[0];
    if (operand->type.is_scalar()) {
      scalar = lower.scalar(operand);
      scalar_dtype = operand->type.dtype;
    } else {
      from = lower.tile(operand);
    }
    to = lower.tile(op.results[0]);
  }
  TileRef source(const Frame& frame) const {
    return scalar >= 0 ? of_scalar(frame.scalars[static_cast<size_t>(scalar)], scalar_dtype)
                       : frame.tiles[static_cast<size_t>(from)];
  }
};

struct AxesNode final : ViewNode {
  std::vector<int> axis;    // the source's axis for each axis of the result; -1: a new one of extent 1
  std::vector<int> gone;    // axes of extent 1 that the result lacks
  std::vector<bool> grows;  // repeated to the result's extent
  Signal run(Frame& frame) const override {
    const TileRef source = this->source(frame);
    TileRef& view = frame.tiles[static_cast<size_t>(to)];
    view.data = source.data;
    view.dtype = source.dtype;
    view.lanes = source.lanes;
    view.pad = source.pad;
    view.rank = static_cast<int>(axis.size());
    bool outside = false;
    auto missing = [&](int i) { return source.axes[i].first > 0 || source.axes[i].valid < 1; };
    for (int i : gone) outside |= missing(i);
    for (size_t i = 0; i < axis.size(); ++i) {
      const int j = axis[i];
      if (j < 0 || (grows[i] && !source.limited(j))) {
        view.axes[i] = {1, 0, 0, unlimited};
      } else if (grows[i]) {  // its only element may be padding
        outside |= missing(j);
        view.axes[i] = {1, 0, 0, unlimited};
      } else {
        view.axes[i] = source.axes[j];
      }
    }
    if (outside && !axis.empty()) view.axes[0].valid = 0;
    return Signal::next;
  }
};

std::unique_ptr<OpNode> lower_broadcast(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<AxesNode>();
  node->connect(lower, op);
  const Shape &from = op.type(0).shape, &to = op.results[0]->type.shape;
  for (size_t i = 0; i < to.size(); ++i) {
    node->axis.push_back(from.empty() ? -1 : static_cast<int>(i));
    node->grows.push_back(!from.empty() && from[i] != to[i]);
  }
  return node;
}

std::unique_ptr<OpNode> lower_permute(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<AxesNode>();
  node->connect(lower, op);
  for (int64_t axis : op.integers("axes")) node->axis.push_back(static_cast<int>(axis));
  node->grows.assign(node->axis.size(), false);
  return node;
}

bool is_unit_reshape(const LoweringContext&, const Op& op) {
  return !op.results[0]->type.is_scalar() && (op.type(0).is_scalar() || is_tile_view(op));
}
std::unique_ptr<OpNode> lower_unit_reshape(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<AxesNode>();
  node->connect(lower, op);
  const Shape &from = op.type(0).shape, &to = op.results[0]->type.shape;
  size_t at = 0;
  auto skip_nodes = [&] {
    for (; at < from.size() && from[at] == 1; ++at) node->gone.push_back(static_cast<int>(at));
  };
  for (int64_t extent : to) {
    if (extent != 1) {
      skip_nodes();
      node->axis.push_back(static_cast<int>(at++));
    } else {
      node->axis.push_back(-1);
    }
    node->grows.push_back(false);
  }
  skip_nodes();
  return node;
}

struct LoadNode final : OpNode {
  TileAddress address;
  int to;
  Signal run(Frame& frame) const override {
    frame.tiles[static_cast<size_t>(to)] = address.resolve(frame);
    return Signal::next;
  }
};
bool stays_in_memory(const LoweringContext& lower, const Op& op) { return lower.stays_in_memory(op); }
std::unique_ptr<OpNode> lower_load(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<LoadNode>();
  node->address = lower.address(op, 1, op.integers("shape"));
  node->to = lower.tile(op.results[0]);
  return node;
}

struct LoadCopyNode final : OpNode {
  TileAddress address;
  int to, slot, scalar;
  DType dtype;
  Signal run(Frame& frame) const override {
    TileRef tile = address.resolve(frame);
    const int rank = static_cast<int>(address.shape.size());
    char* data = scalar >= 0 ? frame.scalars[static_cast<size_t>(scalar)].bytes
                             : frame.slots[static_cast<size_t>(slot)];
    int64_t extents[max_rank];
    for (int i = 0; i < rank; ++i) extents[i] = tile.axes[i].extent;
    if (address.there(frame))
      copy_lanes(tile, rank, extents, data);
    else
      move_row(dtype).fill(data, address.pad, 1);
    if (scalar < 0) frame.tiles[static_cast<size_t>(to)] = dense_lanes(data, dtype, rank, extents);
    return Signal::next;
  }
};
std::unique_ptr<OpNode> lower_load_copy(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<LoadCopyNode>();
  const Value* result = op.results[0];
  node->address = lower.address(op, 1, op.integers("shape"));
  bool scalar = result->type.is_scalar();
  node->scalar = scalar ? lower.scalar(result) : -1;
  node->to = scalar ? -1 : lower.tile(result);
  node->slot = scalar ? -1 : lower.slot(result);
  node->dtype = result->type.dtype;
  return node;
}

bool keeps_lanes(const LoweringContext& lower, const Op& op) { return lower.keeps_lanes(op); }
struct SameNode final : ViewNode {
  Signal run(Frame& frame) const override {
    frame.tiles[static_cast<size_t>(to)] = source(frame);
    return Signal::next;
  }
};
std::unique_ptr<OpNode> lower_lane_cast(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<SameNode>();
  node->connect(lower, op);
  return node;
}

struct ArangeNode final : OpNode {
  std::vector<char> lanes;
  TileRef tile;
  int to;
  Signal run(Frame& frame) const override {
    frame.tiles[static_cast<size_t>(to)] = tile;
    return Signal::next;
  }
};
std::unique_ptr<OpNode> lower_arange(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<ArangeNode>();
  const int64_t size = op.integer("size");
  const DType dtype = op.dtype("dtype");
  const int64_t bytes = lane_bytes(lane_of(dtype));
  node->lanes.resize(static_cast<size_t>(size * bytes));
  for (int64_t i = 0; i < size; ++i) {
    Constant element = Constant::of(dtype, i);
    Scalar lane;
    if (lane_of(dtype) == Lane::f32)
      lane.f = static_cast<float>(element.floating);
    else if (lane_of(dtype) == Lane::f64)
      lane.d = element.floating;
    else
      lane.i = element.integer;
    std::memcpy(&node->lanes[static_cast<size_t>(i * bytes)], lane.bytes, static_cast<size_t>(bytes));
  }
  node->tile = dense_lanes(node->lanes.data(), dtype, 1, &size);
  node->to = lower.tile(op.results[0]);
  return node;
}

const AddLoweringRule broadcast_{{"broadcast", lower_broadcast, true}};
const AddLoweringRule permute_{{"permute", lower_permute, true}};
const AddLoweringRule reshape_{{"reshape", lower_unit_reshape, true, is_unit_reshape}};
const AddLoweringRule load_{{"load", lower_load, true, stays_in_memory}};
const AddLoweringRule load_copy_{{"load", lower_load_copy, false, [](const LoweringContext& l, const Op& op) {
                                    return !stays_in_memory(l, op);
                                  }}};
const AddLoweringRule astype_{{"astype", lower_lane_cast, true, keeps_lanes}};
const AddLoweringRule arange_{{"arange", lower_arange, true}};

}  // namespace
}  // namespace tile::cpu
