// The state of a running block: tiles as descriptors, scalars, arrays, and the arena that holds them.
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

// A tile at run time. Along an axis only `extent` elements need exist: those beyond repeat the last one. So a
// scalar fills any shape, and a tile past the edge of its array ends one padding element after the edge.
// A tile may stay in memory, never copied: then elements outside [first, valid) are `pad`.
struct TileRef {
  char* data = nullptr;  // of element [0, 0, …]
  DType dtype = DType::f32;
  bool lanes = true;     // data holds lanes; false: elements of dtype as memory has them
  bool streams = false;  // of a store: its array is written past the caches
  int rank = 0;
  double pad = 0;
  struct Axis {
    int64_t extent, stride, first, valid;  // stride in bytes; valid == unlimited: all there
  };
  Axis axes[max_rank];

  TileRef() = default;
  TileRef(const TileRef& other) { *this = other; }
  TileRef& operator=(const TileRef& other) {  // descriptors are copied all the time: only the axes there are
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

  // All but the address is the same.
  bool same_form(const TileRef& other) const {
    return dtype == other.dtype && lanes == other.lanes && streams == other.streams && rank == other.rank &&
           std::memcmp(&pad, &other.pad, sizeof pad) == 0 &&
           std::memcmp(axes, other.axes, sizeof(Axis) * static_cast<size_t>(rank)) == 0;
  }
  bool whole(int axis) const { return axes[axis].first <= 0 && axes[axis].valid >= axes[axis].extent; }
};

// An array argument, or a view of one.
struct ArrayRef {
  char* data = nullptr;
  DType dtype = DType::f32;
  int rank = 0;
  int64_t size[max_rank] = {};
  int64_t stride[max_rank] = {};  // bytes
  int64_t first[max_rank] = {};   // elements before this index do not exist: left by slice()
  bool streams = false;           // too large to stay in a cache when written
  bool there = true;  // of rank 0: whether the one element exists; else no one sees what data holds
};

union Scalar {
  int64_t i = 0;
  uint64_t u;
  float f;
  double d;
  char bytes[8];
};

// Memory given out and taken back all at once.
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
  std::vector<AlignedMemory> spill_;  // of takes beyond what was reserved
  AlignedMemory memory_;
  size_t used_ = 0;
};

// State that a node caches between its runs.
struct NodeState {
  virtual ~NodeState() = default;
  virtual bool lasts() const = 0;  // beyond the launch, whose arrays may hold other elements in the next
};
struct NodeStateSlot {
  std::unique_ptr<NodeState> kept[2];  // the latest first: a loop's first turn often has a form of its own
  bool ran = false;
};

class Watch;

struct Frame {
  std::vector<TileRef> tiles;
  std::vector<Scalar> scalars;
  std::vector<ArrayRef> arrays;
  std::vector<char*> slots;  // arena memory by slot; loop-carried tiles exchange theirs
  Scratch scratch;
  int64_t block[3] = {}, blocks[3] = {};
  std::vector<NodeStateSlot>* kept = nullptr;  // by number, as LoweringContext gives them out
  PackedTiles packed;
  PackedOperands* own_panels = nullptr;     // this thread's
  PackedOperands* shared_panels = nullptr;  // those of the launch's threads; null: each has its own
  void (*give_back)() = nullptr;            // of registers that products took
  Watch* watch = nullptr;                   // of this launch
};

enum class Signal : uint8_t { next, leave_loop, next_turn };

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
// The tile's elements [0, extents) as dense lanes at `to`; clamps and pads as the descriptor says.
void copy_lanes(const TileRef& from, int rank, const int64_t* extents, char* to);
// A descriptor of dense lanes with these extents.
TileRef dense_lanes(char* data, DType dtype, int rank, const int64_t* extents);
// The same of elements as memory has them.
TileRef dense_elements(char* data, DType dtype, int rank, const int64_t* extents);
// `from` itself where it already is lanes with at least those extents and no padding; else a copy in scratch.
TileRef materialise(const TileRef& from, int rank, const int64_t* extents, Scratch& scratch);

}  // namespace tile::cpu
