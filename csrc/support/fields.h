// Structs field by field: a kernel or an operator takes one in the place of several parameters.
#pragma once
#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace tile::detail {

inline constexpr size_t most_fields = 32;

template <class... T>
struct Types {};
template <class... A, class... B>
Types<A..., B...> operator+(Types<A...>, Types<B...>);

// Initialises a field of any type; never called.
struct AnyField {
  template <class T>
  operator T&() const&;
  template <class T>
  operator T() const&&;
};

// A class that braces fill field by field. std::array is one to C++, but a single parameter to us.
template <class T>
inline constexpr bool is_struct = std::is_class_v<T>&& std::is_aggregate_v<T>;
template <class T, size_t N>
inline constexpr bool is_struct<std::array<T, N>> = false;
template <class T>
concept Struct = is_struct<T>;

template <class T, size_t... I>
constexpr bool takes_fields(std::index_sequence<I...>) {
  return requires { T{(void(I), std::declval<AnyField>())...}; };
}
// Counts down, because some fields, references for one, must be given.
template <class T, size_t count = most_fields + 1>
constexpr size_t field_count() {
  if constexpr (takes_fields<T>(std::make_index_sequence<count>{})) {
    static_assert(count <= most_fields,
                  "a struct of parameters has at most 32 fields; group some in a struct of their own");
    return count;
  } else {
    static_assert(count > 0,
                  "the fields of this struct of parameters cannot be counted: it has more than 32, or "
                  "one that no value of its type initialises");
    if constexpr (count > 0) return field_count<T, count - 1>();
  }
}

// Returns function(field...) of a struct of so many fields, these as lvalues.
template <size_t count, class T, class Function>
constexpr decltype(auto) with_fields(T& value, Function&& function) {
  if constexpr (count == 0) return function();
#define TILE_8 a, b, c, d, e, f, g, h
#define TILE_16 TILE_8, i, j, k, l, m, n, o, p
#define TILE_24 TILE_16, q, r, s, t, u, v, w, x
#define TILE_FIELDS(number, ...)   \
  if constexpr (count == number) { \
    auto& [__VA_ARGS__] = value;   \
    return function(__VA_ARGS__);  \
  }
  // clang-format off
  TILE_FIELDS(1, a)
  TILE_FIELDS(2, a, b)
  TILE_FIELDS(3, a, b, c)
  TILE_FIELDS(4, a, b, c, d)
  TILE_FIELDS(5, a, b, c, d, e)
  TILE_FIELDS(6, a, b, c, d, e, f)
  TILE_FIELDS(7, a, b, c, d, e, f, g)
  TILE_FIELDS(8, a, b, c, d, e, f, g, h)
  TILE_FIELDS(9, TILE_8, i)
  TILE_FIELDS(10, TILE_8, i, j)
  TILE_FIELDS(11, TILE_8, i, j, k)
  TILE_FIELDS(12, TILE_8, i, j, k, l)
  TILE_FIELDS(13, TILE_8, i, j, k, l, m)
  TILE_FIELDS(14, TILE_8, i, j, k, l, m, n)
  TILE_FIELDS(15, TILE_8, i, j, k, l, m, n, o)
  TILE_FIELDS(16, TILE_8, i, j, k, l, m, n, o, p)
  TILE_FIELDS(17, TILE_16, q)
  TILE_FIELDS(18, TILE_16, q, r)
  TILE_FIELDS(19, TILE_16, q, r, s)
  TILE_FIELDS(20, TILE_16, q, r, s, t)
  TILE_FIELDS(21, TILE_16, q, r, s, t, u)
  TILE_FIELDS(22, TILE_16, q, r, s, t, u, v)
  TILE_FIELDS(23, TILE_16, q, r, s, t, u, v, w)
  TILE_FIELDS(24, TILE_16, q, r, s, t, u, v, w, x)
  TILE_FIELDS(25, TILE_24, y)
  TILE_FIELDS(26, TILE_24, y, z)
  TILE_FIELDS(27, TILE_24, y, z, A)
  TILE_FIELDS(28, TILE_24, y, z, A, B)
  TILE_FIELDS(29, TILE_24, y, z, A, B, C)
  TILE_FIELDS(30, TILE_24, y, z, A, B, C, D)
  TILE_FIELDS(31, TILE_24, y, z, A, B, C, D, E)
  TILE_FIELDS(32, TILE_24, y, z, A, B, C, D, E, F)
  // clang-format on
#undef TILE_FIELDS
#undef TILE_8
#undef TILE_16
#undef TILE_24
}

template <class T, class Function>
constexpr decltype(auto) with_fields(T& value, Function&& function) {
  return with_fields<field_count<std::remove_const_t<T>>()>(value, std::forward<Function>(function));
}

struct TypesOfFields {
  template <class... T>
  Types<std::remove_const_t<T>...> operator()(T&...) const {
    return {};
  }
};
// Types<field...>, without references and const.
template <class T>
using FieldTypes = decltype(with_fields(std::declval<T&>(), TypesOfFields()));

}  // namespace tile::detail
