// Computes the facts of an array: the unit axis, alignment, whole vectors, the directions of strides.
#include "runtime/array_key.h"

#include <limits>

#include "runtime/device_limits.h"
#include "runtime/kernel.h"
#include "support/text.h"

namespace tile {
namespace {

constexpr uint64_t vector_bytes = 16, word_bytes = 4;

// Bit positions in a word.
constexpr int rank_at = 8, device_at = 16, unit_at = 24, aligned_at = 32, whole_vectors_at = 33,
              small_at = 34, wide_at = 35, forward_at = 36, words_at = 37;

bool has(uint64_t word, int fact) { return word >> fact & 1; }

constexpr uint64_t most_i32 = std::numeric_limits<int32_t>::max();

uint64_t wide_bit(const ArrayArgument& array) {
  return static_cast<uint64_t>(has_wide_extents(array)) << wide_at;
}

// Returns everything except the alignment of the data. A single loop, because a launch does this for most of
// its arrays.
uint64_t layout_word(const ArrayArgument& array) {
  const auto element = static_cast<uint64_t>(info(array.dtype).bytes);
  int unit = -1;  // no axis
  uint64_t offsets = 0, strides = 0, sizes = 0, unit_size = 1;
  int64_t backward = 0;  // negative if a stride of a longer axis is not positive, or an axis is empty
  for (int axis = 0; axis < array.rank; ++axis) {
    const auto size = static_cast<uint64_t>(array.sizes[static_cast<size_t>(axis)]);
    const int64_t stride = array.strides[static_cast<size_t>(axis)];
    const uint64_t bytes = static_cast<uint64_t>(stride < 0 ? -stride : stride) * element;
    strides |= bytes;
    sizes |= size;
    if (size != 1) backward |= size ? stride - 1 : -1;
    // For arrays of scalars, an axis of extent 1 counts like a longer one, so that the extent does not change
    // the key.
    if (stride == 1 && (size != 1 || array.scalars)) {
      if (unit_size > 1) offsets |= element;  // the last such axis becomes the unit axis
      unit = axis;
      unit_size = size;
    } else if (size > 1) {
      offsets |= bytes;
    }
  }
  // The stride of an axis of extent 1 is never used, so its value does not matter.
  if (unit < 0 && array.rank > 0 && array.sizes[static_cast<size_t>(array.rank - 1)] == 1)
    unit = array.rank - 1;
  const bool aligned = !array.scalars && offsets % vector_bytes == 0;
  const bool words = !array.scalars && unit >= 0 && element < word_bytes && offsets % word_bytes == 0;
  const bool whole_vectors = !array.scalars && unit >= 0 && unit_size * element % vector_bytes == 0;
  const bool forward = !array.scalars && backward >= 0;
  const bool small = strides >> 31 == 0 && sizes >> 29 == 0;
  return static_cast<uint64_t>(unit + 1) << unit_at | static_cast<uint64_t>(aligned) << aligned_at |
         static_cast<uint64_t>(whole_vectors) << whole_vectors_at | static_cast<uint64_t>(small) << small_at |
         static_cast<uint64_t>(sizes > most_i32) << wide_at | static_cast<uint64_t>(forward) << forward_at |
         static_cast<uint64_t>(words) << words_at;
}

uint64_t head(const ArrayArgument& array) {
  return static_cast<uint64_t>(array.dtype) | static_cast<uint64_t>(array.rank) << rank_at |
         static_cast<uint64_t>(array.device) << device_at;
}

bool lies_like(const ArrayArgument& a, const ArrayArgument& b) {
  bool same = a.rank == b.rank && a.dtype == b.dtype && a.scalars == b.scalars;
  for (size_t axis = 0; same && axis < static_cast<size_t>(a.rank); ++axis)
    same = a.sizes[axis] == b.sizes[axis] && a.strides[axis] == b.strides[axis];
  return same;
}

}  // namespace

// The array is aligned only if the data is as well. What is aligned to more bytes needs no fact of fewer.
uint64_t with_data(uint64_t word, const void* data) {
  const auto at = reinterpret_cast<uintptr_t>(data);
  const auto cleared = [](bool fact, int bit) { return ~(static_cast<uint64_t>(fact) << bit); };
  word &= cleared(at % vector_bytes != 0, aligned_at);
  return word & cleared(at % word_bytes != 0 || has(word, aligned_at), words_at);
}

bool has_tensor_map(const ArrayArgument& array) {
  const uint64_t word = with_data(layout_word(array), array.data);
  return (word >> unit_at & 0xff) && has(word, aligned_at) && has(word, small_at) && !has(word, wide_at) &&
         has(word, forward_at);
}

bool has_wide_extents(const ArrayArgument& array) {
  uint64_t sizes = 0;  // none is negative and most_i32 is all ones, so the union exceeds it if any does
  for (int axis = 0; axis < array.rank; ++axis)
    sizes |= static_cast<uint64_t>(array.sizes[static_cast<size_t>(axis)]);
  return sizes > most_i32;
}

bool has_far_elements(const ArrayArgument& array) {
  uint64_t count = 1, reach = 0;  // products of two factors that each fit 31 bits do not overflow
  for (int axis = 0; axis < array.rank; ++axis) {
    const auto size = static_cast<uint64_t>(array.sizes[static_cast<size_t>(axis)]);
    const int64_t signed_stride = array.strides[static_cast<size_t>(axis)];
    const uint64_t stride =
        signed_stride < 0 ? 0 - static_cast<uint64_t>(signed_stride) : static_cast<uint64_t>(signed_stride);
    if (size > most_i32 || stride > most_i32) return true;
    count *= size;
    reach += size ? (size - 1) * stride : 0;
    if (count > most_i32 || reach > most_i32) return true;
  }
  return false;
}

uint64_t key_word(const ArrayArgument& array) {
  if (array.device == DeviceKind::cpu) return head(array) | wide_bit(array);
  return head(array) | with_data(layout_word(array), array.data);
}

void detail::key_of_array(LaunchKey& key, const ArrayArgument& array) {
  if (array.device == DeviceKind::cpu) return key.add(head(array) | wide_bit(array));
  if (!key.seen || !lies_like(*key.seen, array)) key.seen = &array, key.seen_word = layout_word(array);
  key.add(head(array) | with_data(key.seen_word, array.data));
}

void set_facts(Function& function, size_t parameter, const ArrayArgument& array) {
  const uint64_t word = key_word(array);
  const auto put = [&](const char* fact, bool holds, int64_t value = 1) {
    const std::string name = str("array.", parameter, ".", fact);
    if (holds)
      function.attributes().set(name, value);
    else
      function.attributes().erase(name);
  };
  const auto unit = static_cast<int64_t>(word >> unit_at & 0xff);
  put("wide", has(word, wide_at));
  put("unit", unit != 0, unit - 1);
  put("aligned", has(word, aligned_at));
  put("words", has(word, words_at));
  put("whole", has(word, whole_vectors_at));
  put("small", has(word, small_at));
  put("forward", has(word, forward_at));
}

}  // namespace tile
