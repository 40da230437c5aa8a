// Adjoints: the view that a primitive's rule of reverse mode has of one op. The rule reads the adjoints of
// the op's results and adds parts to those of its operands.
#pragma once
#include "ir/build.h"

namespace tile {

// Adjoints of 16-bit and narrower floats are accumulated in f32, and rounded once where they are stored.
constexpr DType adjoint_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }
inline Type adjoint_type(const Type& type) { return Type::tile(adjoint_dtype(type.dtype), type.shape); }

// The gradient of an array in memory, through the same views as the array operand of the op.
struct GradientMemory {
  enum How : uint8_t {
    store,   // each element is written once
    add,     // only this block adds to it
    atomic,  // other blocks add to it, too
  };
  Value* array = nullptr;  // null: it is not wanted
  How how = store;
};

class Adjoints {
 public:
  Adjoints(Builder& build, const Op& op) : build(build), op(op) {}
  virtual ~Adjoints() = default;

  Builder& build;
  const Op& op;  // its operands and results may be used by new ops

  virtual Value* of(size_t result) const = 0;         // in adjoint_type; null: it has none
  virtual bool wants(size_t operand) const = 0;       // false: the operand has no adjoint
  virtual void add(size_t operand, Value* part) = 0;  // of the operand's shape, of any float dtype
  virtual GradientMemory read_gradient() = 0;         // of the array that the op reads
  virtual Value* written_gradient() = 0;              // of the array that the op writes; it is given
  // The same of a value that a region of the op takes from outside.
  virtual bool wants_outside(const Value* value) = 0;
  virtual void add_outside(Value* value, Value* part) = 0;
  // Returns true if the value is known to be a finite number also in padding, behind the edge of an array.
  virtual bool is_finite_in_padding(const Value* value) const = 0;

  Value* of() const { return of(0); }
  Value* emit(std::string_view name, std::vector<Value*> operands, Attributes attributes = {}) {
    return build.emit(name, std::move(operands), std::move(attributes));
  }
  Value* cast(Value* value, DType dtype) { return build.astype(value, dtype); }
  Value* reshaped(Value* value, const Shape& shape) {
    return value->type.shape == shape ? value : emit("reshape", {value}, {{"shape", shape}});
  }
  // Returns a part that is 0 where the adjoint that it was computed from is: in padding an infinite
  // derivative would make NaN of it.
  Value* zero_where_zero(Value* g, Value* part) {
    return emit("where", {emit("eq", {g, zeros(g->type)}), zeros(part->type), part});
  }
  Value* zeros(const Type& type) { return build.splat(Constant::of(type.dtype, 0), type.shape); }
};

[[noreturn]] inline void fail_without_derivative(const Op& op, std::string_view why) {
  fail(op, ErrorKind::unsupported, "has no derivative; ", why);
}

}  // namespace tile
