// Observers of the launches of a thread, for inspection. They see each launch before it runs.
#pragma once
#include <atomic>
#include <functional>

#include "cuda/program.h"
#include "runtime/executable.h"

namespace tile {

class LaunchObserver {
 public:
  // Observes this thread's launches during its lifetime. A thread has at most one observer.
  LaunchObserver();
  virtual ~LaunchObserver();
  LaunchObserver(const LaunchObserver&) = delete;

  // `compiled` returns the function after all passes. Returns true if the launch need not run.
  virtual bool observe(const KernelName& kernel, const Grid& grid, ArgumentRefs arguments,
                       const std::function<Function()>& compiled) = 0;

  // Returns the start of the memory of a storage that represents one on a GPU, or null if it has none.
  virtual char* memory(void* /* c10::StorageImpl* */) { return nullptr; }

  // Returns the chip to compile for, or null.
  virtual const cuda::Target* target() const { return nullptr; }

  // Returns null if there is none. This costs a launch one load.
  static LaunchObserver* of_thread() { return count_.load(std::memory_order_relaxed) ? find() : nullptr; }

 private:
  static LaunchObserver* find();
  static std::atomic<int> count_;
};

}  // namespace tile
