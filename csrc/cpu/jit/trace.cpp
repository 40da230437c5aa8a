// Records micro-operations: merges equal ones and folds constants.
#include "cpu/jit/trace.h"

#include <algorithm>

namespace tile::cpu::jit {

namespace {
constexpr uint32_t sign = 0x80000000, infinity = 0x7f800000;
bool is_number(uint32_t bits) { return (bits & ~sign) <= infinity; }
}  // namespace

// Returns an earlier value that equals the result, or -1.
int Trace::folded(Micro micro, int a, int b, int c, uint32_t immediate) {
  constexpr uint32_t differ = 4;  // predicate `not equal`: a number equals itself
  const auto known = [&](int value) { return ops[static_cast<size_t>(value)].micro == Micro::constant; };
  const auto bits = [&](int value) { return ops[static_cast<size_t>(value)].immediate; };
  if (micro == Micro::bit_xor && known(a) && known(b)) return constant(bits(a) ^ bits(b));
  if (micro == Micro::compare && immediate == differ && a == b && known(a) && is_number(bits(a)))
    return constant(0);
  if (micro == Micro::select && known(a) && bits(a) == 0) return c;
  return -1;
}

int Trace::add(Micro micro, int a, int b, int c, uint32_t immediate) {
  if (const int same = folded(micro, a, b, c, immediate); same >= 0) return same;
  const MicroOp op{micro, {a, b, c}, immediate};
  const auto found = std::find(ops.begin(), ops.end(), op);
  if (found == ops.end()) {
    nans.push_back(nan_bits(op));
    ops.push_back(op);
    return static_cast<int>(ops.size()) - 1;
  }
  return static_cast<int>(found - ops.begin());
}

NanBits Trace::nan_bits(const MicroOp& op) const {
  constexpr uint32_t quiet = 0x00400000, low_half = 0xffff;
  if (op.micro == Micro::constant) {
    const bool number = is_number(op.immediate);
    return {number || (op.immediate & low_half) == 0, number || (op.immediate & quiet) != 0};
  }
  if (op.micro == Micro::shift_left && op.immediate >= 16) return {true, false};
  const NanOf nan = row_of(op.micro).nan;
  if (nan == NanOf::any) return {};
  if (nan == NanOf::never) return {true, true};
  const auto of = [&](int k) { return nans[static_cast<size_t>(op.operands[k])]; };
  if (nan == NanOf::signs) {
    const MicroOp& mask = ops[static_cast<size_t>(op.operands[1])];
    const uint32_t kept = op.micro == Micro::bit_and ? mask.immediate : ~mask.immediate;
    return mask.micro == Micro::constant && (kept | sign) == ~0u ? of(0) : NanBits{};
  }
  const int last = operand_count(op);
  NanBits all{true, true};
  for (int k = nan == NanOf::picks ? last - 2 : 0; k < last; ++k) {
    all.low_zero = all.low_zero && of(k).low_zero;
    all.quiet = all.quiet && of(k).quiet;
  }
  return {all.low_zero, nan == NanOf::arithmetic || all.quiet};
}

}  // namespace tile::cpu::jit
