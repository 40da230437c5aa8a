// Host memory in which the kernels of a device record failed assertions. A failed assertion leaves the
// context and all other kernels usable.
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

// The address where a kernel records a failure. A kernel with assertions takes it after its other parameters;
// the device library declares the same struct.
struct FailureLocation {
  uint32_t *any = nullptr, *record = nullptr;
};

// A kernel with assertions that is loaded on the device.
struct AssertingKernel {
  // Returns the message of a failure from the number of the assertion (from 0), the first false element in
  // row-major order, and the block's index in the grid.
  using Text = std::string(size_t assertion, int64_t element, const std::array<int64_t, 3>& block);
  size_t assertions = 0;
  std::function<Text> text;
  int cluster = 1;    // CTAs of the launch that compute one block
  int long_axis = 0;  // the axis of the grid that the launch exchanges with the first
};

class AssertBuffer {
 public:
  static constexpr size_t bytes = 64 * 1024;
  // Takes this many bytes, all 0. They are never freed, because a captured graph may launch a kernel later.
  explicit AssertBuffer(void* memory) : words_(static_cast<uint32_t*>(memory)) {}

  std::optional<FailureLocation> add(const AssertingKernel& kernel);  // none if the buffer is full
  bool any() const { return __atomic_load_n(words_, __ATOMIC_ACQUIRE) != 0; }
  std::vector<std::string> take();  // returns one message for each kernel that failed, and clears the records

 private:
  // As csrc/cuda/program.h defines; the first record is the buffer's header.
  static constexpr size_t record_words = 4;
  uint32_t* const words_;
  std::mutex mutex_;
  std::deque<AssertingKernel> kernels_;
};

}  // namespace tile
