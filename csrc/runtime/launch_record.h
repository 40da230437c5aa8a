// The record that reverse mode makes of a thread's launches, which run later or not at all.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "runtime/argument.h"
#include "runtime/derivation.h"
#include "runtime/executable.h"

namespace tile {

class ReverseKernel;

struct RecordedLaunch {
  KernelName name;
  Grid grid;
  std::vector<Argument> arguments;
  std::shared_ptr<ReverseKernel> kernel;
  std::function<void(ArgumentRefs)> run;
};

class LaunchRecord : public Derivation {
 public:
  virtual void add(RecordedLaunch launch) = 0;

  LaunchRecord* record() final { return this; }
  void refuse(std::string_view what) const override;
};

}  // namespace tile
