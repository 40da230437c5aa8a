// Memory of the host in which the kernels of a device report failed assertions. Reporting leaves the context
// and all other kernels usable.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "support/error.h"

namespace tile {

// Failed assertions of an earlier launch, reported by a later call.
struct FailedAssertions : Error {
  explicit FailedAssertions(std::string text) : Error(ErrorKind::runtime, std::move(text)) {}
};

// As the device library declares it, and a kernel with assertions takes it behind its other parameters.
struct FailureLocation {
  uint32_t *any = nullptr, *record = nullptr;
};

// A kernel that is loaded on the device.
struct AssertingKernel {
  // The text of a failure: the number of the assertion from 0, the first false element in row-major order,
  // and the block's position in the grid.
  using Text = std::string(size_t assertion, int64_t element, const std::array<int64_t, 3>& block);
  size_t assertions = 0;
  std::function<Text> text;
  int cluster = 1;    // blocks of the launch that stand for one
  int long_axis = 0;  // of the grid, which the launch swaps with the first
};

class AssertBuffer {
 public:
  static constexpr size_t bytes = 64 * 1024;
  // So many bytes, all 0, which stay for ever: a captured graph may launch a kernel later.
  explicit AssertBuffer(void* memory) : words_(static_cast<uint32_t*>(memory)) {}

  std::optional<FailureLocation> add(const AssertingKernel& kernel);  // none: it is full
  bool any() const { return __atomic_load_n(words_, __ATOMIC_ACQUIRE) != 0; }
  std::vector<std::string> take();  // what has failed, a text a kernel; then nothing has

 private:
  static constexpr size_t record_words = 4;  // as csrc/cuda/program.h says; the first four are the board's
  uint32_t* const words_;
  std::mutex mutex_;
  std::deque<AssertingKernel> kernels_;
};

}  // namespace tile
