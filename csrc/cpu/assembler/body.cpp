// The order of micro-operations, their registers, and their instructions.
#include "cpu/assembler/body.h"

#include <algorithm>
#include <climits>

#include "support/error.h"

namespace tile::cpu::assembler {

void Body::visit(int value) {
  if (home(value) || visited_[static_cast<size_t>(value)]) return;
  visited_[static_cast<size_t>(value)] = true;
  for (int k = 0; k < operand_count(op(value)); ++k) visit(op(value).operands[k]);
  order_.push_back(value);
}

void Body::compute(const std::vector<int>& roots) {
  visited_.assign(values_.size(), false);
  for (int root : roots) visit(root);
  for (size_t i = 0; i < order_.size(); ++i)
    for (int k = 0; k < operand_count(op(order_[i])); ++k)
      held(op(order_[i]).operands[k]).uses.push_back(static_cast<int>(i));
  for (int root : roots) held(root).uses.push_back(INT_MAX);
  for (int value : order_) {
    if (row_of(op(value).micro).form != Form::source) emit(value);
    release();
  }
}

bool Body::folds(int value) {
  return op(value).micro == Micro::column && !mask_ && held(value).reg < 0 && held(value).slot < 0 &&
         info(around_.dtypes[op(value).immediate]).bytes == 4 && held(value).uses.size() == 1;
}
bool Body::in_register(int value) {
  return home(value) ? home(value)->kind == Place::vector : held(value).reg >= 0;
}
// Its register may be written: this use is the last one.
bool Body::dies(int value) { return !home(value) && held(value).reg >= 0 && held(value).left() == 1; }

Place Body::place(int value) {
  if (home(value)) return *home(value);
  Held& at = held(value);
  if (at.reg >= 0) {
    locked_ |= 1u << at.reg;
    return Place::reg(at.reg);
  }
  if (at.slot >= 0) return Surroundings::slot(at.slot);
  if (folds(value)) return around_.input(static_cast<int>(op(value).immediate));
  return Place::reg(use(value));
}

int Body::use(int value) {
  if (home(value)) {
    if (home(value)->kind == Place::vector) return home(value)->number;
    const int reg = temporary();
    code_.vector(vex::load, reg, 0, *home(value));
    return reg;
  }
  Held& at = held(value);
  if (at.reg < 0) {
    const int reg = allocate();
    if (at.slot >= 0)
      code_.vector(vex::load, reg, 0, Surroundings::slot(at.slot));
    else
      load_input(value, reg);
    keep(value, reg);
  }
  locked_ |= 1u << at.reg;
  return at.reg;
}

void Body::keep(int value, int reg) {
  held(value).reg = reg;
  holds_[reg] = value;
}

int Body::temporary() {
  const int reg = allocate();
  locked_ |= 1u << reg;
  return reg;
}
int Body::mask() {
  const int reg = temporary();
  code_.vector(vex::load, reg, 0, *mask_);
  return reg;
}

int Body::allocate() {
  for (int pass = 0; pass < 2; ++pass) {
    for (int reg = 0; reg < 16; ++reg) {
      const uint32_t bit = 1u << reg;
      if (!(around_.registers & bit) || (locked_ & bit) || holds_[reg] >= 0) continue;
      touched_ |= bit;
      return reg;
    }
    spill();
  }
  fail(ErrorKind::runtime, "the sweep assembler ran out of registers");
}
// The value that is not wanted for the longest time goes to memory.
void Body::spill() {
  int victim = -1, farthest = -1;
  for (int reg = 0; reg < 16; ++reg) {
    const int value = holds_[reg];
    if (value < 0 || (locked_ >> reg & 1)) continue;
    const Held& at = held(value);
    const int next = at.left() > 0 ? at.uses[at.used] : INT_MAX;
    if (next > farthest) farthest = next, victim = reg;
  }
  TILE_CHECK(victim >= 0, "every register is locked");
  Held& at = held(holds_[victim]);
  if (at.slot < 0) {
    at.slot = around_.new_slot();
    code_.vector(vex::store, victim, 0, Surroundings::slot(at.slot));
  }
  at.reg = -1;
  holds_[victim] = -1;
}
void Body::consume(int value) {
  if (home(value)) return;
  Held& at = held(value);
  ++at.used;
  if (at.left() == 0 && at.reg >= 0) {
    holds_[at.reg] = -1;
    at.reg = -1;
  }
}

void Body::load_input(int value, int reg) {
  TILE_CHECK(row_of(op(value).micro).form == Form::source, "a value is used before it is computed");
  const int input = static_cast<int>(op(value).immediate);
  const DType dtype = around_.dtypes[static_cast<size_t>(input)];
  const uint32_t before = locked_;
  locked_ |= 1u << reg;
  const bool scalar = op(value).micro == Micro::scalar;
  if (dtype == DType::boolean) {  // bytes: any but 0 is true
    code_.vector(scalar ? vex::broadcast_byte : vex::extend_bytes, reg, 0, around_.input(input));
    if (scalar) code_.vector(row_of(Micro::shift_right_zeros).instruction, reg, 0, Place::reg(reg), 256, 24);
    code_.vector(row_of(Micro::greater_integer).instruction, reg, reg, around_.constants.place(0));
  } else if (scalar) {
    code_.vector(vex::broadcast, reg, 0, around_.input(input));
  } else if (dtype == DType::bf16) {
    code_.vector(vex::extend_words, reg, 0, around_.input(input));
    code_.vector(row_of(Micro::shift_left).instruction, reg, 0, Place::reg(reg), 256, 16);
  } else if (dtype == DType::f16) {
    code_.vector(row_of(Micro::from_half).instruction, reg, 0, around_.input(input));
  } else if (mask_) {
    const int there = mask();
    code_.vector(vex::masked_load, reg, there, around_.input(input));
  } else {
    code_.vector(vex::load, reg, 0, around_.input(input));
  }
  locked_ = before;
}

void Body::emit(int value) {
  const MicroOp& micro = op(value);
  const MicroRow& row = row_of(micro.micro);
  const int immediate = row.has_immediate ? static_cast<int>(micro.immediate) : -1;
  int result = -1;
  if (row.form == Form::binary) {
    result = emit_binary(micro, row);
  } else if (row.form == Form::fused) {
    result = emit_fused(micro, row);
  } else if (row.form == Form::select) {
    result = emit_select(micro, row);
  } else {
    const int x = micro.operands[0];
    const Place from = row.form == Form::unary ? place(x) : Place::reg(use(x));
    consume(x);
    release();
    result = allocate();
    if (row.form == Form::narrowing)
      code_.vector(row.instruction, from.number, 0, Place::reg(result), 256, immediate);
    else
      code_.vector(row.instruction, result, 0, from, 256, immediate);
  }
  keep(value, result);
}

int Body::emit_binary(const MicroOp& micro, const MicroRow& row) {
  int a = micro.operands[0], b = micro.operands[1];
  if (row.commutes && !in_register(a) && in_register(b)) std::swap(a, b);
  const int first = use(a);
  const Place second = place(b);
  consume(a);
  consume(b);
  release();
  // What was freed is still whole: nothing is stored to it before it is read.
  const int result = allocate();
  code_.vector(row.instruction, result, first, second, 256,
               row.has_immediate ? static_cast<int>(micro.immediate) : -1);
  return result;
}

int Body::emit_select(const MicroOp& micro, const MicroRow& row) {
  const int mask = use(micro.operands[0]), no = use(micro.operands[2]);
  const Place yes = place(micro.operands[1]);
  for (int operand : micro.operands) consume(operand);
  release();
  const int result = allocate();
  code_.vector(row.instruction, result, no, yes, 256, mask << 4);
  return result;
}

// The result takes the place of an operand, best of one that is not wanted any more.
int Body::emit_fused(const MicroOp& micro, const MicroRow& row) {
  int a = micro.operands[0], b = micro.operands[1], c = micro.operands[2];
  const auto instruction = [&](int less) {
    Instruction form = row.instruction;
    form.opcode = static_cast<uint8_t>(form.opcode - less);
    return form;
  };
  constexpr int into_addend = 0, into_factor = 0x10, into_factor_by_memory = 0x20;
  const auto apart = [&](int x) { return (x == a) + (x == b) + (x == c) == 1; };
  // A register that holds x and may be overwritten.
  const auto own = [&](int x) {
    if (dies(x) && apart(x)) {
      const int reg = held(x).reg;
      locked_ |= 1u << reg;
      return reg;
    }
    const Place from = place(x);
    const int reg = temporary();
    code_.vector(from.kind == Place::vector ? vex::move : vex::load, reg, 0, from);
    return reg;
  };
  const bool addend = dies(c) && apart(c), left = dies(a) && apart(a), right = dies(b) && apart(b);
  int result;
  if (!addend && !left && (right || (in_register(a) && !in_register(b)))) std::swap(a, b);
  const bool factor = !addend && (left || right || (in_register(c) && !in_register(a)));
  if (!factor) {
    result = own(c);
    if (!in_register(a)) std::swap(a, b);
    const int first = use(a);
    code_.vector(instruction(into_addend), result, first, place(b));
  } else {
    result = own(a);
    if (in_register(c) && !in_register(b)) {
      const int third = use(c);
      code_.vector(instruction(into_factor_by_memory), result, third, place(b));
    } else {
      const int second = use(b);
      code_.vector(instruction(into_factor), result, second, place(c));
    }
  }
  for (int operand : micro.operands) consume(operand);
  release();
  touched_ |= 1u << result;
  return result;
}

}  // namespace tile::cpu::assembler
