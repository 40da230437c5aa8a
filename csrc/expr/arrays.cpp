// Broadcasting of arrays.
#include "expr/arrays.h"

namespace tile {

ArrayArgument broadcast_array(const at::Tensor& tensor, at::IntArrayRef shape) {
  const ArrayArgument given = at::to_array_argument(tensor);
  const int rank = static_cast<int>(shape.size());
  if (rank > max_array_rank)
    fail(ErrorKind::value, "the common shape has ", rank, " axes; the most is ", max_array_rank);
  ArrayArgument array = given;
  array.rank = rank;
  for (int i = 0; i < rank; ++i) {
    const int own = i - (rank - given.rank);
    const int64_t extent = own < 0 ? 1 : given.sizes[own];
    if (extent != 1 && extent != shape[i])
      fail(ErrorKind::value, "a tensor of shape ", tensor.sizes(), " does not fit one of shape ", shape,
           "; extents must be equal or 1");
    array.sizes[i] = shape[i];
    array.strides[i] = extent == 1 && shape[i] != 1 ? 0 : own < 0 ? 0 : given.strides[own];
  }
  return array;
}

}  // namespace tile
