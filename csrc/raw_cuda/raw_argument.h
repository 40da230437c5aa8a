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
    int64_t integer;   // boolean too
    uint64_t natural;  // above the largest int64_t
    double floating;
    const void* data;  // of bytes: here; of an array: on its device
  };
  size_t size = 0;                       // of bytes; of an array's element
  std::optional<DType> dtype;            // of an array; none: one that kernels of ours do not take
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
  // The bytes of a struct; they must live until the launch.
  static RawArgument bytes(const void* data, size_t size) {
    RawArgument argument;
    argument.kind = Kind::bytes;
    argument.data = data;
    argument.size = size;
    return argument;
  }
};

// Found by the namespace of what is passed; csrc/torch adds at::Tensor.
inline const RawArgument& to_raw_argument(const RawArgument& argument) { return argument; }

// Writes the parameter's bytes. Numbers are converted to its type: an integer must lie in its range, and a
// floating number is no integer. Errors begin with the kernel's name; `position` counts from 1.
void put_argument(const std::string& kernel, size_t position, const CType& type, const RawArgument& argument,
                  void* to);

}  // namespace tile
