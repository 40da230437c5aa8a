// The parameters of a compiled kernel: which there are, and in which order the emitted source, a launch and
// the emulator pass them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tile::cuda {

// A TMA tensor map, which a launch encodes for one of its arrays and passes by value. Copies read 0 for
// elements outside of the array, and do not write them.
struct TensorMapSpec {
  int parameter = 0;     // the array's number among the function's parameters
  int unit = 0;          // the axis whose stride is 1
  std::vector<int> box;  // the elements that a copy moves along each axis of the array; 0: only its first
  int swizzle = 0;       // in bytes: 0, 32, 64 or 128
  bool rounds = false;   // copies round elements of f32 to tf32, to nearest even
  int sliced = -1;       // the axis that ends for each copy where its coordinates say, or -1
  bool operator==(const TensorMapSpec&) const = default;

  // For the map a sliced axis has slice_extent elements, and two more dimensions follow: the axis again, and
  // one whose stride is a multiple of slice_wrap less that of the axis. A copy that begins at element i and
  // ends before element e has the coordinates i - e + slice_extent, e and slice_extent there. What lies at e
  // or behind is then outside, and all three together are i strides, because slice_extent * slice_wrap = 2^64
  // and addresses have 64 bits.
  static constexpr int slice_dimensions = 2;
  static constexpr int64_t slice_extent = int64_t{1} << 30, slice_wrap = int64_t{1} << 34;
};
// Returns the array's axes in the order of the map's dimensions: the unit axis, then the others from last to
// first. Those of a slice follow.
std::vector<int> axes_of(const TensorMapSpec& map);

enum class ParameterKind {
  argument,       // a parameter of the function
  grid,           // i32: the extent of the user's grid along axis `index`, of a persistent kernel
  tensor_map,     // an entry of Program::tensor_maps
  block_counter,  // u32: the number of the counter from which the launch draws blocks
  failures,       // FailureLocation: the memory in which failed assertions are recorded
  starts_early,   // u32: 1 if the launch may start before the previous kernel in the stream ends
};
struct Parameter {
  ParameterKind kind = ParameterKind::argument;
  int index = 0;  // the number of the argument or the map, or the grid's axis
  bool operator==(const Parameter&) const = default;
};
const char* name_of(ParameterKind kind);

std::vector<Parameter> parameters_of(size_t arguments, bool persistent, size_t tensor_maps, bool draws,
                                     bool asserts, bool starts_early);

}  // namespace tile::cuda
