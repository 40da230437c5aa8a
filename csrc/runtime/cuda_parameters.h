// The memory layout of a GPU kernel's parameters, as csrc/cuda/program.h defines it.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "cuda/program.h"
#include "driver/assert_buffer.h"
#include "driver/tensor_map.h"
#include "runtime/argument.h"

namespace tile {

class CudaParameters {
 public:
  static constexpr size_t most_bytes = 4096;  // the limit of every chip and driver

  // `wide`: true for each argument that is an array with 64-bit extents.
  CudaParameters(const std::vector<Type>& arguments, const std::vector<bool>& wide,
                 const std::vector<cuda::Parameter>& parameters);
  CudaParameters(const Function& function, const cuda::Program& program);
  size_t bytes() const { return bytes_; }

  // The parameters of one launch, without heap allocation. `pointers` has one entry for each parameter.
  struct Packed {
    alignas(TensorMap) char data[most_bytes];
    void* pointers[most_bytes / 8 + 2];
  };
  // The values of a launch that are not arguments.
  struct Others {
    FailureLocation failures;
    uint32_t block_counter = 0, starts_early = 0;
    std::array<int32_t, 3> grid = {};  // the user's
  };
  // Leaves the tensor maps to the caller.
  void pack(ArgumentRefs arguments, const Others& others, Packed& packed) const;
  // Returns the position of all tensor maps, which are adjacent.
  TensorMap* tensor_maps(Packed& packed) const {
    return reinterpret_cast<TensorMap*>(packed.data + tensor_maps_);
  }

 private:
  struct Field {
    cuda::Parameter parameter;
    size_t offset;
    bool wide;
  };
  std::vector<Field> fields_;
  size_t bytes_ = 0;
  size_t tensor_maps_ = 0;  // the offset of the first
};

}  // namespace tile
