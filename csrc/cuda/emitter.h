// Emits a kernel's source, one line per op. Definitions that the lines need (layouts, elementwise
// structs, headers) are collected meanwhile and precede the kernel in the file.
#pragma once
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "cuda/array_facts.h"
#include "cuda/assign.h"
#include "cuda/barrier_plan.h"
#include "cuda/conversion.h"
#include "cuda/program.h"
#include "cuda/register_loop.h"
#include "cuda/register_map.h"
#include "ir/assertion.h"
#include "ir/precision.h"
#include "support/text.h"

namespace tile::cuda {

// The buffers of a loop that loads ahead. If the loop only computes one product, `product` is that
// product: its fragments are read one step ahead, across iterations as well.
struct Ring {
  std::string memory;  // this iteration's buffer
  const Op* product = nullptr;
  std::string fragments, copies = {}, next_iteration = {};
};

class Emitter {
 public:
  Emitter(const Function& function, const KernelArrays& arrays, const StagingPlan& staging,
          const LayoutPlan& plan, const Target& target, const Configuration& configuration);
  std::string text() const;  // the whole file
  const std::string& entry() const { return entry_; }
  // Returns how many CTAs ptxas is to leave registers for on a multiprocessor.
  int held() const;
  // Returns true if some element would have to move to another CTA of the cluster.
  bool leaves_block() const { return leaves_block_; }
  // Returns the first op that would have to move elements between the threads of a group or between groups,
  // or null.
  const Op* leaves_group() const { return leaves_group_; }
  void leave_group(const Op& op);
  // Records that elements of a tile in this layout may move to any other thread.
  void scatters(const Layout& layout) { leaves_block_ |= layout.across_blocks(); }
  // Moves of elements between threads, in source order.
  const std::vector<Conversion>& conversions() const { return conversions_; }
  int64_t shared_bytes() const {
    return plan_.async() ? plan_.async()->shared_bytes : steps_bytes() + staged_peak_;
  }
  const StagingPlan& staging() const { return staging_; }
  const Configuration& configuration() const { return configuration_; }

  const Function& function() const { return function_; }
  const LayoutPlan& plan() const { return plan_; }
  const Layout& layout_of(const Value* value) const { return plan_.of(value); }
  ArrayFacts facts(const Value* array) const { return arrays_.facts(array); }

  // Returns the text of a value in an expression: its name, or a literal. A scalar is a plain variable.
  std::string name(const Value* value);
  std::string fresh_name(const Value* value) { return names_[value] = str("v", values_++); }
  // Maps each register of the op's result to the register of the tile operand that it is computed
  // from; none if an element comes from another thread.
  std::optional<std::vector<int>> registers_of(const Op& op, const Value* operand) const;
  // Returns a tile in the given layout, after emitting a line that moves it there if necessary. A
  // scalar becomes a tile.
  std::string in_layout(const Op& op, const Value* value, const Layout& layout);
  // Returns an expression that recomputes the tile at no cost in any layout, or an empty string if
  // there is none.
  std::string made_anew(const Value* value, const Layout& layout);
  std::string layout(const Layout& layout);                  // "L3"
  std::string type(const Type& type, const Layout& layout);  // "Tile<f32, L3>", "i32"
  std::string array_type(const Value* array) const;          // "Array<f32, 2, i32>"

  // Emits one line of the kernel, with the op's location as a comment.
  void line(const Op& op, const std::string& text);
  void synchronize(const Op& op);
  // Emits the barrier that must precede an access of global memory that another thread has
  // accessed, possibly in another CTA of the cluster.
  void synchronize_memory(const Op& op);
  // Emits "const T v12 = expression;" for the op's only result, whose expression has the planned
  // layout.
  void result(const Op& op, const std::string& expression);
  void result(const Op& op, const Value* value, const std::string& expression);  // one of several results
  // Does the same for an expression in another layout: the elements are moved.
  void result_in(const Op& op, const Layout& layout, const std::string& expression);
  void result_in(const Op& op, const Value* value, const Layout& layout, const std::string& expression);
  // Returns an expression in layout `to_layout` for the elements of `from`, matched by row-major
  // index. It may use shared memory. Defined in cuda/move_text.cpp.
  std::string moved(const Op& op, const std::string& from, DType dtype, const Layout& from_layout,
                    const Weights& from_weights, const Layout& to_layout, const Weights& to_weights);

  void need(const std::string& header) { headers_.insert(header); }
  void need_row(int operands, std::string_view name, std::string_view expression);
  // Returns true if the value is rounded to 16 bits in the end.
  bool approximate(const Value* value) const { return precision_.approximate(value); }
  // Requests shared memory that a step uses between barriers. The kernel allocates the maximum over
  // all steps.
  void need_shared(const Op& op, int64_t bytes);
  // Records that threads may still be reading shared memory, so that the next write there needs a
  // barrier first.
  void leave_shared() { shared_is_read_ = true; }
  void wait_for_readers(const Op& op);
  // Records that the emitted source already contains a barrier.
  void was_synchronized() { shared_is_read_ = false; }
  // Allocates shared memory for a product's operand. Operands of a block's products are adjacent; allocation
  // restarts after another step has overwritten them.
  int64_t take_operand(const Op& op, const Value* operand, int64_t bytes, const std::string& name);
  bool has_room_for(int64_t bytes) const {
    return operands_.empty() || operand_bytes_ + bytes <= std::max(scratch_reserve, staging_.written_bytes());
  }
  void forget_operands() { operands_.clear(); }
  // Returns the name under which the operand was written to shared memory, or an empty string.
  std::string written_operand(const Value* operand) const;
  // Returns one of two shared-memory buffers that ops use alternately.
  std::string double_buffer(const Op& op, int64_t bytes);
  // The same for buffers that other CTAs of the cluster write to in a step that synchronizes them;
  // such steps alternate among themselves.
  std::string cluster_memory(const Op& op, int64_t bytes);
  // Returns true if the CTAs of the cluster have synchronized before this point; always true for a
  // single CTA.
  bool has_met() const { return met_; }
  // Returns the assertion's number within the kernel.
  size_t add_assertion(const Op& op);
  const std::vector<Assertion>& assertions() const { return assertions_; }
  // Returns the name of a tensor map of an array parameter, "m0". Equal maps are one parameter.
  std::string tensor_map(const TensorMapSpec& map);
  const std::vector<TensorMapSpec>& tensor_maps() const { return tensor_maps_; }
  // Returns the kernel's parameters after all ops are emitted.
  std::vector<Parameter> parameters() const;
  // "(f32*)(shared_memory() + 64)"
  static std::string shared_pointer(DType dtype, int64_t offset);
  // Writes a tile to shared memory in row-major order at offset `bytes`, adds its size to `bytes`,
  // and returns its address.
  std::string write_shared(const Op& op, const Value* tile, int64_t& bytes);
  // Allocates shared memory for a staged tile, which outlives a step, from a stack; returns the
  // offset.
  int64_t take_staged(const Op& op, int64_t bytes);
  int64_t staged_mark() const { return staged_; }
  void release_staged(int64_t mark) { staged_ = mark; }
  const Target& target() const { return target_; }
  int64_t staged_left() const {
    return target_.shared_bytes - std::max(scratch_reserve, staging_.written_bytes()) - staged_;
  }
  // Returns half a multiprocessor's shared memory, less the kilobyte that a CTA reserves and what
  // the steps so far need, or at least `steps`. (A computed operand of a product on tensor cores
  // counts only once it is written: most stay in registers.)
  int64_t staged_left_of_half(int64_t steps) const {
    return target_.shared_bytes / 2 - 1024 - std::max(steps, steps_bytes()) - staged_;
  }
  std::string define_struct(const std::string& prefix, const std::string& body);  // equal bodies share a name
  std::string temporary() { return str("t", temporaries_++); }
  void define_alias(const Value* value, std::string name) { names_[value] = std::move(name); }

  void block(const Block& block);
  void op(const Op& op);
  // The names are saved before ops that are emitted again elsewhere, and restored by set_names() afterwards.
  std::unordered_map<const Value*, std::string> names() const { return names_; }
  void forget(const Value* value) { names_.erase(value); }
  // Returns this iteration's buffer of a loop that loads ahead, or null if the loop does not.
  const Ring* ring_of(const Op* loop) const;
  void set_ring(const Op* loop, Ring ring) { rings_[loop] = std::move(ring); }
  // Returns the tile with a reduction's partial sums over a thread's registers, or an empty string
  // if it does not exist yet.
  std::string partial(const Op& reduction) const {
    const auto found = partial_.find(&reduction);
    return found == partial_.end() ? std::string() : found->second;
  }
  void set_partial(const Op& reduction, std::string name) { partial_[&reduction] = std::move(name); }
  // The reductions that share the reduction's barriers, in order; empty until they are known.
  std::vector<const Op*>& run_of_reductions(const Op& reduction) { return runs_[&reduction]; }
  RegisterLoops& rematerialize() { return register_loops_; }
  // Records that copies to shared memory are under way. A loop that loads ahead waits for them in its first
  // iteration or behind its last; other readers await them.
  void leave_copies() { copying_ = true; }
  void await_copies(const Op& op);
  void copies_are_awaited() { copying_ = false; }
  // Marks ops that are emitted before their position.
  void set_emitted(const Op* op) { emitted_.insert(op); }
  // Returns true if the value is already in the emitted source, or is emitted at its first use.
  bool is_known(const Value* value) const { return names_.count(value) != 0 || register_loops_.waits(value); }
  void set_names(std::unordered_map<const Value*, std::string> names) { names_ = std::move(names); }
  void indent(int by) { depth_ += by; }
  void close(const char* behind = "") {
    body_ += str(std::string(static_cast<size_t>(depth_) * 2, ' '), "}", behind, '\n');
  }

 private:
  // Bytes of shared memory that the steps between barriers need so far.
  int64_t steps_bytes() const { return scratch_bytes_ + 2 * (double_buffer_bytes_ + across_bytes_); }
  static constexpr int64_t scratch_reserve = 32 * 1024;  // for steps next to staged tiles
  void check_shared(const Op& op) const;
  std::string declaration_of(const Parameter& parameter) const;
  void note(const Op& op, DType dtype, const Layout& from, const Layout& to, const MovePlan& plan);
  void meet_blocks(const Op& op);
  bool exchanges(const Op& op) const;
  std::string async_prologue() const;

  const Function& function_;
  const KernelArrays& arrays_;
  const StagingPlan& staging_;
  const LayoutPlan& plan_;
  const Target& target_;
  const Configuration& configuration_;
  const BarrierPlan order_;
  const Precision precision_;
  std::string entry_, body_;
  std::unordered_map<const Value*, std::string> names_;
  int values_ = 0, temporaries_ = 0, depth_ = 1;
  bool shared_is_read_ = false, copying_ = false;
  int64_t scratch_bytes_ = 0, double_buffer_bytes_ = 0, across_bytes_ = 0, staged_ = 0, staged_peak_ = 0;
  std::vector<Layout> layouts_;
  std::vector<std::pair<std::string, std::string>> structs_;  // name and body
  std::set<std::string> headers_;
  std::map<std::string, std::string> rows_;
  std::unordered_map<const Op*, Ring> rings_;
  std::set<const Op*> emitted_;
  std::vector<std::pair<const Value*, std::string>> operands_;  // operands of products in shared memory
  int64_t operand_bytes_ = 0;
  RegisterLoops register_loops_;
  std::unordered_map<const Op*, std::string> partial_;  // a reduction's sums over registers
  std::unordered_map<const Op*, std::vector<const Op*>> runs_;
  std::vector<Conversion> conversions_;
  std::vector<Assertion> assertions_;
  std::vector<TensorMapSpec> tensor_maps_;
  bool leaves_block_ = false, met_ = false;
  const Op* leaves_group_ = nullptr;
};

std::string line_number(const Op& op);  // for failure reports of the device library
// Returns the text of a mode, such as "lane() / 4 % 8 * 2", for a layout with so many registers.
std::string index_text(const Mode& mode, int registers, int threads, int blocks);

}  // namespace tile::cuda
