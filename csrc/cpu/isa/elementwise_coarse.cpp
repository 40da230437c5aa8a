// Functions for results that are rounded to 16 bits, alone and in pairs.
#include "cpu/isa/coarse.h"
#include "cpu/isa/elementwise.h"
#include "cpu/isa/pairs.h"

namespace tile::cpu::TILE_ISA {
namespace {

template <class Op, int arity>
constexpr ElementwiseRow coarse_row(std::string_view name) {
  return row<vector_group<Op, float, arity, 1>>(name, Lane::f32);
}

constexpr ElementwiseRow rows[] = {
#define COARSE(name)                                                                \
  coarse_row<coarse::name##_row, 1>(#name ".coarse"),                               \
      coarse_row<pairs::OfDifference<coarse::name##_row>, 2>(#name ".coarse(sub)"), \
      coarse_row<pairs::OfSum<coarse::name##_row>, 3>(#name ".coarse(fma)"),
    TILE_COARSE_ROWS(COARSE)
#undef COARSE
};
constexpr Span<ElementwiseRow> lanes[] = {{rows, sizeof(rows) / sizeof(rows[0])}};

}  // namespace

extern const Span<Span<ElementwiseRow>> coarse_rows = {lanes, 1};

}  // namespace tile::cpu::TILE_ISA
