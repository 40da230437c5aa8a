// Elements of arrays at index tiles: what gather, scatter and the atomic operations share.
#pragma once
#include "dsl/array.h"

namespace tile {

// Returns the shape of the elements of an op with operands array, values, index tiles (index_count), [mask].
// Error: the index tiles do not fit.
const Shape& check_element_address(const Op& op, size_t first_index);

// The operands array, values, index tiles, [mask]; tiles are brought to one shape. `flat`: one index tile,
// of offsets.
std::vector<Value*> element_operands(const char* operation, Array array, std::vector<Value*> values,
                                     const std::vector<Operand>& index, Value* mask, const Location& at,
                                     bool flat = false);

// Returns the value that is written to an array, in its dtype.
Value* written_value(const char* operation, Array array, const Operand& value);

}  // namespace tile
