// Checks the structure of a function.
#include "ir/verify.h"

#include <unordered_set>

#include "ir/build.h"

namespace tile {
namespace {

class Verifier {
 public:
  void function(const Function& function) {
    visible_.reserve(function.value_count());
    check(function.body().parent == nullptr, "the kernel's body has a parent op");
    block(function.body());
  }

 private:
  template <class... A>
  [[noreturn]] void broken(const A&... parts) const {
    throw BrokenRule{op_, op_ ? str(op_->name(), ": ", parts...) : str(parts...)};
  }
  template <class... A>
  void check(bool holds, const A&... parts) const {
    if (!holds) broken(parts...);
  }

  void block(const Block& block) {
    size_t outer = order_.size();
    for (const Value* argument : block.arguments) {
      check(argument->owner == &block && !argument->definition, "a block argument is owned elsewhere");
      // infer_types checks results.
      if (element_count(argument->type.shape) > most_tile_elements) [[unlikely]]
        broken(too_large_text(argument->type));
      define(argument);
    }
    for (size_t i = 0; i < block.ops.size(); ++i) {
      op_ = block.ops[i].get();
      check(op_->parent == &block, "its parent is not the block that contains it");
      check(!op_->traits().terminator || (block.parent && i + 1 == block.ops.size()),
            "it is a terminator but not the last op of its region");
      op(*op_);
    }
    op_ = block.parent;
    check(!block.parent || block.terminator(), "a region must end in yield, break or continue");
    for (; order_.size() > outer; order_.pop_back()) visible_.erase(order_.back());
  }

  void op(const Op& op) {
    for (const Value* operand : op.operands)
      check(visible_.count(operand), "an operand of type ", operand->type, " is not defined above it");
    for (const auto& region : op.regions) {
      check(region->parent == &op, "a region's parent is another op");
      block(*region);
      op_ = &op;
      terminator(op, *region->terminator());
    }
    if (op.is("break") || op.is("continue")) jump(op);
    types(op);
    for (const Value* result : op.results) {
      check(result->definition == &op && result->owner == op.parent, "a result is owned elsewhere");
      define(result);
    }
  }

  void terminator(const Op& op, const Op& end) const {
    bool leaves = end.is("break") || end.is("continue");
    check(!leaves || op.is("if") || op.is("loop"), "its region ends in ", end.name(),
          "; only loop and if may");
    check(leaves || !op.is("loop"), "its region must end in continue or break");
  }

  // break and continue belong to the innermost enclosing loop, and only ifs may be in between.
  void jump(const Op& op) const {
    const Op* loop = op.parent->parent;
    while (loop && loop->is("if")) loop = loop->parent->parent;
    check(loop && loop->is("loop"), "it is outside of any loop, or an op other than if is in between");
    check(op.operands.size() == loop->operands.size(), "it gives ", op.operands.size(),
          " values; its loop carries ", loop->operands.size());
    for (size_t i = 0; i < op.operands.size(); ++i)
      check(op.type(i) == loop->type(i), "value ", i, " is ", op.type(i), "; its loop carries ",
            loop->type(i));
  }

  void types(const Op& op) const {
    std::vector<Type> inferred;
    try {
      inferred = infer_types(op);
    } catch (const std::exception& error) {
      broken(error.what());
    }
    check(inferred.size() == op.results.size(), "it has ", op.results.size(),
          " results; its type rule gives ", inferred.size());
    for (size_t i = 0; i < inferred.size(); ++i) {
      check(inferred[i] == op.results[i]->type, "result ", i, " is ", op.results[i]->type,
            "; its type rule gives ", inferred[i]);
      for (int64_t extent : inferred[i].shape)
        check(extent >= 1, "result ", i, " is ", inferred[i], ", which is empty");
    }
  }

  void define(const Value* value) {
    check(visible_.insert(value).second, "a value of type ", value->type, " is defined twice");
    order_.push_back(value);
  }

  const Op* op_ = nullptr;  // the op being checked
  std::unordered_set<const Value*> visible_;
  std::vector<const Value*> order_;
};

}  // namespace

std::optional<BrokenRule> find_broken_rule(const Function& function) {
  try {
    Verifier().function(function);
  } catch (BrokenRule& broken) {
    return std::move(broken);
  }
  return std::nullopt;
}

void verify(const Function& function, std::string_view after) {
  if (const auto broken = find_broken_rule(function))
    fail(broken->op ? broken->op->location : Location{"", 0}, ErrorKind::runtime, "internal error after ",
         after, ", please report it: ", broken->text);
}

}  // namespace tile
