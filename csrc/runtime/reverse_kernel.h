// A kernel that reverse mode differentiates, and the kernels that were derived from it.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "derive/reverse.h"
#include "derive/saved.h"
#include "ir/touched.h"
#include "runtime/text_kernel.h"

namespace tile {

class ReverseKernel {
 public:
  // saved: the tiles that the kernel stores for its gradient.
  explicit ReverseKernel(Function kernel, std::vector<SavedTile> saved = {});

  const Function& kernel() const { return kernel_; }
  // The accesses of each parameter; added: atomically.
  struct Use {
    bool read = false, stored = false, added = false;
    bool written() const { return stored || added; }
  };
  const std::vector<Use>& uses() const { return uses_; }
  // The parameters that it reads and writes, without the arrays of saved tiles.
  Touched touched() const { return touched_; }
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

  // Returns the kernel that also saves what its gradient needs, for a launch of such sizes; null: it saves
  // nothing. inputs, results: parameters, as for derived(). everything: all that may be saved is, in tests.
  std::shared_ptr<ReverseKernel> saving(const std::vector<size_t>& inputs, const std::vector<size_t>& results,
                                        const LaunchSizes& sizes, bool cpu, bool everything = false);
  const std::vector<SavedTile>& saved() const { return saved_; }
  // The extents of arrays and the integers of a launch, on which that choice depends.
  std::vector<int64_t> numbers(const LaunchSizes& sizes) const;
  // A hash of the kernel's text without locations and facts of launches, equal in all processes.
  uint64_t text_hash();
  // The kernel itself, for launches that save.
  const TextKernel& launched();

 private:
  const Made& find(const std::vector<Wanted>& wanted, const std::vector<size_t>& results, int axis,
                   const std::vector<Keeping>& keeping);
  const Function kernel_;
  const std::vector<SavedTile> saved_;
  std::vector<Use> uses_;
  Touched touched_;
  Differentiable parameters_;
  std::mutex mutex_;
  std::map<std::vector<int64_t>, std::unique_ptr<Made>> made_;  // null: it is not to be folded
  struct Saving {
    Saving(const Function& kernel, const std::vector<size_t>& inputs, const std::vector<size_t>& results)
        : kernels(kernel, inputs, results) {}
    SavingKernels kernels;
    std::map<const SavingKernel*, std::shared_ptr<ReverseKernel>> made;
  };
  std::map<std::pair<std::vector<size_t>, std::vector<size_t>>, Saving> saving_;  // by inputs and results
  std::map<std::vector<int64_t>, std::shared_ptr<ReverseKernel>> chosen_;         // null: nothing is saved
  std::unique_ptr<const TextKernel> launched_;
  std::optional<uint64_t> text_hash_;
};

}  // namespace tile
