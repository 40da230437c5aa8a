// Finds the tangents of a launch's arrays, and compiles and launches the kernel with them.
#include "runtime/forward_launch.h"

#include "derive/forward.h"
#include "passes/pipeline.h"
#include "runtime/array_key.h"
#include "runtime/launch_observer.h"
#include "runtime/tangent_memory.h"
#include "support/log.h"

namespace tile {

bool launch_forward(const ForwardLaunch& launch) {
  TangentMemory& memory = *Derivation::of_thread()->tangents();
  const auto& [name, target, grid, key, arguments, touched, kernel, table] = launch;
  const size_t n = arguments.size();
  if (n > 64)
    fail(name.where, ErrorKind::unsupported, "launch of ", name.name, ": has ", n,
         " arguments; forward mode takes 64");
  std::vector<std::optional<ArrayArgument>> tangents(n);
  const auto find = [&](uint64_t among, bool make) {
    bool some = false;
    for (size_t i = 0; i < n; ++i) {
      const ArrayArgument* array = launch.arguments[i].array;
      // 8-bit floats are quantised numbers, which have no tangents.
      if (!array || !is_floating(array->dtype) || info(array->dtype).bytes == 1 || !(among >> i & 1))
        continue;
      if (!tangents[i]) tangents[i] = memory.tangent(*array, make);
      some |= tangents[i].has_value();
    }
    return some;
  };
  if (!find(touched.read | touched.written, false)) return false;
  find(touched.written, true);
  std::vector<bool> active;
  std::vector<ArgumentRef> all(arguments.begin(), arguments.end());
  LaunchKey forward_key = key;
  uint64_t mask = 0;
  for (size_t i = 0; i < n; ++i) {
    active.push_back(tangents[i].has_value());
    mask |= uint64_t{active[i]} << i;
    if (!active[i]) continue;
    all.emplace_back(*tangents[i]);
    forward_key.add(key_word(*tangents[i]));
  }
  forward_key.add(mask);
  const auto derived = [&] {
    Function function = forward(launch.kernel(), active);
    for (size_t i = n; i < all.size(); ++i) set_facts(function, i, *all[i].array);
    run_passes(function);
    return function;
  };
  const KernelName named{name.name + "_forward_mode", name.where};
  if (LaunchObserver* observer = LaunchObserver::of_thread())
    if (observer->observe(named, grid, all, derived)) return true;
  const Executable* executable = table.find(forward_key);
  if (!executable)
    executable = &table.compile(forward_key, [&] {
      const Stopwatch time;
      Function function = derived();
      const Touched all_touched = touched_parameters(function);
      auto made = launch.target.compile(std::move(function), named);
      made->touched = all_touched;
      log_line(named.name, ": traced", launch.target.compiles_at_once ? " and compiled" : "", " in ",
               time.text());
      return made;
    });
  run_blocks(named, *executable, grid, all);
  return true;
}

}  // namespace tile
