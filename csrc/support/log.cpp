// Writes messages to stderr and records the subjects of past warnings.
#include "support/log.h"

#include <atomic>
#include <mutex>
#include <set>

#include "support/progress.h"

namespace tile {

namespace {
std::atomic<void (*)(const std::string&)> log_sink = nullptr;
}  // namespace

void dump(const std::string& text) { print_above_progress(text); }

void set_log_sink(void (*sink)(const std::string& line)) { log_sink = sink; }
void write_log(const std::string& line) {
  if (const auto sink = log_sink.load())
    sink(line);
  else
    dump("tile: " + line + '\n');
}

void warn_once(const std::string& about, const std::string& text) {
  static std::mutex mutex;
  static auto* const given = new std::set<std::string>;
  std::lock_guard lock(mutex);
  if (given->insert(about).second) dump(str("tile: warning: ", about, ": ", text, '\n'));
}

}  // namespace tile
