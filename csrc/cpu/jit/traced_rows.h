// The interpreter's elementwise rows as recordings: they instantiate the same templates, so the results have
// the same bits.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

#include "cpu/interpreter/lane.h"

namespace tile::cpu::jit {

struct TracedRow {
  std::string_view name;
  Lane lane;                           // of the first operand (of `where`: of the second); masks are u8
  int (*record)(const int* operands);  // records to Trace::current(); returns the result's number
};
// Returns null if the row cannot be recorded.
const TracedRow* find_traced(std::string_view name, Lane lane);
std::array<uint32_t, 16> powers_of_sixteenths(int shift);  // for Micro::table, as bits

}  // namespace tile::cpu::jit
