// Atomic operations: emits barriers if others can observe an order, and shares results among threads that
// hold the same elements.
#include <bit>

#include "cuda/access_text.h"
#include "cuda/lowering_rule.h"
#include "ir/atomic.h"
#include "ir/walk.h"

namespace tile::cuda {
namespace {

// A primitive that changes elements, and its name in the device library.
struct Change {
  std::string_view primitive, name;
};
constexpr Change changes[] = {{"atomic_add", "AtomicAdd"},      {"atomic_max", "AtomicMax"},
                              {"atomic_min", "AtomicMin"},      {"atomic_and", "AtomicAnd"},
                              {"atomic_or", "AtomicOr"},        {"atomic_xor", "AtomicXor"},
                              {"atomic_xchg", "AtomicExchange"}};

bool is_seen(const Op& op, const UseCounts& uses) { return !op.results.empty() && uses.count(op.results[0]); }

// Memory order has no effect if the kernel only changes this array and no result is used: arrays that it
// never writes are constant during the launch.
MemoryOrder order_of(const Emitter& emitter, const Op& op, const UseCounts& uses) {
  const MemoryOrder order = memory_order(op);
  if (order == MemoryOrder::relaxed) return order;
  const Value* own = root_array(op.operands[0]);
  bool observed = false;
  walk(emitter.function().body(), [&](const Op& other) {
    if (!other.traits().reads && !other.traits().writes) return;
    const Value* array = root_array(other.operands[0]);
    const bool unseen = array == own && find_atomic(other) && !is_seen(other, uses);
    if (!emitter.facts(array).constant && !unseen) observed = true;
  });
  return observed ? order : MemoryOrder::relaxed;
}

// Returns the bytes of shared memory through which owners share a tile's results.
int64_t owners_bytes(const Emitter& emitter, const Layout& layout, DType dtype) {
  const int threads = emitter.plan().threads();
  const auto copies = std::popcount(static_cast<unsigned>(layout.replicas(threads)));
  const auto owners = std::bit_ceil(static_cast<unsigned>(threads)) >> copies;
  return int64_t{layout.registers()} * owners * info(dtype).bytes;
}

// Emits the result and shares it with threads that do not perform the access themselves.
void emit_result(Emitter& emitter, const Op& op, const Layout& layout, const std::string& expression) {
  const Type& type = op.results[0]->type;
  const std::string scalar = type.is_scalar() ? ".x[0]" : "";
  if (!layout.replicas(emitter.plan().threads())) return emitter.result_in(op, layout, expression + scalar);
  constexpr int64_t most_double = 2048;  // small enough for two buffers
  const int64_t bytes = owners_bytes(emitter, layout, type.dtype);
  const bool double_buffered = bytes <= most_double;
  if (!double_buffered) emitter.need_shared(op, bytes);
  const std::string memory = double_buffered ? emitter.double_buffer(op, bytes) : "shared_memory()";
  emitter.result_in(op, layout,
                    str("from_owners<", emitter.plan().threads(), ">(", expression, ", ", memory, ", ",
                        line_number(op), ")", scalar));
  if (!double_buffered) emitter.leave_shared();
}

bool adds_unseen(const Op& op, const UseCounts& uses) {
  return op.is("atomic_add") && !is_seen(op, uses) && memory_scope(op) != MemoryScope::system;
}
// Returns true for an addition that is relaxed and whose old value is unused: no thread waits for another, so
// a group may run it.
bool only_adds(const Op& op, const UseCounts& uses) {
  return adds_unseen(op, uses) && memory_order(op) == MemoryOrder::relaxed;
}

void emit_atomic(Emitter& emitter, const Op& op) {
  emitter.need("atomics.cuh");
  const AtomicKind& kind = atomic_kind(op);
  const Layout& layout = emitter.layout_of(kind.gives ? op.results[0] : op.operands[1]);
  const auto values = static_cast<size_t>(kind.values);
  const UseCounts uses = count_uses(emitter.function().body());
  const MemoryOrder order = order_of(emitter, op, uses);
  const bool wanted = is_seen(op, uses);
  std::string given;
  for (size_t i = 1; i <= values; ++i) given += ", " + emitter.in_layout(op, op.operands[i], layout);
  const ElementsText elements = elements_text(emitter, op, 1 + values, layout);
  const std::string array = emitter.name(op.operands[0]),
                    arguments = str("(", is_flat(op) ? str("flat(", array, ")") : array, ", ",
                                    line_number(op), ", ", elements.mask, given, elements.index, ")");
  if (order == MemoryOrder::relaxed && adds_unseen(op, uses))
    return emitter.line(
        op, str(group_text(emitter, layout), "add_elements<", emitter.layout(layout), ">", arguments, ";"));

  const auto change = std::find_if(std::begin(changes), std::end(changes),
                                   [&](const Change& each) { return op.is(each.primitive); });
  const std::string call = str(change != std::end(changes) ? str("atomic_change<", change->name, ", ")
                               : kind.compares()           ? "atomic_compare<"
                                                           : str(op.name(), "<"),
                               "Order::", memory_orders[static_cast<size_t>(order)],
                               ", Scope::", memory_scopes[static_cast<size_t>(memory_scope(op))], ", ",
                               emitter.layout(layout), ">", arguments);
  // A release covers what all threads of the block did before; an acquire holds for all of them.
  if (releases(order)) emitter.synchronize(op);
  const bool meets = wanted && layout.replicas(emitter.plan().threads());
  if (wanted)
    emit_result(emitter, op, layout, call);
  else
    emitter.line(op, call + ";");
  if (acquires(order) && !meets) emitter.synchronize(op);
}

const std::vector<AddLoweringRule> lowerings_ = [] {
  std::vector<AddLoweringRule> all;
  for (const AtomicKind& kind : atomic_kinds)
    all.emplace_back(LoweringRule{.name = kind.name,
                                  .emit = emit_atomic,
                                  .relate = relate_elements,
                                  .single_cta = true,
                                  .grouped = true,
                                  .within_group = only_adds});
  return all;
}();

}  // namespace
}  // namespace tile::cuda
