// Runs: elements that a gather or a scatter reaches for side by side in memory, which a thread then moves as
// vectors.
#pragma once
#include "cuda/array_facts.h"
#include "passes/divisibility.h"

namespace tile::cuda {

// Along `axis` of the tiles, groups of `width` elements, which begin at multiples of `width`, are adjacent in
// memory, begin at a multiple of `width` of the array, and are masked together.
struct Run {
  int axis = -1;
  int width = 1;
};

// Returns the widest run of a gather or a scatter of an array with these facts, at most 16 bytes; width 1 if
// none is known.
Run run_of(const Op& op, const ArrayFacts& array, Facts& facts);

}  // namespace tile::cuda
