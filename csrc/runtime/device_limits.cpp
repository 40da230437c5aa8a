// Reads the limits of the device, or of the GPU that an inspection compiles for.
#include "runtime/device_limits.h"

#include "cpu/gemm/gemm_table.h"
#include "cpu/vecmath/isa.h"
#include "cuda/program.h"
#include "driver/driver.h"
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
bool multiplies_by_groups(const ArrayArgument& array, DType as) {
  static constexpr DTypeSet dtypes{DType::bf16, DType::f16, DType::tf32, DType::f8e4m3, DType::f8e5m2};
  const bool has_type = dtypes.has(as);
  return array.device == DeviceKind::cuda && has_type && cuda::multiplies_by_groups(target_of(array));
}

bool multiplies_as_it_is(const ArrayArgument& array) {
  if (array.device == DeviceKind::cuda || info(array.dtype).bits > 16) return true;
  return array.dtype == DType::bf16 && cpu::multiplies_bf16();
}

// With fewer registers, a micro-kernel that has few rows adds up every second k apart.
bool sums_rows_alike() { return cpu::active_isa() == cpu::Isa::avx512; }

}  // namespace tile
