// How the rows of A are cut into panels.
#pragma once

namespace tile::cpu::TILE_ISA {

// Two rows behind whole panels would be too few sums to hide the latency of one: these and the panel before
// them are two halves instead. 0: there is no kernel of that many rows.
constexpr int half_rows(int mr) { return mr == 6 || mr == 14 ? mr / 2 + 1 : 0; }
// Returns true if so many rows that are left are halved.
constexpr bool halves(int mr, long rows) { return half_rows(mr) > 0 && rows == 2 * half_rows(mr); }

}  // namespace tile::cpu::TILE_ISA
