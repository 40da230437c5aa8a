// Divides the rows of A into panels.
#pragma once

namespace tile::cpu::TILE_ISA {

// Two rows after whole panels would be too few sums to hide the latency of one, so they and the preceding
// panel become two halves. 0 means that there is no kernel of that many rows.
constexpr int half_rows(int mr) { return mr == 6 || mr == 14 ? mr / 2 + 1 : 0; }
// Returns true if the remaining rows are processed as two halves.
constexpr bool halves(int mr, long rows) { return half_rows(mr) > 0 && rows == 2 * half_rows(mr); }

}  // namespace tile::cpu::TILE_ISA
