// Instantiates the rows of prims/elementwise and pairs.h with the recording types.
#include "cpu/jit/traced_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>

#define TILE_ISA traced
#include "cpu/jit/trace.h"
#define TILE_ROWS "prims/elementwise/all.def"
#include "cpu/vecmath/approximate.h"
#include "cpu/vecmath/meaning_rows.h"
#include "cpu/vecmath/pairs.h"

namespace tile::cpu::jit {
namespace {

using namespace traced;
using namespace pairs;

TracedMask mask(int id) { return {id}; }

template <class Op, int arity, class V = Traced>
int record_row(const int* in) {
  if constexpr (arity == 1) return Op{}(V::of(in[0])).id;
  if constexpr (arity == 2) return Op{}(V::of(in[0]), V::of(in[1])).id;
  if constexpr (arity == 3) return Op{}(V::of(in[0]), V::of(in[1]), V::of(in[2])).id;
  if constexpr (arity == 4) return Op{}(V::of(in[0]), V::of(in[1]), V::of(in[2]), V::of(in[3])).id;
}

// Returns the f16 bits of a number that f16 represents exactly. The processor makes every NaN quiet, so this
// clears the quiet bit again if the NaN was signalling.
TracedBits bits_of_half(Traced x) {
  const TracedBits bits = TracedBits::of(record(Micro::extend, record(Micro::to_half, x.id, -1, -1, 0)));
  const TracedBits signals = shift_right_zeros(~bit_cast<TracedBits>(x), 13) & TracedBits(0x200);
  return select(x != x, bits ^ signals, bits);
}

// These ops process lanes one by one, or compute in double.
template <class Op>
constexpr bool recordable = true;
#define TILE_NOT(name) \
  template <>          \
  constexpr bool recordable<meaning::name##_row> = false;
TILE_NOT(sin)
TILE_NOT(cos)
TILE_NOT(tan)
TILE_NOT(pow)
TILE_NOT(floordiv)
TILE_NOT(mod)
TILE_NOT(cdiv)
TILE_NOT(shift_left)
TILE_NOT(shift_right)
// These ops change the rounding mode.
#define UNARY(name, ...) TILE_NOT(name)
#define BINARY(name, ...) TILE_NOT(name)
#define TERNARY(name, ...) TILE_NOT(name)
#define PREDICATE(...)
#define UNARY_PREDICATE(...)
#include "prims/elementwise/directed.def"
#include "prims/elementwise/end.def"
#undef TILE_NOT
// This op depends on the element type.
template <class Op>
constexpr bool of_integers = recordable<Op> && !std::is_same_v<Op, meaning::abs_row>;

template <class Op, int arity, bool has>
constexpr TracedRow float_row(std::string_view name) {
  if constexpr (has && recordable<Op>)
    return {name, Lane::f32, record_row<Op, arity>};
  else
    return {name, Lane::f32, nullptr};
}
template <template <class> class Pair, class Op, int arity, bool has>
constexpr TracedRow pair_row(std::string_view name) {
  if constexpr (has && recordable<Op>)
    return {name, Lane::f32, record_row<Pair<Op>, arity>};
  else
    return {name, Lane::f32, nullptr};
}

template <class Op, int arity, bool has>
constexpr TracedRow integer_row(std::string_view name) {
  if constexpr (has && of_integers<Op>)
    return {name, Lane::i32, record_row<Op, arity, TracedBits>};
  else
    return {name, Lane::i32, nullptr};
}

constexpr TracedRow rows[] = {
#define ROW(name, set, arity)                                                \
  float_row<meaning::name##_row, arity, dtypes::set.has(DType::f32)>(#name), \
      integer_row<meaning::name##_row, arity, dtypes::set.has(DType::i32)>(#name)
#define UNARY(name, set, ...)                                                                            \
  ROW(name, set, 1),                                                                                     \
      pair_row<pairs::OfDifference, meaning::name##_row, 2, dtypes::set.has(DType::f32)>(#name "(sub)"), \
      pair_row<pairs::OfSum, meaning::name##_row, 3, dtypes::set.has(DType::f32)>(#name "(fma)"),
#define UNARY_PREDICATE(name, set, ...) ROW(name, set, 1),
#define BINARY(name, set, ...) ROW(name, set, 2),
#define PREDICATE(name, set, ...) ROW(name, set, 2),
#define TERNARY(name, set, ...) ROW(name, set, 3),
#include "prims/elementwise/all.def"
#undef ROW
#define F32(type, name, operands) {name, Lane::f32, record_row<type, operands>},
    TILE_ARITHMETIC_PAIRS(F32) TILE_ONE_PLUS_PAIRS(F32) TILE_APPROXIMATE_ROWS(F32)
#undef F32
        {"to_bool", Lane::f32, record_row<meaning::to_bool_row, 1>},
    {"where", Lane::f32,
     [](const int* in) { return select(mask(in[0]), Traced::of(in[1]), Traced::of(in[2])).id; }},
    {"where", Lane::i32,
     [](const int* in) { return select(mask(in[0]), TracedBits::of(in[1]), TracedBits::of(in[2])).id; }},
    {"to_bool", Lane::i32, record_row<meaning::to_bool_row, 1, TracedBits>},
    {"number", Lane::i32, [](const int* in) { return to_float(TracedBits::of(in[0])).id; }},
    {"bits.bf16", Lane::f32, [](const int* in) { return to_bf16_bits(Traced::of(in[0])).id; }},
    {"round.bf16", Lane::f32, [](const int* in) { return (to_bf16_bits(Traced::of(in[0])) << 16).id; }},
    {"bits.f16", Lane::f32, [](const int* in) { return bits_of_half(Traced::of(in[0])).id; }},
    {"of bits.f16", Lane::f32,
     [](const int* in) { return from_f16_bits_portable<Traced>(TracedBits::of(in[0])).id; }},
    {"round.f16", Lane::f32, [](const int* in) { return round_to_f16(Traced::of(in[0])).id; }},
    // Masks.
    {"number", Lane::u8, [](const int* in) { return select(mask(in[0]), Traced(1.f), Traced(0.f)).id; }},
    {"bitwise_and", Lane::u8, [](const int* in) { return (mask(in[0]) & mask(in[1])).id; }},
    {"bitwise_or", Lane::u8, [](const int* in) { return (mask(in[0]) | mask(in[1])).id; }},
    {"bitwise_xor", Lane::u8, [](const int* in) { return (mask(in[0]) ^ mask(in[1])).id; }},
    {"logical_not", Lane::u8, [](const int* in) { return (~mask(in[0])).id; }},
};

}  // namespace

std::array<uint32_t, 16> powers_of_sixteenths(int shift) {
  std::array<uint32_t, 16> lanes;
  for (size_t k = 0; k < lanes.size(); ++k)
    lanes[k] = std::bit_cast<uint32_t>(std::ldexp(fitted::sixteenths[k], shift));
  return lanes;
}

const TracedRow* find_traced(std::string_view name, Lane lane) {
  const TracedRow* row = std::find_if(std::begin(rows), std::end(rows), [&](const TracedRow& row) {
    return row.record && row.lane == lane && row.name == name;
  });
  return row == std::end(rows) ? nullptr : row;
}

}  // namespace tile::cpu::jit
