// Block indices, extents and strides, and views of arrays.
#include <algorithm>

#include "cpu/interpreter/lowering_context.h"

namespace tile::cpu {
namespace {

struct GridNode final : OpNode {
  int axis, to;
  bool count;
  Signal run(Frame& frame) const override {
    frame.scalars[static_cast<size_t>(to)].i = (count ? frame.blocks : frame.block)[axis];
    return Signal::next;
  }
};
template <bool count>
std::unique_ptr<OpNode> lower_grid(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<GridNode>();
  node->axis = static_cast<int>(op.integer("axis"));
  node->to = lower.scalar(op.results[0]);
  node->count = count;
  return node;
}

struct ExtentNode final : OpNode {
  int array, axis, to;
  bool stride;
  Signal run(Frame& frame) const override {
    const ArrayRef& from = frame.arrays[static_cast<size_t>(array)];
    frame.scalars[static_cast<size_t>(to)].i =
        stride ? from.stride[axis] / info(from.dtype).bytes : from.size[axis] - from.first[axis];
    return Signal::next;
  }
};
template <bool stride>
std::unique_ptr<OpNode> lower_extent(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<ExtentNode>();
  node->array = lower.array(op.operands[0]);
  node->axis = static_cast<int>(op.integer("axis"));
  node->to = lower.scalar(op.results[0]);
  node->stride = stride;
  return node;
}

struct IndexNode final : OpNode {
  int from, to;
  std::vector<ScalarSlot> index;
  Signal run(Frame& frame) const override {
    const ArrayRef source = frame.arrays[static_cast<size_t>(from)];
    ArrayRef view = source;
    const int fixed = static_cast<int>(index.size());
    view.rank = source.rank - fixed;
    bool outside = false;
    for (int i = 0; i < fixed; ++i) {
      int64_t at = integer(frame, index[static_cast<size_t>(i)]);
      outside |= at < source.first[i] || at >= source.size[i];
      view.data += at * source.stride[i];
    }
    for (int i = 0; i < view.rank; ++i) {
      view.size[i] = source.size[i + fixed];
      view.stride[i] = source.stride[i + fixed];
      view.first[i] = source.first[i + fixed];
    }
    if (outside)  // loads return padding, stores do nothing
      for (int i = 0; i < view.rank; ++i) view.size[i] = 0;
    if (outside && view.rank == 0) {  // stores go to a dummy element
      thread_local int64_t nothing[2];
      view.data = reinterpret_cast<char*>(nothing);
      view.there = false;
    }
    frame.arrays[static_cast<size_t>(to)] = view;
    return Signal::next;
  }
};
std::unique_ptr<OpNode> lower_index(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<IndexNode>();
  node->from = lower.array(op.operands[0]);
  node->to = lower.array(op.results[0]);
  for (size_t i = 1; i < op.operands.size(); ++i) node->index.push_back(lower.index(op.operands[i]));
  return node;
}

struct SliceNode final : OpNode {
  int from, to, axis;
  ScalarSlot start, stop;
  Signal run(Frame& frame) const override {
    ArrayRef view = frame.arrays[static_cast<size_t>(from)];
    int64_t low = integer(frame, start), high = integer(frame, stop);
    view.data += low * view.stride[axis];
    view.first[axis] = std::max<int64_t>(view.first[axis] - low, 0);
    view.size[axis] = std::max(std::min(high, view.size[axis]) - low, view.first[axis]);
    frame.arrays[static_cast<size_t>(to)] = view;
    return Signal::next;
  }
};
std::unique_ptr<OpNode> lower_slice(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<SliceNode>();
  node->from = lower.array(op.operands[0]);
  node->to = lower.array(op.results[0]);
  node->axis = static_cast<int>(op.integer("axis"));
  node->start = lower.index(op.operands[1]);
  node->stop = lower.index(op.operands[2]);
  return node;
}

struct PermuteNode final : OpNode {
  int from, to;
  std::vector<int> axes;
  Signal run(Frame& frame) const override {
    const ArrayRef source = frame.arrays[static_cast<size_t>(from)];
    ArrayRef view = source;
    for (size_t i = 0; i < axes.size(); ++i) {
      view.size[i] = source.size[axes[i]];
      view.stride[i] = source.stride[axes[i]];
      view.first[i] = source.first[axes[i]];
    }
    frame.arrays[static_cast<size_t>(to)] = view;
    return Signal::next;
  }
};
std::unique_ptr<OpNode> lower_permute(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<PermuteNode>();
  node->from = lower.array(op.operands[0]);
  node->to = lower.array(op.results[0]);
  for (int64_t axis : op.integers("axes")) node->axes.push_back(static_cast<int>(axis));
  return node;
}

const AddLoweringRule bid_{{"bid", lower_grid<false>, true}};
const AddLoweringRule num_blocks_{{"num_blocks", lower_grid<true>, true}};
const AddLoweringRule dim_{{"dim", lower_extent<false>, true}};
const AddLoweringRule stride_{{"stride", lower_extent<true>, true}};
const AddLoweringRule index_{{"index", lower_index, true}};
const AddLoweringRule slice_{{"slice", lower_slice, true}};
const AddLoweringRule permute_{{"permute_array", lower_permute, true}};

}  // namespace
}  // namespace tile::cpu
