// A kernel compiled for a target, and the list of targets.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "ir/op.h"
#include "ir/touched.h"
#include "runtime/argument.h"
#include "support/location.h"

namespace tile {

// The name of a kernel in errors.
struct KernelName {
  std::string name;
  Location where;
};

using Blocks = std::array<int64_t, 3>;

class Executable {
 public:
  virtual ~Executable() = default;
  // Takes what check_launch has accepted, with at least one block. Arguments are in the order of the kernel's
  // parameters.
  virtual void run(const Blocks& blocks, ArgumentRefs arguments) const = 0;
  Touched touched;  // the parameters whose memory it accesses
};

struct Target {
  int64_t longest_axis, other_axes;  // limits of a grid
  const char* grid_limit;            // the same limits in words
  std::unique_ptr<Executable> (*compile)(Function function, const KernelName& name);  // after the passes
  bool compiles_at_once;  // false: it compiles at the first run on a device
};
const Target& target_of(DeviceKind device);

extern const Target cpu_target;   // cpu_kernel.cpp
extern const Target cuda_target;  // cuda_kernel.cpp

}  // namespace tile
