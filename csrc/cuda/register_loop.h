// Emits elementwise computation: one loop over a thread's registers for ops that only follow
// each other, which is compiled sooner than a loop for each. From large tiles all that a store or some
// reductions need, so that no step's results stand in registers all at once.
#pragma once
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/op.h"

namespace tile::cuda {

class Emitter;

// Whether a loop carries large tiles, which then take the registers, and whether it reduces others beside
// them.
struct LoopSums {
  bool large = false, reduces = false;
};
LoopSums loop_sums(const Function& function);

// The operands of an op at register r.
class Elements {
 public:
  struct Operand {
    std::string element;
    std::string tile;  // that holds it at r; empty: it is computed there
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
  bool wanted() const { return wanted_; }  // of large tiles
  // True: the op waits until something needs its result.
  bool defer(const Op& op);
  bool waits(const Value* value) const { return waiting_.count(value) != 0; }
  // Returns true if a loop's register loops read the value, an argument of its body, at its own registers,
  // and once.
  bool reads_once(const Block& body, const Value* argument) const;
  // Writes what the regions of this op use.
  void before_regions(const Op& op);
  // The whole tile, in a line of its own.
  void write(const Value* value);
  // Reductions whose operands are summed in one loop: "t0" of each, sums over this thread's registers.
  struct Sum {
    const Op* op;
    std::string name, type, start, step;  // step: "add_to<…>(t0, r, " without the element
  };
  void add_up(const std::vector<Sum>& sums);

 private:
  bool has_elements(const Op& op) const;
  bool joins_users(const Op& op) const;
  bool in_place(const Op& op, const Value* operand) const;
  void prepare(const Value* value);
  Elements::Operand element(const Value* value);
  void keep(const Value* value);
  void begin(int registers, const Op& op);
  void end();

  Emitter& emitter_;
  bool wanted_ = false;  // all that can waits, and may be computed several times
  std::unordered_map<const Value*, std::vector<const Op*>> users_;
  std::unordered_map<const Value*, const Op*> waiting_;
  std::unordered_map<const Value*, std::string> inside_;  // of the loop that is being written
  std::unordered_map<const Value*, std::string> kept_;    // tiles that it fills on its way
  std::unordered_set<const Value*> prepared_;             // for it
};

}  // namespace tile::cuda
