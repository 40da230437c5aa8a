// Follows values from effects to what they are computed from.
#include "passes/liveness.h"

#include "ir/walk.h"

namespace tile {

Op* loop_around(const Op& jump) {
  Op* at = jump.parent->parent;
  while (!at->is("loop")) at = at->parent->parent;
  return at;
}

Liveness::Liveness(const Block& block, const std::vector<Value*>& needed) {
  for (Value* value : needed) need(value);
  walk(block, [&](Op& op) {
    if (op.is("break") || op.is("continue")) jumps_[loop_around(op)].push_back(&op);
  });
  walk(block, [&](Op& op) {
    if (op.traits().acts()) need(op);
  });
  while (!work_.empty()) {
    const Value* value = work_.back();
    work_.pop_back();
    follow(*value);
  }
}

void Liveness::need(Value* value) {
  if (values_.insert(value).second) work_.push_back(value);
}

// The op is needed, and therefore its operands that are not carried, and the ops around it.
void Liveness::need(Op& op) {
  if (!ops_.insert(&op).second) return;
  if (op.parent->parent) need(*op.parent->parent);
  size_t fixed = op.is("for") ? 3 : op.is("loop") ? 0 : op.is("if") ? 1 : op.operands.size();
  if (op.traits().terminator) fixed = 0;
  for (size_t i = 0; i < fixed; ++i) need(op.operands[i]);
  if (op.is("loop"))
    for (Op* jump : jumps_[&op]) need(*jump);
  for (auto& region : op.regions)
    if (Op* end = region->terminator()) {
      need(*end);
      if (!op.is("for") && !op.is("loop") && !op.is("if"))  // a combine region needs all its values
        for (Value* operand : end->operands) need(operand);
    }
}

void Liveness::follow(const Value& value) {
  if (Op* op = value.definition) {
    need(*op);
    for (size_t i = 0; i < op->results.size(); ++i)
      if (op->results[i] == &value) slot(*op, i);
  } else if (Op* op = value.owner->parent) {
    need(*op);
    size_t first = op->is("for") ? 1 : 0;
    const auto& arguments = value.owner->arguments;
    for (size_t i = first; i < arguments.size(); ++i)
      if (arguments[i] == &value && (op->is("for") || op->is("loop"))) slot(*op, i - first);
  }
}

// Marks everything that feeds position i of a structured op's carried values or results.
void Liveness::slot(Op& op, size_t i) {
  if (op.is("if")) {
    for (auto& region : op.regions)
      if (region->terminator()->is("yield")) need(region->terminator()->operands[i]);
  } else if (op.is("for")) {
    need(op.operands[3 + i]);
    need(op.region().terminator()->operands[i]);
    need(op.results[i]);
  } else if (op.is("loop")) {
    need(op.operands[i]);
    need(op.results[i]);
    need(op.region().arguments[i]);
    for (Op* jump : jumps_[&op]) need(jump->operands[i]);
  }
}

}  // namespace tile
