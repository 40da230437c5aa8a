// Unit axis, alignment and whole vectors of an array.
#include "runtime/array_key.h"

#include "runtime/kernel.h"
#include "support/text.h"

namespace tile {
namespace {

constexpr uint64_t vector_bytes = 16;

struct Facts {
  int unit = -1;  // -1: no axis
  bool aligned = false, whole = false, small = false;
};

// One loop, and no call: every launch asks for each of its arrays.
[[gnu::always_inline]] inline Facts facts_of(const ArrayArgument& array) {
  const auto element = static_cast<uint64_t>(info(array.dtype).bytes);
  Facts facts;
  uint64_t offsets = reinterpret_cast<uint64_t>(array.data), strides = 0, sizes = 0, unit_size = 1;
  for (int axis = 0; axis < array.rank; ++axis) {
    const auto size = static_cast<uint64_t>(array.sizes[static_cast<size_t>(axis)]);
    const int64_t stride = array.strides[static_cast<size_t>(axis)];
    const uint64_t bytes = static_cast<uint64_t>(stride < 0 ? -stride : stride) * element;
    strides |= bytes;
    sizes |= size;
    // Of scalars an axis of one counts like one of more, so that their number changes nothing.
    if (stride == 1 && (size != 1 || array.scalars)) {
      if (unit_size > 1) offsets |= element;  // the last such axis is the one
      facts.unit = axis;
      unit_size = size;
    } else if (size > 1) {
      offsets |= bytes;
    }
  }
  // The stride of one element is never used, whatever it is.
  if (facts.unit < 0 && array.rank > 0 && array.sizes[static_cast<size_t>(array.rank - 1)] == 1)
    facts.unit = array.rank - 1;
  facts.small = strides >> 31 == 0 && sizes >> 29 == 0;
  if (array.scalars) return facts;
  facts.aligned = offsets % vector_bytes == 0;
  facts.whole = facts.unit >= 0 && unit_size * element % vector_bytes == 0;
  return facts;
}

[[gnu::always_inline]] inline uint64_t word_of(const ArrayArgument& array) {
  const uint64_t word = static_cast<uint64_t>(array.dtype) | static_cast<uint64_t>(array.rank) << 8 |
                        static_cast<uint64_t>(array.device) << 16;
  if (array.device == DeviceKind::cpu) return word;
  const Facts facts = facts_of(array);
  return word | static_cast<uint64_t>(facts.unit + 1) << 24 | static_cast<uint64_t>(facts.aligned) << 32 |
         static_cast<uint64_t>(facts.whole) << 33 | static_cast<uint64_t>(facts.small) << 34;
}

}  // namespace

uint64_t key_word(const ArrayArgument& array) { return word_of(array); }
void detail::key_of_array(LaunchKey& key, const ArrayArgument& array) { key.add(word_of(array)); }

void set_facts(Function& function, size_t parameter, const ArrayArgument& array) {
  if (array.device == DeviceKind::cpu) return;
  const Facts facts = facts_of(array);
  const auto set = [&](const char* fact, int64_t value) {
    function.attributes().set(str("array.", parameter, ".", fact), value);
  };
  if (facts.unit >= 0) set("unit", facts.unit);
  if (facts.aligned) set("aligned", 1);
  if (facts.whole) set("whole", 1);
  if (facts.small) set("small", 1);
}

}  // namespace tile
