// Observers see the launches of a thread before they run, for inspection.
#pragma once
#include <atomic>
#include <functional>

#include "cuda/program.h"
#include "runtime/executable.h"

namespace tile {

class LaunchObserver {
 public:
  // From its beginning to its end it sees this thread's launches. One a thread.
  LaunchObserver();
  virtual ~LaunchObserver();
  LaunchObserver(const LaunchObserver&) = delete;

  // `compiled` gives the function after all passes. True: the launch need not run.
  virtual bool saw(const KernelName& kernel, const Grid& grid, ArgumentRefs arguments,
                   const std::function<Function()>& compiled) = 0;

  // Where the memory of a storage begins that stands for one on a GPU; null: it has none.
  virtual char* memory(void* /* c10::StorageImpl* */) { return nullptr; }

  // The chip whose code is looked at; null: none.
  virtual const cuda::Target* target() const { return nullptr; }

  // Null: none. A launch pays one load for the question.
  static LaunchObserver* of_thread() { return count_.load(std::memory_order_relaxed) ? find() : nullptr; }

 private:
  static LaunchObserver* find();
  static std::atomic<int> count_;
};

}  // namespace tile
