// From Tile IR to nodes: which ops share a fused loop, where tiles live, what order things run in.
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "cpu/interpreter/address.h"
#include "cpu/interpreter/frame.h"
#include "cpu/interpreter/in_place.h"
#include "ir/op.h"
#include "ir/precision.h"

namespace tile::cpu {

class LoweringContext;

// How a primitive that is not elementwise, a reduction, a store or control flow becomes a node.
struct LoweringRule {
  std::string_view name;
  std::unique_ptr<OpNode> (*lower)(LoweringContext& lower, const Op& op);  // may return null: nothing to run
  // Runs in no time and touches no slot: scheduled as early as its operands allow. `applies` may refuse an
  // op.
  bool cheap = false;
  bool (*applies)(const LoweringContext& lower, const Op& op) = nullptr;
  // What it reads instead of the op's operands.
  std::vector<const Value*> (*needs)(const LoweringContext& lower, const Op& op) = nullptr;
  // Whether it reads this operand as well in the form that memory has, denormal numbers then being 0.
  bool (*reads_elements)(const LoweringContext& lower, const Op& op, size_t operand) = nullptr;
};
// `static const AddLoweringRule gather_{{"gather", …}};` in cpu/prims/<family>.cpp. Several of one name are
// asked in order of registration within a file; `applies` decides.
struct AddLoweringRule {
  explicit AddLoweringRule(const LoweringRule& lowering);
};
const LoweringRule* find_lowering(const LoweringContext& lower, const Op& op);
bool has_cpu_body(std::string_view primitive);  // some way to run it exists

class LoweringContext {
 public:
  explicit LoweringContext(const Function& function);
  OpNodes body();
  bool approximate(const Value* value) const { return precision_.approximate(value); }
  const std::string& kernel() const { return function_.name(); }

  // Indices of values in the frame.
  int tile(const Value* value);
  int scalar(const Value* value);
  int array(const Value* value);
  ScalarSlot index(const Value* value) { return {scalar(value), lane_of(value->type.dtype)}; }
  int slot(const Value* value);                      // of a tile that is computed; made at first use
  int new_slot(const Type& type, size_t bytes = 0);  // at least the type's lanes
  int owned_slot(const Value* value);                // one that serves this value alone
  int slot_or_none(const Value* value) const;        // -1: it has none (a view, or memory)
  void share_slot(const Value* value, const Value* with) { slots_[value] = owned_slot(with); }
  bool exchangeable(int a, int b) const;
  // The slot of `op`'s result: that of `operand`, whose content may be overwritten, where this is its last
  // use.
  bool take_over(const Op& op, size_t operand);
  TileAddress address(const Op& op, size_t first_index, const Shape& shape);
  // All that reads a tile, but for these ops, takes it in the form that memory has.
  bool read_as_elements(const Value* value, const std::vector<const Op*>& but) const;
  bool is_written(const Value* array) const;   // the kernel stores into it somewhere
  bool stays_in_memory(const Op& load) const;  // its tile is never copied
  // The load whose memory a tile still is at run time, seen through views and casts that keep lanes; null:
  // none.
  const Op* memory_load(const Value* value) const;
  bool keeps_lanes(const Op& cast) const;  // a narrow float in memory read as f32: its lanes are f32 already
  int new_kept() { return static_cast<int>(kept_++); }  // a number in Frame::kept
  void need_scratch(size_t bytes) { scratch_bytes_ = std::max(scratch_bytes_, bytes); }
  void need_panels() { needs_panels_ = true; }  // for blocked products
  OpNodes block(const Block& block);            // of a region; defined in cpu/fusion, which plans it
  // A tile input for a node: scalars get a descriptor too, made by a node added in front.
  int input(const Value* value, OpNodes& before);

  // The initial contents of this program's frame.
  size_t tile_count() const { return tiles_.size(); }
  const std::vector<Scalar>& scalars() const { return scalar_values_; }
  size_t array_count() const { return arrays_.size(); }
  const std::vector<size_t>& slot_bytes() const { return slot_bytes_; }
  size_t kept_count() const { return kept_; }
  size_t scratch_bytes() const { return scratch_bytes_; }
  bool needs_panels() const { return needs_panels_; }

 private:
  friend class BlockPlan;
  const Function& function_;
  const Precision precision_;
  std::unordered_map<const Value*, int> tiles_, scalars_, arrays_, slots_;
  std::vector<Scalar> scalar_values_;
  std::vector<size_t> slot_bytes_;
  std::multimap<size_t, int> free_slots_;
  std::unordered_set<int> kept_slots_;  // never given to another value
  std::unordered_set<const Value*> written_, dedicated_;
  InPlaceLoads in_place_;
  std::unordered_set<const Value*> last_used_here_;  // operands that the op being lowered may overwrite
  size_t scratch_bytes_ = 0, kept_ = 0;
  bool needs_panels_ = false;
};

// Views of tiles that move nothing, so that liveness and slots follow them to what they show.
bool is_tile_view(const Op& op);
const Value* viewed(const Value* value);

void store_constant(Scalar& to, const Op& constant);

}  // namespace tile::cpu
