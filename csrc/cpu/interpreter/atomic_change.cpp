// Changes an element by compare-and-exchange on an unsigned word of its width. All accesses are sequentially
// consistent, so that they order other accesses too.
#include "cpu/interpreter/atomic_change.h"

#include <atomic>
#include <cstring>

#include "cpu/interpreter/frame.h"

namespace tile::cpu {
namespace {

template <class F>
auto with_word(int bytes, F f) {
  switch (bytes) {
    case 1:
      return f(uint8_t{});
    case 2:
      return f(uint16_t{});
    case 4:
      return f(uint32_t{});
    default:
      return f(uint64_t{});
  }
}
template <class Word>
std::atomic_ref<Word> at(const char* address, Word) {
  return std::atomic_ref<Word>(*reinterpret_cast<Word*>(const_cast<char*>(address)));
}

}  // namespace

AtomicChange::AtomicChange(DType dtype, std::string_view combination)
    : dtype_(dtype),
      combine_(combination.empty() ? nullptr : find_elementwise(combination, lane_of(dtype))->variants[0]),
      wraps_(combination == "add" && !is_floating(dtype)) {}

uint64_t AtomicChange::element_of(const char* lane) const {
  uint64_t element = 0;
  const int bytes = info(dtype_).bytes;
  move_row(dtype_).store(reinterpret_cast<char*>(&element), 0, bytes, lane, lane_bytes(lane_of(dtype_)), 1,
                         1);
  return element;
}
void AtomicChange::lane_of_element(uint64_t element, char* lane) const {
  const int bytes = info(dtype_).bytes;
  move_row(dtype_).load(reinterpret_cast<const char*>(&element), 0, bytes, lane, lane_bytes(lane_of(dtype_)),
                        1, 1);
}

void AtomicChange::operator()(char* address, const char* lane, char* before) const {
  with_word(info(dtype_).bytes, [&](auto word) {
    using Word = decltype(word);
    const auto element = at(address, word);
    if (wraps_) {
      Word by;
      std::memcpy(&by, lane, sizeof by);
      const Word old = element.fetch_add(by);
      if (before) std::memcpy(before, &old, sizeof old);
      return;
    }
    Word seen = element.load();
    Scalar old;
    for (;;) {
      lane_of_element(seen, old.bytes);
      Scalar made;
      if (combine_) combine_({1, 1, made.bytes, 0, {old.bytes, lane}, {0, 0}});
      if (element.compare_exchange_weak(seen, static_cast<Word>(element_of(combine_ ? made.bytes : lane))))
        break;
    }
    if (before) lane_of_element(seen, before);
  });
}

void AtomicChange::load(const char* address, char* lane) const {
  with_word(info(dtype_).bytes, [&](auto word) { lane_of_element(at(address, word).load(), lane); });
}
void AtomicChange::store(char* address, const char* lane) const {
  with_word(info(dtype_).bytes,
            [&](auto word) { at(address, word).store(static_cast<decltype(word)>(element_of(lane))); });
}
void AtomicChange::compare(char* address, const char* expected, const char* desired, char* before) const {
  with_word(info(dtype_).bytes, [&](auto word) {
    auto seen = static_cast<decltype(word)>(element_of(expected));
    at(address, word).compare_exchange_strong(seen, static_cast<decltype(word)>(element_of(desired)));
    lane_of_element(seen, before);
  });
}

}  // namespace tile::cpu
