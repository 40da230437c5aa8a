// A kernel given as CUDA C++. It is launched over tensors and numbers, which are converted to its parameters'
// types.
#pragma once
#include <array>
#include <memory>
#include <span>
#include <string>

#include "raw_cuda/cuda_source.h"
#include "raw_cuda/raw_argument.h"

namespace tile {

struct RawGrid {
  std::array<int64_t, 3> grid{1, 1, 1};   // blocks; omitted axes are 1
  std::array<int64_t, 3> block{1, 1, 1};  // threads
  int64_t shared_bytes = 0;               // dynamic shared memory of a block

  RawGrid(std::initializer_list<int64_t> grid_axes, std::initializer_list<int64_t> block_axes,
          int64_t shared = 0);
  RawGrid() = default;
};

class RawKernel {
 public:
  static constexpr size_t most_arguments = 256;

  // `name` is a C++ name such as "saxpy" or "scale<float, 4>". Compiled at the first launch on each kind of
  // chip.
  RawKernel(std::string source, std::string name, CudaSourceOptions options = {});
  // Selects kernel `index` of a source that has several.
  RawKernel(std::shared_ptr<const CudaSource> source, size_t index);

  // Launches in the current stream of the tensors' device: saxpy.launch({{blocks}, {256}}, 2.0, x, y, n).
  template <class... A>
  void launch(const RawGrid& grid, const A&... arguments) const {
    const RawArgument raw[] = {to_raw_argument(arguments)..., RawArgument()};
    launch_raw(grid, {raw, sizeof...(A)});
  }
  // Returns the types of the parameters.
  const std::vector<CType>& launch_raw(const RawGrid& grid, std::span<const RawArgument> arguments) const;

  const std::string& name() const { return source_->names()[index_]; }
  const std::shared_ptr<const CudaSource>& source() const { return source_; }
  // Returns the kernel for an arch. Compiles it if necessary, which needs no GPU.
  const CudaSource::Kernel& compiled(int arch) const { return source_->compiled(arch).kernels[index_]; }
  size_t index() const { return index_; }

 private:
  int device_of(std::span<const RawArgument> arguments) const;
  void check_grid(const RawGrid& grid, int device, const CudaSource::Loaded& loaded) const;

  std::shared_ptr<const CudaSource> source_;
  size_t index_ = 0;
};

}  // namespace tile
