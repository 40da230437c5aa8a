// The elementwise rows of the interpreter, as recordings: the same templates, hence the same bits.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "cpu/interpreter/lane.h"

namespace tile::cpu::jit {

struct TracedRow {
  std::string_view name;
  Lane lane;                           // of the first operand (of `where`: of the second); masks are u8
  int (*record)(const int* operands);  // to Trace::current(); returns the result's number
};
// Null: it cannot be recorded.
const TracedRow* find_traced(std::string_view name, Lane lane);
std::array<uint32_t, 16> powers_of_sixteenths(int shift);  // of Micro::table, as bits

}  // namespace tile::cpu::jit
