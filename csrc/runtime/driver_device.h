// What Driver keeps of a device, and how it checks a call.
#pragma once
#include <atomic>
#include <mutex>

#include "runtime/driver.h"
#include "support/text.h"

namespace tile {

struct Driver::Device {
  int handle = 0;
  DeviceProperties properties;
  std::once_flag once;  // the primary context is retained once and never released
  std::atomic<void*> context = nullptr;
};

inline void Driver::check(int code, auto&&... what) const {
  if (code) [[unlikely]]
    fail_call(code, str(what...));
}

}  // namespace tile
