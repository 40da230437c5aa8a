// Backward: walks a kernel's ops from the last to the first and emits their adjoints.
#pragma once
#include <functional>
#include <unordered_map>
#include <vector>

#include "derive/activity.h"
#include "derive/online.h"
#include "derive/padding.h"
#include "derive/reverse.h"
#include "ir/adjoints.h"
#include "ir/walk.h"

namespace tile {

class Backward {
 public:
  // derived.function holds a copy of the kernel with the gradients as further parameters. copies: from values
  // of the kernel to those of the copy.
  Backward(Derived& derived, const Activity& activity, const ValueMap& copies);
  void run();

 private:
  class Context;
  friend class Context;
  // The adjoints known in the block that is being filled.
  struct Frame {
    Block* block;
    std::unordered_map<Value*, Value*> parts;
    std::vector<Value*> order;
  };
  // A block that computes another one again, and then adjoints.
  struct Body {
    std::unique_ptr<Block> block;
    std::vector<Value*> yields;    // computed again
    std::vector<Value*> captured;  // values from outside that have an adjoint
    Frame frame;
  };
  struct Loop {
    Op& op;
    std::vector<Value*> seeds;     // adjoints of the results; null: none
    Value* index = nullptr;        // arguments of the new body
    std::vector<Value*> before;    // the carried values at the beginning of an iteration
    std::vector<Value*> adjoints;  // of the carried values at its end; null: of one that is not active
    Body body;
    std::vector<Value*> results;  // adjoints of the carried values at its beginning; null: none
    std::vector<bool> used;       // values of `before` that the adjoints are computed from
    std::vector<bool> needed;     // those, and what they are computed from in earlier iterations
  };
  // Emits ops at the beginning of a recomputed iteration. turn: its number in the loop that recomputes.
  // carried: the values that are needed; others are null.
  using AtIteration = std::function<void(Builder& build, Value* turn, const std::vector<Value*>& carried)>;

  bool active(const Value* value) const;
  Value* adjoint(const Value* value) const;
  void add(Value* value, Value* part);
  Value* sum(Value* x, Value* y);

  void backward(const std::vector<Op*>& ops);
  void backward(Op& op);
  void apply_rule(Op& op);
  void if_op(Op& op);
  void for_op(Op& op);
  // The maximum of an online softmax, which stands for those of all iterations.
  struct LastMaximum {
    const OnlineLoop* loop;
    Value* value;
  };
  Body again(const Block& from, std::unique_ptr<Block> to, ValueMap& map, const std::vector<Value*>& seeds,
             const LastMaximum* last = nullptr);
  void differentiate(Loop& loop, const LastMaximum* last);
  bool online(Loop& loop);
  Value* zeros_like(const Value* value);       // in adjoint_type
  static bool runs_forward(const Loop& loop);  // after find_used()
  void insert_loop(Loop& loop);

  // In backward_loops.cpp: a loop from the last iteration to the first, and what it needs of earlier ones.
  // A loop over segments, in which one computes a segment again and one goes backwards through it.
  struct Segments {
    std::unique_ptr<Block> block;
    Value* turn;  // its index
    std::vector<Value*> bounds, inner_bounds;
  };
  void find_used(Loop& loop);
  Keeping keeping_of(const Loop& loop) const;
  std::vector<Value*> turn_back(Loop& loop, Value* turn);
  void keep_trajectories(Loop& loop, Value* iteration);
  Segments open_segments(Loop& loop, Value* turn);
  std::vector<Value*> close_segments(Loop& loop, Segments& segments, const std::vector<Value*>& initial);
  std::vector<Value*> run_again(const Loop& loop, Builder& build, Value* first, Value* count,
                                const std::vector<Value*>& initial, const AtIteration& at);
  void replace_before(Loop& loop, const ValueMap& kept);
  Value* add_scratch(const Loop& loop, size_t k, bool in_segment);

  void note_copies(const ValueMap& map, const LastMaximum* last = nullptr);
  void note_loop(const Op& from, const Op& to);
  void note_loops(const Block& from, const Block& to);
  bool is_forward_write(const Op& op) const;
  bool writes_results(const Op& op) const;
  size_t parameter(const Value* array) const;
  Value* view_of(Value* array, Value* root);
  ValueMap load_saved(Block& block);
  void remove_forward_effects(Block& block);

  Derived& derived_;
  const Activity& activity_;
  Function& function_;
  Builder build_;
  size_t parameters_;  // of the kernel
  const FinitePadding padding_;
  std::vector<Frame> frames_;
  std::unordered_map<const Value*, const Value*> origin_;  // in the kernel
  std::unordered_map<const Op*, const Op*> loop_origin_;
  std::unordered_map<const Op*, Keeping> keeping_;          // of the kernel's loops
  const std::unordered_map<const Op*, OnlineLoop> online_;  // by the kernel's loops
};

}  // namespace tile
