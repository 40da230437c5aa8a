// Prefixes, addresses and displacements of instructions.
#include "cpu/assembler/encoder.h"

#include <cstring>

namespace tile::cpu::assembler {

void Encoder::four(int32_t value) {
  uint8_t bytes[4];
  std::memcpy(bytes, &value, 4);
  bytes_.insert(bytes_.end(), bytes, bytes + 4);
}

void Encoder::place(int reg, const Place& place, int behind) {
  const int field = (reg & 7) << 3;
  if (place.kind == Place::vector) {
    byte(0xc0 | field | (place.number & 7));
  } else if (place.kind == Place::pool) {  // relative to the next instruction
    byte(field | 5);
    const int32_t offset = place.number == mask_table ? mask_table_offset() : pool_offset(place.number);
    four(offset + place.offset - (size() + 4 + behind));
  } else {
    const bool small = place.offset >= -128 && place.offset <= 127;
    const int mode = small ? 0x40 : 0x80;
    if (place.index >= 0 || (place.number & 7) == rsp) {
      const int scale = place.scale == 8 ? 3 : place.scale == 4 ? 2 : place.scale == 2 ? 1 : 0;
      byte(mode | field | 4);
      byte(scale << 6 | ((place.index >= 0 ? place.index : rsp) & 7) << 3 | (place.number & 7));
    } else {
      byte(mode | field | (place.number & 7));
    }
    if (small)
      byte(place.offset);
    else
      four(place.offset);
  }
}

void Encoder::vector(const Instruction& i, int first, int second, const Place& third, int bits,
                     int immediate) {
  if (i.extension >= 0) {
    second = first;  // the result stands where the second operand does
    first = i.extension;
  }
  const int base = third.kind == Place::pool ? 0 : third.number, index = third.index >= 0 ? third.index : 0;
  byte(0xc4);
  byte((first >= 8 ? 0 : 0x80) | (index >= 8 ? 0 : 0x40) | (base >= 8 ? 0 : 0x20) | i.map);
  byte((~second & 15) << 3 | (bits == 256 ? 4 : 0) | i.prefix);
  byte(i.opcode);
  place(first, third, immediate >= 0 ? 1 : 0);
  if (immediate >= 0) byte(immediate);
}

void Encoder::general(int opcode, int reg, const Place& at) {
  const int base = at.kind == Place::pool ? 0 : at.number, index = at.index >= 0 ? at.index : 0;
  byte(0x48 | (reg >= 8 ? 4 : 0) | (index >= 8 ? 2 : 0) | (base >= 8 ? 1 : 0));
  byte(opcode);
  place(reg, at, 0);
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

}  // namespace tile::cpu::assembler
