// The memory layout of a GPU kernel's parameters, as csrc/cuda/program.h defines it.
#pragma once
#include <cstdint>
#include <vector>

#include "ir/type.h"
#include "runtime/argument.h"

namespace tile {

class CudaParameters {
 public:
  static constexpr size_t most_bytes = 4096;  // the limit of every chip and driver

  // `wide`: true for each parameter that is an array with 64-bit extents.
  explicit CudaParameters(const std::vector<Type>& parameters, std::vector<bool> wide = {});
  size_t bytes() const { return bytes_; }

  // The parameters of one launch, without heap allocation. `pointers` has one entry for each parameter.
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
