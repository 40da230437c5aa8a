// The loops of a fused loop's code: over rows, over columns by several vectors, over the remaining vectors,
// and over the last few columns.
#pragma once
#include <deque>

#include "cpu/jit/body.h"
#include "cpu/jit/fused_loop_trace.h"

namespace tile::cpu::jit {

class FusedLoopNest {
 public:
  FusedLoopNest(const FusedLoopForm& form, const FusedLoopTrace& trace, Vectors vectors);
  void write();
  std::vector<uint8_t> pool() const;  // the data before the code
  const std::vector<uint8_t>& code() const { return code_.bytes(); }

 private:
  using Ways = FusedLoopTrace::Ways;
  // The position of a vector of columns.
  struct Iteration {
    int vector, accumulator;
    Columns columns;
  };
  // An iteration that is repeated with code that handles all lanes.
  struct Detour {
    Iteration iteration;
    Label from, back;
  };
  // Participants are numbered in the order of FusedLoopArguments.
  int output(size_t k) const { return static_cast<int>(form_.inputs.size() + k); }
  int store(size_t k) const { return output(form_.outputs.size() + k); }
  int reduction(size_t k) const { return store(form_.stores.size() + k); }
  int prefetch(size_t k) const { return reduction(form_.reductions.size() + k); }
  const FusedLoopForm::Array& array(int participant) const {
    return arrays_[static_cast<size_t>(participant)];
  }
  bool sums_columns(size_t k) const { return !form_.reductions[k].columns; }
  int accumulator(size_t k, int vector) const;
  bool pairs() const;
  // Returns true for an f16 store whose value already has the raw 16 bits.
  bool is_words(int participant) const {
    return participant >= store(0) && trace_.words[static_cast<size_t>(participant - store(0))];
  }
  bool any_columns() const { return form_.any_columns(code_.vectors()); }

  void choose_unroll();
  void find_row_values();
  void find_pointers();
  void pin();
  uint32_t used_registers();
  Operand address(int participant);
  Operand lane_address(int participant);

  void enter();
  void mask_columns();
  void leave();
  void row_values();
  void columns();
  bool hides_next(const FusedLoopForm::Array& input) const;
  void prefetch_lines();
  void vector(const Iteration& iteration);
  void detours();
  bool sums_in_parts(size_t k) const;
  Operand part(size_t k, int vector) const;
  void begin_parts();
  void add_parts(bool ends);
  void finish_reductions();
  void next_row();
  uint32_t write_vector(Encoder& code, Surroundings& around, const Ways& ways, const Iteration& iteration,
                        Label* detour);
  void collect(const Ways& ways, std::vector<int>& roots) const;
  void write_results(Encoder& code, Body& body, const Ways& ways, const Iteration& iteration);
  void store_vector(Encoder& code, Body& body, int value, int participant, Columns columns);
  void store_pair(Encoder& code, Body& body, int value, size_t k, Columns columns);
  void accumulate(Encoder& code, Body& body, size_t k, const std::pair<int, int>& values,
                  const Iteration& iteration);

  const FusedLoopForm& form_;
  const FusedLoopTrace& trace_;
  std::vector<FusedLoopForm::Array> arrays_;  // by participant
  Encoder code_;
  Constants constants_;
  Surroundings around_;
  std::vector<int> row_values_;                  // needed by columns, constant along a row
  std::vector<std::pair<int, Operand>> pinned_;  // values that have a register throughout
  std::vector<int> pointers_;                    // by participant: its register, or -1
  std::deque<Detour> detours_;
  int unroll_ = 2, vector_ = 0;          // vectors per iteration; the current one
  Encoder* at_work_ = nullptr;           // receives loads of addresses
  int mask_slot_ = -1, pair_slot_ = -1;  // pair_slot_: of the first store's even columns
  int part_slot_ = -1;                   // of the first accumulator's partial sums
  int vector_bytes_ = 0;                 // of one vector's code
  int frame_ = 0;                        // position of the stack size in the code
};

}  // namespace tile::cpu::jit
