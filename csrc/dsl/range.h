// Traced control flow: for (Tile k : range(n)), while_loop(condition, body) and when(condition, then,
// otherwise).
#pragma once
#include <functional>

#include "dsl/tile.h"

namespace tile {

// Iterates the body while tracing (twice: both traces must agree); the kernel gets one counted loop.
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

// Returns the range 0 <= index < high, or low <= index < high by a step of at least 1; i32, or i64 where a
// bound is. A step that is not a constant is checked by an assertion at run time.
inline Range range(Operand high) {
  return Range(Operand(0, high.location), high, Operand(1, high.location), high.location);
}
inline Range range(Operand low, Operand high) {
  return Range(low, high, Operand(1, high.location), high.location);
}
inline Range range(Operand low, Operand high, Operand step) { return Range(low, high, step, high.location); }

// Traces the body as a loop that runs while the condition, a bool scalar computed before every iteration,
// holds. Tiles that either assigns are carried. The condition may be of memory that other blocks change: read
// it by atomic_load.
void while_loop(const std::function<Tile()>& condition, const std::function<void()>& body,
                Location location = Location::current());
// Leaves the innermost traced loop, or goes on with its next iteration; of a range(), too. Nothing may stand
// behind it in its body: when(done, [&] { break_loop(); });
void break_loop(Location location = Location::current());
void continue_loop(Location location = Location::current());

// Runs one of two bodies by a traced bool scalar; variables assigned in either are merged.
void when(Operand condition, const std::function<void()>& then, const std::function<void()>& otherwise = {});

}  // namespace tile
