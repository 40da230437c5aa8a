// Encodes prefixes, addresses and displacements of instructions.
#include "cpu/jit/encoder.h"

#include <cstring>

namespace tile::cpu::jit {

void Encoder::four(int32_t value) {
  uint8_t bytes[4];
  std::memcpy(bytes, &value, 4);
  bytes_.insert(bytes_.end(), bytes, bytes + 4);
}

void Encoder::address_bytes(int reg, const Operand& operand, int behind, int unit) {
  const int field = (reg & 7) << 3;
  if (operand.kind == Operand::vector) {
    byte(0xc0 | field | (operand.number & 7));
  } else if (operand.kind == Operand::pool) {  // relative to the next instruction
    byte(field | 5);
    const int32_t offset =
        operand.number == mask_table ? mask_table_offset() : pool_offset(operand.number, vectors_);
    four(offset + operand.offset - (size() + 4 + behind));
  } else {
    const int units = operand.offset / unit;
    const bool small = operand.offset % unit == 0 && units >= -128 && units <= 127;
    const int mode = small ? 0x40 : 0x80;
    if (operand.index >= 0 || (operand.number & 7) == rsp) {
      const int scale = operand.scale == 8 ? 3 : operand.scale == 4 ? 2 : operand.scale == 2 ? 1 : 0;
      byte(mode | field | 4);
      byte(scale << 6 | ((operand.index >= 0 ? operand.index : rsp) & 7) << 3 | (operand.number & 7));
    } else {
      byte(mode | field | (operand.number & 7));
    }
    if (small)
      byte(units);
    else
      four(operand.offset);
  }
}

void Encoder::vector(const Instruction& i, int first, int second, const Operand& third, int bits,
                     int immediate, Masked masked) {
  if (i.extension >= 0) {
    second = first;  // the result is encoded as the second operand
    first = i.extension;
  }
  if (bits == full_vector) bits = 8 * bytes_of(vectors_);
  if (wide())
    evex(i, first, second, third, bits, masked);
  else
    vex(i, first, second, third, bits == 256);
  const int unit = wide() ? bits / 8 / i.part : 1;
  address_bytes(first, third, immediate >= 0 ? 1 : 0, unit);
  if (immediate >= 0) byte(immediate);
}

void Encoder::vex(const Instruction& i, int first, int second, const Operand& third, bool is_256) {
  const int base = third.kind == Operand::pool ? 0 : third.number, index = third.index >= 0 ? third.index : 0;
  byte(0xc4);
  byte((first >= 8 ? 0 : 0x80) | (index >= 8 ? 0 : 0x40) | (base >= 8 ? 0 : 0x20) | i.map);
  byte((~second & 15) << 3 | (is_256 ? 4 : 0) | i.prefix);
  byte(i.opcode);
}

// EVEX has a fifth bit for register numbers. For a register as the third operand it takes the position of an
// index register's fourth bit.
void Encoder::evex(const Instruction& i, int first, int second, const Operand& third, int bits,
                   Masked masked) {
  const bool in_register = third.kind == Operand::vector;
  const int base = third.kind == Operand::pool ? 0 : third.number;
  const bool high = in_register ? base >= 16 : third.index >= 8;
  byte(0x62);
  byte((first & 8 ? 0 : 0x80) | (high ? 0 : 0x40) | (base & 8 ? 0 : 0x20) | (first & 16 ? 0 : 0x10) | i.map);
  byte((~second & 15) << 3 | 4 | i.prefix);
  byte((masked.zero ? 0x80 : 0) |
       (bits == 512   ? 0x40
        : bits == 256 ? 0x20
                      : 0) |
       (second & 16 ? 0 : 8) | masked.number);
  byte(i.opcode);
}

void Encoder::load_mask(int mask, const Operand& from) {
  constexpr Instruction load{0x90, 1, 0};
  vex(load, mask, 0, from, false);
  address_bytes(mask, from, 0);
}
void Encoder::test_mask(int mask) {
  constexpr Instruction test{0x98, 1, 0};
  vex(test, mask, 0, Operand::reg(mask), false);
  address_bytes(mask, Operand::reg(mask), 0);
}

void Encoder::general(int opcode, int reg, const Operand& at) {
  const int base = at.kind == Operand::pool ? 0 : at.number, index = at.index >= 0 ? at.index : 0;
  byte(0x48 | (reg >= 8 ? 4 : 0) | (index >= 8 ? 2 : 0) | (base >= 8 ? 1 : 0));
  if (opcode > 0xff) byte(opcode >> 8);
  byte(opcode & 0xff);
  address_bytes(reg, at, 0);
}
void Encoder::registers(int opcode, int rm, int reg) {
  byte(0x48 | (reg >= 8 ? 4 : 0) | (rm >= 8 ? 1 : 0));
  byte(opcode);
  byte(0xc0 | (reg & 7) << 3 | (rm & 7));
}
int Encoder::number_to(int extension, int reg, int32_t number) {
  registers(0x81, reg, extension);
  four(number);
  return size() - 4;
}
void Encoder::set_number(int position, int32_t number) {
  std::memcpy(&bytes_[static_cast<size_t>(position)], &number, 4);
}

void Encoder::push(int reg) {
  if (reg >= 8) byte(0x41);
  byte(0x50 | (reg & 7));
}
void Encoder::pop(int reg) {
  if (reg >= 8) byte(0x41);
  byte(0x58 | (reg & 7));
}
void Encoder::ret() {
  byte(0xc5), byte(0xf8), byte(0x77);  // vzeroupper
  byte(0xc3);
}

void Encoder::jump(Condition condition, Label& to) {
  if (condition == Condition::always) {
    byte(0xe9);
  } else {
    byte(0x0f);
    byte(0x80 | static_cast<int>(condition));
  }
  four(to.position - (size() + 4));
  if (to.position < 0) to.uses.push_back(size());
}
void Encoder::bind(Label& label) {
  label.position = size();
  for (int end : label.uses) set_number(end - 4, label.position - end);
}

}  // namespace tile::cpu::jit
