// A time range that a profiler may record: the run of one kernel's blocks.
#pragma once
#include <string>

#include "ir/touched.h"
#include "runtime/argument.h"
#include "support/location.h"

namespace tile {

class LaunchRange {
 public:
  struct Launch {
    const std::string& kernel;
    Location where{};
    ArgumentRefs arguments{};
    const Touched* touched = nullptr;  // null: the arguments are unknown, because the kernel is CUDA C++
  };
  struct Profiler {
    void* (*begin)(const Launch& launch);  // returns null if no profiler records
    void (*end)(void*);
  };
  // Must be called before any launch. csrc/torch installs torch's profiler.
  static void set_profiler(const Profiler& given) { profiler_ = given; }

  explicit LaunchRange(const Launch& launch) : range_(profiler_.begin ? profiler_.begin(launch) : nullptr) {}
  ~LaunchRange() {
    if (range_) profiler_.end(range_);
  }
  LaunchRange(const LaunchRange&) = delete;

 private:
  inline static Profiler profiler_{};
  void* range_;
};

}  // namespace tile
