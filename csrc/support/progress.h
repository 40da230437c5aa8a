// A line on the terminal while work takes long: "tile: compiling rope, 1 of 5 candidates done, 1.3 s".
#pragma once
#include <string>
#include <utility>

namespace tile {

// One piece of work, "compiling softmax". From any thread; several at once share the line, which names the
// oldest. It appears after half a second of work, that of pieces shortly after each other taken together, and
// is gone when none is under way. Only where stderr is a terminal that can erase (TERM is set and not
// "dumb"), this process is in its foreground, and TILE_PROGRESS is not 0.
class Progress {
 public:
  explicit Progress(std::string what) : what_(std::move(what)) {}
  ~Progress();
  Progress(const Progress&) = delete;

  void begin();            // once or more: from the first on it counts as under way
  void expect(int parts);  // so many more candidates
  void done();             // one of them

 private:
  friend struct ProgressLine;
  const std::string what_;
  int parts_ = 0, done_ = 0;
  bool begun_ = false;
};

// To stderr. The line makes room, and comes again below.
void print_above_progress(const std::string& text);

}  // namespace tile
