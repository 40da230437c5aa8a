// Block indices, extents and strides, and views of arrays.
#include <algorithm>

#include "cpu/lower.h"

namespace tile::cpu {
namespace {

struct GridUnit final : Unit {
  int axis, to;
  bool count;
  Signal run(Frame& frame) const override {
    frame.scalars[static_cast<size_t>(to)].i = (count ? frame.blocks : frame.block)[axis];
    return Signal::next;
  }
};
template <bool count>
std::unique_ptr<Unit> lower_grid(Lower& lower, const Op& op) {
  auto unit = std::make_unique<GridUnit>();
  unit->axis = static_cast<int>(op.integer("axis"));
  unit->to = lower.scalar(op.results[0]);
  unit->count = count;
  return unit;
}

struct ExtentUnit final : Unit {
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
std::unique_ptr<Unit> lower_extent(Lower& lower, const Op& op) {
  auto unit = std::make_unique<ExtentUnit>();
  unit->array = lower.array(op.operands[0]);
  unit->axis = static_cast<int>(op.integer("axis"));
  unit->to = lower.scalar(op.results[0]);
  unit->stride = stride;
  return unit;
}

struct IndexUnit final : Unit {
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
    if (outside)  // every load from it is padding, every store dropped
      for (int i = 0; i < view.rank; ++i) view.size[i] = 0;
    if (outside && view.rank == 0) {  // what is stored goes where no one reads
      thread_local int64_t nothing[2];
      view.data = reinterpret_cast<char*>(nothing);
      view.there = false;
    }
    frame.arrays[static_cast<size_t>(to)] = view;
    return Signal::next;
  }
};
std::unique_ptr<Unit> lower_index(Lower& lower, const Op& op) {
  auto unit = std::make_unique<IndexUnit>();
  unit->from = lower.array(op.operands[0]);
  unit->to = lower.array(op.results[0]);
  for (size_t i = 1; i < op.operands.size(); ++i) unit->index.push_back(lower.index(op.operands[i]));
  return unit;
}

struct SliceUnit final : Unit {
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
std::unique_ptr<Unit> lower_slice(Lower& lower, const Op& op) {
  auto unit = std::make_unique<SliceUnit>();
  unit->from = lower.array(op.operands[0]);
  unit->to = lower.array(op.results[0]);
  unit->axis = static_cast<int>(op.integer("axis"));
  unit->start = lower.index(op.operands[1]);
  unit->stop = lower.index(op.operands[2]);
  return unit;
}

struct PermuteUnit final : Unit {
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
std::unique_ptr<Unit> lower_permute(Lower& lower, const Op& op) {
  auto unit = std::make_unique<PermuteUnit>();
  unit->from = lower.array(op.operands[0]);
  unit->to = lower.array(op.results[0]);
  for (int64_t axis : op.integers("axes")) unit->axes.push_back(static_cast<int>(axis));
  return unit;
}

const AddLowering bid_{{"bid", lower_grid<false>, true}};
const AddLowering num_blocks_{{"num_blocks", lower_grid<true>, true}};
const AddLowering dim_{{"dim", lower_extent<false>, true}};
const AddLowering stride_{{"stride", lower_extent<true>, true}};
const AddLowering index_{{"index", lower_index, true}};
const AddLowering slice_{{"slice", lower_slice, true}};
const AddLowering permute_{{"permute_array", lower_permute, true}};

}  // namespace
}  // namespace tile::cpu
