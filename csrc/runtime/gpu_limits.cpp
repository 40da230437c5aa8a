// Limits of the device, or of the chip that an inspection looks at.
#include "runtime/gpu_limits.h"

#include "cuda/program.h"
#include "runtime/driver.h"
#include "runtime/launch_observer.h"

namespace tile {

int64_t most_tile_bytes(const ArrayArgument& array) {
  if (array.device != DeviceKind::cuda) return 0;
  const LaunchObserver* observer = LaunchObserver::of_thread();
  if (const cuda::Target* target = observer ? observer->target() : nullptr)
    return cuda::most_tile_bytes(*target);
  return cuda::most_tile_bytes({.chip = Driver::get().properties(array.device_index).chip});
}

}  // namespace tile
