// Compares the bytes of keeping a tile with the work of computing it again.
#include "derive/recomputed.h"

#include <algorithm>
#include <limits>

#include "derive/work.h"
#include "ir/walk.h"

namespace tile {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
double elements_of(const Value* value) { return tile::elements_of(value->type.shape); }

}  // namespace

Value* load_whole(Builder& build, Value* array, const Shape& shape, const Type& type) {
  std::vector<Value*> operands{array};
  for (size_t i = 0; i < shape.size(); ++i) operands.push_back(build.constant(DType::i32, 0));
  const Attribute pad = Constant::of(type.dtype, 0).attribute();
  Value* made = build.emit("load", std::move(operands), {{"pad", pad}, {"shape", shape}, {"steps", shape}});
  return type.shape == shape ? made : build.emit("reshape", {made}, {{"shape", type.shape}});
}
void store_whole(Builder& build, Value* array, const Shape& shape, Value* tile) {
  if (tile->type.shape != shape) tile = build.emit("reshape", {tile}, {{"shape", shape}});
  std::vector<Value*> operands{array, tile};
  for (size_t i = 0; i < shape.size(); ++i) operands.push_back(build.constant(DType::i32, 0));
  build.create(primitive("store"), std::move(operands), {{"steps", shape}});
}

size_t KeptTiles::number_of(Value* value) {
  const auto at = std::find(values_.begin(), values_.end(), value);
  const auto number = static_cast<size_t>(at - values_.begin());
  if (at == values_.end()) values_.push_back(value);
  return number;
}
Shape KeptTiles::shape(size_t number) const {
  Shape shape = values_.at(number)->type.shape;
  std::erase(shape, 1);  // a column is kept as a row of numbers
  return shape.empty() ? Shape{1} : shape;
}
Type KeptTiles::array_type(size_t number) const {
  return Type::array(values_.at(number)->type.dtype, static_cast<int>(shape(number).size()) + 1);
}

Value* KeptTiles::load(Builder& build, Value* array, size_t number, Value* block) const {
  const Shape shape = this->shape(number);
  return load_whole(build, build.emit("index", {array, block}), shape, value(number)->type);
}
void KeptTiles::store(Builder& build, Value* array, size_t number, Value* block, Value* tile) const {
  const Shape shape = this->shape(number);
  store_whole(build, build.emit("index", {array, block}), shape, tile);
}

Value* block_number(Builder& build, const std::function<Value*(int64_t)>& place,
                    const std::function<Value*(int64_t)>& count, const std::vector<int>& axes) {
  Value* number = nullptr;
  for (size_t i = axes.size(); i-- > 0;) {
    Value* own = build.astype(place(axes[i]), DType::i64);
    number = number ? build.emit("add",
                                 {build.emit("mul", {number, build.astype(count(axes[i]), DType::i64)}), own})
                    : own;
  }
  return number ? number : build.constant(DType::i64, 0);
}

Value* block_number(Builder& build, const std::vector<int>& axes) {
  const auto of_grid = [&](std::string_view name) {
    return [&build, name](int64_t axis) { return build.emit(name, {}, {{"axis", axis}}); };
  };
  return block_number(build, of_grid("bid"), of_grid("num_blocks"), axes);
}

std::vector<Value*> free_values(const Op& op) {
  std::vector<Value*> values = op.operands;
  for (const auto& region : op.regions)
    walk(*region, [&](const Op& each) {
      for (Value* operand : each.operands)
        if (!defined_inside(operand, *region) &&
            std::find(values.begin(), values.end(), operand) == values.end())
          values.push_back(operand);
    });
  std::erase_if(values, [&](const Value* value) {  // of another region
    return std::any_of(op.regions.begin(), op.regions.end(),
                       [&](const auto& region) { return defined_inside(value, *region); });
  });
  return values;
}

Recomputed::Recomputed(const Function& function, const Op* loop, int axis) : loop_(loop), axis_(axis) {
  walk(function.body(), [&](const Op& op) {
    if (op.traits().writes) written_.insert(root_array(op.operands[0]));
  });
}

bool Recomputed::in_loop(const Op& op) const {
  for (const Block* block = op.parent; loop_ && block && block->parent; block = block->parent->parent)
    if (block->parent == loop_) return true;
  return false;
}

bool Recomputed::depends(Value* value) {
  if (const auto known = depends_.find(value); known != depends_.end()) return known->second;
  const Op* op = value->definition;
  bool any = false;
  if (op) {
    any = keeps(value);
    const auto of_axis = [&](const Op& each) { return each.is("bid") && each.integer("axis") == axis_; };
    any |= of_axis(*op);
    for (const auto& region : op->regions) walk(*region, [&](const Op& each) { any |= of_axis(each); });
    if (!any)
      for (Value* operand : free_values(*op)) any |= depends(operand);
  }
  return depends_[value] = any;
}

bool Recomputed::keeps(Value* value) {
  const Op* op = value->definition;
  return op && !in_loop(*op) && !value->type.is_array() && cost_kept(value) < cost_again(value);
}

double Recomputed::cost(Value* value) {
  const double again = cost_again(value);
  const Op* op = value->definition;
  return op && !in_loop(*op) ? std::min(again, cost_kept(value)) : again;
}

double Recomputed::cost_kept(const Value* value) const {
  if (value->type.is_array() || value->type.dtype == DType::boolean) return never;
  return access_of(value->type.dtype, value->type.shape);
}

double Recomputed::cost_again(Value* value) {
  if (const auto known = again_.find(value); known != again_.end()) return known->second;
  const Op* op = value->definition;
  if (!op || constant_of(value)) return 0;
  double sum = 0;
  if (in_loop(*op)) {
    sum = 0;  // there is no choice
  } else if (!why_not(*op).empty() || !op->regions.empty()) {
    sum = never;
  } else {
    for (Value* operand : op->operands) sum += cost(operand);
    if (op->traits().reads)
      sum += bytes_of(value->type.dtype, value->type.shape);
    else if (op->is("mma"))
      sum += 2 * elements_of(value) * static_cast<double>(op->type(0).shape.back()) /
             flops_per_byte(false, true);
    else if (!value->type.is_array() && !value->type.shape.empty())
      sum += std::max(elements_of(value),
                      op->operands.empty() || op->type(0).is_array() ? 0.0 : elements_of(op->operands[0])) /
             elements_per_byte;
  }
  return again_[value] = sum;
}

std::string Recomputed::why_not(const Op& op) const {
  std::string why;
  const auto check = [&](const Op& each) {
    const Traits& traits = each.traits();
    if (traits.acts() || traits.impure)
      why = "an addition needs a value that must be computed once";
    else if (traits.reads && written_.contains(root_array(each.operands[0])))
      why = "an addition needs values that are kept for each iteration";
  };
  check(op);
  for (const auto& region : op.regions) walk(*region, check);
  return why;
}

bool bounds_use(const Op& loop, bool (*which)(const Op& op)) {
  std::unordered_set<const Value*> seen;
  std::vector<Value*> work(loop.operands.begin(), loop.operands.begin() + 3);
  while (!work.empty()) {
    Value* value = work.back();
    work.pop_back();
    if (!seen.insert(value).second || !value->definition) continue;
    bool found = which(*value->definition);
    for (const auto& region : value->definition->regions)
      walk(*region, [&](const Op& op) { found |= which(op); });
    if (found) return true;
    const std::vector<Value*> next = free_values(*value->definition);
    work.insert(work.end(), next.begin(), next.end());
  }
  return false;
}

}  // namespace tile
