// The key of a launch whose arguments can be arrays, scalars or constants at the same place.
#pragma once
#include <utility>

#include "runtime/argument.h"

namespace tile {

// A launch key that also records the kinds of arguments, so that keys of different kinds cannot be equal.
class CallKey {
 public:
  // The shape and strides of a far array are int64 in Python kernels.
  enum Kind : uint64_t { far_array, near_array, scalar_value, constant_value };
  void note(Kind kind) {
    kinds_ = kinds_ << 2 | kind;
    if (++noted_ % 32 == 0) words.add(std::exchange(kinds_, 0));
  }
  void end() { words.add(kinds_); }  // after the last argument
  LaunchKey words;

 private:
  uint64_t kinds_ = 1;
  size_t noted_ = 0;
};

}  // namespace tile
