// The gradients of an operator's run in Python, from the launches that it was recorded to make.
#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "torch/reverse_launch.h"

namespace tile {

struct ReplayedLaunch {
  std::string name;  // of the kernel
  std::shared_ptr<ReverseKernel> kernel;
  Grid grid;
  std::vector<Argument> arguments;
  std::vector<at::Tensor> tensors;  // one for each argument; undefined for a number
  std::function<void()> run;
};

struct Replay {
  std::string name;  // of the operator, in errors
  std::vector<ReplayedLaunch> launches;
  std::vector<at::Tensor> arguments, results;  // of the run; undefined for what is no tensor
  std::vector<at::Tensor> incoming;            // the gradients of the results; undefined for none
  std::vector<at::Tensor> targets;  // for each argument the tensor that gets its gradient, or undefined
  at::Tensor saved;                 // the bytes that the forward has saved; undefined if it saved nothing
  std::optional<GradientWay> way;   // in tests
};

// Fills the targets. Returns the kernels whose gradients were computed, in the order of their launches.
// Throws an error if the launches use memory in a way of which no gradient is derived.
std::vector<std::shared_ptr<ReverseKernel>> replay_gradients(const Replay& replay);

// Returns the tensors; one that shares memory with another, or with itself, is replaced by a copy.
std::vector<at::Tensor> with_own_memory(std::vector<at::Tensor> tensors);

}  // namespace tile
