// Assigns records to kernels and turns recorded failures into messages.
#include "driver/assert_buffer.h"

#include <utility>

namespace tile {

std::optional<FailureLocation> AssertBuffer::add(const AssertingKernel& kernel) {
  std::lock_guard lock(mutex_);
  if ((kernels_.size() + 2) * record_words * sizeof(uint32_t) > bytes) return std::nullopt;
  kernels_.push_back(kernel);
  return FailureLocation{words_, words_ + kernels_.size() * record_words};
}

std::vector<std::string> AssertBuffer::take() {
  std::lock_guard lock(mutex_);
  std::vector<std::string> texts;
  // A failure that is written after this is reported next time.
  __atomic_store_n(words_, 0u, __ATOMIC_SEQ_CST);
  for (size_t i = 0; i < kernels_.size(); ++i) {
    uint32_t* const record = words_ + (i + 1) * record_words;
    const uint32_t number = __atomic_load_n(record, __ATOMIC_ACQUIRE);
    const auto& [assertions, text, cluster, long_axis] = kernels_[i];
    if (!number || number > assertions) continue;
    std::array<int64_t, 3> block = {record[2] / static_cast<uint32_t>(cluster), record[3] & 0xffff,
                                    record[3] >> 16};
    std::swap(block[0], block[static_cast<size_t>(long_axis)]);
    texts.push_back(text(number - 1, record[1], block));
    __atomic_store_n(record, 0u, __ATOMIC_RELEASE);
  }
  return texts;
}

}  // namespace tile
