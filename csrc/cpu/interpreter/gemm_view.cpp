// Prepares operands of products.
#include "cpu/interpreter/gemm_view.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cpu/interpreter/tables.h"

namespace tile::cpu {

Matrix matrix_of(const TileRef& tile, int row, const GemmKernels& kernels) {
  const DType dtype = tile.lanes && !stored_as_lane(tile.dtype) ? DType::f32 : tile.dtype;
  const long bytes = tile.lanes ? lane_bytes(lane_of(tile.dtype)) : info(tile.dtype).bytes;
  auto stride = [&](int axis) {
    return tile.axes[axis].extent == 1 && tile.axes[axis].valid == unlimited ? 0
                                                                             : tile.axes[axis].stride / bytes;
  };
  Matrix matrix{
      {tile.data, static_cast<long>(stride(row)), static_cast<long>(stride(row + 1))}, dtype, false};
  matrix.in_place = dtype == kernels.in_place && matrix.view.column_stride == 1 &&
                    matrix.view.row_stride % kernels.together == 0 &&
                    reinterpret_cast<uintptr_t>(tile.data) % static_cast<size_t>(kernels.element_bytes) == 0;
  return matrix;
}

Reach reach(TileRef& tile, int rank, int axis, const Shape& shape, bool must_fill, Scratch& scratch) {
  const int64_t full = shape[static_cast<size_t>(axis)];
  const bool limited = tile.axes[axis].valid != unlimited || tile.axes[axis].first > 0;
  if (limited && tile.axes[axis].first <= 0 && tile.pad == 0)
    return {std::clamp<int64_t>(tile.axes[axis].valid, 0, full), true};
  if (limited || (must_fill && tile.axes[axis].extent > 1 && tile.axes[axis].extent < full)) {
    tile = materialise(tile, rank, shape.data(), scratch);
    return {full, false};
  }
  // A single element is repeated by a stride of 0.
  return {tile.axes[axis].extent == 1 && must_fill ? full : std::min(tile.axes[axis].extent, full), false};
}

void take_registers(const GemmKernels& kernels, Frame& frame) {
  if (!kernels.begin || frame.give_back) return;
  kernels.begin();
  frame.give_back = kernels.end;
}
void give_registers_back(Frame& frame) {
  if (frame.give_back) std::exchange(frame.give_back, nullptr)();
}

bool begin_product(const TileRef& accumulator, int rank, const int64_t* extents, char* out, bool covers,
                   Frame& frame) {
  const int64_t element = lane_bytes(lane_of(accumulator.dtype));
  int64_t count = 1;
  bool single = true, same = accumulator.lanes && accumulator.data == out;
  for (int i = 0; i < rank; ++i) {
    count *= extents[i];
    single &=
        accumulator.axes[i].extent == 1 && !accumulator.limited(i);  // otherwise it may be outside its array
    same &= accumulator.axes[i].extent == extents[i];
  }
  if (same) return true;
  if (single && accumulator.lanes) {
    static const char zeros[8] = {};
    bool zero = std::memcmp(accumulator.data, zeros, static_cast<size_t>(element)) == 0;
    if (zero && covers) return false;
    if (zero) {
      std::memset(out, 0, static_cast<size_t>(count * element));
      return true;
    }
  }
  if (accumulator.data == out) {  // same buffer, different extents
    size_t mark = frame.scratch.mark();
    char* copy = frame.scratch.take(static_cast<size_t>(count * element));
    copy_lanes(accumulator, rank, extents, copy);
    std::memcpy(out, copy, static_cast<size_t>(count * element));
    frame.scratch.release(mark);
  } else {
    copy_lanes(accumulator, rank, extents, out);
  }
  return true;
}

}  // namespace tile::cpu
