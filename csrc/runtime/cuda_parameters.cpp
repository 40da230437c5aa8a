// Packs launch arguments for a GPU.
#include "runtime/cuda_parameters.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tile {
namespace {

// Size of {void* data; int64_t strides[n]; int32_t sizes[n];}. The sizes of a wide array are int64_t.
size_t array_bytes(int rank, bool wide) {
  const size_t n = static_cast<size_t>(std::max(rank, 1)), size = wide ? sizeof(int64_t) : sizeof(int32_t);
  return sizeof(void*) + (n * (sizeof(int64_t) + size) + 7) / 8 * 8;
}

template <class T>
char* put(char* at, T value) {
  std::memcpy(at, &value, sizeof value);
  return at + sizeof value;
}

void put_array(char* at, const ArrayArgument& array, bool wide) {
  const size_t rank = static_cast<size_t>(array.rank);
  at = put(at, array.data);
  if (rank == 0) {
    put(put(at, int64_t{1}), int32_t{1});
    return;
  }
  for (size_t axis = 0; axis < rank; ++axis) at = put(at, array.strides[axis]);
  for (size_t axis = 0; axis < rank; ++axis)
    at = wide ? put(at, array.sizes[axis]) : put(at, static_cast<int32_t>(array.sizes[axis]));
}

}  // namespace

CudaParameters::CudaParameters(const std::vector<Type>& parameters, std::vector<bool> wide)
    : wide_(std::move(wide)) {
  wide_.resize(parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) {
    offsets_.push_back(bytes_);
    const Type& type = parameters[i];
    bytes_ += type.is_array() ? array_bytes(type.array_rank, wide_[i]) : sizeof(uint64_t);
  }
}

void CudaParameters::pack(ArgumentRefs arguments, Packed& packed) const {
  for (size_t i = 0; i < arguments.size(); ++i) {
    char* at = packed.data + offsets_[i];
    packed.pointers[i] = at;
    if (arguments[i].array)
      put_array(at, *arguments[i].array, wide_[i]);
    else
      put(at, arguments[i].scalar->bits);
  }
}

}  // namespace tile
