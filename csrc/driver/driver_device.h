// Driver's state of a device, and the check of a driver call.
#pragma once
#include <atomic>
#include <mutex>

#include "driver/driver.h"
#include "driver/driver_functions.h"
#include "driver/recent_launches.h"
#include "support/once.h"
#include "support/text.h"

namespace tile {

// Assert buffers of the kernels that a device has loaded, the newest first.
struct Driver::Boards {
  Boards(void* memory, Boards* before) : board(memory), older(before) {}
  AssertBuffer board;
  const std::unique_ptr<Boards> older;
};

struct Driver::Device {
  int handle = 0;
  DeviceProperties properties;
  Once once;  // the primary context is retained once and never released
  std::atomic<void*> context = nullptr;
  RecentLaunches recent;
  std::atomic<const char*> crashed = nullptr;  // the kernel that did it, where launches are waited for
  std::mutex mutex;                            // of what follows; launches read it without
  std::unique_ptr<Boards> owned_boards;
  std::atomic<Boards*> boards = nullptr;
};

inline void Driver::check(int code, auto&&... what) const {
  if (code) [[unlikely]]
    fail_call(code, str(what...));
}

}  // namespace tile
