// Lowers Tile IR to nodes and assigns tiles, scalars and arrays their indices and memory.
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

// Lowers a primitive that is neither elementwise, a reduction, a store nor control flow.
struct LoweringRule {
  std::string_view name;
  std::unique_ptr<OpNode> (*lower)(LoweringContext& lower, const Op& op);  // null: nothing to run
  // True for nodes that cost almost nothing and use no slot: they run as early as their operands allow.
  // `applies` returns false for ops that the rule does not support.
  bool cheap = false;
  bool (*applies)(const LoweringContext& lower, const Op& op) = nullptr;
  // Returns the values that the node reads, if they differ from the op's operands.
  std::vector<const Value*> (*needs)(const LoweringContext& lower, const Op& op) = nullptr;
  // Returns true if the node can also read this operand in its memory format; subnormals are then 0.
  bool (*reads_elements)(const LoweringContext& lower, const Op& op, size_t operand) = nullptr;
};
// Registers a rule: `static const AddLoweringRule gather_{{"gather", …}};` in cpu/prims/<family>.cpp. Rules
// of the same name are tried in order of registration within a file; `applies` decides.
struct AddLoweringRule {
  explicit AddLoweringRule(const LoweringRule& lowering);
};
// Lowers an op by a node's constructor.
template <class SomeNode>
std::unique_ptr<OpNode> lower_as(LoweringContext& lower, const Op& op) {
  return std::make_unique<SomeNode>(lower, op);
}
const LoweringRule* find_lowering(const LoweringContext& lower, const Op& op);
bool has_cpu_body(std::string_view primitive);  // some implementation exists

class LoweringContext {
 public:
  explicit LoweringContext(const Function& function);
  OpNodes body();
  bool approximate(const Value* value) const { return precision_.approximate(value); }
  const std::string& kernel() const { return function_.name(); }

  // Return a value's index in the frame.
  int tile(const Value* value);
  int scalar(const Value* value);
  int array(const Value* value);
  ScalarSlot index(const Value* value) { return {scalar(value), lane_of(value->type.dtype)}; }
  int slot(const Value* value);                      // of a computed tile; allocated at first use
  int new_slot(const Type& type, size_t bytes = 0);  // large enough for the type's lanes
  int owned_slot(const Value* value);                // not shared with other values
  int slot_or_none(const Value* value) const;        // -1: none (a view, or in memory)
  void share_slot(const Value* value, const Value* with) { slots_[value] = owned_slot(with); }
  bool exchangeable(int a, int b) const;
  // Lets `op`'s result take over the slot of `operand` if this is the operand's last use; returns whether it
  // did.
  bool take_over(const Op& op, size_t operand);
  TileAddress address(const Op& op, size_t first_index, const Shape& shape);
  // Returns true if all readers of the tile except these ops take it in its memory format.
  bool read_as_elements(const Value* value, const std::vector<const Op*>& but) const;
  bool is_written(const Value* array) const;                                  // the kernel stores into it
  bool is_read(const Value* value) const { return read_.count(value) != 0; }  // it is an operand
  bool stays_in_memory(const Op& load) const;                                 // its tile is never copied
  // Returns the load whose memory the tile still refers to at run time, possibly through views and casts that
  // keep lanes; else null.
  const Op* memory_load(const Value* value) const;
  bool keeps_lanes(const Op& cast) const;  // casts a narrow float in memory to f32: its lanes are f32 already
  int new_node_state() { return static_cast<int>(node_states_++); }  // an index into Frame::node_states
  void need_scratch(size_t bytes) { scratch_bytes_ = std::max(scratch_bytes_, bytes); }
  void need_panels() { needs_panels_ = true; }  // for blocked products
  OpNodes block(const Block& block);            // lowers a region; defined in cpu/fusion
  // Returns a tile input for a node. A scalar gets a descriptor, made by a node that is added to `before`.
  int input(const Value* value, OpNodes& before);

  // The initial contents of this program's frame.
  size_t tile_count() const { return tiles_.size(); }
  const std::vector<Scalar>& scalars() const { return scalar_values_; }
  size_t array_count() const { return arrays_.size(); }
  const std::vector<size_t>& slot_bytes() const { return slot_bytes_; }
  size_t node_state_count() const { return node_states_; }
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
  std::unordered_set<int> kept_slots_;  // never reused for another value
  std::unordered_set<const Value*> written_, read_, dedicated_;
  InPlaceLoads in_place_;
  std::unordered_set<const Value*> last_used_here_;  // operands that the current op may overwrite
  size_t scratch_bytes_ = 0, node_states_ = 0;
  bool needs_panels_ = false;
};

// Views of tiles move no elements, so that liveness and slots refer to the viewed tile.
bool is_tile_view(const Op& op);
const Value* viewed(const Value* value);

void store_constant(Scalar& to, const Op& constant);

}  // namespace tile::cpu
