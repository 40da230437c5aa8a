// Reverse mode on the Tile IR: the kernel that computes the gradients of another kernel's inputs.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "derive/reach.h"
#include "ir/op.h"

namespace tile {

// Says how the gradients of blocks that read the same elements are added up.
enum class Sharing : uint8_t {
  partial,  // each block has its own array of sums, which are added afterwards in a fixed order
  atomic,   // in any order
  owner,    // by the blocks of a transposed kernel, each of which owns elements; partial where there is none
};

// One array of the kernel whose gradient is wanted.
struct Wanted {
  size_t parameter = 0;
  Sharing sharing = Sharing::partial;
  bool adds = false;  // its gradient already holds something, to which the kernel adds
};

// The gradient of one array that the kernel reads.
struct DerivedGradient {
  enum How : uint8_t {
    stored,  // one block writes each element, once
    added,   // one block adds to each element; the array begins with zeros
    summed,  // `axes` lead the array's own, and a sum over them is the gradient; it begins with zeros, too
    atomic,  // blocks add in any order; the array begins with zeros
    owned,   // a block of a transposed kernel adds up each element and writes it once
  };
  size_t parameter = 0, position = 0;  // of the kernel, and of the derived kernel
  How how = stored;
  std::vector<int> axes;  // of the grid
  DType dtype = DType::f32;
  bool once = true;  // a block writes each element once
  // If the tiles that are stored cover the array, or each part, zeros are needless.
  std::vector<Cover> covers;
  std::string why;  // it was to be owned, and is not
};

// Says for which iterations of a loop the carried values are in memory.
enum class Keeping : uint8_t {
  all,       // for each
  segments,  // for the first of each segment, and for those of the one segment that is computed again
  places,    // the same in a fixed number of places, where nothing bounds the iterations before the launch
};

// Memory that the derived kernel needs for carried values: [blocks, places, shape…].
struct DerivedScratch {
  size_t position = 0;
  DType dtype = DType::f32;
  Shape shape;
  const Op* loop = nullptr;  // in Derived::kernel; null: it is kept once, [blocks, shape…]
  Keeping keeping = Keeping::all;
  bool in_segment = false;  // it holds the iterations of one segment; else the first of each
};

// A kernel with the derived kernel's parameters, launched after it. Its grid has the iterations of a loop
// instead of the blocks along an axis, and each of its blocks loops over these.
struct TransposedKernel {
  explicit TransposedKernel(Function function) : function(std::move(function)) {}
  Function function;
  int axis = 0;  // of the grid
  // The same kernel, whose blocks compute `width` neighbouring iterations at once.
  std::optional<Function> wide;
  int64_t width = 1;
  const Op* loop = nullptr;       // in Derived::whole
  std::vector<size_t> gradients;  // that it writes
  std::vector<size_t> kept;       // numbers among Derived::kept of what it loads
  // Operations of products that the derived kernel computes, too, for an iteration and a block: with operands
  // of 16 bits at most, and with others.
  double narrow_flops = 0, other_flops = 0;
};

struct Derived {
  Derived(Function function, Function kernel) : function(std::move(function)), kernel(std::move(kernel)) {}

  // Its parameters are the kernel's, of which it only reads the extents of those that the kernel writes; then
  // the number of folded blocks, the gradient of each result, those that are wanted, and scratch.
  Function function;
  Function kernel;              // that was differentiated, after the passes that simplify it
  std::vector<size_t> results;  // parameters of the kernel, whose gradients follow the kernel's parameters
  std::vector<DerivedGradient> gradients;
  std::vector<DerivedScratch> scratch;
  // If there are transposed kernels, the kernel's number of blocks along each axis follows as three scalars,
  // and then what is kept for them. Otherwise these are empty.
  std::vector<TransposedKernel> transposed;
  std::optional<Function> remainder;  // launched after the kernel, over its grid
  std::vector<DerivedScratch> kept;
  size_t counts = 0;                // the position of the first of the three
  std::shared_ptr<Function> whole;  // before transposed kernels were taken out
  std::vector<int> grid_axes;       // that the kernel asks for; along others there must be one block
  int folded_axis = -1;             // of the grid
  std::vector<Keeping> keeping;     // a way for each `for` of the kernel
  std::vector<size_t> saved;        // parameters that the kernel stores and this one loads
};

// Throws a located error for what has no derivative, or may have a wrong one. results: arrays of floats that
// the kernel writes. folded_axis: each block computes several of the kernel's blocks along this axis of the
// grid, and adds their gradients up; then a scalar i32 follows the kernel's parameters, the kernel's number
// of blocks, and the launch has fewer. keeping: a way for each `for` of Derived::kernel, in the order of its
// text; empty: Keeping::all. saved: arrays that the kernel stores tiles to for its gradient (derive/saved.h),
// which loads them.
Derived reverse(const Function& kernel, const std::vector<Wanted>& wanted, const std::vector<size_t>& results,
                int folded_axis = -1, const std::vector<Keeping>& keeping = {},
                const std::vector<size_t>& saved = {});

// Returns the kernel with the primitives that have a derivative, after the passes that simplify it: equal
// accesses are one, those that do not change in a loop have left it, and all loops are counted.
Function prepared(const Function& kernel, int folded_axis = -1);

// The parameters of the kernel that it writes, and all floats among those that it only reads: the usual
// arguments of reverse().
struct Differentiable {
  std::vector<size_t> inputs, results;
};
Differentiable differentiable_parameters(const Function& kernel);

// Returns true if the wide kernel may be launched: the iterations fill its blocks, or their tiles reach the
// ends of the arrays. extent(gradient, axis): of the array.
bool may_be_wide(const Derived& derived, const TransposedKernel& transposed, int64_t iterations,
                 const std::function<int64_t(size_t gradient, size_t axis)>& extent);

// Returns true if a launch has anything to do for the derived kernel, beside those that were transposed.
bool has_effects(const Function& function);

// Returns "stored", "summed over grid axis 1", …
std::string how_text(const DerivedGradient& gradient);

// The sizes of a launch, on which a number of iterations and what is kept of them may depend.
struct LaunchSizes {
  int64_t blocks[3] = {1, 1, 1};
  std::function<int64_t(size_t parameter, int64_t axis)> extent;
  std::function<int64_t(size_t parameter)> scalar;
  int64_t bytes = 0;  // of its arrays
};
// Returns an upper bound of the iterations of a loop in a kernel; nullopt: there is none before it runs.
std::optional<int64_t> most_iterations(const Function& kernel, const Op& loop, const LaunchSizes& sizes);

}  // namespace tile
