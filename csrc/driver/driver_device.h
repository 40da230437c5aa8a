// The driver's state for each device, and the check of a driver call.
#pragma once
#include <atomic>
#include <mutex>

#include "driver/driver.h"
#include "driver/driver_functions.h"
#include "driver/recent_launches.h"
#include "support/once.h"
#include "support/text.h"

namespace tile {

// The assert buffers of a device, newest first.
struct Driver::AssertBuffers {
  AssertBuffers(void* memory, AssertBuffers* before) : buffer(memory), older(before) {}
  AssertBuffer buffer;
  const std::unique_ptr<AssertBuffers> older;
};

struct Driver::Device {
  int handle = 0;
  DeviceProperties properties;
  Once once;  // the primary context is retained once and never released
  std::atomic<void*> context = nullptr;
  RecentLaunches recent;
  std::atomic<const char*> crashed = nullptr;  // the kernel that crashed; known only for blocking launches
  std::mutex mutex;                            // guards the following members; launches read them without it
  std::unique_ptr<AssertBuffers> owned_buffers;
  std::atomic<AssertBuffers*> buffers = nullptr;
};

inline void Driver::check(int code, auto&&... what) const {
  if (code) [[unlikely]]
    fail_call(code, str(what...));
}

}  // namespace tile
