// Writes the text of a kernel, one line an op. What it needs besides (layouts, elementwise rows, headers) is
// collected on the way and stands above the kernel.
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

// The buffers of a loop that loads ahead. In a loop of products alone, that product: its fragments are read
// one step ahead, also over the end of an iteration.
struct Ring {
  std::string memory;  // of this iteration's buffer
  const Op* product = nullptr;
  std::string fragments, copies = {}, next_iteration = {};
};

class Emitter {
 public:
  Emitter(const Function& function, const KernelArrays& arrays, const StagingPlan& staging,
          const LayoutPlan& plan, const Target& target, const Configuration& configuration);
  std::string text() const;  // of the whole file
  const std::string& entry() const { return entry_; }
  // Returns true if some element would have to go to another block of the cluster.
  bool leaves_block() const { return leaves_block_; }
  // Elements of a tile in this layout go to any other thread.
  void scatters(const Layout& layout) { leaves_block_ |= layout.across_blocks(); }
  // Moves of elements between threads, in the order of the text.
  const std::vector<Conversion>& conversions() const { return conversions_; }
  int64_t shared_bytes() const { return steps_bytes() + staged_peak_; }
  const StagingPlan& staging() const { return staging_; }
  const Configuration& configuration() const { return configuration_; }

  const Function& function() const { return function_; }
  const LayoutPlan& plan() const { return plan_; }
  const Layout& layout_of(const Value* value) const { return plan_.of(value); }
  ArrayFacts facts(const Value* array) const { return arrays_.facts(array); }

  // Returns the text of a value in an expression: its name, or a literal. A scalar is a plain variable.
  std::string name(const Value* value);
  std::string fresh_name(const Value* value) { return names_[value] = str("v", values_++); }
  // For each register of the op's result, the register of a tile operand that it is made from; none: of
  // another thread.
  std::optional<std::vector<int>> registers_of(const Op& op, const Value* operand) const;
  // A tile in a layout; moves it there in a line of its own where it is elsewhere. A scalar becomes a tile.
  std::string in_layout(const Op& op, const Value* value, const Layout& layout);
  // An expression of a tile that costs nothing to make again, in any layout; empty: the value is no such
  // tile.
  std::string made_anew(const Value* value, const Layout& layout);
  std::string layout(const Layout& layout);                  // "L3"
  std::string type(const Type& type, const Layout& layout);  // "Tile<f32, L3>", "i32": dtypes are the IR's
  std::string array_type(const Value* array) const;          // "Array<f32, 2, i32>"

  // One line of the kernel, with the op's location as a comment.
  void line(const Op& op, const std::string& text);
  void synchronize(const Op& op);
  // Before an access of memory that another thread has touched, of another block of the cluster too.
  void synchronize_memory(const Op& op);
  // "const T v12 = expression;" for the op's only result, which the expression gives in the planned layout.
  void result(const Op& op, const std::string& expression);
  void result(const Op& op, const Value* value, const std::string& expression);  // one of several
  // The same where the expression gives another layout: it is moved.
  void result_in(const Op& op, const Layout& layout, const std::string& expression);
  void result_in(const Op& op, const Value* value, const Layout& layout, const std::string& expression);
  // An expression of `to` whose elements are those of `from`, by their row-major indices; may use shared
  // memory. In cuda/move_text.cpp.
  std::string moved(const Op& op, const std::string& from, DType dtype, const Layout& from_layout,
                    const Weights& from_weights, const Layout& to_layout, const Weights& to_weights);

  void need(const std::string& header) { headers_.insert(header); }
  void need_row(int operands, std::string_view name, std::string_view expression);
  // Returns true if the value ends as 16 bits.
  bool approximate(const Value* value) const { return precision_.approximate(value); }
  // Shared memory that a step uses between barriers; the most any step asks for is the kernel's.
  void need_shared(const Op& op, int64_t bytes);
  // Threads may still read that memory: a barrier before anyone writes there again.
  void leave_shared() { shared_is_read_ = true; }
  void wait_for_readers(const Op& op);
  // A barrier that is already in the emitted source.
  void was_synchronized() { shared_is_read_ = false; }
  // Operands of a block's products stand there side by side, until a step writes something else: room for one
  // more, which begins anew where there is none.
  int64_t take_operand(const Op& op, const Value* operand, int64_t bytes, const std::string& name);
  bool has_room_for(int64_t bytes) const {
    return operands_.empty() || operand_bytes_ + bytes <= std::max(scratch_reserve, staging_.written_bytes());
  }
  void forget_operands() { operands_.clear(); }
  // The name that it was written under; empty: it does not stand there.
  std::string written_operand(const Value* operand) const;
  // Returns the one of two buffers in shared memory that was not taken last.
  std::string double_buffer(const Op& op, int64_t bytes);
  // The same for what other blocks of the cluster write to, a step that meets them: such steps alternate
  // among themselves.
  std::string cluster_memory(const Op& op, int64_t bytes);
  // Returns true if the blocks of a cluster have met once before this point; a single block always has.
  bool has_met() const { return met_; }
  // Its number among the kernel's assertions.
  size_t add_assertion(const Op& op);
  const std::vector<Assertion>& assertions() const { return assertions_; }
  // "(f32*)(shared_memory() + 64)"
  static std::string shared_pointer(DType dtype, int64_t offset);
  // Writes a tile in row-major order behind the first `bytes` of that memory, which it adds to; returns
  // where.
  std::string write_shared(const Op& op, const Value* tile, int64_t& bytes);
  // Shared memory that outlives a step: tiles that are staged. Taken from a stack; returns the offset.
  int64_t take_staged(const Op& op, int64_t bytes);
  int64_t staged_mark() const { return staged_; }
  void release_staged(int64_t mark) { staged_ = mark; }
  const Target& target() const { return target_; }
  int64_t staged_left() const {
    return target_.shared_bytes - std::max(scratch_reserve, staging_.written_bytes()) - staged_;
  }
  // Half a multiprocessor's shared memory, less a block's own kilobyte and what steps so far write. (An
  // operand of a product that is computed counts when it is written: most stay in registers.)
  int64_t staged_left_of_half() const { return target_.shared_bytes / 2 - 1024 - steps_bytes() - staged_; }
  std::string define_struct(const std::string& prefix, const std::string& body);  // equal bodies share a name
  std::string temporary() { return str("t", temporaries_++); }
  void define_alias(const Value* value, std::string name) { names_[value] = std::move(name); }

  void block(const Block& block);
  void op(const Op& op);
  // Names given since are forgotten: ops emitted again elsewhere get their own.
  std::unordered_map<const Value*, std::string> names() const { return names_; }
  void forget(const Value* value) { names_.erase(value); }
  // The buffer of this iteration, of a loop that loads ahead; null: it does not.
  const Ring* ring_of(const Op* loop) const;
  void set_ring(const Op* loop, Ring ring) { rings_[loop] = std::move(ring); }
  // Returns a reduction's tile of sums over a thread's registers if it exists already, else an empty text.
  std::string partial(const Op& reduction) const {
    const auto found = partial_.find(&reduction);
    return found == partial_.end() ? std::string() : found->second;
  }
  void set_partial(const Op& reduction, std::string name) { partial_[&reduction] = std::move(name); }
  // Those that share the reduction's barriers, in order; empty: not known yet.
  std::vector<const Op*>& run_of_reductions(const Op& reduction) { return runs_[&reduction]; }
  RegisterLoops& rematerialize() { return register_loops_; }
  // Ops that are emitted earlier than their position.
  void set_emitted(const Op* op) { emitted_.insert(op); }
  // Returns true if the value is already in the emitted source, or is emitted at its first use.
  bool is_known(const Value* value) const { return names_.count(value) != 0 || register_loops_.waits(value); }
  void set_names(std::unordered_map<const Value*, std::string> names) { names_ = std::move(names); }
  void indent(int by) { depth_ += by; }
  void close(const char* behind = "") {
    body_ += str(std::string(static_cast<size_t>(depth_) * 2, ' '), "}", behind, '\n');
  }

 private:
  // Bytes of the steps between barriers, so far.
  int64_t steps_bytes() const { return scratch_bytes_ + 2 * (double_buffer_bytes_ + across_bytes_); }
  static constexpr int64_t scratch_reserve = 32 * 1024;  // for steps, where staged tiles could take all
  void check_shared(const Op& op) const;
  void note(const Op& op, DType dtype, const Layout& from, const Layout& to, const MovePlan& plan);
  void meet_blocks(const Op& op);
  bool exchanges(const Op& op) const;

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
  bool shared_is_read_ = false;
  int64_t scratch_bytes_ = 0, double_buffer_bytes_ = 0, across_bytes_ = 0, staged_ = 0, staged_peak_ = 0;
  std::vector<Layout> layouts_;
  std::vector<std::pair<std::string, std::string>> structs_;  // name and body
  std::set<std::string> headers_;
  std::map<std::string, std::string> rows_;
  std::unordered_map<const Op*, Ring> rings_;
  std::set<const Op*> emitted_;
  std::vector<std::pair<const Value*, std::string>> operands_;  // of products, in shared memory
  int64_t operand_bytes_ = 0;
  RegisterLoops register_loops_;
  std::unordered_map<const Op*, std::string> partial_;  // of reductions, the sums of registers
  std::unordered_map<const Op*, std::vector<const Op*>> runs_;
  std::vector<Conversion> conversions_;
  std::vector<Assertion> assertions_;
  bool leaves_block_ = false, met_ = false;
};

std::string line_number(const Op& op);  // for the device library's reports
// "lane() / 4 % 8 * 2", of a layout of so many registers.
std::string index_text(const Mode& mode, int registers, int threads, int blocks);

}  // namespace tile::cuda
