// The types of a CUDA C++ kernel's parameters, as the compiler reports them.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/dtype.h"

namespace tile {

struct CType {
  enum class Kind { boolean, integer, floating, pointer, other };  // other: passed as bytes
  Kind kind = Kind::other;
  int bytes = 0;
  bool is_signed = false;
  // The dtype of a number or of a pointer's target; none for void and for types that no tensor has.
  std::optional<DType> dtype;
  int alignment = 1;    // alignment of a pointer's target, if known: numbers and CUDA's vectors
  std::string text;     // "float const*"
  bool writes = false;  // true for a pointer to non-const
};

// Code that is appended to a source so that signature_name(kernel) is a valid name expression, whose lowered
// name contains the parameter types.
extern const char* const signature_text;
std::string signature_name(const std::string& kernel);
std::vector<CType> parameters_of(const std::string& lowered);

// Returns the names of the functions that a source declares __global__, in order and without duplicates.
std::vector<std::string> kernels_in(std::string_view source);

}  // namespace tile
