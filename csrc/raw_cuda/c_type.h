// The types of a CUDA C++ kernel's parameters, which the compiler itself tells.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/dtype.h"

namespace tile {

struct CType {
  enum class Kind { boolean, integer, floating, pointer, other };  // other: passed as its bytes
  Kind kind = Kind::other;
  int bytes = 0;
  bool is_signed = false;
  // The dtype of a number or of what a pointer points to; none: void or a type that no tensor has.
  std::optional<DType> dtype;
  int alignment = 1;    // of what a pointer points to, as far as it is known: numbers and CUDA's vectors
  std::string text;     // "float const*"
  bool writes = false;  // true for a pointer to non-const
};

// What is appended to a source so that signature_name(kernel) is a name expression of it, whose lowered name
// tells the parameters.
extern const char* const signature_text;
std::string signature_name(const std::string& kernel);
std::vector<CType> parameters_of(const std::string& lowered);

// The names of the functions that a source declares __global__, in order, each once.
std::vector<std::string> kernels_in(std::string_view source);

}  // namespace tile
