// A kernel that reverse mode differentiates, and the kernels that were derived from it.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "derive/reverse.h"
#include "runtime/text_kernel.h"

namespace tile {

class ReverseKernel {
 public:
  explicit ReverseKernel(Function kernel);

  const Function& kernel() const { return kernel_; }
  // The accesses of each parameter; added: atomically.
  struct Use {
    bool read = false, stored = false, added = false;
    bool written() const { return stored || added; }
  };
  const std::vector<Use>& uses() const { return uses_; }
  // The arrays of floats that it only reads, and those that it writes.
  const Differentiable& parameters() const { return parameters_; }

  struct Made {
    explicit Made(Derived of);
    const Derived derived;
    const TextKernel kernel;
    struct Transposed {
      std::unique_ptr<const TextKernel> kernel, wide;  // wide: null if there is none
    };
    std::vector<Transposed> transposed;
    std::unique_ptr<const TextKernel> remainder;
    const bool has_effects;  // of the derived kernel, which otherwise need not run
  };
  const Made& derived(const std::vector<Wanted>& wanted, const std::vector<size_t>& results,
                      int folded_axis = -1, const std::vector<Keeping>& keeping = {});
  // Returns the derived kernel whose blocks compute several blocks along an axis of the grid, or null if it
  // would write gradients in another way.
  const Made* folded(const std::vector<Wanted>& wanted, const std::vector<size_t>& results, int axis);

 private:
  const Made& find(const std::vector<Wanted>& wanted, const std::vector<size_t>& results, int axis,
                   const std::vector<Keeping>& keeping);
  const Function kernel_;
  std::vector<Use> uses_;
  Differentiable parameters_;
  std::mutex mutex_;
  std::map<std::vector<int64_t>, std::unique_ptr<Made>> made_;  // null: it is not to be folded
};

}  // namespace tile
