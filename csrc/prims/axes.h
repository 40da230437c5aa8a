// Axis arguments: negative ones count from the end.
#pragma once
#include <algorithm>

#include "dsl/tile.h"

namespace tile {

inline int64_t normal_axis(const char* operation, int axis, const Type& type, const Location& at, int rank) {
  if (axis < -rank || axis >= rank)
    fail(at, ErrorKind::value, operation, ": axis ", axis, " is out of range for ", type, "; it has ", rank,
         " axes");
  return axis < 0 ? axis + rank : axis;
}
inline int64_t normal_axis(const char* operation, int axis, const Type& type, const Location& at) {
  return normal_axis(operation, axis, type, at, type.rank());
}
// Returns the axes in ascending order, or all axes if none is named.
inline std::vector<int64_t> normal_axes(const char* operation, const Axes& axes, const Type& type,
                                        const Location& at) {
  std::vector<int64_t> normal;
  for (int axis : axes.named) normal.push_back(normal_axis(operation, axis, type, at));
  for (int axis = 0; axes.named.empty() && axis < type.rank(); ++axis) normal.push_back(axis);
  std::sort(normal.begin(), normal.end());
  if (std::adjacent_find(normal.begin(), normal.end()) != normal.end())
    fail(at, ErrorKind::value, operation, ": axes ", Shape(axes.named.begin(), axes.named.end()), " of ",
         type, " name one twice; name each axis once");
  return normal;
}

}  // namespace tile
