// A span of time that a profiler may record: the running of one kernel's blocks.
#pragma once
#include <string>

namespace tile {

class LaunchRange {
 public:
  struct Profiler {
    void* (*begin)(const std::string& kernel);  // null: nobody records
    void (*end)(void*);
  };
  // Before any launch. csrc/torch gives torch's.
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
