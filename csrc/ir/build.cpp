// Creates ops and runs the checks that all primitives share.
#include "ir/build.h"

namespace tile {
namespace {

// An array may only be the first operand of a primitive that takes one: type rules check shapes, which arrays
// do not have.
void check_arrays(const Op& op) {
  const bool takes = op.primitive->takes_array();
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const bool wanted = takes && i == 0;
    if (op.type(i).is_array() != wanted)
      fail(op, ErrorKind::type, "operand ", i + 1, " is ", op.type(i),
           wanted ? "; it must be an array: a parameter of the kernel or a view of one"
                  : "; it must be a tile: load() it from the array");
  }
}

std::vector<Type> types_by_rule(const Op& op) {
  try {
    return op.primitive->infer(op);
  } catch (const std::out_of_range&) {  // from missing operands
    fail(op, ErrorKind::value, "takes more operands than the ", op.operands.size(), " that it is given");
  }
}

}  // namespace

std::vector<Type> infer_types(const Op& op) {
  const Primitive& prim = *op.primitive;
  if (prim.operands >= 0 && static_cast<int>(op.operands.size()) != prim.operands)
    fail(op, ErrorKind::value, "takes ", prim.operands, " operands, got ", op.operands.size());
  if (static_cast<int>(op.regions.size()) != prim.regions)
    fail(op, ErrorKind::value, "takes ", prim.regions, " regions, got ", op.regions.size());
  check_arrays(op);
  std::vector<Type> types = types_by_rule(op);
  const Type* subject = nullptr;  // the operand that `dtypes` constrains
  for (const Value* operand : op.operands)
    if (!subject && !operand->type.is_array()) subject = &operand->type;
  if (!subject && !types.empty()) subject = &types[0];
  if (subject && !prim.dtypes.has(subject->dtype))
    fail(op, ErrorKind::type, "does not take ", subject->dtype, "; cast with astype() first");
  for (const Type& type : types)
    if (element_count(type.shape) > most_tile_elements) [[unlikely]]
      fail(op, ErrorKind::value, too_large_text(type));
  return types;
}

void infer_results(Function& function, Op& op) {
  if (!op.results.empty()) return;
  for (Type& type : infer_types(op))
    op.results.push_back(function.add_value(std::move(type), op.location, &op, op.parent));
}

void Builder::to_end(Block& block) {
  block_ = &block;
  position_ = SIZE_MAX;
}
void Builder::at(Block& block, size_t position) {
  block_ = &block;
  position_ = position;
}
size_t Builder::position() const { return position_ == SIZE_MAX ? block_->ops.size() : position_; }

Op& Builder::create(const Primitive& primitive, std::vector<Value*> operands, Attributes attributes) {
  auto op = std::make_unique<Op>();
  op->primitive = &primitive;
  op->operands = std::move(operands);
  op->attributes = std::move(attributes);
  op->location = location;
  return insert(std::move(op));
}

Value* Builder::astype(Value* value, DType dtype) {
  return value->type.dtype == dtype ? value : emit("astype", {value}, {{"dtype", dtype}});
}

Op& Builder::insert_for(std::vector<Value*> bounds, const std::vector<Value*>& initial,
                        std::unique_ptr<Block> body) {
  auto op = std::make_unique<Op>();
  op->primitive = &primitive("for");
  op->location = location;
  op->operands = std::move(bounds);
  op->operands.insert(op->operands.end(), initial.begin(), initial.end());
  op->regions.push_back(std::move(body));
  return insert(std::move(op));
}

Op& Builder::insert_if(Value* condition, std::unique_ptr<Block> then, std::unique_ptr<Block> otherwise) {
  auto op = std::make_unique<Op>();
  op->primitive = &primitive("if");
  op->location = location;
  op->operands = {condition};
  op->regions.push_back(std::move(then));
  op->regions.push_back(std::move(otherwise));
  return insert(std::move(op));
}

Op& Builder::insert(std::unique_ptr<Op> op) {
  op->parent = block_;
  infer_results(*function_, *op);
  for (Value* result : op->results) result->owner = block_;
  for (auto& region : op->regions) region->parent = op.get();
  Op& inserted = *op;
  if (position_ == SIZE_MAX)
    block_->ops.push_back(std::move(op));
  else
    block_->ops.insert(block_->ops.begin() + static_cast<ptrdiff_t>(position_++), std::move(op));
  return inserted;
}

Value* Builder::constant(const Constant& value) {
  return emit("constant", {}, {{"dtype", value.dtype}, {"value", value.attribute()}});
}

Value* Builder::broadcast(Value* value, const Shape& shape) {
  if (value->type.shape == shape) return value;
  return emit("broadcast", {value}, {{"shape", shape}});
}

}  // namespace tile
