// Keeps the clocks of a cluster's threads.
#include "clocks.h"

#include <algorithm>

#include "asynchronous.h"
#include "block.h"
#include "report.h"

namespace tile::emulator {
namespace {

struct ThreadTime {
  Clock clock;
  std::vector<unsigned> fences;  // the times that began with fence_async(), ascending
};
std::vector<ThreadTime> threads;
Agent agents = 0;

}  // namespace

void Clock::learn(const Moment& moment) {
  const auto place = static_cast<size_t>(moment.agent);
  if (place >= times_.size()) times_.resize(place + 1);
  times_[place] = std::max(times_[place], moment.time);
}
void Clock::join(const Clock& other) {
  if (other.times_.size() > times_.size()) times_.resize(other.times_.size());
  for (size_t i = 0; i < other.times_.size(); ++i) times_[i] = std::max(times_[i], other.times_[i]);
}
void Clock::meet(const Clock& other) {
  if (other.times_.size() < times_.size()) times_.resize(other.times_.size());
  for (size_t i = 0; i < times_.size(); ++i) times_[i] = std::min(times_[i], other.times_[i]);
}

std::string Record::text() const {
  const std::string by = str("thread ", thread, block == here.of_cluster ? "" : " of another block"),
                    at = line ? str(" at line ", line) : std::string(),
                    does = only_reads(access) ? "reads" : "writes";
  switch (actor) {
    case Actor::thread:
      return str("; ", by, only_reads(access) ? " read" : " wrote", " it", at,
                 ", and no barrier is in between");
    case Actor::copy:
      return str("; the copy that ", by, " began", at, " ", does, " it, and is not waited for");
    case Actor::product:
      return str("; the product that the group of ", by, " began", at, " ", does, " it, and is not retired");
    case Actor::tensor_store:
      return str("; the tensor store that ", by, " began", at, " ", does, " it, and is not waited for");
  }
  return {};
}

Record record_of(Actor actor, const Moment& when, Access access, int line) {
  return {when, here.cluster, here.of_cluster, here.thread, line, actor, access};
}
Record record_now(Access access, int line) {
  const auto thread = static_cast<Agent>(running_thread());
  return record_of(Actor::thread, {thread, own_clock().at(thread)}, access, line);
}

const Record* Order::race(const Clock& known, Access access) const {
  const auto races = [&](const Record& record) {
    return record.happened() && !known.knows(record.when) && !(is_atomic(access) && is_atomic(record.access));
  };
  if (races(write_)) return &write_;
  if (only_reads(access)) return nullptr;
  for (const Record& read : reads_)
    if (races(read)) return &read;
  return nullptr;
}
void Order::note(const Clock& known, const Record& record) {
  if (only_reads(record.access)) {
    std::erase_if(reads_, [&](const Record& read) {
      return !read.happened() || (known.knows(read.when) && !is_atomic(read.access));
    });
    reads_.push_back(record);
  } else {
    write_ = record;
    reads_.clear();
  }
}

void start_clocks(size_t count) {
  threads.assign(count, {});
  agents = static_cast<Agent>(count);
  for (size_t i = 0; i < count; ++i) threads[i].clock.learn({static_cast<Agent>(i), 1});
}
Agent new_agent() { return agents++; }
Clock& clock_of(size_t thread) { return threads[thread].clock; }
Clock& own_clock() { return clock_of(running_thread()); }
void tick(size_t thread) {
  const auto agent = static_cast<Agent>(thread);
  Clock& clock = clock_of(thread);
  clock.learn({agent, clock.at(agent) + 1});
}

void join_clocks(size_t first, size_t count) {
  Clock all;
  for (size_t i = first; i < first + count; ++i) all.join(clock_of(i));
  for (size_t i = first; i < first + count; ++i) {
    clock_of(i) = all;
    tick(i);
  }
}

void fence_async(int) {
  const size_t thread = running_thread();
  tick(thread);
  threads[thread].fences.push_back(clock_of(thread).at(static_cast<Agent>(thread)));
}
bool fenced(const Record& write, const Clock& known) {
  const std::vector<unsigned>& fences = threads[static_cast<size_t>(write.when.agent)].fences;
  const auto fence = std::upper_bound(fences.begin(), fences.end(), write.when.time);
  return fence != fences.end() && known.knows({write.when.agent, *fence});
}

}  // namespace tile::emulator
