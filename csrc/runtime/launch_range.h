// A time range that a profiler may record: the run of one kernel's blocks.
#pragma once
#include <string>

namespace tile {

class LaunchRange {
 public:
  struct Profiler {
    void* (*begin)(const std::string& kernel);  // returns null if no profiler records
    void (*end)(void*);
  };
  // Must be called before any launch. csrc/torch installs torch's profiler.
  static void set_profiler(const Profiler& given) { profiler_ = given; }

  explicit LaunchRange(const std::string& kernel)
      : range_(profiler_.begin ? profiler_.begin(kernel) : nullptr) {}
  ~LaunchRange() {
    if (range_) profiler_.end(range_);
  }
  LaunchRange(const LaunchRange&) = delete;

 private:
  inline static Profiler profiler_{};
  void* range_;
};

}  // namespace tile
