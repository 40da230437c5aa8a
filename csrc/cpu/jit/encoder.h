// Instructions of x86-64 with AVX2 or AVX-512 as bytes, jumps, and constants that stand before the code.
#pragma once
#include <cstdint>
#include <vector>

#include "cpu/jit/vectors.h"

namespace tile::cpu::jit {

// General registers; vector registers are the numbers 0 to 15, of AVX-512 to 31.
enum General : int { rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15 };

// A vector instruction: its opcode map (1: 0f, 2: 0f38, 3: 0f3a) and prefix (0: none, 1: 66, 2: f3, 3: f2).
// Those that both sets have are the same but for how the prefix is written.
struct Instruction {
  uint8_t opcode = 0, map = 0, prefix = 0;
  int extension = -1;  // instead of the first operand
  uint8_t part = 1;    // in memory stand the bytes of a vector over this
};

namespace instructions {
inline constexpr Instruction load{0x10, 1, 0}, store{0x11, 1, 0}, move{0x28, 1, 0}, stream{0x2b, 1, 0};
inline constexpr Instruction load_lane{0x10, 1, 2, -1, 4}, store_lane{0x11, 1, 2, -1, 4},
    broadcast{0x18, 2, 1, -1, 16}, broadcast_byte{0x78, 2, 1, -1, 64};
inline constexpr Instruction extend_words{0x33, 2, 1, -1, 2}, extend_bytes{0x31, 2, 1, -1, 4};
inline constexpr Instruction upper_half{0x19, 3, 1}, permute{0x04, 3, 1};  // of 256 bits, of 128
}  // namespace instructions
// AVX2 only: masks are vectors.
namespace avx2 {
inline constexpr Instruction masked_load{0x2c, 2, 1}, masked_store{0x2e, 2, 1}, mask_bits{0x50, 1, 0},
    blend{0x4a, 3, 1}, blend_words{0x0e, 3, 1};
inline constexpr Instruction pack_words{0x2b, 2, 1}, pack_signed_words{0x6b, 1, 1},
    pack_signed_bytes{0x63, 1, 1}, store_half{0x13, 1, 0};
}  // namespace avx2
// AVX-512 only: masks have registers of their own.
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

// A mask register that an instruction of AVX-512 obeys: other lanes keep what they held, or are zero.
struct Masked {
  int number = 0;  // 0: all lanes
  bool zero = false;
};
inline constexpr int whole = 0;  // as a number of bits: the vector's

class Encoder {
 public:
  explicit Encoder(Vectors vectors) : vectors_(vectors) {}
  Vectors vectors() const { return vectors_; }
  bool wide() const { return vectors_ == Vectors::avx512; }
  int lanes() const { return lanes_of(vectors_); }

  // first = instruction(second, third); `second` is 0 where an instruction has two operands.
  void vector(const Instruction& instruction, int first, int second, const Operand& third, int bits = whole,
              int immediate = -1, Masked masked = {});
  void load_mask(int mask, const Operand& from);  // of 16 lanes
  void test_mask(int mask);                       // below: all of 16 lanes are set

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
  // Returns where the number stands, to be changed by set_number.
  int subtract(int reg, int32_t number) { return number_to(5, reg, number); }
  void compare_number(int reg, int32_t number) { number_to(7, reg, number); }
  void set_number(int position, int32_t number);
  void push(int reg);
  void pop(int reg);
  void ret();  // clears the vectors' upper halves first

  void jump(Condition condition, Label& to);
  void bind(Label& label);

  int size() const { return static_cast<int>(bytes_.size()); }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  void byte(int value) { bytes_.push_back(static_cast<uint8_t>(value)); }
  void four(int32_t value);
  void general(int opcode, int reg, const Operand& operand);  // opcode: of one byte or two
  void registers(int opcode, int rm, int reg);
  int number_to(int extension, int reg, int32_t number);
  void vex(const Instruction& instruction, int first, int second, const Operand& third, bool is_256);
  void evex(const Instruction& instruction, int first, int second, const Operand& third, int bits,
            Masked masked);
  // ModRM, SIB and displacement, which as one byte counts in `unit`; `behind`: bytes of the instruction
  // after.
  void address_bytes(int reg, const Operand& operand, int behind, int unit = 1);
  Vectors vectors_;
  std::vector<uint8_t> bytes_;
};

// What stands before the code. Next to it the table of masks: of AVX2 eight lanes of ones and eight of zeros,
// so that a mask of the first n lanes starts 8 - n lanes into these; of AVX-512 the 16 bits of the first n
// lanes. Before it vectors of equal lanes.
inline constexpr int mask_table_bytes = 64;
inline int32_t pool_offset(int constant, Vectors vectors) {
  return -mask_table_bytes - bytes_of(vectors) * (constant + 1);
}
inline int32_t mask_table_offset() { return -mask_table_bytes; }
inline constexpr int mask_table = -1;  // as the number of a constant

}  // namespace tile::cpu::jit
