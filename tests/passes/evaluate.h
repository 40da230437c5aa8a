// Evaluates small functions directly, to test that passes preserve the meaning: scalars one by one,
// elementwise ops by their folding rules. Arrays are one-dimensional parameters.
#pragma once
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "ir/op.h"
#include "ir/walk.h"

namespace tile {

using Elements = std::vector<Constant>;

class Evaluation {
 public:
  Evaluation(const Function& function, std::vector<Elements> parameters, int64_t block)
      : block_index_(block), memory_(std::move(parameters)) {
    const auto& arguments = function.body().arguments;
    for (size_t i = 0; i < arguments.size(); ++i) {
      values_[arguments[i]] = memory_[i];
      number_[arguments[i]] = i;
    }
    run(function.body());
  }
  const std::vector<Elements>& memory() const { return memory_; }

 private:
  const Elements& get(const Value* value) const { return values_.at(value); }
  int64_t scalar(const Value* value) const { return get(value).at(0).integer; }
  Elements& array(const Op& op) { return memory_.at(number_.at(op.operands[0])); }

  const Op* run(const Block& block) {  // its terminator, or the jump that left it; null for the body
    for (const auto& op : block.ops) {
      if (op->traits().terminator) return op.get();
      if (op->is("if")) {
        const Op* end = run(op->region(scalar(op->operands[0]) ? 0 : 1));
        if (!end->is("yield")) return end;
        give(op->results, 0, all(end->operands));
      } else if (op->is("for")) {
        counted(*op);
      } else if (op->is("loop")) {
        loop_forever(*op);
      } else {
        step(*op);
      }
    }
    return nullptr;
  }
  std::vector<Elements> all(const std::vector<Value*>& values, size_t from = 0) const {
    std::vector<Elements> list;
    for (size_t i = from; i < values.size(); ++i) list.push_back(get(values[i]));
    return list;
  }
  void give(const std::vector<Value*>& values, size_t from, const std::vector<Elements>& list) {
    for (size_t i = 0; i < list.size(); ++i) values_[values[from + i]] = list[i];
  }
  void counted(const Op& op) {
    std::vector<Elements> carried = all(op.operands, 3);
    int64_t high = scalar(op.operands[1]), step = scalar(op.operands[2]);
    for (int64_t i = scalar(op.operands[0]); i < high; i += step) {
      values_[op.region().arguments[0]] = {Constant::of(op.type(0).dtype, i)};
      give(op.region().arguments, 1, carried);
      carried = all(run(op.region())->operands);
    }
    give(op.results, 0, carried);
  }
  void loop_forever(const Op& op) {
    std::vector<Elements> carried = all(op.operands);
    for (int iteration = 0;; ++iteration) {
      if (iteration > 50) throw std::runtime_error("the loop does not end");
      give(op.region().arguments, 0, carried);
      const Op* end = run(op.region());
      carried = all(end->operands);
      if (end->is("break")) break;
    }
    give(op.results, 0, carried);
  }

  void step(const Op& op) {
    if (op.is("store")) {
      Elements& to = array(op);
      const Elements& from = get(op.operands[1]);
      int64_t start = scalar(op.operands[2]) * op.integers("steps")[0];
      for (size_t i = 0; i < from.size(); ++i) {
        bool inside = start + static_cast<int64_t>(i) >= 0 && start + i < to.size();
        if (!inside && op.has("in_bounds")) throw std::runtime_error("a store marked in_bounds is not");
        if (inside) to[static_cast<size_t>(start) + i] = from[i];
      }
      return;
    }
    const Type& type = op.result()->type;
    Elements result(static_cast<size_t>(element_count(type.shape)));
    for (size_t i = 0; i < result.size(); ++i) result[i] = element(op, type, i);
    values_[op.result()] = std::move(result);
  }
  Constant element(const Op& op, const Type& type, size_t i) {
    if (op.is("constant")) return *constant_of(op.result());
    if (op.is("broadcast")) return get(op.operands[0])[op.type(0).is_scalar() ? 0 : i];
    if (op.is("reshape")) return get(op.operands[0])[i];
    if (op.is("arange")) return Constant::of(type.dtype, static_cast<int64_t>(i));
    if (op.is("dim")) return Constant::of(type.dtype, static_cast<int64_t>(array(op).size()));
    if (op.is("bid")) return Constant::of(type.dtype, block_index_);
    if (op.is("where")) {
      bool first = get(op.operands[0])[i].integer != 0;
      return get(op.operands[first ? 1 : 2])[i];
    }
    if (op.is("load")) {
      int64_t at = scalar(op.operands[1]) * op.integers("steps")[0] + static_cast<int64_t>(i);
      const Elements& from = array(op);
      if (at >= 0 && at < static_cast<int64_t>(from.size())) return from[static_cast<size_t>(at)];
      if (op.has("in_bounds")) throw std::runtime_error("a load marked in_bounds is not");
      return Constant::of(type.dtype, *op.attributes.find("pad"));
    }
    std::vector<Constant> operands;
    for (const Value* operand : op.operands) operands.push_back(get(operand)[i]);
    auto value = op.primitive->fold ? op.primitive->fold(operands, type.dtype) : std::nullopt;
    if (!value) throw std::runtime_error("no rule for " + std::string(op.name()));
    return *value;
  }

  int64_t block_index_;
  std::vector<Elements> memory_;
  std::unordered_map<const Value*, Elements> values_;
  std::unordered_map<const Value*, size_t> number_;
};

}  // namespace tile
