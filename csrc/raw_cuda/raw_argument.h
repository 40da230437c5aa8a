// Arguments of a CUDA C++ kernel, and their bytes as parameters.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "raw_cuda/c_type.h"
#include "runtime/argument.h"

namespace tile {

struct RawArgument {
  enum class Kind { null, boolean, integer, natural, floating, bytes, array };
  Kind kind = Kind::null;
  union {
    int64_t integer;   // also a boolean
    uint64_t natural;  // an integer above the largest int64_t
    double floating;
    const void* data;  // host memory of bytes, or device memory of an array
  };
  size_t size = 0;                       // of the bytes, or of an array's element
  std::optional<DType> dtype;            // of an array; none if Tile IR has no such dtype
  DeviceKind device = DeviceKind::cuda;  // of an array
  int device_index = 0;

  RawArgument() : natural(0) {}
  RawArgument(std::nullptr_t) : natural(0) {}
  template <class T>
  requires std::is_arithmetic_v<T> RawArgument(T value) {
    if constexpr (std::is_same_v<T, bool>)
      kind = Kind::boolean, integer = value;
    else if constexpr (std::is_floating_point_v<T>)
      kind = Kind::floating, floating = static_cast<double>(value);
    else if constexpr (std::is_signed_v<T>)
      kind = Kind::integer, integer = value;
    else
      kind = Kind::natural, natural = value;
  }
  RawArgument(const ArrayArgument& array)
      : kind(Kind::array),
        data(array.data),
        size(static_cast<size_t>(info(array.dtype).bytes)),
        dtype(array.dtype),
        device(array.device),
        device_index(array.device_index) {}
  // Passes the bytes of a struct, which must live until the launch.
  static RawArgument bytes(const void* data, size_t size) {
    RawArgument argument;
    argument.kind = Kind::bytes;
    argument.data = data;
    argument.size = size;
    return argument;
  }
};

// Found by argument-dependent lookup; csrc/torch adds at::Tensor.
inline const RawArgument& to_raw_argument(const RawArgument& argument) { return argument; }

// Writes the parameter's bytes. Numbers are converted to its type: an integer must be in its range, and a
// floating-point number is not accepted for an integer. Errors begin with the kernel's name; `position`
// counts from 1.
void put_argument(const std::string& kernel, size_t position, const CType& type, const RawArgument& argument,
                  void* to);

}  // namespace tile
