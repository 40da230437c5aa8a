// A launch in forward mode: of a kernel that also computes tangents.
#pragma once
#include <functional>

#include "ir/op.h"
#include "ir/touched.h"
#include "runtime/argument.h"
#include "runtime/executable.h"
#include "runtime/kernel_table.h"
#include "runtime/launch.h"

namespace tile {

struct ForwardLaunch {
  const KernelName& name;
  const Target& target;
  Grid grid;
  const LaunchKey& key;
  ArgumentRefs arguments;
  Touched touched;
  std::function<Function()> kernel;  // before passes
  KernelTable& table;                // of the kernels that also compute tangents
};

// Returns false if no array of the launch has a tangent, so that nothing was launched. The thread's
// derivation has the tangents.
bool launch_forward(const ForwardLaunch& launch);

}  // namespace tile
