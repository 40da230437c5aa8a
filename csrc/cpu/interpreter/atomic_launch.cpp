// Counts launches and plain sections.
#include "cpu/interpreter/atomic_launch.h"

#include <immintrin.h>
#include <pthread.h>

#include <atomic>

namespace tile::cpu {
namespace {

// A section counts itself before it reads the launches, and a launch counts itself before it reads the
// sections: in the order of all these accesses at least one of them sees the other. Each has a cache line.
alignas(64) std::atomic<int> launches{0};
alignas(64) std::atomic<int> sections{0};

// A fork while another thread is in a section leaves the child a count that nobody takes back.
const int at_fork = pthread_atfork(nullptr, nullptr, [] { sections = 0; });

}  // namespace

AtomicLaunch::AtomicLaunch(bool one_thread) : one_thread_(one_thread) {
  static_cast<void>(at_fork);
  if (launches.fetch_add(1) == 0) return;
  while (sections.load() != 0) _mm_pause();
}
AtomicLaunch::~AtomicLaunch() { launches.fetch_sub(1); }

bool AtomicLaunch::enter() const {
  if (!one_thread_) return false;
  sections.fetch_add(1);
  if (launches.load() == 1) return true;
  sections.fetch_sub(1);
  return false;
}
void AtomicLaunch::leave() const { sections.fetch_sub(1); }

}  // namespace tile::cpu
