// Backward: walks a kernel's ops from the last to the first and emits their adjoints.
#pragma once
#include <unordered_map>
#include <vector>

#include "derive/activity.h"
#include "derive/online.h"
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
  struct Loop;

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
  Value* zeros_like(const Value* value);  // in adjoint_type
  bool runs_forward(Loop& loop);
  void keep_trajectories(Loop& loop, Value* iteration);
  void insert_loop(Loop& loop);

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
  std::vector<Frame> frames_;
  std::unordered_map<const Value*, const Value*> origin_;  // in the kernel
  std::unordered_map<const Op*, const Op*> loop_origin_;
  const std::unordered_map<const Op*, OnlineLoop> online_;  // by the kernel's loops
};

}  // namespace tile
