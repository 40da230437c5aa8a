// The launch of few queries over many keys, whose blocks share a head's keys.
#pragma once
#include "decode_kernels.h"
#include "host_problem.h"

namespace tile::attention {

struct FewQueries {
  Operands of;  // key and value: of the sequences, or pages
  OptionalTensor lengths;
  OptionalTensor bias;  // as whole_bias() returns it
  double scale;
  DecodeOptionsOf<Tensor, int, double> options;  // without page_tiles and page_rows, which the launch finds
};
void launch_few_queries(FewQueries call, const Tensor& out, const Tensor& lse);

// Computes a call of attention on a GPU and returns true if it has few queries, and nothing is asked for that
// only forward() does.
bool run_few_queries(const Operands& of, const OptionalTensor& bias, const Problem& p,
                     const Results& results);

}  // namespace tile::attention
