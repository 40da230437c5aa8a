// assert: looks for an element that is false.
#include <cstring>

#include "cpu/operand.h"
#include "ir/assertion.h"

namespace tile::cpu {
namespace {

struct AssertUnit final : Unit {
  Assertion assertion;
  WholeOperand condition;

  Signal run(Frame& frame) const override {
    const size_t mark = frame.scratch.mark();
    const char* lanes = condition.lanes(frame);
    const void* found = std::memchr(lanes, 0, static_cast<size_t>(condition.count()));
    if (found) [[unlikely]] {
      const auto& block = frame.block;
      fail(ErrorKind::runtime,
           failure_text(assertion, static_cast<const char*>(found) - lanes, {block[0], block[1], block[2]}));
    }
    frame.scratch.release(mark);
    return Signal::next;
  }
};
std::unique_ptr<Unit> lower_assert(Lower& lower, const Op& op) {
  auto unit = std::make_unique<AssertUnit>();
  unit->assertion = Assertion::of(op, lower.kernel());
  unit->condition = WholeOperand::of(lower, op.operands[0]);
  return unit;
}

const AddLowering assert_{{"assert", lower_assert}};

}  // namespace
}  // namespace tile::cpu
