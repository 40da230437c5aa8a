// The rows of atomics.def, and the names of memory orders and scopes.
#include "ir/atomic.h"

#include <algorithm>

namespace tile {
namespace {

template <class Enum, class Words>
Enum chosen(const Op& op, const char* attribute, Enum otherwise, const Words& words) {
  if (!op.has(attribute)) return otherwise;
  const auto found = std::find(words.begin(), words.end(), op.text(attribute));
  if (found == words.end())
    fail(op, ErrorKind::value, attribute, " is '", op.text(attribute), "'; it is one of ", join(words));
  return static_cast<Enum>(found - words.begin());
}

}  // namespace

const AtomicKind* find_atomic(std::string_view name) {
  const auto* found = std::find_if(std::begin(atomic_kinds), std::end(atomic_kinds),
                                   [&](const AtomicKind& kind) { return name == kind.name; });
  return found == std::end(atomic_kinds) ? nullptr : found;
}
const AtomicKind& atomic_kind(const Op& op) {
  const AtomicKind* kind = find_atomic(op);
  TILE_CHECK(kind);
  return *kind;
}

MemoryOrder memory_order(const Op& op) { return chosen(op, "order", MemoryOrder::relaxed, memory_orders); }
MemoryScope memory_scope(const Op& op) { return chosen(op, "scope", MemoryScope::device, memory_scopes); }

}  // namespace tile
