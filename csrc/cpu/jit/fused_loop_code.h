// A fused loop as machine code: one loop runs its elementwise steps, loads, casts, stores and reductions on
// some rows of columns. The interpreter defines the semantics and runs whatever is refused here.
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

// The form of a fused loop: in addition to its steps, the memory layout of each participant.
struct FusedLoopForm {
  struct Array {
    DType dtype;
    // True for one adjacent lane per column; false for one lane per row, which for a reduction is the sum of
    // its columns.
    bool columns;
    // For a store: it bypasses the caches, and its rows are aligned to 32 bytes. For an input: its rows are
    // contiguous in memory.
    bool streams;
    bool operator==(const Array&) const = default;
  };
  std::vector<Array> inputs, outputs, stores, reductions;
  std::vector<Array> prefetch;  // only prefetched into the second-level cache
  bool long_rows = false;       // more than most_summed columns, which are summed in parts
  bool operator==(const FusedLoopForm&) const = default;
  bool any_columns(Vectors vectors) const;  // the number of columns need not be a multiple of the lanes
};

inline constexpr int most_arrays = 32;
// The most terms that are added in sequence, since the error of a sum grows with their number. It is a
// multiple of every iteration's columns.
inline constexpr int most_summed = 2048;
// The arguments of a call, which changes them. `arrays` has inputs, outputs, stores, reductions, prefetches
// in this order, with rows `row` bytes apart.
struct FusedLoopArguments {
  int64_t rows, cols;
  struct {
    char* at;
    int64_t row;
  } arrays[most_arrays];
};
using FusedLoopFunction = void (*)(FusedLoopArguments*);

// Returns the instruction set for assembling fused loops. It is available on x86-64 with AVX2, unless
// TILE_ASSEMBLER is off, and is AVX-512 if the interpreter uses that, unless TILE_ASSEMBLER is avx2.
std::optional<Vectors> enabled();
// Chooses by the value of TILE_ASSEMBLER; an unknown value is an error.
std::optional<Vectors> choose_vectors(Isa isa, std::string_view wanted);
void enable(bool on);  // for tests that compare; prepared fused loops do not change

// The code of a fused loop in each form so far. All threads that start a launch look up their code at the
// same time, without a lock.
class FusedLoopCodes {
 public:
  ~FusedLoopCodes();
  // Returns null if the form is refused.
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
  std::mutex mutex_;  // serializes additions
};

// Returns null if the form is refused.
std::unique_ptr<CodeMemory> assemble(const FusedLoop& fused_loop, const FusedLoopForm& form, Vectors vectors);

}  // namespace tile::cpu::jit
