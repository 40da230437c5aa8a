// Records a fused loop's arithmetic as micro-operations.
#pragma once
#include <vector>

#include "cpu/fusion/fused_loop.h"
#include "cpu/jit/fused_loop_code.h"
#include "cpu/jit/trace.h"

namespace tile::cpu::jit {

// The combination of a reduction: min and max ignore NaN operands and start from NaN.
struct Combination {
  std::string_view name;
  Micro micro;
  uint32_t identity;
  bool ignores_nan;
};

struct FusedLoopTrace {
  Trace trace;
  // The values to write, in the quick way or in the way for all lanes: outputs and stores in the format of
  // their dtypes, and reductions (for products both factors, otherwise the second is -1).
  struct Ways {
    std::vector<int> outputs, stores;
    std::vector<std::pair<int, int>> reductions;
  } quick, slow;
  std::vector<bool> words;  // for each store: true if its lanes are already raw f16 bits
  int guard = -1;           // the mask under which the quick way is valid; -1: there is only one way
  std::vector<const Combination*> combinations;  // per reduction
  std::vector<bool> columns;                     // micro-operations that differ between columns

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
  std::vector<const FusedLoopStep*> picks_;  // the `where` step that computes it, or null
  // True if the value comes from an input that is f16 in memory. The processor's conversion changes the bits
  // of a signalling NaN in such an input.
  std::vector<bool> from_f16_;
  bool rounds_to_bf16_ = false;  // there is an instruction for Micro::to_bf16
};

}  // namespace tile::cpu::jit
