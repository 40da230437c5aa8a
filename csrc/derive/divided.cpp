// Follows products to the loads of what they add up over.
#include "derive/divided.h"

#include <algorithm>
#include <map>

#include "ir/build.h"
#include "ir/verify.h"
#include "ir/walk.h"
#include "passes/passes.h"

namespace tile {
namespace {

class Divider {
 public:
  Divider(Function& function, Op& loop, int64_t parts)
      : function_(function), loop_(loop), parts_(parts), inside_(function, *region_) {}

  void run() {
    Block& body = function_.body();
    const auto at =
        std::find_if(body.ops.begin(), body.ops.end(), [&](const auto& op) { return op.get() == &loop_; });
    Builder outside(function_, body);
    outside.location = inside_.location = loop_.location;
    outside.at(body, static_cast<size_t>(at - body.ops.begin()));
    const DType dtype = loop_.operands[1]->type.dtype;
    Value* count = outside.emit("mul", {loop_.operands[1], outside.constant(dtype, parts_)});
    Value* turn = function_.add_argument(*region_, Type::tile(dtype), loop_.location);
    Value* divisor = inside_.constant(dtype, parts_);
    map_[loop_.region().arguments[0]] = inside_.emit("floordiv", {turn, divisor});
    part_ = inside_.emit("mod", {turn, divisor});
    std::vector<Value*> yields;
    for (size_t i = 0; i < loop_.results.size(); ++i) {
      Value* carried = loop_.region().arguments[1 + i];
      map_[carried] = function_.add_argument(*region_, carried->type, loop_.location);
    }
    for (size_t i = 0; i < loop_.results.size(); ++i)
      yields.push_back(sum(loop_.region().terminator()->operands[i], loop_.region().arguments[1 + i]));
    inside_.create(primitive("yield"), yields);
    const std::vector<Value*> initial(loop_.operands.begin() + 3, loop_.operands.end());
    const std::vector<Value*> results =
        outside.insert_for({loop_.operands[0], count, loop_.operands[2]}, initial, std::move(region_))
            .results;
    ValueMap replaced;
    for (size_t i = 0; i < results.size(); ++i) replaced[loop_.results[i]] = results[i];
    replace_uses(body, replaced);
    std::erase_if(body.ops, [&](const std::unique_ptr<Op>& op) { return op.get() == &loop_; });
  }

 private:
  [[noreturn]] void refuse() const { fail(loop_, ErrorKind::unsupported, "cannot be divided"); }

  // A sum of products, of which each part adds its own.
  Value* sum(Value* value, Value* carried) {
    if (value == carried) return map_.at(carried);
    const Op* op = value->definition;
    if (!op || !op->is("mma") || op->parent != &loop_.region()) refuse();
    Value* before = sum(op->operands[2], carried);
    const int rank = value->type.rank();
    return inside_.emit("mma", {part(op->operands[0], rank - 1), part(op->operands[1], rank - 2), before});
  }

  Value* whole(Value* value) {
    if (const auto at = map_.find(value); at != map_.end()) return at->second;
    const Op* op = value->definition;
    if (!op || !defined_inside(value, loop_.region())) return map_[value] = value;
    if (!op->regions.empty() || op->traits().acts()) refuse();
    for (Value* operand : op->operands) whole(operand);
    inside_.insert(clone(*op, function_, map_));
    return map_.at(value);
  }

  // The rows along an axis that belong to this part.
  Value* part(Value* value, int axis) {
    const auto [known, is_new] = parts_of_.try_emplace({value, axis}, nullptr);
    if (is_new) parts_of_[{value, axis}] = make(value, axis);
    return parts_of_.at({value, axis});
  }
  Value* make(Value* value, int axis) {
    const auto along = static_cast<size_t>(axis);
    Shape shape = value->type.shape;
    if (shape[along] % (parts_ * least_rows) != 0) refuse();
    shape[along] /= parts_;
    const Op* op = value->definition;
    if (!op) refuse();
    if (const auto constant = constant_of(value)) return inside_.splat(*constant, shape);
    if (op->is("load") && op->has("steps") && !op->has("in_bounds")) return load(*op, along, shape);
    if (op->is("broadcast")) {
      const Shape& from = op->type(0).shape;
      const bool divides = from.size() == shape.size() && from[along] != 1;
      return inside_.broadcast(divides ? part(op->operands[0], axis) : whole(op->operands[0]), shape);
    }
    if (op->is("permute"))
      return inside_.emit("permute", {part(op->operands[0], static_cast<int>(op->integers("axes")[along]))},
                          op->attributes);
    if (op->is("reshape")) return inside_.emit("reshape", {reshaped(*op, along)}, {{"shape", shape}});
    if (op->is("arange")) {
      const DType dtype = value->type.dtype;
      Value* start = inside_.emit("mul", {part_, inside_.constant(part_->type.dtype, shape[along])});
      Value* line = inside_.emit("arange", {}, {{"dtype", dtype}, {"size", shape[along]}});
      return inside_.emit("add", {line, inside_.broadcast(inside_.astype(start, dtype), shape)});
    }
    if (op->is("mma")) {
      const int rank = value->type.rank();
      if (rank == 3 && axis == 0) refuse();
      Value *left = op->operands[0], *right = op->operands[1];
      return inside_.emit("mma",
                          {axis == rank - 2 ? part(left, axis) : whole(left),
                           axis == rank - 1 ? part(right, axis) : whole(right), part(op->operands[2], axis)});
    }
    if (!op->traits().elementwise) refuse();
    std::vector<Value*> operands;
    for (Value* operand : op->operands)
      operands.push_back(operand->type.shape.empty() ? whole(operand) : part(operand, axis));
    return inside_.emit(*op->primitive, std::move(operands), op->attributes);
  }

  Value* load(const Op& op, size_t along, const Shape& shape) {
    Attributes attributes = op.attributes;
    Shape steps = op.integers("steps");
    if (steps[along] != op.integers("shape")[along]) refuse();
    steps[along] = shape[along];
    attributes.set("shape", shape);
    attributes.set("steps", steps);
    std::vector<Value*> operands;
    for (Value* operand : op.operands) operands.push_back(whole(operand));
    Value*& index = operands[1 + along];
    index = inside_.emit("mul", {index, inside_.constant(index->type.dtype, parts_)});
    index = inside_.emit("add", {index, inside_.astype(part_, index->type.dtype)});
    return inside_.emit("load", std::move(operands), std::move(attributes));
  }

  // The axis moves past axes of one element only.
  Value* reshaped(const Op& op, size_t along) {
    const Shape &from = op.type(0).shape, &to = op.result()->type.shape;
    int64_t before = 1;
    for (size_t i = 0; i < along; ++i) before *= to[i];
    int64_t passed = 1;
    for (size_t i = 0; i < from.size(); passed *= from[i++])
      if (passed == before && from[i] == to[along]) return part(op.operands[0], static_cast<int>(i));
    refuse();
  }

  static constexpr int64_t least_rows = 16;
  Function& function_;
  Op& loop_;
  const int64_t parts_;
  std::unique_ptr<Block> region_ = std::make_unique<Block>();
  Builder inside_;
  ValueMap map_;
  std::map<std::pair<Value*, int>, Value*> parts_of_;
  Value* part_ = nullptr;
};

}  // namespace

bool divide_iterations(Function& function, int64_t parts) {
  Function other = clone(function);
  std::vector<Op*> loops;
  for (const auto& op : other.body().ops)
    if (op->is("for")) loops.push_back(op.get());
  if (loops.size() != 1) return false;
  try {
    Divider(other, *loops[0], parts).run();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::unsupported) throw;
    return false;
  }
  for (const char* pass : {"fold", "simplify", "cse", "licm", "dce"}) run_pass(pass, other);
  verify(other, "divide_iterations");
  function = std::move(other);
  return true;
}

}  // namespace tile
