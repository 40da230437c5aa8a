// Distributed layouts: which register of which thread holds each element of a tile.
//
// A coordinate is a mixed-radix number. Each mode of it is read from the index of a level: the
// register, the lane of a warp, the warp of a block, the group, or the block of a cluster. The map
// is therefore a sum of modes, which describes blocked layouts, the fragments of ldmatrix, mma.sync
// and wgmma, and slices and permutations of all of them. Register extents are arbitrary; lane and
// warp extents are powers of two, so an odd factor becomes a repeat.
//
// A group is a warpgroup that multiplies (cuda/async/plan.h). In a kernel of groups, threads and
// warps are numbered within their group, which acts as the block; there may be three of them.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/op.h"

namespace tile::cuda {

enum class Level : uint8_t { reg, lane, warp, group, cta };

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
  // Modes may be given in any order. Register strides are renumbered in the order of the given
  // strides.
  Layout(Shape shape, std::vector<Mode> modes);

  const Shape& shape() const { return shape_; }
  const std::vector<Mode>& modes() const { return modes_; }  // by level, then stride
  int rank() const { return static_cast<int>(shape_.size()); }
  int registers() const;  // per thread
  // Returns how many elements of the axis the modes can address: at least its extent. Those past
  // the extent are padding.
  int64_t span(int axis) const;
  bool padded() const;
  // Returns how many adjacent elements along the axis the lowest registers hold.
  int vector_along(int axis) const;

  // The part of the coordinate that comes from the register, or from the thread within its block.
  int64_t of_register(int axis, int index) const;
  int64_t of_thread(int axis, int thread) const;
  int64_t of_group(int axis, int group) const;
  int64_t of_block(int axis, int block) const;  // the block of a cluster
  // Returns the bits of the thread number that no mode reads: threads that differ only there hold
  // the same elements.
  int replicas(int threads) const;
  int block_replicas(int blocks) const;  // for the block number within the cluster
  bool across_groups() const;            // true if groups hold different elements
  bool across_blocks() const;            // true if the blocks of a cluster hold different elements

  // Returns the layout without some axes and their registers; higher axes move down.
  Layout without(const std::vector<int64_t>& axes) const;
  // Returns the layout with all elements along an axis merged into one where `shape` has extent 1.
  Layout collapsed(const Shape& shape) const;
  // Axis i of the result is axes[i] of this layout.
  Layout permuted(const std::vector<int64_t>& axes) const;
  // Returns the layout of the same elements in row-major order under another shape; none if padding
  // or a mode prevents it.
  std::optional<Layout> reshaped(const Shape& shape) const;

  // Returns a layout with the same lanes, warps and blocks that holds adjacent elements along the
  // axis as far as possible: modes ascend from registers to lanes, warps and blocks. Vectors are
  // kept. If the lanes' parts of the other axes are shorter than `sector` elements, lanes precede
  // the remaining registers, which matches the order in memory.
  Layout in_order(int axis, int64_t sector) const;

  bool operator==(const Layout&) const = default;

 private:
  int64_t of_level(Level level, int axis, int index) const;
  bool across(Level level) const;
  Shape shape_;
  std::vector<Mode> modes_;
};

// Returns a layout that assigns lanes along `axis` first, with `vector` elements each, then along
// the other axes from the last to the first. Warps are assigned along the other axes first, so that
// a row stays within a warp if possible. The blocks of a cluster get the outermost parts, along the
// first axes.
Layout blocked(const Shape& shape, int axis, int vector, int warps, int blocks = 1);

inline int64_t bytes_of(const Type& type) { return element_count(type.shape) * info(type.dtype).bytes; }
inline bool is_tile(const Value* value) { return !value->type.is_array() && !value->type.is_scalar(); }

// Returns true if all registers hold one number: the value fits any layout, and its uses need not
// agree on one.
bool repeats_scalar(const Value* value);

// An element's linear index: the sum of coordinate * weight over its axes.
using Weights = std::vector<int64_t>;
Weights row_major(const Shape& shape);

// Returns the text of a mode, such as "r / 8 % 4 * 2", for an index below `count`.
std::string mode_text(const Mode& mode, std::string_view index, int count);
// Returns a description for inspection: "4 registers along axis 1, 32 lanes along axis 1 (4 apart),
// …".
std::string describe(const Layout& layout);

}  // namespace tile::cuda
