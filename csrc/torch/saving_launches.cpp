// Hashes launches that save.
#include "torch/saving_launches.h"

#include "torch/reverse_launch.h"

namespace tile {

std::shared_ptr<ReverseKernel> SavingLaunches::add(ReverseKernel& kernel, const LaunchSizes& sizes,
                                                   bool cpu) {
  const auto& [inputs, results] = kernel.parameters();
  const size_t place = count_++;
  std::shared_ptr<ReverseKernel> saving = kernel.saving(inputs, results, sizes, cpu);
  if (!saving) return nullptr;
  mix(place);
  mix(saving->text_hash());
  for (const int64_t each : kernel.numbers(sizes)) mix(static_cast<uint64_t>(each));
  return saving;
}

std::shared_ptr<ReverseKernel> SavingLaunches::add(ReverseKernel& kernel, const Grid& grid,
                                                   const std::vector<Argument>& arguments) {
  bool cpu = true;
  for (const Argument& each : arguments)
    if (const auto* array = std::get_if<ArrayArgument>(&each)) cpu &= array->device == DeviceKind::cpu;
  return add(kernel, sizes_of(grid, arguments), cpu);
}

}  // namespace tile
