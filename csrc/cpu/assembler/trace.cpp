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

}  // namespace tile::cpu::assembler
