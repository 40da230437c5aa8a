// Builder: creates ops at an insertion point, running the type rule of each primitive.
#pragma once
#include <initializer_list>
#include <string_view>
#include <vector>

#include "ir/op.h"

namespace tile {

class Builder {
 public:
  Builder(Function& function, Block& block) : function_(&function), block_(&block) {}

  Function& function() const { return *function_; }
  Block& block() const { return *block_; }
  // New ops are added at the end of `block`, or before ops[position] after a call of at().
  void to_end(Block& block);
  void at(Block& block, size_t position);
  size_t position() const;

  Location location;  // of new ops

  // Creates an op without regions.
  Op& create(const Primitive& primitive, std::vector<Value*> operands, Attributes attributes = {});
  Value* emit(const Primitive& primitive, std::vector<Value*> operands, Attributes attributes = {}) {
    return create(primitive, std::move(operands), std::move(attributes)).result();
  }
  Value* emit(std::string_view name, std::vector<Value*> operands, Attributes attributes = {}) {
    return emit(primitive(name), std::move(operands), std::move(attributes));
  }
  // Returns the value in a dtype: `value` itself if it has it already.
  Value* astype(Value* value, DType dtype);
  // Inserts ops whose regions are already filled. bounds: low, high and step.
  Op& insert_for(std::vector<Value*> bounds, const std::vector<Value*>& initial, std::unique_ptr<Block> body);
  Op& insert_if(Value* condition, std::unique_ptr<Block> then, std::unique_ptr<Block> otherwise);
  // Infers the result types of an op whose regions are already filled, and inserts it.
  Op& insert(std::unique_ptr<Op> op);

  Value* constant(const Constant& value);
  Value* constant(DType dtype, double value) { return constant(Constant::of(dtype, value)); }
  Value* constant(DType dtype, int64_t value) { return constant(Constant::of(dtype, value)); }
  Value* constant(DType dtype, int value) { return constant(Constant::of(dtype, value)); }
  Value* broadcast(Value* value, const Shape& shape);  // `value` itself if it has the shape already
  Value* splat(const Constant& value, const Shape& shape) { return broadcast(constant(value), shape); }

 private:
  Function* function_;
  Block* block_;
  size_t position_ = SIZE_MAX;  // SIZE_MAX: the end
};

// Checks operand count and dtypes, then runs the type rule. Throws located errors.
std::vector<Type> infer_types(const Op& op);
// Creates op.results with the inferred types, unless they exist.
void infer_results(Function& function, Op& op);

}  // namespace tile
