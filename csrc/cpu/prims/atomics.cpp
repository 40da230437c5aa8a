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
  ChangeFunction change = nullptr;  // null: a load, a store or a comparison
  AtomicElement element;
  DType dtype = DType::f32;
  bool releases = false;

  Signal run(Frame& frame) const override {
    if (releases) finish_streams();  // only streaming stores can be reordered after an atomic access
    const size_t mark = frame.scratch.mark();
    const int64_t bytes = lane_bytes(lane_of(dtype));
    const char* lanes[2] = {};
    for (size_t i = 0; i < values.size(); ++i) lanes[i] = values[i].lanes(frame);
    char* out = result ? result->lanes(frame) : nullptr;
    elements.each(frame, [&](int64_t first, char* data, const int64_t* offsets, int64_t n, bool) {
      if (change)
        return change(data, offsets, lanes[0] + first * bytes, out ? out + first * bytes : nullptr, n);
      for (int64_t i = 0; i < n; ++i) {
        char* const address = offsets[i] == no_element ? nullptr : data + offsets[i];
        access(address, (first + i) * bytes, lanes, out, bytes);
      }
    });
    if (result && result->scalar < 0) result->finish(frame);
    frame.scratch.release(mark);
    return Signal::next;
  }
  // Loads, stores or compares; a null address is no element. `at`: of the element's lanes.
  void access(char* address, int64_t at, const char* const (&lanes)[2], char* out, int64_t bytes) const {
    if (kind->compares()) {
      if (address)
        element.compare(address, lanes[0] + at, lanes[1] + at, out + at);
      else
        std::memcpy(out + at, lanes[0] + at, static_cast<size_t>(bytes));
    } else if (!kind->values) {
      if (address)
        element.load(address, out + at);
      else
        std::memset(out + at, 0, static_cast<size_t>(bytes));
    } else if (address) {
      element.store(address, lanes[0] + at);
    }
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
  node->element = AtomicElement(node->dtype);
  if (node->kind->values == 1 && node->kind->gives)
    node->change = atomic_change(node->dtype, node->kind->combination, memory_scope(op));
  if (node->kind->gives && (!node->change || lower.is_read(op.results[0])))
    node->result = WholeResult::of(lower, op.results[0]);
  return node;
}

const std::vector<AddLoweringRule> lowerings_ = [] {
  std::vector<AddLoweringRule> all;
  for (const AtomicKind& kind : atomic_kinds) all.emplace_back(LoweringRule{kind.name, lower_atomic});
  return all;
}();

}  // namespace
}  // namespace tile::cpu
