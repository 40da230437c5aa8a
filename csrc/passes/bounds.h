// Linear forms of index arithmetic, and proofs that they are never negative. Signed index arithmetic is
// assumed not to wrap, as in C++: a mask computed from a wrapped index is meaningless.
#pragma once
#include <deque>
#include <optional>
#include <vector>

#include "passes/divisibility.h"

namespace tile {

// A sum of coefficient * scalar, plus a constant that is within low..high over the elements of a tile.
struct Linear {
  struct Term {
    Value* value;
    int64_t coefficient;
  };
  std::vector<Term> terms;  // in order of appearance
  int64_t low = 0, high = 0;

  void add(const Linear& other, int64_t factor);
  int64_t coefficient(const Value* value) const;
  void erase(const Value* value);
};

class Bounds {
 public:
  explicit Bounds(const Function& function) : facts_(function) {}

  Facts& facts() { return facts_; }
  std::optional<Linear> linear(Value* value);  // for i32 and i64; nullopt: not linear
  std::optional<Linear> difference(Value* x, Value* y);
  Linear extent(Value* array, int64_t axis);
  bool nonnegative(const Linear& form);  // for every element, wherever the scalars are defined
  bool is_extent(const Value* value) const;

 private:
  bool prove(const Linear& form, int depth);
  // A lower bound of coefficient * term: if `all`, every one of the forms must be proven, otherwise any one.
  struct Replacement {
    std::vector<Linear> forms;
    bool all = false;
  };
  Replacement bound_below(const Linear::Term& term);
  Replacement quotient_below(const Linear::Term& term, const Op& op, bool up);

  Facts facts_;
  std::deque<Op> extents_;  // one op per queried extent, so that equal extents are one term
  std::deque<Value> extent_values_;
  int budget_ = 0;
};

}  // namespace tile
