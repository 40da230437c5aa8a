// The kernel that adds up the parts of a gradient that blocks have written apart.
#include "derive/gradient_sum.h"

#include "dsl/array.h"
#include "dsl/range.h"
#include "dsl/tracer.h"
#include "ir/verify.h"
#include "prims/elementwise.h"
#include "prims/grid.h"
#include "prims/memory.h"
#include "prims/reduce.h"
#include "prims/shape.h"

namespace tile {

Function gradient_sum(DType parts, DType out, bool adds, int64_t rows, int64_t columns) {
  Tracer tracer("gradient_sum");
  Function& function = tracer.function();
  const auto array = [&](DType dtype, int rank) {
    return Array(function.add_argument(function.body(), Type::array(dtype, rank), {}));
  };
  const Array from = array(parts, 2), to = array(out, 1);
  const DType compute = out == DType::f64 ? DType::f64 : DType::f32;
  const View in = from.tiled_view({rows, columns}), result = to.tiled_view({columns});
  Tile total = adds ? result.load({bid(0)}).astype(compute) : zeros({columns}, compute);
  for (Tile k : range(in.num_tiles(0))) total += in.load({k, bid(0)}).astype(compute).sum(0);
  result.store({bid(0)}, total);
  Function made = tracer.finish();
  verify(made, "gradient_sum");
  return made;
}

}  // namespace tile
