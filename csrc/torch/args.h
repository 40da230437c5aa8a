// Element types of torch and of Tile IR, one for the other.
#pragma once
#include <c10/core/ScalarType.h>

#include <array>
#include <utility>

#include "ir/dtype.h"
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

inline DType to_dtype(at::ScalarType type) {
  for (const auto& [torch, ours] : scalar_type_table)
    if (torch == type) return ours;
  fail(ErrorKind::type, "a kernel cannot take a ", c10::toString(type),
       " tensor; convert it to bool, an integer or a real floating dtype (complex: torch.view_as_real)");
}

// tf32 is not a dtype of memory, so no tensor has it.
inline at::ScalarType to_scalar_type(DType dtype) {
  for (const auto& [torch, ours] : scalar_type_table)
    if (ours == dtype) return torch;
  fail(ErrorKind::type, "no tensor has dtype ", dtype, "; use f32, which holds its values");
}

}  // namespace tile
