// Layout assignment: one layout for every tile of a kernel.
//
// Memory accesses propose the layout that suits them. The one that moves most data speaks first; its layout
// spreads to all values that can have it without moving an element, across elementwise ops, reductions,
// reshapes and loops. Where two proposals meet, the emitter moves elements. An access of memory whose tile
// got another's layout takes its own where moving the elements costs less than reaching for them.
#pragma once
#include <algorithm>
#include <optional>
#include <unordered_map>

#include "cuda/cluster.h"
#include "cuda/layout.h"
#include "cuda/mma_plan.h"
#include "cuda/staging.h"
#include "ir/op.h"

namespace tile::cuda {

class LayoutPlan {
 public:
  // `more`: warps as a power of two, times the usual.
  LayoutPlan(const Function& function, const KernelArrays& arrays, const StagingPlan& staging,
             const Cluster& cluster, int max_warps, const Configuration& configuration);
  // How many blocks of a multiprocessor are to fit into its registers: 64 a thread, 128 where sums live in
  // them, and something between where much of a cluster's tile does.
  int blocks() const;
  int cluster() const { return cluster_.blocks; }
  // Returns true if every op that meets a tile distributed over a cluster works there.
  bool works_across() const;
  bool multiplies() const { return mma_.any; }  // on tensor cores
  int warps() const { return warps_; }
  int threads() const { return warps_ * 32; }
  MmaPlan mma(const Op& op) const;             // of a product on tensor cores
  const Layout& of(const Value* value) const;  // of a tile; of a scalar the layout of rank 0
  // In which layout a load or store of a tile accesses memory: the tile's, or one so much better that
  // elements are moved.
  const Layout& access(const Op& op) const;
  // The access of memory or the product whose layout spread to the tile; null: it touches neither.
  const Op* origin(const Value* value) const;

 private:
  struct Proposal;
  struct Edge {
    const Op* op;  // null: the two are one value
    const Value* other;
  };
  void connect(const Block& block);
  void link(const Op* op, const Value* a, const Value* b);
  void propose(const Block& block, int64_t iterations, std::vector<Proposal>& proposals) const;
  void spread(const Value* from, Layout layout, const Op* origin = nullptr);
  // All layouts: those of products, then what is given, then the proposals'.
  void assign(const std::vector<Proposal>& proposals, const KernelArrays& arrays,
              const std::vector<std::pair<const Value*, Layout>>& given);
  // Returns layouts for tiles that are combined in order, where theirs make that slow.
  std::vector<std::pair<const Value*, Layout>> in_order() const;
  void choose_access(const Proposal& proposal, const KernelArrays& arrays);

  Layout dealt(const Shape& shape, int axis, int vector) const;

  const Function& function_;
  const StagingPlan& staging_;
  const Cluster cluster_;
  MmaKernel mma_;
  int warps_ = 1;
  int64_t largest_ = 1;   // elements of a tile
  bool carries_ = false;  // tiles through a loop
  std::unordered_map<const Value*, std::vector<Edge>> edges_;
  std::unordered_map<const Value*, Layout> layouts_;
  std::unordered_map<const Value*, const Op*> origins_;
  std::unordered_map<const Op*, Layout> accesses_;  // that differ from the tile's
};

}  // namespace tile::cuda
