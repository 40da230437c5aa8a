// Orders the ops of one block into groups: fused loops of one shape, and single nodes.
#pragma once
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "cpu/fusion/fused_loop.h"
#include "cpu/interpreter/lowering_context.h"

namespace tile::cpu {

class BlockPlan {
 public:
  BlockPlan(LoweringContext& lower, const Block& block);
  OpNodes nodes();

 private:
  struct Group {
    bool fused_loop = false;
    Shape shape;
    std::vector<const Op*> ops;    // one op, unless it is a fused loop
    std::vector<const Op*> after;  // cheap ops on its results, in order
    std::vector<FusedLoopPrefetch> prefetch;
  };
  enum class Kind { cheap, fused_loop, single, none };
  struct Position {
    int group = -1;        // -1: before every group
    bool finished = true;  // false: may be used inside the group that computes it
  };
  Kind kind_of(const Op& op) const;
  std::vector<const Value*> reads(const Op& op) const;
  void find_needed();
  void plan();
  // Returns true if the loads' readers run no later than the stores.
  bool runs_before(const InPlaceLoads::Several& several) const;
  void assign(const Op& op);
  int memory_bound(const Op& op) const;
  void note_memory(const Op& op, int group);
  bool may_join(const Op& store, int group) const;
  void find_last_uses();
  void repeat_cheap();
  bool repeatable(const Value* value, const Shape& shape, int steps) const;
  bool only_in_fused_loops(const Value* value, const Shape& shape) const;
  void repeat(const Value* value, int group, std::vector<const Op*>& front);
  bool needed_outside(const Value* value, int group) const;
  // Returns true if the cheap ops after the group do not read the value.
  bool unseen_after(const Value* owner, int group) const;
  void emit_cheap(const Op& op, OpNodes& nodes);
  void emit_group(size_t index, OpNodes& nodes);
  void find_prefetch();
  void find_readers(const Value* value, std::set<int>& groups) const;
  std::optional<int> moving_axis(const Op& load) const;
  void release_after(size_t index);

  LoweringContext& lower_;
  const Block& block_;
  std::unordered_set<const Op*> needed_;
  std::vector<const Op*> early_;
  std::vector<Group> groups_;
  std::unordered_set<const Op*> read_once_;  // loads that only one group reads
  std::unordered_map<const Value*, Position> positions_;
  std::unordered_map<const Value*, std::vector<const Op*>> users_;  // at this block's level
  std::unordered_map<const Op*, int> group_of_;
  std::unordered_map<const Op*, std::vector<int>> repeats_;          // later groups that recompute it
  std::unordered_map<const Value*, int> last_reader_, last_writer_;  // by root array
  std::unordered_map<const Value*, int> last_use_;  // last group that uses a value with its own slot
  int barrier_ = -1, last_access_ = -1;
};

}  // namespace tile::cpu
