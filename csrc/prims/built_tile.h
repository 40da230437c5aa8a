// Tile expressions outside of a trace: each operation is created by a Builder. They read rows of
// prims/derivatives.def.
#pragma once
#include "ir/build.h"

namespace tile::built {

// A value of the IR, or a number that takes the type of the value that it meets.
class BuiltTile {
 public:
  BuiltTile(Builder& build, Value* value) : build_(&build), value_(value) {}
  BuiltTile(double number) : number_(number) {}                      // NOLINT
  BuiltTile(int number) : BuiltTile(static_cast<double>(number)) {}  // NOLINT

  Value* value() const { return value_; }  // null: a number

  static BuiltTile make(std::string_view name, std::vector<BuiltTile> operands) {
    const BuiltTile* typed = nullptr;  // the last one, because the first operand of where is bool
    for (const BuiltTile& each : operands)
      if (each.value_) typed = &each;
    TILE_CHECK(typed, name, ": all operands are numbers");
    std::vector<Value*> values;
    for (const BuiltTile& each : operands) values.push_back(each.like(*typed));
    return {*typed->build_, typed->build_->emit(name, std::move(values))};
  }
  static BuiltTile where(const BuiltTile& condition, const BuiltTile& x, const BuiltTile& y) {
    const BuiltTile& typed = x.value_ ? x : y;
    TILE_CHECK(typed.value_, "where: both values are numbers");
    return {*typed.build_, typed.build_->emit("where", {condition.value_, x.like(typed), y.like(typed)})};
  }

 private:
  Value* like(const BuiltTile& other) const {
    if (value_) return value_;
    const Type& type = other.value_->type;
    return other.build_->splat(Constant::of(type.dtype, number_), type.shape);
  }
  Builder* build_ = nullptr;
  Value* value_ = nullptr;
  double number_ = 0;
};

#define UNARY(name, ...) \
  inline BuiltTile name(const BuiltTile& x) { return BuiltTile::make(#name, {x}); }
#define UNARY_PREDICATE(name, ...) UNARY(name)
#define BINARY(name, ...) \
  inline BuiltTile name(const BuiltTile& x, const BuiltTile& y) { return BuiltTile::make(#name, {x, y}); }
#define PREDICATE(name, ...) BINARY(name)
#define TERNARY(name, ...)                                                            \
  inline BuiltTile name(const BuiltTile& x, const BuiltTile& y, const BuiltTile& z) { \
    return BuiltTile::make(#name, {x, y, z});                                         \
  }
#include "prims/elementwise/all.def"

inline BuiltTile where(const BuiltTile& condition, const BuiltTile& x, const BuiltTile& y) {
  return BuiltTile::where(condition, x, y);
}
inline BuiltTile operator-(const BuiltTile& x) { return neg(x); }
inline BuiltTile operator+(const BuiltTile& x, const BuiltTile& y) { return add(x, y); }
inline BuiltTile operator-(const BuiltTile& x, const BuiltTile& y) { return sub(x, y); }
inline BuiltTile operator*(const BuiltTile& x, const BuiltTile& y) { return mul(x, y); }
inline BuiltTile operator/(const BuiltTile& x, const BuiltTile& y) { return div(x, y); }
inline BuiltTile operator&(const BuiltTile& x, const BuiltTile& y) { return bitwise_and(x, y); }
inline BuiltTile operator|(const BuiltTile& x, const BuiltTile& y) { return bitwise_or(x, y); }
inline BuiltTile operator<(const BuiltTile& x, const BuiltTile& y) { return lt(x, y); }
inline BuiltTile operator>(const BuiltTile& x, const BuiltTile& y) { return gt(x, y); }
inline BuiltTile operator>=(const BuiltTile& x, const BuiltTile& y) { return ge(x, y); }
inline BuiltTile operator==(const BuiltTile& x, const BuiltTile& y) { return eq(x, y); }

}  // namespace tile::built
