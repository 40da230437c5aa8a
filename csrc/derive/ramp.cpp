// Follows index tiles to the ranges that they are made of.
#include "derive/ramp.h"

#include <algorithm>

#include "ir/atomic.h"
#include "ir/walk.h"

namespace tile {
namespace {

// Returns the axis of a shape to which an axis of another one corresponds, if they differ in axes of extent 1
// only.
std::optional<int> moved_axis(const Shape& from, int axis, const Shape& to) {
  const auto long_axes = [](const Shape& shape) {
    std::vector<int> axes;
    for (size_t i = 0; i < shape.size(); ++i)
      if (shape[i] != 1) axes.push_back(static_cast<int>(i));
    return axes;
  };
  const std::vector<int> before = long_axes(from), after = long_axes(to);
  if (before.size() != after.size()) return std::nullopt;
  for (size_t i = 0; i < before.size(); ++i)
    if (before[i] == axis && from[static_cast<size_t>(before[i])] == to[static_cast<size_t>(after[i])])
      return after[i];
  return std::nullopt;
}

std::optional<Ramp> sum_of(const std::optional<Ramp>& x, const std::optional<Ramp>& y) {
  if (!x || !y || (x->axis >= 0 && y->axis >= 0)) return std::nullopt;
  Ramp sum = x->axis >= 0 ? *x : *y;
  const Ramp& other = x->axis >= 0 ? *y : *x;
  sum.scalars.insert(sum.scalars.end(), other.scalars.begin(), other.scalars.end());
  sum.constant += other.constant;
  return sum;
}

}  // namespace

std::optional<Ramp> ramp_of(Value* index) {
  if (!is_integer(index->type.dtype)) return std::nullopt;
  if (const auto constant = constant_of(index)) return Ramp{{}, constant->integer, -1, 1};
  if (index->type.is_scalar()) return Ramp{{index}, 0, -1, 1};
  const Op* op = index->definition;
  if (!op) return std::nullopt;
  if (op->is("arange")) return Ramp{{}, 0, 0, op->integer("size")};
  if (op->is("astype") && info(op->type(0).dtype).bits <= info(index->type.dtype).bits)
    return ramp_of(op->operands[0]);
  if (op->is("add")) return sum_of(ramp_of(op->operands[0]), ramp_of(op->operands[1]));
  if (!op->is("broadcast") && !op->is("reshape")) return std::nullopt;
  std::optional<Ramp> ramp = ramp_of(op->operands[0]);
  if (!ramp || ramp->axis < 0 || op->is("broadcast")) return ramp;
  const std::optional<int> axis = moved_axis(op->type(0).shape, ramp->axis, index->type.shape);
  if (!axis) return std::nullopt;
  ramp->axis = *axis;
  return ramp;
}

std::vector<Ramp> distinct_ramps(const Op& access) {
  if (!access.traits().picks || access.has("axis") || find_atomic(access)) return {};
  const size_t first = access.traits().writes ? 2 : 1;
  std::vector<Ramp> ramps;
  for (size_t i = 0; i < index_count(access); ++i) {
    std::optional<Ramp> ramp = ramp_of(access.operands[first + i]);
    if (!ramp) return {};
    if (ramp->extent == 1) ramp->axis = -1;
    ramps.push_back(std::move(*ramp));
  }
  const Shape& shape = access.type(first).shape;
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (shape[axis] > 1 && std::none_of(ramps.begin(), ramps.end(), [&](const Ramp& ramp) {
          return ramp.axis == static_cast<int>(axis) && ramp.extent == shape[axis];
        }))
      return {};
  return ramps;
}

}  // namespace tile
