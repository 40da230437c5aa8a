// Implements the rules that several primitives share.
#include "prims/tangents.h"

namespace tile {

Value* tangent_or_zero(Builder& build, Value* tangent, const Type& type) {
  return tangent ? tangent : build.splat(Constant::of(type.dtype, 0.0), type.shape);
}

void fail_tangent(const Op& op) {
  fail(op, ErrorKind::unsupported,
       "has no forward-mode derivative; use reverse mode, or detach its operands");
}

std::vector<Value*> no_tangent(Builder&, const Op& op, Tangents) {
  return std::vector<Value*>(op.results.size());
}

std::vector<Value*> refuse_tangent(Builder&, const Op& op, Tangents) { fail_tangent(op); }

std::vector<Value*> where_tangent(Builder& build, const Op& op, Tangents tangents) {
  if (!tangents[1] && !tangents[2]) return {nullptr};
  const Type& type = op.results[0]->type;
  return {build.emit(*op.primitive, {op.operands[0], tangent_or_zero(build, tangents[1], type),
                                     tangent_or_zero(build, tangents[2], type)})};
}

std::vector<Value*> linear_tangent(Builder& build, const Op& op, Tangents tangents) {
  if (!tangents[0]) return std::vector<Value*>(op.results.size());
  std::vector<Value*> operands = op.operands;
  operands[0] = tangents[0];
  Attributes attributes = op.attributes;
  if (attributes.find("pad")) attributes.set("pad", 0.0);
  return build.create(*op.primitive, std::move(operands), std::move(attributes)).results;
}

std::vector<Value*> joint_tangent(Builder& build, const Op& op, Tangents tangents) {
  if (!tangents[0] && !tangents[1]) return {nullptr};
  std::vector<Value*> operands = op.operands;
  for (const size_t i : {0, 1}) operands[i] = tangent_or_zero(build, tangents[i], op.type(i));
  return {build.emit(*op.primitive, std::move(operands), op.attributes)};
}

std::vector<Value*> store_tangent(Builder& build, const Op& op, Tangents tangents) {
  if (!tangents[0]) return {};
  std::vector<Value*> operands = op.operands;
  operands[0] = tangents[0];
  operands[1] = tangent_or_zero(build, tangents[1], op.type(1));
  build.create(*op.primitive, std::move(operands), op.attributes);
  return {};
}

std::vector<Value*> cast_tangent(Builder& build, const Op& op, Tangents tangents) {
  const DType dtype = op.dtype("dtype");
  if (!is_floating(dtype)) return {nullptr};
  // Quantised numbers are too coarse for derivatives.
  if (info(dtype).bits == 8) fail_tangent(op);
  return {build.emit("astype", {tangents[0]}, {{"dtype", dtype}})};
}

}  // namespace tile
