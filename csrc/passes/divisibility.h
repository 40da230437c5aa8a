// Facts about integer values, for every element of a tile: their divisors and their ranges.
//
// Facts come from constants, arithmetic, loop bounds, and the launch key in the function's attributes:
//   dim.P.A.divisor / .low / .high   extent of axis A of parameter P
//   arg.P.divisor / .low / .high     scalar parameter P
//   bid.A.tiles = [P, axis, size]    the grid has cdiv(dim(P, axis), size) blocks along A
#pragma once
#include <optional>
#include <unordered_map>

#include "ir/op.h"

namespace tile {

struct Range {
  int64_t low = INT64_MIN, high = INT64_MAX;
  bool operator==(const Range&) const = default;
};
Range range_of(DType dtype);  // u64 is unbounded: its upper half does not fit

class Facts {
 public:
  explicit Facts(const Function& function) : function_(function) {}

  Range range(const Value* value);
  int64_t divisor(const Value* value);  // the largest known divisor; 0: the value is 0
  bool multiple_of(const Value* value, int64_t k) { return divisor(value) % k == 0; }
  std::optional<int64_t> key(std::string_view subject, int64_t number, int64_t axis,
                             std::string_view fact) const;
  const Function& function() const { return function_; }

 private:
  struct Known {
    Range range;
    int64_t divisor = 1;
  };
  Known known(const Value* value);
  Known compute(const Value* value);
  Known of_argument(const Value* value);

  const Function& function_;
  std::unordered_map<const Value*, Known> known_;
  int depth_ = 0;
};

}  // namespace tile
