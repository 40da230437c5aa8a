// What goes to stderr, and whom warnings were about.
#include "support/log.h"

#include <mutex>
#include <set>

#include "support/progress.h"

namespace tile {

void dump(const std::string& text) { print_above_progress(text); }

void warn_once(const std::string& about, const std::string& text) {
  static std::mutex mutex;
  static auto* const given = new std::set<std::string>;
  std::lock_guard lock(mutex);
  if (given->insert(about).second) dump(str("tile: warning: ", about, ": ", text, '\n'));
}

}  // namespace tile
