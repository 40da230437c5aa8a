// ldmatrix and mma.sync: how a warp's lanes hold small matrices (PTX ISA, matrix fragments). Lane l has row
// l / 4 of a matrix of 8 x 8 elements of 16 bits, columns l % 4 * 2 and the next.
#include <cstring>

#include "machine.h"

namespace tile::emulator {
namespace {

struct Loaded {
  unsigned short row[8];
  unsigned* to;
  bool turned;
};
void deal(void** all, int count) {
  auto element = [&](int matrix, int row, int column) -> unsigned {
    return static_cast<Loaded*>(all[matrix * 8 + row])->row[column];
  };
  for (int l = 0; l < count; ++l) {
    const Loaded& lane = *static_cast<Loaded*>(all[l]);
    const int row = l / 4, column = l % 4 * 2;
    for (int m = 0; m < 4; ++m)
      lane.to[m] = lane.turned ? element(m, column, row) | element(m, column + 1, row) << 16
                               : element(m, row, column) | element(m, row, column + 1) << 16;
  }
}

struct Product {
  float* sums;
  unsigned left[4], right[2];
  float (*value)(unsigned short);

  // Half `h` of a register.
  float of(unsigned both, int h) const { return value(static_cast<unsigned short>(both >> (16 * h))); }
};
void multiply(void** all, int count) {
  float left[16][16], right[16][8];
  for (int l = 0; l < count; ++l) {
    const Product& lane = *static_cast<Product*>(all[l]);
    const int row = l / 4, column = l % 4 * 2;
    for (int h = 0; h < 2; ++h) {
      for (int i = 0; i < 4; ++i) left[row + i % 2 * 8][column + i / 2 * 8 + h] = lane.of(lane.left[i], h);
      for (int i = 0; i < 2; ++i) right[column + i * 8 + h][row] = lane.of(lane.right[i], h);
    }
  }
  for (int l = 0; l < count; ++l)
    for (int i = 0; i < 4; ++i) {
      float& to = static_cast<Product*>(all[l])->sums[i];
      double sum = to;
      for (int k = 0; k < 16; ++k)
        sum += static_cast<double>(left[l / 4 + i / 2 * 8][k]) *
               static_cast<double>(right[k][l % 4 * 2 + i % 2]);
      to = static_cast<float>(sum);
    }
}

}  // namespace

void load_matrices(unsigned (&to)[4], const void* row, bool turned, const Site& site) {
  check_shared(row, 16, Access::load, site.line);
  Loaded mine{{}, to, turned};
  std::memcpy(mine.row, row, sizeof mine.row);
  meet(Group::warp(), site, &mine, deal);
}

void multiply_matrices(float* sums, const unsigned (&left)[4], unsigned right0, unsigned right1,
                       float (*value)(unsigned short), const Site& site) {
  Product mine{sums, {left[0], left[1], left[2], left[3]}, {right0, right1}, value};
  meet(Group::warp(), site, &mine, multiply);
}

}  // namespace tile::emulator
