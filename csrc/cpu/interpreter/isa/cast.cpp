// astype between lanes, for every pair (rules: convert.h).
#include "cpu/interpreter/isa/chunk.h"
#include "cpu/interpreter/isa/parts.h"

namespace tile::cpu::TILE_ISA {
namespace {

template <class To, class From>
void each(const Chunk& c) {
  for (int64_t r = 0; r < c.rows; ++r)
    cast_array(reinterpret_cast<const From*>(c.in[0] + r * c.in_row[0]),
               reinterpret_cast<To*>(c.out + r * c.out_row), c.cols);
}
template <class To, class From>
void repeated(const Chunk& c) {
  for (int64_t r = 0; r < c.rows; ++r) {
    const To value = cast<To>(*reinterpret_cast<const From*>(c.in[0] + r * c.in_row[0]));
    To* out = reinterpret_cast<To*>(c.out + r * c.out_row);
    for (int64_t i = 0; i < c.cols; ++i) out[i] = value;
  }
}

template <class To, class From>
constexpr CastRow row{lane_v<From>, lane_v<To>, {each<To, From>, repeated<To, From>}};
// In the order of Lane, so that a pair's row is at from * lane_count + to.
#define TILE_FROM(From)                                                                              \
  row<uint8_t, From>, row<int8_t, From>, row<int16_t, From>, row<int32_t, From>, row<int64_t, From>, \
      row<uint16_t, From>, row<uint32_t, From>, row<uint64_t, From>, row<float, From>, row<double, From>
constexpr CastRow table[] = {
    TILE_FROM(uint8_t),  TILE_FROM(int8_t),   TILE_FROM(int16_t),  TILE_FROM(int32_t), TILE_FROM(int64_t),
    TILE_FROM(uint16_t), TILE_FROM(uint32_t), TILE_FROM(uint64_t), TILE_FROM(float),   TILE_FROM(double)};
#undef TILE_FROM

}  // namespace

extern const Span<CastRow> cast_rows = {table, sizeof(table) / sizeof(CastRow)};

}  // namespace tile::cpu::TILE_ISA
