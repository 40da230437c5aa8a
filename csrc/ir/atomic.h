// Atomic operations and their memory orders, for all targets.
#pragma once
#include <array>
#include <string_view>

#include "ir/op.h"

namespace tile {

struct AtomicKind {
  std::string_view name;
  int values;
  bool gives;
  std::string_view combination;
  bool compares() const { return values == 2; }
  // True if the operation works on its operand's bits, which a cast would change.
  bool is_bitwise() const { return combination.starts_with("bitwise_"); }
};
inline constexpr AtomicKind atomic_kinds[] = {
#define ATOMIC(NAME, VALUES, GIVES, DTYPES, COMBINATION, DOC) {#NAME, VALUES, GIVES, COMBINATION},
#include "ir/atomics.def"
};
const AtomicKind* find_atomic(std::string_view name);  // null: not an atomic operation
inline const AtomicKind* find_atomic(const Op& op) { return find_atomic(op.name()); }
const AtomicKind& atomic_kind(const Op& op);
// The number of index tiles of an op on elements: one per axis. An atomic operation with the attribute "flat"
// has one, which counts elements from the array's first, without bounds and strides.
inline bool is_flat(const Op& op) { return op.has("flat") && find_atomic(op); }
inline size_t index_count(const Op& op) {
  return is_flat(op) ? 1 : static_cast<size_t>(op.type(0).array_rank);
}

// The memory order of an atomic operation. If a block reads the result of a releasing operation by an
// acquiring one, everything before the release is visible to what the block does after the acquire.
enum class MemoryOrder : uint8_t { relaxed, acquire, release, acq_rel };  // bits: acquires, releases
enum class MemoryScope : uint8_t { block, device, system };  // the threads that the order applies to
inline constexpr std::array<std::string_view, 4> memory_orders{"relaxed", "acquire", "release", "acq_rel"};
inline constexpr std::array<std::string_view, 3> memory_scopes{"block", "device", "system"};

constexpr bool acquires(MemoryOrder order) { return static_cast<int>(order) & 1; }
constexpr bool releases(MemoryOrder order) { return static_cast<int>(order) & 2; }
// Return the attributes "order" and "scope"; the defaults are relaxed and device. Throw an error for unknown
// words.
MemoryOrder memory_order(const Op& op);
MemoryScope memory_scope(const Op& op);

}  // namespace tile
