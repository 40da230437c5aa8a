// Tile: the variable of the kernel language. Copying creates a new variable with the current value. Assigning
// gives this variable a new value, so that loops know which variables they carry.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <type_traits>
#include <vector>

#include "ir/constant.h"
#include "ir/op.h"
#include "ir/rounding.h"

namespace tile {

struct Operand;

// The axes of a reduction. Negative axes count from the end; without any, all axes are reduced.
struct Axes {
  Axes() = default;
  Axes(int axis) : named{axis} {}  // NOLINT
  Axes(std::initializer_list<int> axes) : named(axes) {}
  Axes(std::vector<int> axes) : named(std::move(axes)) {}  // NOLINT
  std::vector<int> named;
};

class Tile {
 public:
  // A variable without a value; using it before an assignment is an error.
  Tile(Location location = Location::current());  // NOLINT: the default argument captures the user's line
  explicit Tile(Value* value);
  Tile(const Tile& other, Location location = Location::current());
  // Scalar literals: int becomes i32, double f32, and bool bool.
  Tile(int literal, Location location = Location::current());
  Tile(double literal, Location location = Location::current());
  Tile(bool literal, Location location = Location::current());
  Tile& operator=(const Tile& other);
  ~Tile() {}  // user-provided, so that an unused loop index gives no warning

  // A traced value cannot be converted to a C++ bool; use where() or when().
  template <class T>
  requires std::is_same_v<T, bool>
  explicit operator T() const = delete;

  Value* value(Location location = Location::current()) const;  // the current value; error: it has none
  const Type& type() const { return value()->type; }
  DType dtype() const { return type().dtype; }
  const Shape& shape() const { return type().shape; }
  int64_t shape(int axis) const;  // negative axes count from the end
  int rank() const { return type().rank(); }

  // Defined by the primitives' own files.
  Tile astype(DType dtype, Location location = Location::current()) const;
  // With a rounding mode: for floats, and for pairs of dtypes that support the mode.
  Tile astype(DType dtype, Rounding rounding, Location location = Location::current()) const;
  Tile bitcast(DType dtype, Location location = Location::current()) const;
  Tile reshape(Shape shape, Location location = Location::current()) const;
  Tile broadcast_to(Shape shape, Location location = Location::current()) const;
  Tile expand_dims(int axis, Location location = Location::current()) const;
  Tile permute(std::vector<int> axes, Location location = Location::current()) const;
  Tile t(Location location = Location::current()) const;  // exchanges the last two axes
  // Reductions over axes; without any, over all axes. argmax and argmin return the row-major index over these
  // axes.
  Tile sum(Axes axes = {}, bool keepdims = false, Location location = Location::current()) const;
  Tile prod(Axes axes = {}, bool keepdims = false, Location location = Location::current()) const;
  Tile max(Axes axes = {}, bool keepdims = false, Location location = Location::current()) const;
  Tile min(Axes axes = {}, bool keepdims = false, Location location = Location::current()) const;
  Tile any(Axes axes = {}, bool keepdims = false, Location location = Location::current()) const;
  Tile all(Axes axes = {}, bool keepdims = false, Location location = Location::current()) const;
  Tile argmax(Axes axes = {}, bool keepdims = false, Location location = Location::current()) const;
  Tile argmin(Axes axes = {}, bool keepdims = false, Location location = Location::current()) const;
  // Sums or products of all elements up to each one along an axis, or from each one to the end if `reverse`.
  Tile cumsum(int axis, bool reverse = false, Location location = Location::current()) const;
  Tile cumprod(int axis, bool reverse = false, Location location = Location::current()) const;
  Tile cummax(int axis, bool reverse = false, Location location = Location::current()) const;
  Tile cummin(int axis, bool reverse = false, Location location = Location::current()) const;

  Tile& operator+=(Operand other);
  Tile& operator-=(Operand other);
  Tile& operator*=(Operand other);
  Tile& operator/=(Operand other);

 private:
  uint32_t variable_;
  uint32_t trace_;  // the trace that it belongs to; 0: none
};

// An operand of any operation. The implicit conversion happens in the user's expression, so it records the
// user's line. A literal keeps its value until it is combined with a tile, whose dtype it then takes.
struct Operand {
  Operand(const Tile& tile, Location location = Location::current());  // NOLINT
  Operand(Value* value, Location location) : value(value), location(location) {}
  Operand(bool literal, Location location = Location::current())  // NOLINT
      : literal(Constant{DType::boolean, 0, literal}), location(location) {}
  Operand(int literal, Location location = Location::current())  // NOLINT
      : Operand(static_cast<int64_t>(literal), location) {}
  Operand(long literal, Location location = Location::current())  // NOLINT
      : literal(Constant{DType::i64, 0, literal}), location(location) {}
  Operand(double literal, Location location = Location::current())  // NOLINT
      : literal(Constant{DType::f64, literal, 0}), location(location) {}

  Value* as(DType dtype, const char* operation) const;  // a literal takes `dtype`; a tile must have it
  Value* any() const;                                   // a literal becomes i32, f32 or bool
  std::optional<DType> dtype() const;                   // of a tile; a literal has none yet

  Value* value = nullptr;
  std::optional<Constant> literal;
  Location location;
};

inline constexpr double inf = __builtin_inf();

// Two or three operands converted to one dtype and one shape, by NumPy's broadcasting rules; errors name
// `operation`.
struct Pair {
  Value *x, *y;
};
Pair unify(const char* operation, const Operand& x, const Operand& y);
Value* broadcast_to(const char* operation, Value* value, const Shape& shape, const Location& location);
Shape broadcast_shape(const char* operation, const Type& x, const Type& y, const Location& location);
// Broadcasts values to one shape; each keeps its dtype.
void broadcast_together(const char* operation, std::vector<Value*>& values, const Location& location);

// Creates the op in the current trace, as the last step of every language function.
Value* emit(const Primitive& primitive, std::vector<Value*> operands, Attributes attributes,
            const Location& location);
inline Value* emit(std::string_view name, std::vector<Value*> operands, Attributes attributes,
                   const Location& location) {
  return emit(primitive(name), std::move(operands), std::move(attributes), location);
}

// For compile-time integers; cdiv() is for traced ones.
constexpr int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }

}  // namespace tile
