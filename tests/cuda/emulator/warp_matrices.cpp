// ldmatrix and mma.sync: how a warp's lanes hold small matrices (PTX ISA, matrix fragments). Lane l has row l
// / 4 of a matrix of 8 x 8 elements of 16 bits, columns l % 4 * 2 and the next. Of a block's left operand it
// has words l % 4 and l % 4 + 4 of rows l / 4 and l / 4 + 8, and of the right operand those words of column l
// / 4.
#include <cstring>

#include "machine.h"

namespace tile::emulator {
namespace {

struct Loaded {
  unsigned short row[8];
  unsigned* to;
  bool transposed;
};
void deal(void** all, int count) {
  auto element = [&](int matrix, int row, int column) -> unsigned {
    return static_cast<Loaded*>(all[matrix * 8 + row])->row[column];
  };
  for (int l = 0; l < count; ++l) {
    const Loaded& lane = *static_cast<Loaded*>(all[l]);
    const int row = l / 4, column = l % 4 * 2;
    for (int m = 0; m < 4; ++m)
      lane.to[m] = lane.transposed ? element(m, column, row) | element(m, column + 1, row) << 16
                                   : element(m, row, column) | element(m, row, column + 1) << 16;
  }
}

// Sums of integers are exact: 32 products of bytes and a 32-bit sum fit a double.
void multiply(void** all, int count) {
  constexpr int most = 8 * 4;  // depth
  double left[16][most], right[most][8];
  auto of = [&](int lane) -> const BlockProduct& { return *static_cast<BlockProduct*>(all[lane]); };
  const int each = of(0).elements;
  for (int l = 0; l < count; ++l)
    for (int e = 0; e < each; ++e) {
      const BlockProduct& lane = of(l);
      for (int i = 0; i < 4; ++i)
        left[l / 4 + i % 2 * 8][(l % 4 + i / 2 * 4) * each + e] = lane.left(lane.words[i], e);
      for (int i = 0; i < 2; ++i) right[(l % 4 + i * 4) * each + e][l / 4] = lane.right(lane.words[4 + i], e);
    }
  for (int l = 0; l < count; ++l)
    for (int i = 0; i < 4; ++i) {
      double sum = of(l).sum(of(l).sums[i]);
      for (int k = 0; k < 8 * each; ++k) sum += left[l / 4 + i / 2 * 8][k] * right[k][l % 4 * 2 + i % 2];
      of(l).set(of(l).sums[i], sum);
    }
}

}  // namespace

void load_matrices(unsigned (&to)[4], const void* row, bool transposed, const Site& site) {
  check_shared(row, 16, Access::load, site.line);
  Loaded mine{{}, to, transposed};
  std::memcpy(mine.row, row, sizeof mine.row);
  meet(Group::warp(), site, &mine, deal);
}

void multiply_block(BlockProduct product, const Site& site) { meet(Group::warp(), site, &product, multiply); }

}  // namespace tile::emulator
