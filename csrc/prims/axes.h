// Axis arguments: negative ones count from the end.
#pragma once
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

}  // namespace tile
