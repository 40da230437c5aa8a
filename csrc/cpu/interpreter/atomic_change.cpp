// Accesses an element as an unsigned word of its width. All accesses are sequentially consistent, so that
// they order other accesses too.
#include "cpu/interpreter/atomic_change.h"

#include <algorithm>
#include <atomic>
#include <utility>

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

ChangeFunction atomic_change(DType dtype, std::string_view combination, MemoryScope scope) {
  static constexpr std::pair<std::string_view, ChangeFunctions AtomicRow::*> all[] = {
      {"", &AtomicRow::exchange},
      {"add", &AtomicRow::add},
      {"maximum", &AtomicRow::maximum},
      {"minimum", &AtomicRow::minimum},
      {"bitwise_and", &AtomicRow::bitwise_and},
      {"bitwise_or", &AtomicRow::bitwise_or},
      {"bitwise_xor", &AtomicRow::bitwise_xor}};
  const auto* row =
      std::find_if(std::begin(all), std::end(all), [&](const auto& row) { return row.first == combination; });
  const ChangeFunctions& functions = atomic_rows().data[static_cast<int>(dtype)].*row->second;
  return scope == MemoryScope::block ? functions.plain : functions.atomic;
}

uint64_t AtomicElement::element_of(const char* lane) const {
  uint64_t element = 0;
  const int bytes = info(dtype_).bytes;
  move_row(dtype_).store(reinterpret_cast<char*>(&element), 0, bytes, lane, lane_bytes(lane_of(dtype_)), 1,
                         1);
  return element;
}
void AtomicElement::lane_of_element(uint64_t element, char* lane) const {
  const int bytes = info(dtype_).bytes;
  move_row(dtype_).load(reinterpret_cast<const char*>(&element), 0, bytes, lane, lane_bytes(lane_of(dtype_)),
                        1, 1);
}

void AtomicElement::load(const char* address, char* lane) const {
  with_word(info(dtype_).bytes, [&](auto word) { lane_of_element(at(address, word).load(), lane); });
}
void AtomicElement::store(char* address, const char* lane) const {
  with_word(info(dtype_).bytes,
            [&](auto word) { at(address, word).store(static_cast<decltype(word)>(element_of(lane))); });
}
void AtomicElement::compare(char* address, const char* expected, const char* desired, char* before) const {
  with_word(info(dtype_).bytes, [&](auto word) {
    auto seen = static_cast<decltype(word)>(element_of(expected));
    at(address, word).compare_exchange_strong(seen, static_cast<decltype(word)>(element_of(desired)));
    lane_of_element(seen, before);
  });
}

}  // namespace tile::cpu
