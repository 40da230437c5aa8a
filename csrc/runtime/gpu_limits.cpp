// Limits of the device, or of the chip that an inspection looks at.
#include "runtime/gpu_limits.h"

#include "cuda/program.h"
#include "runtime/driver.h"
#include "runtime/launch_observer.h"

namespace tile {

namespace {

cuda::Target target_of(const ArrayArgument& array) {
  const LaunchObserver* observer = LaunchObserver::of_thread();
  if (const cuda::Target* target = observer ? observer->target() : nullptr) return *target;
  const DeviceProperties& properties = Driver::get().properties(array.device_index);
  return {.arch = properties.arch, .shared_bytes = properties.shared_bytes};
}

}  // namespace

int64_t most_tile_bytes(const ArrayArgument& array) {
  return array.device == DeviceKind::cuda ? cuda::most_tile_bytes(target_of(array)) : 0;
}
int most_shared_bytes(const ArrayArgument& array) {
  return array.device == DeviceKind::cuda ? target_of(array).shared_bytes : 0;
}

}  // namespace tile
