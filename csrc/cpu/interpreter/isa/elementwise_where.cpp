// Rows for all lanes that belong to no family: where, and to_bool (x != 0).
#include "cpu/interpreter/isa/elementwise.h"
#include "cpu/vecmath/meaning.h"

namespace tile::cpu::TILE_ISA {
namespace {

template <class T>
void where_loop(const Operands& in, char* out, int64_t groups) {
  constexpr int lanes = Vec<T>::lanes;
  for (int64_t row = 0; row < in.rows; ++row) {
    const char *condition = in.at[0] + row * in.row[0], *x = in.at[1] + row * in.row[1],
               *y = in.at[2] + row * in.row[2];
    char* to = out + row * in.out_row;
    for (int64_t left = groups; left > 0; --left) {
      Vec<T> r[2];
      for (int u = 0; u < 2; ++u)
        r[u] = select(from_bytes<T>(condition + u * lanes), load_at<T>(x, u), load_at<T>(y, u));
      for (int u = 0; u < 2; ++u) r[u].store(reinterpret_cast<T*>(to) + u * lanes);
      condition += in.step[0];
      x += in.step[1];
      y += in.step[2];
      to += 2 * vector_bytes;
    }
  }
}

template <class T>
constexpr GroupLoop where_group{where_loop<T>, 3, 2 * Vec<T>::lanes, {1, sizeof(T), sizeof(T)}, sizeof(T)};

template <class T>
constexpr ElementwiseRow rows_of[] = {
    row<where_group<T>>("where", lane_v<T>),
    predicate_row<meaning::to_bool_row, T, 1, true>("to_bool"),
};
constexpr Span<ElementwiseRow> lanes[] = {
#define ROWS(T, name) {rows_of<T>, 2},
    TILE_LANES(ROWS)
#undef ROWS
};

}  // namespace

extern const Span<Span<ElementwiseRow>> where_rows = {lanes, lane_count};

}  // namespace tile::cpu::TILE_ISA
