// A fused loop's arithmetic as micro-operations.
#pragma once
#include <vector>

#include "cpu/fusion/fused_loop.h"
#include "cpu/jit/fused_loop_code.h"
#include "cpu/jit/trace.h"

namespace tile::cpu::jit {

// How a reduction combines: NaN operands of min and max are ignored, and NaN is what they start from.
struct Combination {
  std::string_view name;
  Micro micro;
  uint32_t identity;
  bool ignores_nan;
};

struct FusedLoopTrace {
  Trace trace;
  // The values that are written, the quick way and the one that serves all lanes: of outputs and stores (as
  // their dtype has them) and reductions (of products the factors, else the second is -1).
  struct Ways {
    std::vector<int> outputs, stores;
    std::vector<std::pair<int, int>> reductions;
  } quick, slow;
  std::vector<bool> words;                       // for each store: true if its lanes are raw f16 bits already
  int guard = -1;                                // the mask that allows the quick way; -1: there is one way
  std::vector<const Combination*> combinations;  // of reductions
  std::vector<bool> columns;                     // micro-operations that differ from column to column

  bool record(const FusedLoop& fused_loop, const FusedLoopForm& form, Vectors vectors);  // false: refused

 private:
  bool record(const FusedLoop& fused_loop, const FusedLoopForm& form, const std::vector<bool>& varies,
              Ways& ways);
  void find_moves(const FusedLoop& fused_loop, const FusedLoopForm& form);
  bool moved(const FusedLoop& fused_loop, int value) const;
  int bits_of_half(const FusedLoop& fused_loop, int value);
  int new_bits_of_half(const FusedLoop& fused_loop, int value);
  // For each value of the fused loop:
  std::vector<int> values_;                  // the trace's value with its lanes
  std::vector<int> bits_;                    // the trace's value with its 16 bits; -1: not recorded
  std::vector<const FusedLoopStep*> picks_;  // the `where` step that makes it, or null
  // True if an input behind it is f16 in memory. The processor's conversion changes the bits of a signalling
  // NaN in such an input.
  std::vector<bool> from_f16_;
  bool rounds_to_bf16_ = false;  // there is an instruction for Micro::to_bf16
};

}  // namespace tile::cpu::jit
