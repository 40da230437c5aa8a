// How elements come from one layout into another: by other names of registers, by shuffles within a warp, or
// through shared memory; whichever costs least.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "cuda/shared_move.h"
#include "cuda/shuffle_plan.h"

namespace tile::cuda {

enum class Way : uint8_t { registers, shuffles, shared };

// So small a move has two buffers in shared memory, used alternately with others: one barrier is
// enough.
inline constexpr int64_t most_double_bytes = 2048;

// Instructions of a thread, and what the block asks for.
struct MoveWork {
  int shuffles = 0;
  int picks = 0;     // selects, and what packs words
  int accesses = 0;  // of shared memory
  int passes = 0;    // that a warp's accesses take there
  int barriers = 0;
  int64_t shared_bytes = 0;
};
// Half cycles of a multiprocessor, of all warps of the block. A cycle serves 32 lanes that shuffle, 64 that
// select, 128 bytes of shared memory (CUDA C++ programming guide, arithmetic instructions); a barrier is a
// wait.
int64_t cost_of(const MoveWork& work, int warps);

// Either layout with the weights of its coordinates in one order.
struct MoveEnd {
  const Layout& layout;
  const Weights& weights;
};
struct MovePlan {
  Way way = Way::registers;
  std::vector<int> registers;          // Way::registers: of each register of the result
  std::optional<ShufflePlan> shuffle;  // Way::shuffles
  std::optional<SharedMove> shared;    // Way::shared; none: element by element, in row-major order
  MoveWork work;
  std::string reason;  // for the way
};
// `room`: bytes of shared memory that are left.
MovePlan plan_move(const MoveEnd& from, const MoveEnd& to, int element_bytes, int threads, int blocks,
                   int64_t room);

// A move that a kernel makes between threads, for inspection.
struct Conversion {
  std::string op, where, type;  // "permute", "softmax.cpp:12", "f32[64,32]"
  std::string from, to;         // layouts, and who wants them
  bool in_loop = false;
  Way way = Way::registers;
  int64_t shared_bytes = 0;
  std::string reason;
};
std::string_view name_of(Way way);  // "shuffles"
// Lines of comment.
std::string describe(const Conversion& conversion);

}  // namespace tile::cuda
