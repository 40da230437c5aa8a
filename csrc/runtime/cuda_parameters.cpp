// Packs launch arguments for a GPU.
#include "runtime/cuda_parameters.h"

#include <algorithm>
#include <cstring>

#include "ir/walk.h"

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

std::vector<Type> types_of(const Function& function) {
  std::vector<Type> types;
  for (const Value* argument : function.body().arguments) types.push_back(argument->type);
  return types;
}

std::vector<bool> wide_arrays_of(const Function& function) {
  std::vector<bool> wide;
  for (const Value* argument : function.body().arguments) wide.push_back(is_wide_array(function, argument));
  return wide;
}

size_t bytes_of(cuda::ParameterKind kind, const Type* argument, bool wide) {
  switch (kind) {
    case cuda::ParameterKind::argument:
      return argument->is_array() ? array_bytes(argument->array_rank, wide) : sizeof(uint64_t);
    case cuda::ParameterKind::grid:
      return sizeof(int32_t);
    case cuda::ParameterKind::tensor_map:
      return sizeof(TensorMap);
    case cuda::ParameterKind::failures:
      return sizeof(FailureLocation);
    case cuda::ParameterKind::block_counter:
    case cuda::ParameterKind::starts_early:
      return sizeof(uint32_t);
  }
  return 0;
}

}  // namespace

CudaParameters::CudaParameters(const std::vector<Type>& arguments, const std::vector<bool>& wide,
                               const std::vector<cuda::Parameter>& parameters) {
  bool has_maps = false;
  for (const cuda::Parameter& parameter : parameters) {
    const auto index = static_cast<size_t>(parameter.index);
    const bool is_argument = parameter.kind == cuda::ParameterKind::argument;
    const bool is_wide = is_argument && index < wide.size() && wide[index];
    if (parameter.kind == cuda::ParameterKind::tensor_map) {
      constexpr size_t alignment = alignof(TensorMap);
      bytes_ = (bytes_ + alignment - 1) / alignment * alignment;
      if (!has_maps) tensor_maps_ = bytes_;
      has_maps = true;
    }
    fields_.push_back({parameter, bytes_, is_wide});
    bytes_ += bytes_of(parameter.kind, is_argument ? &arguments[index] : nullptr, is_wide);
  }
}

CudaParameters::CudaParameters(const Function& function, const cuda::Program& program)
    : CudaParameters(types_of(function), wide_arrays_of(function), program.parameters) {}

void CudaParameters::pack(ArgumentRefs arguments, const Others& others, Packed& packed) const {
  void** pointer = packed.pointers;
  for (const Field& field : fields_) {
    char* at = packed.data + field.offset;
    *pointer++ = at;
    switch (field.parameter.kind) {
      case cuda::ParameterKind::argument: {
        const ArgumentRef& argument = arguments[static_cast<size_t>(field.parameter.index)];
        if (argument.array)
          put_array(at, *argument.array, field.wide);
        else
          put(at, argument.scalar->bits);
        break;
      }
      case cuda::ParameterKind::grid:
        put(at, others.grid[static_cast<size_t>(field.parameter.index)]);
        break;
      case cuda::ParameterKind::tensor_map:
        break;
      case cuda::ParameterKind::block_counter:
        put(at, others.block_counter);
        break;
      case cuda::ParameterKind::failures:
        put(at, others.failures);
        break;
      case cuda::ParameterKind::starts_early:
        put(at, others.starts_early);
        break;
    }
  }
}

}  // namespace tile
