// The loops of a sweep's code: over rows, over columns by some vectors, the rest, the last few columns.
#pragma once
#include <deque>

#include "cpu/assembler/body.h"
#include "cpu/assembler/sweep_trace.h"

namespace tile::cpu::assembler {

class SweepLoops {
 public:
  SweepLoops(const SweepForm& form, const SweepTrace& trace);
  void write();
  std::vector<uint8_t> pool() const;  // what stands before the code
  const std::vector<uint8_t>& code() const { return code_.bytes(); }

 private:
  using Ways = SweepTrace::Ways;
  // A vector that must be done over with all lanes served.
  struct Detour {
    Label from, back;
    int vector, accumulator;
    bool masked;
  };
  // Participants in the order of SweepArguments.
  int output(size_t k) const { return static_cast<int>(form_.inputs.size() + k); }
  int store(size_t k) const { return output(form_.outputs.size() + k); }
  int reduction(size_t k) const { return store(form_.stores.size() + k); }
  bool sums_columns(size_t k) const { return form_.reductions[k].columns; }
  int accumulator(size_t k, int vector) const;

  void choose_unroll();
  void find_row_values();
  void find_pointers();
  void pin();
  uint32_t used_registers();
  Place address(int participant);
  Place lane_address(int participant);

  void enter();
  void leave();
  void row_values();
  void columns();
  void vector(int accumulators, bool masked);
  void detours();
  void finish_reductions();
  void next_row();
  Body new_body(bool masked);
  void collect(const Ways& ways, std::vector<int>& roots) const;
  void write_results(Encoder& code, Body& body, const Ways& ways, int accumulators, bool masked);
  void store_vector(Encoder& code, Body& body, int value, int participant, const SweepForm::Array& array,
                    bool masked);
  void accumulate(Encoder& code, Body& body, size_t k, const std::pair<int, int>& values, int accumulators,
                  bool masked);

  const SweepForm& form_;
  const SweepTrace& trace_;
  Encoder code_;
  Constants constants_;
  Surroundings around_;
  std::vector<int> row_values_;                // needed by columns, the same along a row
  std::vector<std::pair<int, Place>> pinned_;  // values that have a register throughout
  std::vector<int> pointers_;                  // by participant: its register, or -1
  std::deque<Detour> detours_;
  int unroll_ = 2, vector_ = 0;     // vectors a turn; the one at work
  bool any_columns_ = true;         // the last columns may be fewer than a vector
  Encoder* at_work_ = nullptr;      // where addresses are loaded
  int mask_slot_ = -1, frame_ = 0;  // frame_: where the code says how much stack it takes
};

}  // namespace tile::cpu::assembler
