// Layout assignment: chooses one layout for every tile of a kernel.
//
// Each memory access proposes the layout that suits it. Proposals are applied in order of the bytes
// they move, the largest first. A layout spreads to all values that can have it without moving an
// element, across elementwise ops, reductions, reshapes and loops. Where two layouts differ, the
// emitter moves elements. A memory access whose tile received another layout still uses its own
// where moving the elements costs less than the slower access.
#pragma once
#include <algorithm>
#include <optional>
#include <unordered_map>

#include "cuda/async/plan.h"
#include "cuda/cluster.h"
#include "cuda/fma_plan.h"
#include "cuda/layout.h"
#include "cuda/mma_plan.h"
#include "cuda/staging.h"
#include "ir/op.h"

namespace tile::cuda {

// Along `axis` of its tiles, a gather or a scatter moves `width` neighbours together.
struct Run {
  int axis = -1, width = 1;
};

class LayoutPlan {
 public:
  // `configuration` scales the usual number of warps by a power of two.
  LayoutPlan(const Function& function, const KernelArrays& arrays, const StagingPlan& staging,
             const Cluster& cluster, int max_warps, const Configuration& configuration,
             const AsyncPlan* async = nullptr);
  // Returns the plan of a kernel whose threads are numbered within groups, or null.
  const AsyncPlan* async() const { return async_; }
  // Returns true if several groups hold the same elements, of which one must write.
  bool in_each_group(const Layout& layout) const {
    return async_ && async_->groups > 1 && !layout.across_groups();
  }
  // Returns how many CTAs should fit into a multiprocessor's registers: 64 registers a thread, 128
  // if the kernel carries sums, and a value between if a thread holds much of a cluster's tile.
  int blocks() const;
  int cluster() const { return cluster_.blocks; }
  // Returns true if every op on a tile distributed over a cluster supports that.
  bool works_across() const;
  bool multiplies() const { return mma_.any; }  // on tensor cores
  int warps() const { return warps_; }
  int threads() const { return warps_ * 32; }
  MmaPlan mma(const Op& op) const;             // a product on tensor cores
  FmaPlan fma(const Op& op) const;             // a product by FMA, by blocks of sums
  const Layout& of(const Value* value) const;  // the tile's layout; rank 0 for a scalar
  // The layout in which a load or store accesses memory: the tile's, or one that is enough faster
  // to pay for moving the elements.
  const Layout& access(const Op& op) const;
  Run run(const Op& op) const;
  // Returns the memory access or product whose layout spread to the tile, or null.
  const Op* origin(const Value* value) const;

 private:
  struct Proposal;
  struct Edge {
    const Op* op;  // null: both are the same value
    const Value* other;
  };
  void connect(const Block& block);
  void link(const Op* op, const Value* a, const Value* b);
  void propose(const Block& block, int64_t iterations, std::vector<Proposal>& proposals) const;
  void find_runs(const KernelArrays& arrays);  // those that the pass of this name found and memory allows
  void spread(const Value* from, const Layout& layout, const Op* origin = nullptr);
  // Assigns all layouts: products first, then `given`, then the proposals.
  void assign(const std::vector<Proposal>& proposals, const KernelArrays& arrays,
              const std::vector<std::pair<const Value*, Layout>>& given);
  // Returns better layouts for tiles that are combined in order and whose layouts make that slow.
  std::vector<std::pair<const Value*, Layout>> in_order() const;
  void choose_access(const Proposal& proposal, const KernelArrays& arrays);

  Layout dealt(const Shape& shape, int axis, int vector) const;

  const Function& function_;
  const StagingPlan& staging_;
  const Cluster cluster_;
  const AsyncPlan* const async_;
  MmaKernel mma_;
  int warps_ = 1;
  int64_t largest_ = 1;     // elements of the largest tile
  bool carries_ = false;    // a loop carries tiles
  bool by_blocks_ = false;  // products by FMA hold blocks of sums in registers
  std::unordered_map<const Value*, std::vector<Edge>> edges_;
  // {a loop's argument: its result, and the reverse}
  std::unordered_map<const Value*, const Value*> variables_;
  std::unordered_map<const Value*, Layout> layouts_;
  std::unordered_map<const Value*, const Op*> origins_;
  std::unordered_map<const Op*, Run> runs_;         // those of several elements
  std::unordered_map<const Op*, Layout> accesses_;  // only those that differ from the tile's layout
};

}  // namespace tile::cuda
