// assert: searches for a false element.
#include <cstring>

#include "cpu/interpreter/operand.h"
#include "ir/assertion.h"

namespace tile::cpu {
namespace {

struct AssertNode final : OpNode {
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
std::unique_ptr<OpNode> lower_assert(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<AssertNode>();
  node->assertion = Assertion::of(op, lower.kernel());
  node->condition = WholeOperand::of(lower, op.operands[0]);
  return node;
}

const AddLoweringRule assert_{{"assert", lower_assert}};

}  // namespace
}  // namespace tile::cpu
