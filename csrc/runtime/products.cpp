// By what the target of an array multiplies.
#include "runtime/products.h"

#include "cpu/gemm_table.h"

namespace tile {

bool multiplies_as_it_is(const ArrayArgument& array) {
  if (array.device == DeviceKind::cuda || info(array.dtype).bits > 16) return true;
  return array.dtype == DType::bf16 && cpu::multiplies_bf16();
}

}  // namespace tile
