// A line on the terminal while work takes long: "tile: compiling rope, 1 of 5 candidates done, 1.3 s".
#pragma once
#include <string>
#include <utility>

namespace tile {

// One piece of work, such as "compiling softmax". May be used from any thread; concurrent pieces share the
// line, which names the oldest. The line appears after half a second of work, including pieces that ended
// shortly before, and disappears when none is under way. It is drawn only if stderr is a terminal that can
// erase (TERM is set and not "dumb"), this process is in the foreground, and TILE_PROGRESS is not 0.
class Progress {
 public:
  explicit Progress(std::string what) : what_(std::move(what)) {}
  ~Progress();
  Progress(const Progress&) = delete;

  void begin();            // from the first of several calls on, it is under way
  void expect(int parts);  // adds this many candidates
  void done();             // one candidate is done

 private:
  friend struct ProgressLine;
  const std::string what_;
  int parts_ = 0, done_ = 0;
  bool begun_ = false;
};

// Prints to stderr. The progress line is erased first and drawn again below.
void print_above_progress(const std::string& text);

}  // namespace tile
