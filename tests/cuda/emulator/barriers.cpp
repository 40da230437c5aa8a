// Barriers in shared memory (mbarrier): phases, arrivals, and the bytes that copies bring.
#include <deque>
#include <map>

#include "asynchronous.h"
#include "block.h"
#include "effects.h"
#include "report.h"

namespace tile::emulator {
namespace {

constexpr int64_t width = 8;

struct Barrier {
  Agent agent;
  Record initialized;
  bool published = false;
  int arrivals, missing;  // a phase, and of the current one
  int64_t bytes = 0;      // announced and not yet copied
  unsigned phases = 0;    // that have ended
  int expected_at = 0;    // the line of the last expect_bytes()
  Clock arrived, passed;  // what threads know that arrived, up to now and up to the end of the last phase
  std::deque<Arrival> flying;  // copies that have not arrived
};
std::map<std::pair<int, int64_t>, Barrier> barriers;  // by block of the cluster and offset

std::string at_text(int block, int64_t offset) {
  return str("the barrier at ", offset, block == here.of_cluster ? std::string() : str(" of block ", block));
}
std::string who(int line) { return str(line_text(line), "thread ", here.thread, " of ", block_text()); }

Barrier& barrier_at(int block, int64_t offset, const char* does, int line) {
  const auto found = barriers.find({block, offset});
  if (found == barriers.end())
    report(str(who(line), does, at_text(block, offset), ", which nobody has initialized"));
  Barrier& barrier = found->second;
  if (!own_clock().knows(barrier.initialized.when))
    report(str(who(line), does, at_text(block, offset), ", which thread ", barrier.initialized.thread,
               " initialized at line ", barrier.initialized.line,
               ", and no barrier of the block is in between"));
  if ((block != here.of_cluster || barrier.initialized.block != here.of_cluster) && !barrier.published)
    report(str(who(line), does, at_text(block, offset), ", which is not published"));
  return barrier;
}

void end_phases(const std::pair<int, int64_t>& place, Barrier& barrier, int line) {
  if (barrier.missing > 0 || barrier.bytes != 0) return;
  if (!barrier.flying.empty()) {
    int64_t more = 0;
    for (const Arrival& copy : barrier.flying) more += copy.bytes;
    report(str(line_text(line), "phase ", barrier.phases, " of ", at_text(place.first, place.second),
               " ends ", more, " bytes too early: expect_bytes of line ", barrier.expected_at,
               " announced fewer than are copied at line ", barrier.flying.front().record.line));
  }
  ++barrier.phases;
  barrier.missing = barrier.arrivals;
  barrier.passed = barrier.arrived;
}

void arrive_at(int block, int64_t offset, int64_t bytes, const char* does, int line) {
  Barrier& barrier = barrier_at(block, offset, does, line);
  if (bytes) barrier.expected_at = line;
  barrier.bytes += bytes;
  if (barrier.missing == 0)
    report(str(who(line), does, at_text(block, offset), ", at which all ", barrier.arrivals,
               " of this phase have arrived; ", barrier.bytes, " bytes are missing"));
  --barrier.missing;
  barrier.arrived.join(own_clock());
  tick(running_thread());
  end_phases({block, offset}, barrier, line);
}

// A thread that waits until the last phase with the parity has ended.
class PhaseEnd : public Condition {
 public:
  PhaseEnd(int64_t offset, unsigned parity, Barrier& barrier)
      : place_{here.of_cluster, offset}, parity_(parity), barrier_(&barrier) {}
  bool holds() const override { return barrier_->phases % 2 != parity_; }
  void pass() override {
    own_clock().join(barrier_->passed);
    own_clock().learn({barrier_->agent, barrier_->phases});
  }
  bool deliver() override {
    if (barrier_->flying.empty()) return false;
    while (!barrier_->flying.empty()) {
      const Arrival copy = std::move(barrier_->flying.front());
      barrier_->flying.pop_front();
      copy.apply();
      barrier_->bytes -= copy.bytes;
      end_phases(place_, *barrier_, copy.record.line);
    }
    return true;
  }
  std::string text() const override {
    const int64_t bytes = barrier_->bytes;
    std::string lacks;
    if (barrier_->missing) lacks = str(barrier_->missing, " of ", barrier_->arrivals, " arrivals");
    if (bytes)
      lacks += str(lacks.empty() ? "" : " and ", bytes < 0 ? -bytes : bytes,
                   bytes < 0 ? " bytes too many" : " bytes");
    return str("parity ", parity_, " at ", place_.second, " of shared memory, where phase ", barrier_->phases,
               " lacks ", lacks);
  }

 private:
  std::pair<int, int64_t> place_;
  unsigned parity_;
  Barrier* barrier_;
};

}  // namespace

void start_barriers() { barriers.clear(); }
void finish_barriers() {
  for (const auto& [place, barrier] : barriers)
    if (!barrier.flying.empty()) {
      const Record& copy = barrier.flying.front().record;
      report(str(line_text(copy.line), "the copy that thread ", copy.thread,
                 " began to the shared memory of block ", place.first,
                 " of its cluster is never waited for; the kernel ends while it is in flight"));
    }
}

void init_barrier(const void* at, int arrivals, int line) {
  if (!here.grouped) report("the kernel has barriers in shared memory, and does not begin with this_group()");
  const int64_t offset = shared_offset(at);
  const Record record = record_now(Access::store, line);
  check_shared(at, static_cast<int>(width), Access::store, line);
  if (arrivals <= 0) report(str(who(line), " initializes a barrier for ", arrivals, " arrivals"));
  barriers[{here.of_cluster, offset}] =
      Barrier{.agent = new_agent(), .initialized = record, .arrivals = arrivals, .missing = arrivals};
}
void publish_barriers() {
  for (auto& [place, barrier] : barriers)
    if (barrier.initialized.block == here.of_cluster && barrier.initialized.thread == here.thread)
      barrier.published = true;
}

void expect_bytes(const void* at, int bytes, int line) {
  arrive_at(here.of_cluster, shared_offset(at), bytes, " announces bytes at ", line);
}
void arrive(const void* at, int line) {
  arrive_at(here.of_cluster, shared_offset(at), 0, " arrives at ", line);
}
void arrive_remote(const void* at, int cta, int line) {
  shared_memory_of(cta);
  if (cta != here.of_cluster && here.waited == 0)
    report(str(who(line), " arrives at a barrier of block ", cta,
               " of its cluster, which may not have begun: no barrier of the cluster precedes it"));
  if (block_has_ended(cta))
    report(str(who(line), " arrives at a barrier of block ", cta, " of its cluster, which has ended"));
  arrive_at(cta, shared_offset(at), 0, " arrives at ", line);
}
void wait_for_barrier(const void* at, unsigned parity, const Site& site) {
  const int64_t offset = shared_offset(at);
  if (parity > 1) report(str(who(site.line), " waits for parity ", parity, " of a barrier"));
  PhaseEnd end(offset, parity, barrier_at(here.of_cluster, offset, " waits for ", site.line));
  wait_until(end, site);
}

Moment moment_of_barrier(int block, int64_t offset, int line) {
  Barrier& barrier = barrier_at(block, offset, " copies to ", line);
  if (!barrier.published)
    report(str(who(line), " begins a copy that arrives at ", at_text(block, offset), ", which thread ",
               barrier.initialized.thread, " initialized at line ", barrier.initialized.line,
               " and did not publish: no publish_barriers() follows"));
  return {barrier.agent, barrier.phases + 1};
}
void add_arrival(int block, int64_t offset, Arrival arrival) {
  barriers.at({block, offset}).flying.push_back(std::move(arrival));
}
void check_no_barrier(int block, int64_t offset, int64_t bytes, int line) {
  for (const auto& [place, barrier] : barriers)
    if (place.first == block && place.second < offset + bytes && offset < place.second + width)
      report(str(who(line), " copies to ", bytes, " bytes at ", offset, " of shared memory, where ",
                 at_text(block, place.second), " is"));
}

}  // namespace tile::emulator
