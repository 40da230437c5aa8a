// Traced control flow: for (Tile k : range(n)), while_loop(condition, body) and when(condition, then,
// otherwise).
#pragma once
#include <functional>

#include "dsl/tile.h"

namespace tile {

// Runs the body during tracing (twice: both traces must agree); the kernel has one counted loop.
class Range {
 public:
  Range(Operand low, Operand high, Operand step, Location location);
  Range(const Range&) = delete;
  ~Range();

  struct End {};
  struct Iterator {
    Range& range;
    bool done = false;
    Tile operator*() const { return Tile(range.index_); }
    Iterator& operator++() {
      done = range.close();
      return *this;
    }
    bool operator!=(End) const { return !done; }
  };
  Iterator begin();
  End end() const { return {}; }

 private:
  bool close();
  Value *low_, *high_, *step_, *index_ = nullptr;
  Location location_;
  int exceptions_ = 0;
  bool open_ = false;
};

// Returns the range 0 <= index < high, or low <= index < high with a step of at least 1. The index is i32, or
// i64 if a bound is. A step that is not a constant is checked by an assertion at run time.
inline Range range(Operand high) {
  return Range(Operand(0, high.location), high, Operand(1, high.location), high.location);
}
inline Range range(Operand low, Operand high) {
  return Range(low, high, Operand(1, high.location), high.location);
}
inline Range range(Operand low, Operand high, Operand step) { return Range(low, high, step, high.location); }

// Traces the body as a loop that runs while the condition holds, a bool scalar that is computed before every
// iteration. Tiles that the condition or the body assigns are carried. The condition may depend on memory
// that other blocks change, if it reads it with atomic_load.
void while_loop(const std::function<Tile()>& condition, const std::function<void()>& body,
                Location location = Location::current());
// Leaves the innermost traced loop, or continues with its next iteration; also in a range(). Nothing may
// follow in the same body: when(done, [&] { break_loop(); });
void break_loop(Location location = Location::current());
void continue_loop(Location location = Location::current());

// Runs one of two bodies, selected by a traced bool scalar; variables assigned in either are merged.
void when(Operand condition, const std::function<void()>& then, const std::function<void()>& otherwise = {});

}  // namespace tile
