// Kernels on the CPU: a launch runs its blocks on the caller's threads and returns when all are done.
#include <limits>
#include <vector>

#include "cpu/program.h"
#include "cpu/stream.h"
#include "runtime/executable.h"

namespace tile {
namespace {

class CpuKernel final : public Executable {
 public:
  explicit CpuKernel(Function function) : program_(std::move(function)) {}

  void run(const Blocks& blocks, ArgumentRefs arguments) const override {
    std::vector<cpu::ArrayRef> arrays;
    std::vector<cpu::Scalar> scalars;
    arrays.reserve(arguments.size());
    for (const ArgumentRef& argument : arguments)
      if (argument.array)
        arrays.push_back(array_ref(*argument.array));
      else
        scalars.emplace_back().u = argument.scalar->bits;
    program_.run({blocks[0], blocks[1], blocks[2]}, arrays, scalars);
  }

 private:
  static cpu::ArrayRef array_ref(const ArrayArgument& array) {
    cpu::ArrayRef ref;
    ref.data = static_cast<char*>(array.data);
    ref.dtype = array.dtype;
    ref.rank = array.rank;
    const int64_t element = info(array.dtype).bytes;
    int64_t bytes = element;
    for (int i = 0; i < array.rank; ++i) {
      const auto axis = static_cast<size_t>(i);
      ref.size[i] = array.sizes[axis];
      bytes *= array.sizes[axis];
      ref.stride[i] = array.strides[axis] * element;
    }
    ref.streams = bytes >= cpu::stream_from_bytes;
    return ref;
  }
  cpu::Program program_;
};

constexpr int64_t most = std::numeric_limits<int32_t>::max();

}  // namespace

const Target cpu_target = {
    .longest_axis = most,
    .other_axes = most,
    .grid_limit = "an axis must be at most 2147483647",
    .compile = [](Function function, const KernelName&) -> std::unique_ptr<Executable> {
      return std::make_unique<CpuKernel>(std::move(function));
    },
    .compiles_at_once = true};

}  // namespace tile
