// The table of matrix products for one instruction set.
#include "cpu/gemm/isa/gemm_few_rows.h"
#include "cpu/gemm/isa/gemm_loops.h"
#include "cpu/gemm/isa/gemm_pack.h"

namespace tile::cpu::TILE_ISA {
namespace {

template <class T, class S>
constexpr void source(GemmKernels& k, DType dtype) {
  k.pack_a[index(dtype)] = pack_a<T, S, mr<T>>;
  k.pack_b[index(dtype)] = pack_b<T, S, nr<T>>;
}

template <class T, class S>
constexpr void in_place(GemmKernels& k, DType dtype) {
  columns_source<T, S>(k, dtype);
  rows_source<T, S>(k, dtype);
}

constexpr GemmKernels f32_sources() {
  GemmKernels k = kernels_of<float>(DType::f32);
  source<float, float>(k, DType::f32);
  source<float, float>(k, DType::tf32);
  source<float, bf16>(k, DType::bf16);
  source<float, f16>(k, DType::f16);
  source<float, f8e4m3>(k, DType::f8e4m3);
  source<float, f8e5m2>(k, DType::f8e5m2);
  in_place<float, float>(k, DType::f32);
  in_place<float, float>(k, DType::tf32);
  in_place<float, bf16>(k, DType::bf16);
  in_place<float, f16>(k, DType::f16);
  return k;
}
constexpr GemmKernels f64_sources() {
  GemmKernels k = kernels_of<double>(DType::f64);
  source<double, double>(k, DType::f64);
  in_place<double, double>(k, DType::f64);
  return k;
}
constexpr GemmKernels i32_sources() {
  GemmKernels k = kernels_of<int32_t>(DType::i32);
  source<int32_t, Bool>(k, DType::boolean);
  source<int32_t, int8_t>(k, DType::i8);
  source<int32_t, uint8_t>(k, DType::u8);
  source<int32_t, int16_t>(k, DType::i16);
  source<int32_t, uint16_t>(k, DType::u16);
  source<int32_t, int32_t>(k, DType::i32);
  source<int32_t, uint32_t>(k, DType::u32);
  return k;
}
constexpr GemmKernels i64_sources() {
  GemmKernels k = kernels_of<int64_t>(DType::i64);
  source<int64_t, int64_t>(k, DType::i64);
  source<int64_t, uint64_t>(k, DType::u64);
  return k;
}

constexpr GemmKernels f32 = f32_sources(), f64 = f64_sources(), i32 = i32_sources(), i64 = i64_sources();

}  // namespace

extern const GemmTable gemm_table = {with_loops<f32>(), with_loops<f64>(), with_loops<i32>(),
                                     with_loops<i64>()};

}  // namespace tile::cpu::TILE_ISA
