// Kernels on the CPU: a launch runs its blocks on torch's threads and returns when all have ended.
#include <limits>
#include <unordered_set>
#include <vector>

#include "cpu/exec/program.h"
#include "cpu/interpreter/stream.h"
#include "ir/walk.h"
#include "runtime/executable.h"

namespace tile {
namespace {

class CpuKernel final : public Executable {
 public:
  explicit CpuKernel(Function function) : read_(read_arrays(function)), program_(std::move(function)) {}

  void run(const Blocks& blocks, ArgumentRefs arguments) const override {
    std::vector<cpu::ArrayRef> arrays;
    std::vector<cpu::Scalar> scalars;
    arrays.reserve(arguments.size());
    for (size_t i = 0; i < arguments.size(); ++i)
      if (arguments[i].array)
        arrays.push_back(array_ref(*arguments[i].array, read_[i]));
      else
        scalars.emplace_back().u = arguments[i].scalar->bits;
    program_.run({blocks[0], blocks[1], blocks[2]}, arrays, scalars);
  }

 private:
  // Arrays that the kernel also reads are already in the caches when it writes them, so a non-temporal store
  // would have to wait.
  static std::vector<bool> read_arrays(const Function& function) {
    std::unordered_set<const Value*> read;
    walk(function.body(), [&](const Op& op) {
      if (!op.traits().reads) return;
      for (const Value* operand : op.operands)
        if (operand->type.is_array()) read.insert(root_array(operand));
    });
    std::vector<bool> result;
    for (const Value* argument : function.body().arguments) result.push_back(read.count(argument) != 0);
    return result;
  }
  static cpu::ArrayRef array_ref(const ArrayArgument& array, bool read) {
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
    ref.streams = !read && bytes >= cpu::stream_from_bytes;
    return ref;
  }
  std::vector<bool> read_;  // by parameter
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
