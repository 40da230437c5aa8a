// Prints types and shapes.
#include "ir/type.h"

#include "support/text.h"

namespace tile {

int64_t element_count(const Shape& shape) {
  int64_t count = 1;
  for (int64_t extent : shape)
    if (__builtin_mul_overflow(count, extent, &count)) return INT64_MAX;
  return count;
}

std::string too_large_text(const Type& type) {
  const int64_t count = element_count(type.shape);
  return str("the tile ", type, " has ", count == INT64_MAX ? "2^63 or more" : str(count),
             " elements; the most is ", most_tile_elements, ", make it smaller");
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << '[' << join(shape, ",") << ']';
}

std::ostream& operator<<(std::ostream& out, const Type& type) {
  if (type.is_array()) return out << "array<" << type.dtype << ',' << type.array_rank << '>';
  out << type.dtype;
  if (!type.shape.empty()) out << type.shape;
  return out;
}

}  // namespace tile
