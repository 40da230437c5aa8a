// Orders micro-operations, allocates their registers and emits their instructions.
#include "cpu/jit/body.h"

#include <algorithm>
#include <climits>

#include "cpu/jit/masks.h"
#include "support/error.h"

namespace tile::cpu::jit {

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
  return op(value).micro == Micro::column && !masked() && held(value).reg < 0 && held(value).slot < 0 &&
         info(around_.dtypes[op(value).immediate]).bytes == 4 && held(value).uses.size() == 1;
}
bool Body::in_register(int value) {
  return home(value) ? home(value)->kind == Operand::vector : held(value).reg >= 0;
}
// Returns true if this is the value's last use, so that its register may be overwritten.
bool Body::dies(int value) { return !home(value) && held(value).reg >= 0 && held(value).left() == 1; }

Operand Body::operand(int value) {
  if (home(value)) return *home(value);
  Held& at = held(value);
  if (at.reg >= 0) {
    locked_ |= 1u << at.reg;
    return Operand::reg(at.reg);
  }
  if (at.slot >= 0) return around_.slot(at.slot);
  if (folds(value)) return around_.input(static_cast<int>(op(value).immediate));
  return Operand::reg(use(value));
}

int Body::use(int value) {
  if (home(value)) {
    if (home(value)->kind == Operand::vector) return home(value)->number;
    const int reg = temporary();
    code_.vector(instructions::load, reg, 0, *home(value));
    return reg;
  }
  Held& at = held(value);
  if (at.reg < 0) {
    const int reg = allocate();
    if (at.mask >= 0)
      code_.vector(avx512::lanes_of_mask, reg, 0, Operand::reg(at.mask));
    else if (at.slot >= 0)
      code_.vector(instructions::load, reg, 0, around_.slot(at.slot));
    else
      load_input(value, reg);
    keep(value, reg);
  }
  locked_ |= 1u << at.reg;
  return at.reg;
}

void Body::keep(int value, int reg) {
  held(value).reg = reg;
  holds_[static_cast<size_t>(reg)] = value;
}

int Body::temporary() {
  const int reg = allocate();
  locked_ |= 1u << reg;
  return reg;
}
int Body::mask() {
  const int reg = temporary();
  code_.vector(instructions::load, reg, 0, mask_);
  return reg;
}

int Body::allocate() {
  for (int pass = 0; pass < 2; ++pass) {
    for (int reg = 0; reg < registers_of(around_.vectors); ++reg) {
      const uint32_t bit = 1u << reg;
      if (!(around_.registers & bit) || (locked_ & bit) || holds_[static_cast<size_t>(reg)] >= 0) continue;
      touched_ |= bit;
      return reg;
    }
    spill();
  }
  fail(ErrorKind::runtime, "the fused loop assembler ran out of registers");
}
// Spills the value whose next use is farthest away.
void Body::spill() {
  int victim = -1, farthest = -1;
  for (int reg = 0; reg < registers_of(around_.vectors); ++reg) {
    const int value = holds_[static_cast<size_t>(reg)];
    if (value < 0 || (locked_ >> reg & 1)) continue;
    const Held& at = held(value);
    const int next = at.left() > 0 ? at.uses[at.used] : INT_MAX;
    if (next > farthest) farthest = next, victim = reg;
  }
  TILE_CHECK(victim >= 0, "every register is locked");
  int& victims_value = holds_[static_cast<size_t>(victim)];
  Held& at = held(victims_value);
  if (at.slot < 0 && at.mask < 0) {
    at.slot = around_.new_slot();
    code_.vector(instructions::store, victim, 0, around_.slot(at.slot));
  }
  at.reg = -1;
  victims_value = -1;
}
void Body::consume(int value) {
  if (home(value)) return;
  Held& at = held(value);
  ++at.used;
  if (at.left() > 0) return;
  if (at.reg >= 0) holds_[static_cast<size_t>(at.reg)] = -1;
  if (at.mask >= 0) masks_ &= ~(1u << at.mask);
  at.reg = at.mask = -1;
}

void Body::load_input(int value, int reg) {
  TILE_CHECK(row_of(op(value).micro).form == Form::source, "a value is used before it is computed");
  const int input = static_cast<int>(op(value).immediate);
  const DType dtype = around_.dtypes[static_cast<size_t>(input)];
  const uint32_t before = locked_;
  locked_ |= 1u << reg;
  const bool scalar = op(value).micro == Micro::scalar;
  const auto read = [&](const Instruction& instruction) {
    const bool masks = masked() && !scalar && code_.wide();
    code_.vector(instruction, reg, 0, around_.input(input), full_vector, -1,
                 {masks ? column_mask : 0, masks});
  };
  const auto shift = [&](Micro how, int count) {
    code_.vector(row_of(how).instruction, reg, 0, Operand::reg(reg), full_vector, count);
  };
  if (dtype == DType::boolean) {  // bytes: any nonzero byte is true
    read(scalar ? instructions::broadcast_byte : instructions::extend_bytes);
    if (scalar) shift(Micro::shift_right_zeros, 24);
    predicate_lanes(code_, row_of(Micro::greater_integer).instruction, reg, reg,
                    around_.constants.operand(0));
  } else if (op(value).micro == Micro::words) {
    read(instructions::extend_words);
  } else if (scalar) {
    read(instructions::broadcast);
  } else if (dtype == DType::bf16) {
    read(paired(columns_) ? instructions::load : instructions::extend_words);
    if (columns_ == Columns::odd)
      code_.vector(row_of(Micro::bit_and).instruction, reg, reg, around_.constants.operand(0xffff0000));
    else
      shift(Micro::shift_left, 16);
  } else if (dtype == DType::f16) {
    read(row_of(Micro::from_half).instruction);
  } else if (masked() && !code_.wide()) {
    const int there = mask();
    code_.vector(avx2::masked_load, reg, there, around_.input(input));
  } else {
    read(instructions::load);
  }
  locked_ = before;
}

void Body::emit(int value) {
  const MicroOp& micro = op(value);
  const MicroRow& row = row_of(micro.micro);
  const int immediate = row.has_immediate ? static_cast<int>(micro.immediate) : -1;
  int result = -1;
  if (row.form == Form::predicate && code_.wide()) return emit_predicate(value);
  if (row.form == Form::binary || row.form == Form::predicate) {
    result = emit_binary(micro, row);
  } else if (row.form == Form::fused) {
    result = emit_fused(micro, row);
  } else if (row.form == Form::select) {
    result = emit_select(micro);
  } else {
    const int x = micro.operands[0];
    const Operand from = row.form == Form::unary ? operand(x) : Operand::reg(use(x));
    consume(x);
    release();
    result = allocate();
    if (row.form == Form::narrowing)
      code_.vector(row.instruction, from.number, 0, Operand::reg(result), full_vector, immediate);
    else
      code_.vector(row.instruction, result, 0, from, full_vector, immediate);
  }
  keep(value, result);
}

int Body::emit_binary(const MicroOp& micro, const MicroRow& row) {
  int a = micro.operands[0], b = micro.operands[1];
  if (row.commutes && !in_register(a) && in_register(b)) std::swap(a, b);
  const int first = use(a);
  const Operand second = operand(b);
  consume(a);
  consume(b);
  release();
  // Freed operands are still intact: nothing is stored into their registers before they are read.
  const int result = allocate();
  code_.vector(row.instruction, result, first, second, full_vector,
               row.has_immediate ? static_cast<int>(micro.immediate) : -1);
  return result;
}

int Body::emit_select(const MicroOp& micro) {
  const int no = use(micro.operands[2]);
  const Operand yes = operand(micro.operands[1]);
  const int mask = mask_of(micro.operands[0]);  // last, because loads of masks use the scratch register too
  for (int operand : micro.operands) consume(operand);
  release();
  const int result = allocate();
  blend(code_, result, no, yes, mask);
  return result;
}

// AVX-512 puts the predicate into a mask register while one is free.
void Body::emit_predicate(int value) {
  const MicroOp& micro = op(value);
  const MicroRow& row = row_of(micro.micro);
  const int first = use(micro.operands[0]);
  const Operand second = operand(micro.operands[1]);
  for (int k = 0; k < 2; ++k) consume(micro.operands[k]);
  release();
  int mask = first_kept;
  while (mask < mask_registers && (masks_ >> mask & 1)) ++mask;
  const bool keeps = mask < mask_registers;
  if (!keeps) mask = scratch_mask;
  code_.vector(row.instruction, mask, first, second, full_vector,
               row.has_immediate ? static_cast<int>(micro.immediate) : -1);
  if (keeps) {
    masks_ |= 1u << mask;
    held(value).mask = mask;
    return;
  }
  const int lanes = allocate();
  code_.vector(avx512::lanes_of_mask, lanes, 0, Operand::reg(mask));
  keep(value, lanes);
}

// Returns the mask's number for blend().
int Body::mask_of(int value) {
  if (!code_.wide()) return use(value);
  if (!home(value) && held(value).mask >= 0) return held(value).mask;
  code_.vector(avx512::mask_of_lanes, scratch_mask, 0, Operand::reg(use(value)));
  return scratch_mask;
}

Condition Body::test(int value) {
  const int mask = mask_of(value);
  if (code_.wide()) {
    code_.test_mask(mask);
    return Condition::not_below;
  }
  constexpr int all_lanes = 255;
  code_.vector(avx2::mask_bits, rcx, 0, Operand::reg(mask));
  code_.compare_number(rcx, all_lanes);
  return Condition::not_equal;
}

// The result overwrites an operand's register, preferably that of a dead operand.
int Body::emit_fused(const MicroOp& micro, const MicroRow& row) {
  int a = micro.operands[0], b = micro.operands[1], c = micro.operands[2];
  const auto instruction = [&](int less) {
    Instruction form = row.instruction;
    form.opcode = static_cast<uint8_t>(form.opcode - less);
    return form;
  };
  constexpr int into_addend = 0, into_factor = 0x10, into_factor_by_memory = 0x20;
  const auto unique = [&](int x) { return (x == a) + (x == b) + (x == c) == 1; };
  // Returns a register that holds x and may be overwritten.
  const auto own = [&](int x) {
    if (dies(x) && unique(x)) {
      const int reg = held(x).reg;
      locked_ |= 1u << reg;
      return reg;
    }
    const Operand from = operand(x);
    const int reg = temporary();
    code_.vector(from.kind == Operand::vector ? instructions::move : instructions::load, reg, 0, from);
    return reg;
  };
  const bool addend = dies(c) && unique(c), left = dies(a) && unique(a), right = dies(b) && unique(b);
  int result;
  if (!addend && !left && (right || (in_register(a) && !in_register(b)))) std::swap(a, b);
  const bool factor = !addend && (left || right || (in_register(c) && !in_register(a)));
  if (!factor) {
    result = own(c);
    if (!in_register(a)) std::swap(a, b);
    const int first = use(a);
    code_.vector(instruction(into_addend), result, first, operand(b));
  } else {
    result = own(a);
    if (in_register(c) && !in_register(b)) {
      const int third = use(c);
      code_.vector(instruction(into_factor_by_memory), result, third, operand(b));
    } else {
      const int second = use(b);
      code_.vector(instruction(into_factor), result, second, operand(c));
    }
  }
  for (int operand : micro.operands) consume(operand);
  release();
  touched_ |= 1u << result;
  return result;
}

}  // namespace tile::cpu::jit
