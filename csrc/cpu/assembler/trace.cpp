// Recording: equal micro-operations are one, and those of constants are constants.
#include "cpu/assembler/trace.h"

#include <algorithm>

namespace tile::cpu::assembler {

int Trace::add(Micro micro, int a, int b, int c, uint32_t immediate) {
  if (micro == Micro::bit_xor && ops[static_cast<size_t>(a)].micro == Micro::constant &&
      ops[static_cast<size_t>(b)].micro == Micro::constant)
    return constant(ops[static_cast<size_t>(a)].immediate ^ ops[static_cast<size_t>(b)].immediate);
  const MicroOp op{micro, {a, b, c}, immediate};
  const auto found = std::find(ops.begin(), ops.end(), op);
  if (found == ops.end()) {
    ops.push_back(op);
    return static_cast<int>(ops.size()) - 1;
  }
  return static_cast<int>(found - ops.begin());
}

TracedBits to_bf16_bits(Traced x) {
  const TracedBits bits = TracedBits::of(x.id);
  const auto high = [](TracedBits b) {
    return TracedBits::of(record(Micro::shift_right_zeros, b.id, -1, -1, 16));
  };
  const TracedBits rounded = high(bits + TracedBits(0x7fff) + (high(bits) & TracedBits(1)));
  return select(x != x, TracedBits(0x7fc0), rounded);
}
Traced round_to_bf16(Traced x) { return Traced::of((to_bf16_bits(x) << 16).id); }
Traced round_to_f16(Traced x) {
  return Traced::of(record(Micro::from_half, record(Micro::to_half, x.id, -1, -1, 0)));
}

}  // namespace tile::cpu::assembler
