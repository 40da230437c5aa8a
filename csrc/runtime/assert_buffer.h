// Where the kernels of a device say that an assertion of theirs failed: memory of the host that the device
// writes to. The context stays well, and so does all that other kernels do.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "ir/assertion.h"

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
  std::vector<Assertion> assertions;
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
