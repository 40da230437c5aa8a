// Facts about a kernel's arrays that tests give it.
#pragma once
#include "ir/op.h"
#include "support/text.h"

namespace tile {

// Says of the first arrays that their rows are contiguous, aligned and small.
inline void make_dense(Function& function, int arrays) {
  for (int i = 0; i < arrays; ++i) {
    function.attributes().set(str("array.", i, ".unit"), int64_t{1});
    for (const char* fact : {"aligned", "whole", "small", "forward"})
      function.attributes().set(str("array.", i, ".", fact), int64_t{1});
  }
}

}  // namespace tile
