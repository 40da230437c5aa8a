// Atomic operations on elements at index tiles.
#include <cstring>

#include "cpu/interpreter/atomic_change.h"
#include "cpu/interpreter/elements.h"
#include "cpu/interpreter/stream.h"

namespace tile::cpu {
namespace {

struct AtomicNode final : OpNode {
  const AtomicKind* kind = nullptr;
  Elements elements;
  std::vector<WholeOperand> values;
  std::optional<WholeResult> result;
  AtomicChange change;
  DType dtype = DType::f32;
  bool releases = false;

  Signal run(Frame& frame) const override {
    if (releases) finish_streams();  // only streaming stores can be reordered after an atomic access
    const size_t mark = frame.scratch.mark();
    const int64_t bytes = lane_bytes(lane_of(dtype));
    const char* lanes[2] = {};
    for (size_t i = 0; i < values.size(); ++i) lanes[i] = values[i].lanes(frame);
    char* out = result ? result->lanes(frame) : nullptr;
    Scalar unused;
    elements.each(frame, [&](int64_t i, char* address) {
      char* before = out ? out + i * bytes : unused.bytes;
      const char* value = lanes[0] + i * bytes;
      if (!address) {
        kind->compares() ? std::memcpy(before, value, static_cast<size_t>(bytes))
                         : std::memset(before, 0, static_cast<size_t>(bytes));
      } else if (kind->compares()) {
        change.compare(address, value, lanes[1] + i * bytes, before);
      } else if (!kind->values) {
        change.load(address, before);
      } else if (!kind->gives) {
        change.store(address, value);
      } else {
        change(address, value, before);
      }
    });
    if (result && result->scalar < 0) result->finish(frame);
    frame.scratch.release(mark);
    return Signal::next;
  }
};

std::unique_ptr<OpNode> lower_atomic(LoweringContext& lower, const Op& op) {
  auto node = std::make_unique<AtomicNode>();
  node->kind = &atomic_kind(op);
  const auto values = static_cast<size_t>(node->kind->values);
  for (size_t i = 1; i <= values; ++i) node->values.push_back(WholeOperand::of(lower, op.operands[i]));
  node->elements = Elements(lower, op, 1 + values);
  node->dtype = op.type(0).dtype;
  node->releases = releases(memory_order(op));
  node->change = AtomicChange(node->dtype, node->kind->combination);
  if (node->kind->gives) node->result = WholeResult::of(lower, op.results[0]);
  return node;
}

const std::vector<AddLoweringRule> lowerings_ = [] {
  std::vector<AddLoweringRule> all;
  for (const AtomicKind& kind : atomic_kinds) all.emplace_back(LoweringRule{kind.name, lower_atomic});
  return all;
}();

}  // namespace
}  // namespace tile::cpu
