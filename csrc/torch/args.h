// Converts tensors to the arguments of a launch, and dtypes between torch and Tile IR.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <utility>

#include "ir/dtype.h"
#include "runtime/argument.h"
#include "runtime/derivation.h"
#include "runtime/launch_observer.h"
#include "support/error.h"

namespace tile {

inline constexpr std::array<std::pair<at::ScalarType, DType>, 15> scalar_type_table{{
    {at::kBool, DType::boolean},
    {at::kChar, DType::i8},
    {at::kShort, DType::i16},
    {at::kInt, DType::i32},
    {at::kLong, DType::i64},
    {at::kByte, DType::u8},
    {at::kUInt16, DType::u16},
    {at::kUInt32, DType::u32},
    {at::kUInt64, DType::u64},
    {at::kFloat8_e4m3fn, DType::f8e4m3},
    {at::kFloat8_e5m2, DType::f8e5m2},
    {at::kHalf, DType::f16},
    {at::kBFloat16, DType::bf16},
    {at::kFloat, DType::f32},
    {at::kDouble, DType::f64},
}};

// The table indexed by torch's number; -1 if a dtype is missing. It is an array because every launch reads
// it.
inline constexpr auto dtype_of_scalar_type = [] {
  std::array<int8_t, 64> numbers{};
  for (int8_t& number : numbers) number = -1;
  for (const auto& [torch, ours] : scalar_type_table)
    numbers[static_cast<size_t>(torch)] = static_cast<int8_t>(ours);
  return numbers;
}();

inline DType to_dtype(at::ScalarType type) {
  if (const auto number = static_cast<size_t>(type);
      number < dtype_of_scalar_type.size() && dtype_of_scalar_type[number] >= 0)
    return static_cast<DType>(dtype_of_scalar_type[number]);
  fail(ErrorKind::type, "a kernel cannot take a ", c10::toString(type),
       " tensor; convert it to bool, an integer or a real floating dtype (complex: torch.view_as_real)");
}

// tf32 is not a dtype of memory, so no tensor has it.
inline at::ScalarType to_scalar_type(DType dtype) {
  for (const auto& [torch, ours] : scalar_type_table)
    if (ours == dtype) return torch;
  fail(ErrorKind::type, "no tensor has dtype ", dtype, "; use f32, which holds its values");
}

inline void require_strided(const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided)
    fail(ErrorKind::type, "a kernel cannot take a tensor of layout ", c10::str(tensor.layout()),
         "; convert it with to_dense()");
}

}  // namespace tile

// In namespace at, where argument-dependent lookup finds it.
namespace at {

inline tile::ArrayArgument to_array_argument(const Tensor& tensor) {
  using tile::ErrorKind;
  if (!tensor.defined())
    tile::fail(ErrorKind::value, "a kernel argument is an undefined tensor; pass one, or std::nullopt");
  tile::require_strided(tensor);
  // In an inspection a meta tensor represents a GPU tensor, whose memory begins at multiples of 256 bytes.
  const at::Device device = tensor.device();
  tile::LaunchObserver* stands_in = device.is_meta() ? tile::LaunchObserver::of_thread() : nullptr;
  if (!device.is_cpu() && !device.is_cuda() && !stands_in)
    tile::fail(ErrorKind::unsupported, "a kernel cannot take a tensor on ", tensor.device().str(),
               "; move it to cpu or cuda");
  const at::IntArrayRef sizes = tensor.sizes(), strides = tensor.strides();
  if (sizes.size() > tile::max_array_rank)
    tile::fail(ErrorKind::value, "a kernel cannot take a tensor of rank ", tensor.dim(), "; the most is ",
               tile::max_array_rank, ", view it with fewer dimensions");
  if (tensor.is_neg())
    tile::fail(ErrorKind::unsupported,
               "a kernel cannot take a tensor with a lazy negation; call resolve_neg() first");
  tile::ArrayArgument argument;
  argument.dtype = tile::to_dtype(tensor.scalar_type());
  if (stands_in)
    argument.data = reinterpret_cast<void*>(
        reinterpret_cast<uintptr_t>(stands_in->memory(tensor.storage().unsafeGetStorageImpl())) +
        static_cast<uintptr_t>(tensor.storage_offset()) * tensor.itemsize());
  else
    argument.data = tensor.data_ptr();
  // Here the data pointer is an offset from null. Only a tensor without elements may lack memory.
  if (!stands_in && tensor.numel() > 0 &&
      reinterpret_cast<uintptr_t>(argument.data) ==
          static_cast<uintptr_t>(tensor.storage_offset()) * tensor.itemsize()) [[unlikely]]
    tile::fail(
        ErrorKind::value,
        "the tensor has no memory: it was freed, as by untyped_storage().resize_(0), or the tensor wraps "
        "another one; pass one that has");
  if (tile::Derivation* derivation = tile::Derivation::of_thread()) [[unlikely]]
    argument.data = derivation->note(tensor.storage().unsafeGetStorageImpl()) +
                    tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize());
  argument.rank = static_cast<int>(sizes.size());
  argument.device = device.is_cpu() ? tile::DeviceKind::cpu : tile::DeviceKind::cuda;
  argument.device_index = device.is_cuda() ? device.index() : 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    argument.sizes[i] = sizes[i];
    argument.strides[i] = strides[i];
    asm volatile("");  // prevents g++ from turning the loop into string instructions, which start slowly
  }
  return argument;
}

}  // namespace at
