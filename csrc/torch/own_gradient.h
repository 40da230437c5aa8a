// Parts of an operator's run whose gradient its author gives, for grad_by_compiler().
#pragma once
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <string>
#include <vector>

namespace tile {

// Computes `written` from what it reads.
struct OwnGradient {
  std::string name;
  std::vector<at::Tensor> read;  // of floats
  at::Tensor written;
  std::function<void()> run;
  // Returns the gradients of what is read; undefined where not wanted.
  std::function<std::vector<at::Tensor>(const at::Tensor& incoming, const std::vector<bool>& wanted)>
      gradients;
};
// Adds a step to the record of this thread's run, which there must be; it runs later, or not at all.
void record_step(OwnGradient step);

// Calls an operator of this library by its name; the arguments on the stack become its results.
void call_operator(const char* name, std::vector<c10::IValue>& stack);

}  // namespace tile
