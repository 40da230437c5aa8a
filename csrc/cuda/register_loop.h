// Emits elementwise computation: one loop over a thread's registers for consecutive ops, which
// compiles faster than a loop for each op. For large tiles, a loop computes everything that a store
// or some reductions need, so that intermediate results never fill the registers at once.
#pragma once
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/op.h"

namespace tile::cuda {

class Emitter;

// Properties of a kernel's loops. `large`: a loop carries large tiles, which then occupy the registers.
// `reduces`: it also reduces other tiles.
struct LoopSums {
  bool large = false, reduces = false;
};
LoopSums loop_sums(const Function& function);

// The operands of an op at register r.
class Elements {
 public:
  struct Operand {
    std::string element;
    std::string tile;  // the tile that holds it at r; empty: it is computed there
  };
  explicit Elements(std::vector<Operand> operands) : operands_(std::move(operands)) {}
  const Operand& operator[](size_t i) const { return operands_[i]; }
  std::string joined() const;

 private:
  std::vector<Operand> operands_;
};

class RegisterLoops {
 public:
  RegisterLoops(Emitter& emitter, const Function& function);
  bool wanted() const { return wanted_; }  // true for kernels with large tiles
  // Returns true if the op is deferred until something needs its result.
  bool defer(const Op& op);
  bool waits(const Value* value) const { return waiting_.count(value) != 0; }
  // Returns true if a loop body's register loops read the value, an argument of the body, at its
  // own registers and only once.
  bool reads_once(const Block& body, const Value* argument) const;
  // Emits the deferred values that this op's regions use.
  void before_regions(const Op& op);
  // Emits the whole tile as one line.
  void write(const Value* value);
  // A reduction whose operand is summed in a shared loop. `name` is the tile of its sums over this
  // thread's registers.
  struct Sum {
    const Op* op;
    std::string name, type, start, step;  // step: "add_to<…>(t0, r, " without the element
  };
  void add_up(const std::vector<Sum>& sums);

 private:
  bool has_elements(const Op& op) const;
  bool joins_users(const Op& op, bool deferred = false) const;
  const Op* end_of(const Op& op) const;
  bool in_place(const Op& op, const Value* operand) const;
  void prepare(const Value* value);
  Elements::Operand element(const Value* value);
  void keep(const Value* value);
  void begin(int registers, const Op& op);
  void end();

  Emitter& emitter_;
  bool wanted_ = false;  // defer all that can be, even if it is then computed several times
  std::unordered_map<const Value*, std::vector<const Op*>> users_;
  mutable std::unordered_map<const Op*, const Op*> ends_;  // what end_of has found
  std::unordered_map<const Value*, const Op*> waiting_;
  std::unordered_map<const Value*, std::string> inside_;  // names inside the loop that is being emitted
  std::unordered_map<const Value*, std::string> kept_;    // tiles that this loop fills as well
  std::unordered_set<const Value*> prepared_;             // tiles emitted before it for its use
};

}  // namespace tile::cuda
