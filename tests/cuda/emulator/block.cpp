// Threads are fibers. All that can run do so, one after another, until each waits or has ended; then those
// meet that wait for one another. When none do, the block is dead.
#include "block.h"

#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "fibers.h"
#include "report.h"

namespace tile::emulator {

Place here;

namespace {

struct Waiting {
  Site site;
  Group group;
  void* brought;
  void (*act)(void**, int);

  bool same(const Waiting& other) const {
    return site.line == other.site.line && site.at == other.site.at && act == other.act &&
           group.first == other.group.first && group.count == other.group.count &&
           !std::strcmp(site.file, other.site.file) && !std::strcmp(site.what, other.site.what);
  }
};

void (*kernel)() = nullptr;
Fibers& fibers() {
  static Fibers all([](int) { kernel(); });
  return all;
}
std::vector<std::optional<Waiting>> waiting;
std::vector<bool> ended;
bool inside = false;
std::string pending;

bool all_there(const Group& group) {
  for (int i = 0; i < group.count; ++i) {
    const auto& other = waiting[static_cast<size_t>(group.first + i)];
    if (!other || !other->same(*waiting[static_cast<size_t>(group.first)])) return false;
  }
  return true;
}

// Whether any thread may go on.
bool meet_all() {
  bool any = false;
  std::vector<void*> brought;
  for (size_t first = 0; first < waiting.size(); ++first) {
    if (!waiting[first]) continue;
    const Waiting meeting = *waiting[first];
    const Group& group = meeting.group;
    if (group.first != static_cast<int>(first) || !all_there(group)) continue;
    brought.clear();
    for (int i = 0; i < group.count; ++i) brought.push_back(waiting[first + static_cast<size_t>(i)]->brought);
    meeting.act(brought.data(), group.count);
    for (int i = 0; i < group.count; ++i) waiting[first + static_cast<size_t>(i)].reset();
    any = true;
  }
  return any;
}

std::string state_text(size_t thread) {
  if (ended[thread]) return "ended";
  const Site& site = waiting[thread]->site;
  const char* file = std::strrchr(site.file, '/');
  return str("wait at ", site.what, site.line ? str(" of line ", site.line) : std::string(), " (",
             file ? file + 1 : site.file, ":", site.at, ")");
}

// "threads 0-31, 64-95 wait at …, threads 32-63 ended".
std::string all_states() {
  std::vector<std::pair<std::string, std::string>> states;  // what they do, and who
  for (size_t begin = 0, end; begin < waiting.size(); begin = end) {
    const std::string state = state_text(begin);
    for (end = begin + 1; end < waiting.size() && state_text(end) == state;) ++end;
    const std::string range = end - begin == 1 ? str(begin) : str(begin, "-", end - 1);
    auto at = states.begin();
    while (at != states.end() && at->first != state) ++at;
    if (at == states.end())
      states.emplace_back(state, range);
    else if (at->second.size() < 60)
      at->second += ", " + range;
    else if (!at->second.ends_with("…"))
      at->second += ", …";
  }
  return join(states, "; ", [](const auto& state) { return "threads " + state.second + " " + state.first; });
}

}  // namespace

void report(const std::string& text) {
  if (!inside) throw Report(text);
  pending = text;
  for (;;) fibers().pause();
}

Group Group::block() { return {0, static_cast<int>(waiting.size())}; }

void meet(Group group, const Site& site, void* brought, void (*act)(void**, int)) {
  waiting[static_cast<size_t>(here.thread)] = Waiting{site, group, brought, act};
  fibers().pause();
}

void run_block(int threads, void (*body)()) {
  kernel = body;
  waiting.assign(static_cast<size_t>(threads), std::nullopt);
  ended.assign(static_cast<size_t>(threads), false);
  fibers().start(threads);
  for (int left = threads; left > 0;) {
    for (int i = 0; i < threads; ++i) {
      const auto at = static_cast<size_t>(i);
      if (ended[at] || waiting[at]) continue;
      here.thread = i;
      inside = true;
      const bool goes_on = fibers().run(i);
      inside = false;
      if (!pending.empty()) throw Report(std::exchange(pending, {}));
      if (!goes_on) ended[at] = true, --left;
    }
    if (left > 0 && !meet_all()) report(str(block_text(), " is deadlocked: ", all_states()));
  }
}

}  // namespace tile::emulator
