// Distributed layouts: which register of which thread holds each element of a tile.
//
// A coordinate is a mixed-radix number. Each mode of it is read from the index of a level: the register, the
// lane of a warp, the warp of a block, the block of a cluster. So the map is a sum of modes, which describes
// blocked layouts, the fragments of ldmatrix, mma.sync and wgmma, and slices and permutations of all of them.
// Extents of registers are any number, those of lanes and warps powers of two: an odd factor is a repeat.
// A warpgroup is 4 warps: what it holds are modes of the warp's number from 4 on.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/op.h"

namespace tile::cuda {

enum class Level : uint8_t { reg, lane, warp, cta };

// coordinate[axis] += index[level] / stride % extent * weight
struct Mode {
  Level level;
  int stride;
  int extent;
  int axis;
  int64_t weight;
  bool operator==(const Mode&) const = default;
};

class Layout {
 public:
  Layout() = default;
  // Modes may come in any order. Register strides are renumbered, in the order of the given strides.
  Layout(Shape shape, std::vector<Mode> modes);

  const Shape& shape() const { return shape_; }
  const std::vector<Mode>& modes() const { return modes_; }  // by level, then stride
  int rank() const { return static_cast<int>(shape_.size()); }
  int registers() const;  // a thread
  // Elements of the axis that modes can name: at least its extent; those past it are padding.
  int64_t span(int axis) const;
  bool padded() const;
  // How many elements in a row along the axis the lowest registers hold.
  int vector_along(int axis) const;

  // Part of the coordinate that the register, or the thread of its block, gives.
  int64_t of_register(int axis, int index) const;
  int64_t of_thread(int axis, int thread) const;
  int64_t of_block(int axis, int block) const;  // the block of a cluster
  // Bits of the thread's number that no mode reads: threads that differ there hold the same elements.
  int replicas(int threads) const;
  int block_replicas(int blocks) const;  // of the number of the block in its cluster
  bool across_blocks() const;            // whether the blocks of a cluster hold different elements

  // Returns the layout without some axes, whose registers go too; the axes above move down.
  Layout without(const std::vector<int64_t>& axes) const;
  // Elements along axes whose extent in `shape` is 1 become one.
  Layout collapsed(const Shape& shape) const;
  // Axis i of the result is axes[i] of this.
  Layout permuted(const std::vector<int64_t>& axes) const;
  // The same elements in row-major order under another shape; none where padding or a mode does not allow
  // it.
  std::optional<Layout> reshaped(const Shape& shape) const;

  // The same lanes, warps and blocks, that hold neighbours along the axis as far as that goes: modes count
  // on from registers to lanes, warps and blocks. Vectors stay; where the lanes' parts of other axes are
  // less than `sector` elements, lanes come before what registers hold beyond them, as memory has it.
  Layout in_order(int axis, int64_t sector) const;

  bool operator==(const Layout&) const = default;

 private:
  Shape shape_;
  std::vector<Mode> modes_;
};

// Lanes along `axis` first, `vector` elements each, then along the other axes from the last on; warps along
// the other axes first, so that a row stays within a warp where it can. The blocks of a cluster get the
// outermost parts, along the first axes.
Layout blocked(const Shape& shape, int axis, int vector, int warps, int blocks = 1);

inline bool is_tile(const Value* value) { return !value->type.is_array() && !value->type.is_scalar(); }

// One number in all registers: it has any layout, and its uses need not agree on one.
bool repeats_scalar(const Value* value);

// An element's linear index: the sum of coordinate * weight over its axes.
using Weights = std::vector<int64_t>;
Weights row_major(const Shape& shape);

// "r / 8 % 4 * 2": a mode of an index that counts to `count`.
std::string mode_text(const Mode& mode, std::string_view index, int count);
// "4 registers along axis 1, 32 lanes along axis 1 (4 apart), …": for inspection.
std::string describe(const Layout& layout);

}  // namespace tile::cuda
