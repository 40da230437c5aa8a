// Element types, one table row each.
#pragma once
#include <array>
#include <cstdint>
#include <ostream>
#include <string_view>

namespace tile {

enum class DType : uint8_t {
  boolean,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  f8e4m3,
  f8e5m2,
  f16,
  bf16,
  tf32,
  f32,
  f64
};
inline constexpr int dtype_count = 16;

enum class DTypeKind : uint8_t { boolean, signed_integer, unsigned_integer, floating };

struct DTypeInfo {
  std::string_view name;
  int bits;   // of the value
  int bytes;  // in memory
  DTypeKind kind;
  bool arithmetic;  // false: only loads, stores, casts, shape operations and mma
};

inline constexpr std::array<DTypeInfo, dtype_count> dtype_table{{
    {"bool", 8, 1, DTypeKind::boolean, true},
    {"i8", 8, 1, DTypeKind::signed_integer, true},
    {"i16", 16, 2, DTypeKind::signed_integer, true},
    {"i32", 32, 4, DTypeKind::signed_integer, true},
    {"i64", 64, 8, DTypeKind::signed_integer, true},
    {"u8", 8, 1, DTypeKind::unsigned_integer, true},
    {"u16", 16, 2, DTypeKind::unsigned_integer, true},
    {"u32", 32, 4, DTypeKind::unsigned_integer, true},
    {"u64", 64, 8, DTypeKind::unsigned_integer, true},
    {"f8e4m3", 8, 1, DTypeKind::floating, false},
    {"f8e5m2", 8, 1, DTypeKind::floating, false},
    {"f16", 16, 2, DTypeKind::floating, true},
    {"bf16", 16, 2, DTypeKind::floating, true},
    {"tf32", 19, 4, DTypeKind::floating, false},
    {"f32", 32, 4, DTypeKind::floating, true},
    {"f64", 64, 8, DTypeKind::floating, true},
}};

constexpr const DTypeInfo& info(DType dtype) { return dtype_table[static_cast<int>(dtype)]; }
constexpr bool is_floating(DType dtype) { return info(dtype).kind == DTypeKind::floating; }
constexpr bool is_signed(DType dtype) { return info(dtype).kind == DTypeKind::signed_integer; }
constexpr bool is_unsigned(DType dtype) { return info(dtype).kind == DTypeKind::unsigned_integer; }
constexpr bool is_integer(DType dtype) { return is_signed(dtype) || is_unsigned(dtype); }

// Returns the unsigned integer dtype with the same width in memory.
constexpr DType unsigned_of(DType dtype) {
  int i = static_cast<int>(DType::u8);
  while (dtype_table[static_cast<size_t>(i)].bytes != info(dtype).bytes) ++i;
  return static_cast<DType>(i);
}

inline std::ostream& operator<<(std::ostream& out, DType dtype) { return out << info(dtype).name; }

// A set of dtypes with one bit each, such as those that a primitive accepts.
class DTypeSet {
 public:
  constexpr DTypeSet() = default;
  template <class... D>
  constexpr explicit DTypeSet(D... dtypes) : bits_((0u | ... | (1u << static_cast<int>(dtypes)))) {}
  constexpr bool has(DType dtype) const { return bits_ >> static_cast<int>(dtype) & 1; }
  constexpr DTypeSet operator|(DTypeSet other) const { return from(bits_ | other.bits_); }

 private:
  static constexpr DTypeSet from(uint32_t bits) {
    DTypeSet set;
    set.bits_ = bits;
    return set;
  }
  uint32_t bits_ = 0;
};

namespace dtypes {
inline constexpr DTypeSet boolean{DType::boolean};
inline constexpr DTypeSet signed_integers{DType::i8, DType::i16, DType::i32, DType::i64};
inline constexpr DTypeSet unsigned_integers{DType::u8, DType::u16, DType::u32, DType::u64};
inline constexpr DTypeSet integers = signed_integers | unsigned_integers;
inline constexpr DTypeSet floats{DType::f16, DType::bf16, DType::f32, DType::f64};
inline constexpr DTypeSet single{DType::f32};
inline constexpr DTypeSet wide_floats{DType::f32, DType::f64};  // dtypes in which floats are computed
inline constexpr DTypeSet bits = boolean | integers;            // dtypes of bitwise operations
inline constexpr DTypeSet signed_numbers = signed_integers | floats;
inline constexpr DTypeSet numbers = integers | floats;
inline constexpr DTypeSet arithmetic = boolean | numbers;
inline constexpr DTypeSet restricted{DType::f8e4m3, DType::f8e5m2, DType::tf32};
inline constexpr DTypeSet any = arithmetic | restricted;
}  // namespace dtypes

}  // namespace tile
