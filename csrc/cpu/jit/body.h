// Emits straight-line code for a vector of columns or for a row's own values: micro-operations in registers.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "cpu/jit/trace.h"
#include "ir/dtype.h"

namespace tile::cpu::jit {

// The pool of vector constants, by the bits of their lanes.
class Constants {
 public:
  using Lanes = std::array<uint32_t, 16>;
  Operand operand(const Lanes& lanes) {
    return Operand::constant(numbers_.emplace(lanes, static_cast<int>(numbers_.size())).first->second);
  }
  Operand operand(uint32_t bits) {
    Lanes equal;
    equal.fill(bits);
    return operand(equal);
  }
  const std::map<Lanes, int>& numbers() const { return numbers_; }

 private:
  std::map<Lanes, int> numbers_;
};

// The context of a body.
struct Surroundings {
  const Trace& trace;
  Constants& constants;
  std::vector<std::optional<Operand>> homes;  // by micro-operation: values computed earlier
  std::vector<DType> dtypes;                  // by input
  std::function<Operand(int input)> input;    // the address of the input's lane or lanes
  Vectors vectors;
  uint32_t registers = ~0u >> (32 - registers_of(vectors));  // registers that may be used
  int slots = 0;                                             // number of vectors at rsp
  int new_slot() { return slots++; }
  Operand slot(int number) const { return Operand::at(rsp, bytes_of(vectors) * number); }
};

// The columns of a vector's lanes: adjacent columns, of which some may not exist, or every second one of
// twice as many.
enum class Columns : uint8_t { all, some, even, odd };
inline bool paired(Columns columns) { return columns == Columns::even || columns == Columns::odd; }

class Body {
 public:
  // `mask` is the memory that holds AVX2's mask of existing columns.
  Body(Encoder& code, Surroundings& around, Columns columns = Columns::all, const Operand& mask = {})
      : code_(code), around_(around), columns_(columns), mask_(mask), values_(around.trace.ops.size()) {}

  // Computes the roots in order; their values are kept until the end.
  void compute(const std::vector<int>& roots);
  int use(int value);         // returns its register, locked until release()
  int temporary();            // returns a free register, locked likewise
  int mask();                 // returns AVX2's mask of the columns, locked likewise
  Condition test(int value);  // compares; the condition holds if some lane of the mask is unset
  void release() { locked_ = 0; }
  uint32_t touched() const { return touched_; }

 private:
  struct Held {
    int reg = -1, slot = -1, mask = -1;  // `mask` is a mask register of AVX-512
    std::vector<int> uses;               // positions in order_
    size_t used = 0;
    int left() const { return static_cast<int>(uses.size() - used); }
  };
  const MicroOp& op(int value) const { return around_.trace.ops[static_cast<size_t>(value)]; }
  Held& held(int value) { return values_[static_cast<size_t>(value)]; }
  const std::optional<Operand>& home(int value) const { return around_.homes[static_cast<size_t>(value)]; }
  void visit(int value);
  bool masked() const { return columns_ == Columns::some; }
  bool folds(int value);  // true for an input that is read by its only user's instruction
  bool in_register(int value);
  bool dies(int value);
  Operand operand(int value);
  int allocate();
  void spill();
  void consume(int value);
  void load_input(int value, int reg);
  void emit(int value);
  int emit_binary(const MicroOp& op, const MicroRow& row);
  int emit_fused(const MicroOp& op, const MicroRow& row);
  int emit_select(const MicroOp& op);
  void emit_predicate(int value);
  int mask_of(int value);
  void keep(int value, int reg);

  Encoder& code_;
  Surroundings& around_;
  Columns columns_;
  Operand mask_;
  std::vector<Held> values_;
  std::vector<int> order_;
  std::vector<bool> visited_;
  std::vector<int> holds_ = std::vector<int>(static_cast<size_t>(registers_of(code_.vectors())), -1);
  uint32_t locked_ = 0, touched_ = 0, masks_ = 0;
};

}  // namespace tile::cpu::jit
