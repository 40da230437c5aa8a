// The statements of a product on warpgroup instructions (wgmma), for the product's struct in the source.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "ir/dtype.h"

namespace tile::cuda {

// A product of tiles in steps of 32 bytes along k. Offsets are in bytes.
struct WgmmaProduct {
  int64_t columns;
  DType left, right;
  bool left_k_major = true, right_k_major = true;  // elements are adjacent along k
  std::vector<int64_t> right_steps;                // where each step begins
  std::vector<int64_t> left_steps;                 // empty if the left operand is in registers
  std::vector<int64_t> left_blocks = {0};          // where each block of 64 rows of a group begins
  size_t held_steps = 0;                           // the first ones, whose left operand is in registers too
};

// Returns a function multiply(sums, left, right, add), or multiply(sums, held, left, right, add), that starts
// the product and forms its batch. Where that pays, a single statement does all of it: NVRTC's time grows
// with the operands of statements, and the statement's inputs are complete before it begins, as the
// instructions require.
std::string wgmma_text(const WgmmaProduct& product);

}  // namespace tile::cuda
