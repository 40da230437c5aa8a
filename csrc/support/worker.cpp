// Implements the start of a thread with all signals blocked: a new thread inherits the mask of its parent.
#include "support/worker.h"

#include <pthread.h>
#include <signal.h>

#include <memory>
#include <system_error>
#include <utility>

namespace tile {

std::thread start_worker(std::function<void()> work) try {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const std::unique_ptr<sigset_t, void (*)(sigset_t*)> restored(
      &before, [](sigset_t* mask) { pthread_sigmask(SIG_SETMASK, mask, nullptr); });
  return std::thread(std::move(work));
} catch (const std::system_error&) {
  return {};
}

}  // namespace tile
