// Runs threads as fibers. All runnable threads run one after another, until each waits or has ended; then
// threads that wait for one another are released. If none are, the block or the cluster of blocks is
// deadlocked.
#include "block.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "asynchronous.h"
#include "clocks.h"
#include "effects.h"
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
  Condition* until = nullptr;

  bool same(const Waiting& other) const {
    if (group.anywhere) return other.group.anywhere && group.first == other.group.first && act == other.act;
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
std::vector<std::optional<Waiting>> waiting;  // of all threads, block by block
std::vector<bool> ended;
int threads_a_block = 0;
std::vector<Place> places;  // of the blocks, with their epochs
struct Barriers {
  unsigned arrived = 0, waited = 0;
};
std::vector<Barriers> barriers;  // of the cluster, by thread
std::vector<Clock> arrivals;     // what threads knew that arrived at each barrier of the cluster
bool inside = false;
std::string pending;

// Sets `here` to a thread; leave() saves what its block has counted since.
void enter(size_t thread) {
  const size_t block = thread / static_cast<size_t>(threads_a_block);
  here = places[block];
  here.thread = static_cast<int>(thread) % threads_a_block;
  here.arrived = barriers[thread].arrived, here.waited = barriers[thread].waited;
}
void leave(size_t thread) {
  barriers[thread] = {here.arrived, here.waited};
  places[static_cast<size_t>(here.of_cluster)].epoch = here.epoch;
}

void pass_cluster(void**, int) {}

bool all_there(const Group& group) {
  for (int i = 0; i < group.count; ++i) {
    const auto& other = waiting[static_cast<size_t>(group.first + i)];
    if (!other || !other->same(*waiting[static_cast<size_t>(group.first)])) return false;
  }
  return true;
}

// Threads that have ended count as arrived.
bool all_arrived(unsigned times) {
  for (size_t i = 0; i < barriers.size(); ++i)
    if (!ended[i] && barriers[i].arrived < times) return false;
  return true;
}

// Releases groups of threads whose members all wait; returns true if any thread can continue.
bool meet_all() {
  bool any = false;
  std::vector<void*> brought;
  for (size_t first = 0; first < waiting.size(); ++first) {
    if (!waiting[first]) continue;
    const Waiting meeting = *waiting[first];
    const Group& group = meeting.group;
    if (meeting.until) {
      if (!meeting.until->holds()) continue;
      enter(first);
      meeting.until->pass();
      leave(first);
      waiting[first].reset();
      any = true;
      continue;
    }
    if (meeting.act == pass_cluster) {
      if (!all_arrived(barriers[first].waited + 1)) continue;
      if (places[0].grouped && barriers[first].waited < arrivals.size())
        clock_of(first).join(arrivals[barriers[first].waited]);
      ++barriers[first].waited;
      waiting[first].reset();
      any = true;
      continue;
    }
    if (group.first != static_cast<int>(first) || !all_there(group)) continue;
    brought.clear();
    for (int i = 0; i < group.count; ++i) brought.push_back(waiting[first + static_cast<size_t>(i)]->brought);
    enter(first);
    meeting.act(brought.data(), group.count);
    leave(first);
    for (int i = 0; i < group.count; ++i) waiting[first + static_cast<size_t>(i)].reset();
    any = true;
  }
  for (size_t i = 0; !any && i < waiting.size(); ++i)
    any = waiting[i] && waiting[i]->until && waiting[i]->until->deliver();
  return any;
}

std::string state_text(size_t thread) {
  if (ended[thread]) return "ended";
  const Site& site = waiting[thread]->site;
  const char* file = std::strrchr(site.file, '/');
  const std::string line = site.line ? str(" of line ", site.line) : std::string(),
                    position = str(" (", file ? file + 1 : site.file, ":", site.at, ")");
  if (const Condition* until = waiting[thread]->until)
    return str("wait at ", site.what, line, position, " for ", until->text());
  return str("wait at ", site.what, line, position);
}

// Describes threads: "threads 0-31, 64-95 wait at …, threads 32-63 ended".
std::string states_of(size_t block) {
  std::vector<std::pair<std::string, std::string>> states;  // the state, and the threads in it
  const auto count = static_cast<size_t>(threads_a_block), first = block * count;
  for (size_t begin = 0, end; begin < count; begin = end) {
    const std::string state = state_text(first + begin);
    for (end = begin + 1; end < count && state_text(first + end) == state;) ++end;
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
// Returns "block (0, 0, 0) is deadlocked: …", for each block of the cluster.
std::string deadlock_text() {
  enter(0);
  if (places.size() == 1) return str(block_text(), " is deadlocked: ", states_of(0));
  std::string text = str("the cluster of ", block_text(), " is deadlocked");
  for (size_t block = 0; block < places.size(); ++block)
    text += str(block ? "; block " : ": block ", block, ": ", states_of(block));
  return text;
}

}  // namespace

void report(const std::string& text) {
  if (!inside) throw Report(text);
  pending = text;
  for (;;) fibers().pause();
}

Group Group::block() { return {here.of_cluster * threads_a_block, threads_a_block}; }
Group Group::synchronized() {
  if (!here.grouped) return block();
  return {here.of_cluster * threads_a_block + here.thread / 128 * 128, 128, true};
}
Group Group::computing(int count) { return {here.of_cluster * threads_a_block + 128, count}; }
Group Group::warp() { return {here.of_cluster * threads_a_block + here.thread / 32 * 32, 32}; }

void meet(Group group, const Site& site, void* brought, void (*act)(void**, int)) {
  waiting[running_thread()] = Waiting{site, group, brought, act};
  fibers().pause();
}

void wait_until(Condition& condition, const Site& site) {
  if (condition.holds()) return condition.pass();
  waiting[running_thread()] = Waiting{site, {}, nullptr, nullptr, &condition};
  fibers().pause();
}

size_t running_thread() { return static_cast<size_t>(here.of_cluster * threads_a_block + here.thread); }
size_t threads_of_block() { return static_cast<size_t>(threads_a_block); }

void begin_groups() {
  if (here.grouped) return;
  if (threads_a_block % 128)
    report(str("a block of ", threads_a_block, " threads is no number of warpgroups"));
  for (Place& place : places) place.grouped = true;
  here.grouped = true;
  start_clocks(waiting.size());
  start_effects();
}
void pass_barrier(int count) {
  ++here.epoch;
  pass_warp_barrier(count);
}
void pass_warp_barrier(int count) {
  if (here.grouped) join_clocks(running_thread(), static_cast<size_t>(count));
}

void arrive_in_cluster() {
  if (here.arrived > here.waited)
    report(str("thread ", here.thread, " of ", block_text(), " arrives twice at a barrier of the cluster"));
  if (here.grouped) {
    if (arrivals.size() <= here.arrived) arrivals.resize(here.arrived + 1);
    arrivals[here.arrived].join(own_clock());
    tick(running_thread());
  }
  ++here.arrived;
}
void wait_in_cluster(const Site& site) {
  meet({0, static_cast<int>(waiting.size())}, site, nullptr, pass_cluster);
}

bool block_has_ended(int of_cluster) {
  for (int i = 0; i < threads_a_block; ++i)
    if (!ended[static_cast<size_t>(of_cluster * threads_a_block + i)]) return false;
  return true;
}

void run_cluster(int blocks, int threads, void (*body)()) {
  kernel = body;
  threads_a_block = threads;
  const int all = blocks * threads, cluster = here.cluster + 1;
  places.clear();
  for (int i = 0; i < blocks; ++i) {
    Place& place = places.emplace_back(here);
    place.block[0] += i;
    place.block_number += 1 + i;
    place.epoch += 1;
    place.cluster = cluster, place.of_cluster = i;
    place.grouped = false;
  }
  waiting.assign(static_cast<size_t>(all), std::nullopt);
  ended.assign(static_cast<size_t>(all), false);
  barriers.assign(static_cast<size_t>(all), {});
  arrivals.clear();
  fibers().start(all);
  for (int left = all; left > 0;) {
    for (int i = 0; i < all; ++i) {
      const auto at = static_cast<size_t>(i);
      if (ended[at] || waiting[at]) continue;
      enter(at);
      inside = true;
      const bool goes_on = fibers().run(i);
      inside = false;
      leave(at);
      if (!pending.empty()) throw Report(std::exchange(pending, {}));
      if (!goes_on) ended[at] = true, --left;
    }
    if (left > 0 && !meet_all()) report(deadlock_text());
  }
  if (places[0].grouped) {
    enter(0);
    finish_effects();
  }
  unsigned epoch = 0;
  for (const Place& place : places) epoch = std::max(epoch, place.epoch);
  here = places.back();
  here.epoch = epoch;
}

}  // namespace tile::emulator
