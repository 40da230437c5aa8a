// Coarsening: a block of a transposed kernel computes several neighbouring iterations at once, in wider
// tiles.
#pragma once
#include <optional>
#include <unordered_map>

#include "derive/ramp.h"

namespace tile {

// Follows the tiles of a loop whose index counts neighbouring tiles of arrays.
class Coarsening {
 public:
  Coarsening(const Op& loop, int64_t factor) : loop_(loop), factor_(factor) {}

  int64_t factor() const { return factor_; }
  // The axis of a value along which it grows; -1: it does not depend on the loop's index. Throws an error if
  // a wider value is not that of neighbouring iterations, side by side.
  int axis(const Value* value);
  bool grows(const Value* value) { return factor_ > 1 && axis(value) >= 0; }
  Shape shape(const Value* value);  // of the wider value
  // The attributes of a wider load, store, reshape or broadcast.
  Attributes attributes(const Op& op);
  // Returns the ramp that a tile of indices is, if it counts on from iteration to iteration: its scalars
  // without the loop's index, and its axis and extent.
  const Ramp* ramp(const Value* value);
  // Throws an error unless an access goes to tile number `index` along one axis.
  int axis_of_access(const Op& access);

 private:
  int find(const Value* value);
  std::optional<Ramp> find_ramp(const Value* value);
  [[noreturn]] void refuse(const Op& op) const;

  const Op& loop_;
  const int64_t factor_;
  std::unordered_map<const Value*, int> known_;
  std::unordered_map<const Value*, Ramp> ramps_;
};

}  // namespace tile
