// Encodes tensor maps, or finds those of an earlier launch.
#include "runtime/tensor_maps.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace tile {
namespace {

TensorMapType type_of(DType dtype) {
  switch (dtype) {
    case DType::i32:
      return TensorMapType::i32;
    case DType::i64:
      return TensorMapType::i64;
    case DType::f16:
      return TensorMapType::f16;
    case DType::bf16:
      return TensorMapType::bf16;
    case DType::tf32:
    case DType::f32:
      return TensorMapType::f32;
    case DType::f64:
      return TensorMapType::f64;
    default:
      constexpr TensorMapType unsigned_types[] = {TensorMapType::u8, TensorMapType::u16, TensorMapType::u32,
                                                  TensorMapType::u64};
      return unsigned_types[std::countr_zero(static_cast<unsigned>(info(dtype).bytes))];
  }
}

template <class F>
bool all_words(const ArrayArgument& array, F&& holds) {
  size_t word = 0;
  bool all = holds(word++, reinterpret_cast<uint64_t>(array.data));
  for (size_t axis = 0; all && axis < static_cast<size_t>(array.rank); ++axis)
    all = holds(word++, static_cast<uint64_t>(array.sizes[axis])) &&
          holds(word++, static_cast<uint64_t>(array.strides[axis]));
  return all;
}

}  // namespace

TensorMapShape shape_of(const cuda::TensorMapSpec& map, const ArrayArgument& array) {
  using Spec = cuda::TensorMapSpec;
  const std::vector<int> axes = cuda::axes_of(map);
  TensorMapShape shape{.data = array.data,
                       .type = map.rounds ? TensorMapType::tf32 : type_of(array.dtype),
                       .rank = static_cast<int>(axes.size()) + (map.sliced < 0 ? 0 : Spec::slice_dimensions),
                       .swizzle = map.swizzle};
  if (shape.rank < 1 || shape.rank > TensorMapShape::most_dimensions)
    return shape;  // check_tensor_map() refuses it
  const int64_t bytes = info(array.dtype).bytes;
  int64_t sliced_stride = 0;
  if (map.sliced >= 0) {
    const auto axis = static_cast<size_t>(map.sliced);
    // An axis of one element may have any stride. Only a multiple of 16 bytes is one of a map.
    sliced_stride = array.sizes[axis] > 1 ? array.strides[axis] * bytes : TensorMapShape::stride_unit;
  }
  size_t to = 0;
  const auto add = [&](int64_t size, int64_t stride, int box) {
    shape.sizes[to] = size, shape.strides[to] = stride, shape.box[to++] = box;
  };
  for (const int from : axes) {
    const auto axis = static_cast<size_t>(from);
    if (from == map.sliced)
      add(Spec::slice_extent, sliced_stride, map.box[axis]);
    else
      add(array.sizes[axis], array.strides[axis] * bytes, map.box[axis]);
  }
  if (map.sliced < 0) return shape;
  constexpr int64_t coordinates = 2 * Spec::slice_extent - 1;
  add(coordinates, sliced_stride, 1);
  add(coordinates, Spec::slice_wrap * bytes - sliced_stride, 1);
  return shape;
}

TensorMaps::TensorMaps(std::vector<cuda::TensorMapSpec> specs) : specs_(std::move(specs)) {
  for (const cuda::TensorMapSpec& spec : specs_)
    if (const auto array = static_cast<size_t>(spec.parameter);
        std::find(arrays_.begin(), arrays_.end(), array) == arrays_.end())
      arrays_.push_back(array);
  words_.resize(most_entries * arrays_.size());
  maps_.resize(most_entries * specs_.size());
}

bool TensorMaps::is_of(size_t entry, ArgumentRefs arguments) const {
  const Words* words = &words_[entry * arrays_.size()];
  return std::all_of(arrays_.begin(), arrays_.end(), [&](size_t array) {
    const Words& of = *words++;
    return all_words(*arguments[array].array, [&](size_t i, uint64_t word) { return of.at[i] == word; });
  });
}

void TensorMaps::keep(ArgumentRefs arguments, const TensorMap* maps) {
  const size_t entry = oldest_;
  Words* words = &words_[entry * arrays_.size()];
  for (const size_t array : arrays_) {
    Words& of = *words++;
    all_words(*arguments[array].array, [&](size_t i, uint64_t word) {
      of.at[i] = word;
      return true;
    });
  }
  std::copy_n(maps, specs_.size(), &maps_[entry * specs_.size()]);
  entries_ = std::max(entries_, entry + 1);
  oldest_ = (entry + 1) % most_entries;
  last_ = entry;
}

void TensorMaps::write(const Driver& driver, const CudaFunction& function, ArgumentRefs arguments,
                       TensorMap* to) {
  const std::lock_guard lock(mutex_);
  for (size_t n = 0; n < entries_; ++n)
    if (const size_t entry = (last_ + n) % entries_; is_of(entry, arguments)) {
      last_ = entry;
      std::copy_n(&maps_[entry * specs_.size()], specs_.size(), to);
      return;
    }
  for (size_t i = 0; i < specs_.size(); ++i) {
    const ArrayArgument& array = *arguments[static_cast<size_t>(specs_[i].parameter)].array;
    to[i] = driver.tensor_map(shape_of(specs_[i], array), function.kernel, specs_[i].parameter);
  }
  keep(arguments, to);
}

}  // namespace tile
