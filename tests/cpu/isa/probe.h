// The vector layer as plain function pointers, one table per instruction set, so that tests can run each on
// the same data.
#pragma once
#include "cpu/vecmath/isa.h"

namespace tile::cpu {

template <class T>
struct UnaryProbe {
  const char* name;
  void (*run)(const T* x, T* out, long n);
};
template <class T>
struct BinaryProbe {
  const char* name;
  void (*run)(const T* x, const T* y, T* out, long n);
};
// Types by their names in tile::DType.
struct CastProbe {
  const char* from;
  const char* to;
  void (*run)(const void* from, void* to, long n);
};
template <class T>
struct List {
  const T* begin_;
  const T* end_;
  const T* begin() const { return begin_; }
  const T* end() const { return end_; }
};
// Integer operations, by the bit width and signedness of T.
template <class T>
using IntegerList = List<BinaryProbe<T>>;

struct ProbeTable {
  int vector_bytes;
  List<UnaryProbe<float>> unary_float;
  List<UnaryProbe<double>> unary_double;
  List<BinaryProbe<float>> binary_float;
  List<BinaryProbe<double>> binary_double;
  // The same functions instantiated with another vector type (lane.h).
  List<UnaryProbe<float>> one_lane;
  List<BinaryProbe<float>> one_lane_binary;
  IntegerList<int8_t> i8;
  IntegerList<int16_t> i16;
  IntegerList<int32_t> i32;
  IntegerList<int64_t> i64;
  IntegerList<uint8_t> u8;
  IntegerList<uint16_t> u16;
  IntegerList<uint32_t> u32;
  IntegerList<uint64_t> u64;
  List<CastProbe> casts;
  // Copies the first n <= lanes elements through Vec's partial load and store.
  void (*partial_float)(const float* x, float* out, long n);
  void (*partial_double)(const double* x, double* out, long n);
  void (*partial_i16)(const int16_t* x, int16_t* out, long n);
  void (*round_through_bf16)(const float* x, float* out, long n);
  void (*round_through_f16)(const float* x, float* out, long n);
  double (*reduce_sum)(const double* x);  // one Vec
  // The four words of a Philox block, in every lane of the vectors.
  void (*philox)(uint64_t seed, uint64_t stream, uint64_t block, uint32_t* words);
};

TILE_DECLARE_ISA_TABLE(ProbeTable, probe_table);

}  // namespace tile::cpu
