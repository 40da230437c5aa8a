// Stores the observer of each thread.
#include "runtime/launch_observer.h"

namespace tile {
namespace {

thread_local LaunchObserver* observer = nullptr;

}  // namespace

std::atomic<int> LaunchObserver::count_ = 0;

LaunchObserver::LaunchObserver() {
  TILE_CHECK(!observer, "An inspection inside another");
  observer = this;
  ++count_;
}
LaunchObserver::~LaunchObserver() {
  observer = nullptr;
  --count_;
}
LaunchObserver* LaunchObserver::find() { return observer; }

}  // namespace tile
