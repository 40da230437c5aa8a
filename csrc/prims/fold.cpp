// Evaluates one lane on the host: the functions that exact rows of prims/elementwise name. This file does not
// use the language, whose functions have the same names but take tiles.
#include "prims/fold.h"

#include <cmath>
#include <cstdint>
#include <type_traits>

namespace tile {
namespace fold {
namespace {

// Integers are evaluated in 64 bits, with unsigned arithmetic so that overflow wraps; Constant::of wraps to
// the dtype.
template <bool is_signed>
struct Integer {
  uint64_t bits;
  auto value() const {
    if constexpr (is_signed)
      return static_cast<int64_t>(bits);
    else
      return bits;
  }
  friend Integer operator+(Integer x, Integer y) { return {x.bits + y.bits}; }
  friend Integer operator-(Integer x, Integer y) { return {x.bits - y.bits}; }
  friend Integer operator*(Integer x, Integer y) { return {x.bits * y.bits}; }
  friend Integer operator&(Integer x, Integer y) { return {x.bits & y.bits}; }
  friend Integer operator|(Integer x, Integer y) { return {x.bits | y.bits}; }
  friend Integer operator^(Integer x, Integer y) { return {x.bits ^ y.bits}; }
  friend Integer operator-(Integer x) { return {0 - x.bits}; }
  friend bool operator==(Integer x, Integer y) { return x.bits == y.bits; }
  friend bool operator!=(Integer x, Integer y) { return x.bits != y.bits; }
  friend bool operator<(Integer x, Integer y) { return x.value() < y.value(); }
  friend bool operator<=(Integer x, Integer y) { return x.value() <= y.value(); }
  friend bool operator>(Integer x, Integer y) { return x.value() > y.value(); }
  friend bool operator>=(Integer x, Integer y) { return x.value() >= y.value(); }
};

template <bool s>
Integer<s> abs(Integer<s> x) {
  return x.value() < 0 ? -x : x;
}
template <bool s>
Integer<s> sign(Integer<s> x) {
  return {x.value() > 0 ? 1 : x.value() == 0 ? 0 : ~uint64_t{0}};
}
template <bool s>
Integer<s> min(Integer<s> x, Integer<s> y) {
  return x < y ? x : y;
}
template <bool s>
Integer<s> max(Integer<s> x, Integer<s> y) {
  return x > y ? x : y;
}
template <bool s>
Integer<s> bitwise_not(Integer<s> x) {
  return {~x.bits};
}
template <bool s>
Integer<s> floordiv(Integer<s> x, Integer<s> y) {
  if (y.bits == 0) return {0};
  if constexpr (s) {
    if (y.value() == -1) return -x;  // the least integer wraps instead of trapping
    int64_t quotient = x.value() / y.value();
    if (x.value() % y.value() != 0 && (x.value() < 0) != (y.value() < 0)) --quotient;
    return {static_cast<uint64_t>(quotient)};
  }
  return {x.bits / y.bits};
}
template <bool s>
Integer<s> mod(Integer<s> x, Integer<s> y) {
  return y.bits == 0 ? Integer<s>{0} : x - floordiv(x, y) * y;
}
template <bool s>
Integer<s> cdiv(Integer<s> x, Integer<s> y) {
  if (y.bits == 0) return {0};
  Integer<s> quotient = floordiv(x, y);
  return quotient * y == x ? quotient : quotient + Integer<s>{1};
}
template <bool s>
Integer<s> shift_left(Integer<s> x, Integer<s> y) {
  return {y.bits > 63 ? 0 : x.bits << y.bits};
}
template <bool s>
Integer<s> shift_right(Integer<s> x, Integer<s> y) {
  uint64_t by = y.bits > 63 ? 63 : y.bits;
  if (!s && y.bits > 63) return {0};
  return {static_cast<uint64_t>(x.value() >> by)};
}

double abs(double x) { return std::fabs(x); }
double sqrt(double x) { return std::sqrt(x); }
double floor(double x) { return std::floor(x); }
double ceil(double x) { return std::ceil(x); }
double round(double x) { return std::nearbyint(x); }
double trunc(double x) { return std::trunc(x); }
bool isinf(double x) { return std::isinf(x); }
double min(double x, double y) { return x != x ? y : y != y ? x : x < y ? x : y; }
double max(double x, double y) { return x != x ? y : y != y ? x : x > y ? x : y; }
double min_nan(double x, double y) { return x != x ? x : y != y ? y : min(x, y); }
double max_nan(double x, double y) { return x != x ? x : y != y ? y : max(x, y); }
double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
double flush_subnormal(double x) { return std::fabs(x) < 0x1p-126 ? std::copysign(0.0, x) : x; }

// Calls `lane` with the operands in their dtype's representation; nullopt if it has no such overload.
template <class Lane, class... C>
std::optional<Constant> evaluate(const Lane& lane, DType result, const Constant& first, const C&... rest) {
  auto wrap = [&](auto value) -> Constant {
    using T = decltype(value);
    if constexpr (std::is_same_v<T, bool>)
      return Constant::of(result, static_cast<int64_t>(value));
    else if constexpr (std::is_same_v<T, double>)
      return Constant::of(result, value);
    else
      return Constant::of(result, static_cast<int64_t>(value.bits));
  };
  if (is_floating(first.dtype)) {
    if constexpr (std::is_invocable_v<Lane, decltype(first.floating), decltype(rest.floating)...>)
      return wrap(lane(first.floating, rest.floating...));
  } else if (is_signed(first.dtype)) {
    using I = Integer<true>;
    if constexpr (std::is_invocable_v<Lane, I, decltype((void)rest, I{})...>)
      return wrap(lane(I{static_cast<uint64_t>(first.integer)}, I{static_cast<uint64_t>(rest.integer)}...));
  } else {
    using I = Integer<false>;
    if constexpr (std::is_invocable_v<Lane, I, decltype((void)rest, I{})...>)
      return wrap(lane(I{static_cast<uint64_t>(first.integer)}, I{static_cast<uint64_t>(rest.integer)}...));
  }
  return std::nullopt;
}

#define UNARY(N, D, E, T, ...) \
  ROW_##T(                     \
      N, [](auto x) -> decltype(E) { return E; }, c[0])
#define UNARY_PREDICATE(N, D, E, T, ...) UNARY(N, D, E, T)
#define BINARY(N, D, E, T, ...) \
  ROW_##T(                      \
      N, [](auto x, auto y) -> decltype(E) { return E; }, c[0], c[1])
#define PREDICATE(N, D, E, T, ...) BINARY(N, D, E, T)
#define TERNARY(...)
#define ROW_EXACT(NAME, LANE, ...) \
  {#NAME, [](std::span<const Constant> c, DType result) { return evaluate(LANE, result, __VA_ARGS__); }},
#define ROW_EXACT_SWAPS(...) ROW_EXACT(__VA_ARGS__)
#define ROW_ROUNDED(...)
#define ROW_DIRECTED(...)
#define ROW_DIRECTED_SWAPS(...)
constexpr struct {  // constexpr: static initialisers of other files read it
  std::string_view name;
  Fold fold;
} folds[] = {
#include "prims/elementwise/all.def"
};

}  // namespace
}  // namespace fold

Fold fold_of(std::string_view name) {
  for (const auto& row : fold::folds)
    if (row.name == name) return row.fold;
  return nullptr;
}

}  // namespace tile
