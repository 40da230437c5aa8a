// Checks and encodes tensor maps.
#include "driver/tensor_map.h"

#include <algorithm>
#include <span>

#include "driver/driver_device.h"

namespace tile {
namespace {

constexpr int line_bytes = 128, most_box = 256;
constexpr int64_t most_size = int64_t{1} << 32, stride_limit = int64_t{1} << 40;
constexpr const char* dense = "; pass a contiguous copy";

std::string text_of(const TensorMapShape& shape, std::string_view kernel, int array) {
  const auto count = static_cast<size_t>(std::clamp(shape.rank, 0, TensorMapShape::most_dimensions));
  const auto list = [&](const auto& values) { return join(std::span(values.data(), count)); };
  return str(kernel, ": tensor map of array ", array, ", from the innermost axis on of extents [",
             list(shape.sizes), "], strides [", list(shape.strides), "] in bytes and boxes [",
             list(shape.box), "], with a swizzle of ", shape.swizzle, " bytes: ");
}

// The stride of an axis of one element is never used, and may be one that the driver refuses.
bool uses_stride(const TensorMapShape& shape, size_t axis) { return axis && shape.sizes[axis] > 1; }

// Wider lines would fetch elements of the next row if rows do not begin at such a line.
int promotion_of(const TensorMapShape& shape) {
  for (size_t axis = 1; axis < static_cast<size_t>(shape.rank); ++axis)
    if (uses_stride(shape, axis))
      return shape.strides[axis] % line_bytes ? tensor_map_promotion_128 : tensor_map_promotion_256;
  return tensor_map_promotion_256;
}

int number_of_swizzle(int bytes) { return bytes == 128 ? 3 : bytes / 32; }

}  // namespace

int element_bytes(TensorMapType type) {
  constexpr int bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4};
  return bytes[static_cast<size_t>(type)];
}

void check_tensor_map(const TensorMapShape& shape, std::string_view kernel, int array) {
  const auto refuse = [&](const auto&... why) {
    fail(ErrorKind::value, text_of(shape, kernel, array), why...);
  };
  const int bytes = element_bytes(shape.type);
  if (shape.rank < 1 || shape.rank > TensorMapShape::most_dimensions)
    refuse("it has ", shape.rank, " axes, and a map has 1 to ", TensorMapShape::most_dimensions,
           "; pass an array of fewer axes");
  if (const auto address = reinterpret_cast<uintptr_t>(shape.data); address % TensorMapShape::stride_unit)
    refuse("the array begins at address ", shape.data, ", which is not a multiple of ",
           TensorMapShape::stride_unit, " bytes", dense);
  if (shape.sizes[0] > 1 && shape.strides[0] != bytes)
    refuse("elements of ", bytes, " bytes lie ", shape.strides[0], " bytes apart", dense);
  for (size_t axis = 0; axis < static_cast<size_t>(shape.rank); ++axis) {
    const int64_t size = shape.sizes[axis], stride = shape.strides[axis];
    if (size < 1 || size > most_size)
      refuse("an extent is ", size, ", and extents are 1 to ", most_size, "; pass ",
             size < 1 ? "an array with elements" : "a part of the array");
    if (uses_stride(shape, axis)) {
      if (stride == 0)
        refuse("the ", size, " elements along an axis are one, because its stride is 0", dense);
      if (stride < 0) refuse("a stride is ", stride, " bytes, and strides are positive", dense);
      if (stride % TensorMapShape::stride_unit)
        refuse("a stride is ", stride, " bytes, which is not a multiple of ", TensorMapShape::stride_unit,
               "; pass a copy with padded rows");
      if (stride >= stride_limit)
        refuse("a stride is ", stride, " bytes, and strides are below ", stride_limit, dense);
    }
    if (const int box = shape.box[axis]; box < 1 || box > most_box)
      refuse("a box has ", box, " elements along an axis, and boxes have 1 to ", most_box,
             "; use smaller tiles");
  }
  const int row = shape.box[0] * bytes;
  if (row % TensorMapShape::stride_unit)
    refuse("a row of a box has ", row, " bytes, which is not a multiple of ", TensorMapShape::stride_unit,
           "; use wider tiles");
  if (const int s = shape.swizzle; s != 0 && s != 32 && s != 64 && s != 128)
    refuse("swizzles are of 0, 32, 64 or 128 bytes; use one of them");
  if (shape.swizzle && row > shape.swizzle)
    refuse("a row of a box has ", row, " bytes, more than the swizzle; use narrower boxes");
}

TensorMap Driver::tensor_map(const TensorMapShape& shape, std::string_view kernel, int array) const {
  check_tensor_map(shape, kernel, array);
  constexpr size_t most = TensorMapShape::most_dimensions;
  uint64_t sizes[most], strides[most];
  unsigned box[most], steps[most];
  for (size_t axis = 0; axis < static_cast<size_t>(shape.rank); ++axis) {
    sizes[axis] = static_cast<uint64_t>(shape.sizes[axis]);
    if (axis)  // the driver takes no stride of the innermost axis
      strides[axis - 1] =
          uses_stride(shape, axis) ? static_cast<uint64_t>(shape.strides[axis]) : TensorMapShape::stride_unit;
    box[axis] = static_cast<unsigned>(shape.box[axis]);
    steps[axis] = 1;
  }
  TensorMap map;
  const int code = f_->encode_tensor_map(
      &map, static_cast<int>(shape.type), static_cast<unsigned>(shape.rank), const_cast<void*>(shape.data),
      sizes, strides, box, steps, 0, number_of_swizzle(shape.swizzle), promotion_of(shape), 0);
  if (code)
    fail(ErrorKind::runtime, text_of(shape, kernel, array), "the driver refuses it, ", fact(code), dense);
  return map;
}

}  // namespace tile
