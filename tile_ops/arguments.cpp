// Checking the values of indices.
#include "arguments.h"

namespace tile {
namespace {

template <class T>
void require(const char* name, const at::Tensor& indices, const IndexRange& range) {
  const T* values = indices.const_data_ptr<T>();
  for (int64_t i = 0; i < indices.numel(); ++i) {
    const int64_t value = values[i];
    if ((value >= 0 && value < range.size) || (range.also_name && value == range.also)) continue;
    std::string place;  // "[1, 2]", of a scalar nothing
    int64_t rest = i;
    for (int64_t axis = indices.dim(); axis-- > 0; rest /= indices.size(axis))
      place = std::to_string(rest % indices.size(axis)) + (place.empty() ? "]" : ", ") + place;
    if (!place.empty()) place = "[" + place;
    std::string also;
    if (range.also_name) also = std::string(", or ") + range.also_name + ", " + std::to_string(range.also);
    fail(ErrorKind::value, name, place, " is ", value, ", but ", range.there_are, " ", range.size, " ",
         range.things, "; it must be from 0 to ", range.size - 1, also);
  }
}

}  // namespace

void require_indices(const char* name, const at::Tensor& indices, const IndexRange& range) {
  if (!indices.is_cpu()) return;
  const at::Tensor dense = indices.contiguous();
  dense.scalar_type() == at::kInt ? require<int>(name, dense, range) : require<int64_t>(name, dense, range);
}

}  // namespace tile
