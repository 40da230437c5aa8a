// A fused loop as machine code: what its elementwise steps, loads, casts, stores and reductions do to some
// rows of columns, in one loop. The interpreter is its meaning and takes what is refused here.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "cpu/jit/code_memory.h"
#include "cpu/jit/vectors.h"
#include "cpu/vecmath/isa.h"
#include "ir/dtype.h"

namespace tile::cpu {
struct FusedLoop;
}

namespace tile::cpu::jit {

// The form of a fused loop: besides the steps, how each participant lies in memory.
struct FusedLoopForm {
  struct Array {
    DType dtype;
    bool columns;  // a lane a column, adjacent; else a lane a row: of a reduction, the sum of its columns
    // A store is written past the caches; rows then start at 32 bytes. An input is memory in which rows
    // follow each other.
    bool streams;
    bool operator==(const Array&) const = default;
  };
  std::vector<Array> inputs, outputs, stores, reductions;
  std::vector<Array> prefetch;  // neither read nor written: fetched into the second-level cache
  bool long_rows = false;       // of more than most_summed columns, which are summed up in parts
  bool operator==(const FusedLoopForm&) const = default;
  bool any_columns(Vectors vectors) const;  // their number need not be a multiple of lanes
};

inline constexpr int most_arrays = 32;
// The error of a sum grows with the number of terms added in sequence. A multiple of every iteration's
// columns.
inline constexpr int most_summed = 2048;
// Rows are `row` bytes apart. In the order inputs, outputs, stores, reductions, prefetches. A call changes
// it.
struct FusedLoopArguments {
  int64_t rows, cols;
  struct {
    char* at;
    int64_t row;
  } arrays[most_arrays];
};
using FusedLoopFunction = void (*)(FusedLoopArguments*);

// Returns the instruction set that fused loops are assembled for: on x86-64 with AVX2, unless TILE_ASSEMBLER
// is off; AVX-512 where the interpreter has it, unless TILE_ASSEMBLER is avx2.
std::optional<Vectors> enabled();
// By the value of TILE_ASSEMBLER. Error: an unknown one.
std::optional<Vectors> choose_vectors(Isa isa, std::string_view wanted);
void enable(bool on);  // for tests that compare; fused loops already prepared stay as they are

// The code of a fused loop in each form met so far: threads that start a launch all look for theirs at once,
// and find it without a lock.
class FusedLoopCodes {
 public:
  ~FusedLoopCodes();
  // Null: refused.
  FusedLoopFunction find(const FusedLoop& fused_loop, const FusedLoopForm& form, Vectors vectors);

 private:
  struct Entry {
    FusedLoopForm form;
    std::unique_ptr<CodeMemory> code;
    Entry* next;
    FusedLoopFunction function() const;
  };
  static const Entry* find(const Entry* first, const FusedLoopForm& form);
  std::atomic<Entry*> first_ = nullptr;
  std::mutex mutex_;  // of those who add one
};

// Null: refused.
std::unique_ptr<CodeMemory> assemble(const FusedLoop& fused_loop, const FusedLoopForm& form, Vectors vectors);

}  // namespace tile::cpu::jit
