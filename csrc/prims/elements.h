// Elements of arrays at index tiles: code shared by gather, scatter and the atomic operations.
#pragma once
#include "dsl/array.h"

namespace tile {

// Returns the shape of the elements of an op with operands array, values, index tiles (index_count), [mask].
// Throws an error if the index tiles do not match.
const Shape& check_element_address(const Op& op, size_t first_index);

// Returns the operands array, values, index tiles, [mask], with tiles broadcast to one shape. `flat`: one
// index tile of offsets.
std::vector<Value*> element_operands(const char* operation, Array array, std::vector<Value*> values,
                                     const std::vector<Operand>& index, Value* mask, const Location& at,
                                     bool flat = false);

// Returns the value to write to an array, in the array's dtype.
Value* written_value(const char* operation, Array array, const Operand& value);

}  // namespace tile
