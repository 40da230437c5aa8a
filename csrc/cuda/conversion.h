// Plans how elements move from one layout to another: by renaming registers, by shuffles within a
// warp, or through shared memory, whichever costs least.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cuda/shared_move.h"
#include "cuda/shuffle_plan.h"

namespace tile::cuda {

enum class Way : uint8_t { registers, shuffles, shared };

// A move of at most this size alternates between two buffers in shared memory, so that one barrier
// is enough.
inline constexpr int64_t most_double_bytes = 2048;

// The instructions of one thread, and the shared memory that the block needs.
struct MoveWork {
  int shuffles = 0;
  int picks = 0;     // selects, and instructions that pack words
  int accesses = 0;  // of shared memory
  int passes = 0;    // shared memory passes of a warp's accesses
  int barriers = 0;
  int64_t shared_bytes = 0;
};
// Returns the cost in half cycles of a multiprocessor, summed over all warps of the block. A cycle
// serves 32 lanes of shuffles, 64 lanes of selects or 128 bytes of shared memory (CUDA C++
// programming guide, arithmetic instructions). A barrier costs one wait.
int64_t cost_of(const MoveWork& work, int warps);

// One end of a move: a layout, and the weights that order its coordinates.
struct MoveEnd {
  const Layout& layout;
  const Weights& weights;
};
struct MovePlan {
  Way way = Way::registers;
  std::vector<int> registers;          // Way::registers: the source of each result register
  std::optional<ShufflePlan> shuffle;  // Way::shuffles
  std::optional<SharedMove> shared;    // Way::shared; none: element by element in row-major order
  MoveWork work;
  std::string reason;  // why this way was chosen
};
// `room` is the number of free bytes of shared memory.
MovePlan plan_move(const MoveEnd& from, const MoveEnd& to, int element_bytes, int threads, int blocks,
                   int64_t room);

// A move of elements between threads, for inspection.
struct Conversion {
  std::string op, where, type;  // "permute", "softmax.cpp:12", "f32[64,32]"
  std::string from, to;         // the layouts, and the ops that requested them
  bool in_loop = false;
  Way way = Way::registers;
  int64_t shared_bytes = 0;
  std::string reason;
};
std::string_view name_of(Way way);  // "shuffles"
// Returns the move as comment lines.
std::string describe(const Conversion& conversion);

}  // namespace tile::cuda
