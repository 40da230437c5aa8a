// The state of a running block: tile descriptors, scalars, arrays, and the arena of tile memory.
#pragma once
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "cpu/gemm/packed_operand_cache.h"
#include "cpu/gemm/packed_tiles.h"
#include "cpu/interpreter/lane.h"
#include "ir/type.h"
#include "support/aligned_memory.h"

namespace tile::cpu {

inline constexpr int max_rank = 8;
inline constexpr int64_t unlimited = INT64_MAX / 4;

// A tile at run time. Along an axis only `extent` elements need to exist; the last one is repeated for the
// rest. A scalar can therefore fill any shape, and a tile that crosses the edge of its array ends with one
// padding element. A tile may stay in memory without being copied: elements outside [first, valid) are then
// `pad`.
struct TileRef {
  char* data = nullptr;  // address of element [0, 0, …]
  DType dtype = DType::f32;
  bool lanes = true;     // data holds lanes; false: elements in their memory format
  bool streams = false;  // for stores: the array is written past the caches
  int rank = 0;
  double pad = 0;
  struct Axis {
    int64_t extent, stride, first, valid;  // stride in bytes; valid == unlimited: no padding
  };
  Axis axes[max_rank];

  TileRef() = default;
  TileRef(const TileRef& other) { *this = other; }
  TileRef& operator=(const TileRef& other) {  // performance: copies only existing axes
    data = other.data;
    dtype = other.dtype;
    lanes = other.lanes;
    streams = other.streams;
    rank = other.rank;
    pad = other.pad;
    for (int i = 0; i < rank; ++i) axes[i] = other.axes[i];
    return *this;
  }
  Axis& operator[](int axis) { return axes[axis]; }
  const Axis& operator[](int axis) const { return axes[axis]; }
  bool limited(int axis) const { return axes[axis].valid != unlimited || axes[axis].first > 0; }

  // Returns true if everything but the address is equal.
  bool same_form(const TileRef& other) const {
    return dtype == other.dtype && lanes == other.lanes && streams == other.streams && rank == other.rank &&
           std::memcmp(&pad, &other.pad, sizeof pad) == 0 &&
           std::memcmp(axes, other.axes, sizeof(Axis) * static_cast<size_t>(rank)) == 0;
  }
  bool in_bounds(int axis) const { return axes[axis].first <= 0 && axes[axis].valid >= axes[axis].extent; }
};

// An array argument, or a view of one.
struct ArrayRef {
  char* data = nullptr;
  DType dtype = DType::f32;
  int rank = 0;
  int64_t size[max_rank] = {};
  int64_t stride[max_rank] = {};  // in bytes
  int64_t first[max_rank] = {};   // elements before this index do not exist, after slice()
  bool streams = false;           // too large to stay in a cache after a write
  bool there = true;              // rank 0: false if the element does not exist; `data` is then unused
};

union Scalar {
  int64_t i = 0;
  uint64_t u;
  float f;
  double d;
  char bytes[8];
};

// A stack allocator: memory is released down to a mark.
class Scratch {
 public:
  void reserve(size_t bytes) { memory_.at_least(bytes); }
  char* take(size_t bytes);
  template <class T>
  T* take_array(size_t count) {
    return reinterpret_cast<T*>(take(count * sizeof(T) + 1));
  }
  size_t mark() const { return used_; }
  void release(size_t mark) { used_ = mark; }

 private:
  std::vector<AlignedMemory> spill_;  // allocations beyond the reserved memory
  AlignedMemory memory_;
  size_t used_ = 0;
};

// State that a node caches between its runs.
struct NodeState {
  virtual ~NodeState() = default;
  virtual bool lasts() const = 0;  // false: invalid in the next launch, when arrays may have changed
};
struct NodeStateSlot {
  std::unique_ptr<NodeState> states[2];  // latest first: a loop's first iteration often differs
  bool ran = false;
};

class Watch;

struct Frame {
  std::vector<TileRef> tiles;
  std::vector<Scalar> scalars;
  std::vector<ArrayRef> arrays;
  std::vector<char*> slots;  // arena memory by slot; loop-carried tiles exchange slots
  Scratch scratch;
  int64_t block[3] = {}, blocks[3] = {};
  std::vector<NodeStateSlot>* node_states = nullptr;  // by numbers that LoweringContext assigns
  PackedTiles packed;
  PackedOperands* own_panels = nullptr;     // this thread's
  PackedOperands* shared_panels = nullptr;  // shared by the launch's threads; null: each thread has its own
  void (*give_back)() = nullptr;            // releases registers that products acquired
  Watch* watch = nullptr;                   // of this launch
};

enum class Signal : uint8_t { next, leave_loop, next_iteration };

// One step of a compiled block.
struct OpNode {
  virtual ~OpNode() = default;
  virtual Signal run(Frame& frame) const = 0;
};
using OpNodes = std::vector<std::unique_ptr<OpNode>>;

inline Signal run_nodes(const OpNodes& nodes, Frame& frame) {
  for (const auto& node : nodes)
    if (Signal signal = node->run(frame); signal != Signal::next) return signal;
  return Signal::next;
}

// Helpers of nodes.
//
// Copies the tile's elements [0, extents) to `to` as dense lanes, clamped and padded as the descriptor says.
void copy_lanes(const TileRef& from, int rank, const int64_t* extents, char* to);
// Returns a descriptor of dense lanes with these extents.
TileRef dense_lanes(char* data, DType dtype, int rank, const int64_t* extents);
// The same for elements in their memory format.
TileRef dense_elements(char* data, DType dtype, int rank, const int64_t* extents);
// Returns `from` if it already has lanes with at least those extents and no padding; else a copy in scratch
// memory.
TileRef materialise(const TileRef& from, int rank, const int64_t* extents, Scratch& scratch);

}  // namespace tile::cpu
