// Lets a kernel save for its gradient what is more work to compute again than to store and load.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "derive/reverse.h"
#include "ir/walk.h"

namespace tile {

// A tile of each block, in an array [blocks, shape…].
struct SavedTile {
  size_t position = 0;  // of the array among the parameters, behind those of the kernel
  DType dtype = DType::f32;
  Shape shape;
  std::string replaces;  // "a loop of products at kernel.py:7"
};

// The kernel with stores of tiles, which reverse() takes with `saved`, the positions of the arrays.
struct SavingKernel {
  Function function;
  std::vector<SavedTile> tiles;
};
std::vector<size_t> positions_of(const std::vector<SavedTile>& tiles);

// An op of the kernel's body whose results may be saved.
struct SavedCandidate {
  size_t op;  // its place in the body
  std::vector<size_t> results;
  bool may_round;  // to the 16 bits of the kernel's results
};

// The kernels that save what one kernel computes.
class SavingKernels {
 public:
  // inputs, results: as for reverse(), whose errors the functions throw.
  SavingKernels(const Function& kernel, std::vector<size_t> inputs, std::vector<size_t> results);
  // Returns the one that pays for launches of such sizes; null if none does. A tile is saved if the derived
  // kernel then has less work, beyond that of storing and loading it, and all tiles take no more memory than
  // the launch's own arrays. The pointer lives as long as this.
  const SavingKernel* choose(const LaunchSizes& sizes, bool cpu);
  // Returns the one that saves all that may be saved, in tests.
  const SavingKernel* all();

 private:
  struct Way {
    SavingKernel kernel;
    Derived derived;
  };
  const Way& way(const std::vector<size_t>& chosen);
  Way made(const std::vector<SavedCandidate>& list) const;

  const Function kernel_;
  const std::vector<size_t> inputs_, results_;
  std::vector<SavedCandidate> candidates_;
  std::map<std::vector<size_t>, std::unique_ptr<const Way>> ways_;  // by the candidates that are saved
};

// Replaces what the stores in a block save by loads from where they save it, and removes these stores.
// Returns the values that were replaced.
ValueMap load_saved(Function& function, Block& block, const std::function<bool(const Op& op)>& is_store);

}  // namespace tile
