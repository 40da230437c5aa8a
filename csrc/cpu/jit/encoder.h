// Encodes x86-64 instructions with AVX2 or AVX-512, jumps, and constants that precede the code.
#pragma once
#include <cstdint>
#include <vector>

#include "cpu/jit/vectors.h"

namespace tile::cpu::jit {

// General registers. Vector registers are numbered 0 to 15, with AVX-512 0 to 31.
enum General : int { rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15 };

// A vector instruction: its opcode map (1: 0f, 2: 0f38, 3: 0f3a) and prefix (0: none, 1: 66, 2: f3, 3: f2).
// Instructions of both sets differ only in the encoding of the prefix.
struct Instruction {
  uint8_t opcode = 0, map = 0, prefix = 0;
  int extension = -1;  // replaces the first operand
  uint8_t part = 1;    // a memory operand has the bytes of a vector divided by this
};

namespace instructions {
inline constexpr Instruction load{0x10, 1, 0}, store{0x11, 1, 0}, move{0x28, 1, 0}, stream{0x2b, 1, 0};
inline constexpr Instruction load_lane{0x10, 1, 2, -1, 4}, store_lane{0x11, 1, 2, -1, 4},
    broadcast{0x18, 2, 1, -1, 16}, broadcast_byte{0x78, 2, 1, -1, 64};
inline constexpr Instruction extend_words{0x33, 2, 1, -1, 2}, extend_bytes{0x31, 2, 1, -1, 4};
inline constexpr Instruction upper_half{0x19, 3, 1}, permute{0x04, 3, 1};  // on 256 and 128 bits
}  // namespace instructions
// AVX2 only: masks are vectors.
namespace avx2 {
inline constexpr Instruction masked_load{0x2c, 2, 1}, masked_store{0x2e, 2, 1}, mask_bits{0x50, 1, 0},
    blend{0x4a, 3, 1}, blend_words{0x0e, 3, 1};
inline constexpr Instruction pack_words{0x2b, 2, 1}, pack_signed_words{0x6b, 1, 1},
    pack_signed_bytes{0x63, 1, 1}, store_half{0x13, 1, 0};
}  // namespace avx2
// AVX-512 only: masks have their own registers.
namespace avx512 {
inline constexpr Instruction blend{0x65, 2, 1}, lanes_of_mask{0x38, 2, 2}, mask_of_lanes{0x39, 2, 2};
inline constexpr Instruction narrow_to_words{0x33, 2, 2, -1, 2}, narrow_to_bytes{0x31, 2, 2, -1, 4};
inline constexpr Instruction upper_256{0x1b, 3, 1},
    ternary{0x25, 3, 1};  // of its three operands, by a table of eight bits
}  // namespace avx512

// The operand of an instruction: a vector register, memory at base + index * scale + offset, or a constant of
// the pool.
struct Operand {
  enum Kind : uint8_t { vector, memory, pool } kind = vector;
  int number = 0;  // register, base register or constant
  int index = -1, scale = 1;
  int32_t offset = 0;

  static Operand at(int base, int32_t offset) { return {memory, base, -1, 1, offset}; }
  static Operand indexed(int base, int index, int scale) { return {memory, base, index, scale, 0}; }
  static Operand constant(int number) { return {pool, number, -1, 1, 0}; }
  static Operand reg(int number) { return {vector, number, -1, 1, 0}; }
};

struct Label {
  int position = -1;
  std::vector<int> uses;
};
enum class Condition : uint8_t { below = 2, not_below = 3, not_equal = 5, always = 16 };

// A mask register of an AVX-512 instruction: unset lanes keep their value, or become zero.
struct Masked {
  int number = 0;  // 0: all lanes
  bool zero = false;
};
inline constexpr int full_vector = 0;  // as a number of bits: the whole vector

class Encoder {
 public:
  explicit Encoder(Vectors vectors) : vectors_(vectors) {}
  Vectors vectors() const { return vectors_; }
  bool wide() const { return vectors_ == Vectors::avx512; }
  int lanes() const { return lanes_of(vectors_); }

  // Emits first = instruction(second, third); `second` is 0 for instructions with two operands.
  void vector(const Instruction& instruction, int first, int second, const Operand& third,
              int bits = full_vector, int immediate = -1, Masked masked = {});
  void load_mask(int mask, const Operand& from);  // of 16 lanes
  void test_mask(int mask);                       // sets condition `below` if all of 16 lanes are set

  void load(int to, const Operand& from) { general(0x8b, to, from); }
  void store(const Operand& to, int from) { general(0x89, from, to); }
  void add(int to, const Operand& from) { general(0x03, to, from); }
  void address(int to, const Operand& of) { general(0x8d, to, of); }
  void prefetch(const Operand& from) { general(0x0f18, 2, from); }  // to the second-level cache
  void move(int to, int from) { registers(0x89, to, from); }
  void compare(int a, int b) { registers(0x39, a, b); }
  void clear(int reg) { registers(0x31, reg, reg); }
  void negate(int reg) { registers(0xf7, reg, 3); }
  void add(int reg, int32_t number) { number_to(0, reg, number); }
  void bit_and(int reg, int32_t number) { number_to(4, reg, number); }
  // Returns the position of the number, for set_number.
  int subtract(int reg, int32_t number) { return number_to(5, reg, number); }
  void compare_number(int reg, int32_t number) { number_to(7, reg, number); }
  void set_number(int position, int32_t number);
  void push(int reg);
  void pop(int reg);
  void ret();  // clears the upper halves of vector registers first

  void jump(Condition condition, Label& to);
  void bind(Label& label);

  int size() const { return static_cast<int>(bytes_.size()); }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  void byte(int value) { bytes_.push_back(static_cast<uint8_t>(value)); }
  void four(int32_t value);
  void general(int opcode, int reg, const Operand& operand);  // opcode: one or two bytes
  void registers(int opcode, int rm, int reg);
  int number_to(int extension, int reg, int32_t number);
  void vex(const Instruction& instruction, int first, int second, const Operand& third, bool is_256);
  void evex(const Instruction& instruction, int first, int second, const Operand& third, int bits,
            Masked masked);
  // Emits ModRM, SIB and displacement. A displacement of one byte counts in `unit`; `behind` is the number of
  // instruction bytes that follow.
  void address_bytes(int reg, const Operand& operand, int behind, int unit = 1);
  Vectors vectors_;
  std::vector<uint8_t> bytes_;
};

// The data before the code. Directly before it is the table of masks. For AVX2 it has eight lanes of ones and
// eight of zeros, so that a mask of the first n lanes begins 8 - n lanes into it. For AVX-512 it has the 16
// bits of the first n lanes for each n. The vector constants precede the table.
inline constexpr int mask_table_bytes = 64;
inline int32_t pool_offset(int constant, Vectors vectors) {
  return -mask_table_bytes - bytes_of(vectors) * (constant + 1);
}
inline int32_t mask_table_offset() { return -mask_table_bytes; }
inline constexpr int mask_table = -1;  // used as the number of a constant

}  // namespace tile::cpu::jit
