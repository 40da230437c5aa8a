// How a GPU kernel's parameters lie in memory, as csrc/cuda/program.h says.
#pragma once
#include <cstdint>
#include <vector>

#include "ir/type.h"
#include "runtime/argument.h"

namespace tile {

class CudaParameters {
 public:
  static constexpr size_t most_bytes = 4096;  // what every chip and driver takes

  // `wide`: for each parameter, true if it is an array with 64-bit extents.
  explicit CudaParameters(const std::vector<Type>& parameters, std::vector<bool> wide = {});
  size_t bytes() const { return bytes_; }

  // For a launch: no memory is taken. `pointers`: one to each parameter.
  struct Packed {
    alignas(8) char data[most_bytes];
    void* pointers[most_bytes / 8 + 2];
  };
  void pack(ArgumentRefs arguments, Packed& packed) const;

 private:
  std::vector<size_t> offsets_;
  std::vector<bool> wide_;
  size_t bytes_ = 0;
};

}  // namespace tile
