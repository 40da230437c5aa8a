// Elements of arrays at index tiles: what gather, scatter and the atomic operations share.
#pragma once
#include "dsl/array.h"

namespace tile {

// Of an op with operands array, values, one index tile an axis, [mask]: the shape of the elements. Error: the
// index tiles do not fit.
const Shape& check_element_address(const Op& op, size_t first_index);

// Index tiles brought to one shape, which is also `joined`'s.
struct ElementIndex {
  std::vector<Value*> index;
  Shape shape;
};
ElementIndex element_index(const char* operation, Array array, const std::vector<Operand>& index,
                           const Location& at, Value* joined);

// What is written to an array, in its dtype.
Value* written_value(const char* operation, Array array, const Operand& value);

}  // namespace tile
