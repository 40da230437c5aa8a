// Calls operators by name through torch's dispatcher, and compares their results and gradients with torch's.
#pragma once
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tile::test {

using at::Tensor;
using Tensors = std::vector<Tensor>;

// torch.ops.tile.<name>(*given, **named); arguments that are not given have the schema's defaults.
inline std::vector<c10::IValue> call(const char* name, std::vector<c10::IValue> given,
                                     const std::map<std::string, c10::IValue>& named = {}) {
  const auto handle =
      c10::Dispatcher::singleton().findSchemaOrThrow((std::string("tile::") + name).c_str(), "");
  const auto& arguments = handle.schema().arguments();
  for (size_t i = given.size(); i < arguments.size(); ++i) {
    const auto found = named.find(arguments[i].name());
    given.push_back(found != named.end() ? found->second : arguments[i].default_value().value());
  }
  handle.callBoxed(given);
  return given;
}

using Function = std::function<Tensor(const Tensors&)>;

struct Outcome {
  Tensor result;
  Tensors gradients;
};
inline Outcome outcome(const Function& function, const Tensors& inputs, const Tensor& gradient) {
  Tensors leaves;
  for (const Tensor& input : inputs)
    leaves.push_back(input.is_floating_point() ? input.detach().clone().requires_grad_() : input);
  Outcome found{function(leaves), {}};
  if (!gradient.defined()) return found;
  found.result.backward(gradient);
  for (const Tensor& leaf : leaves)
    if (leaf.requires_grad()) found.gradients.push_back(leaf.grad());
  return found;
}

inline void expect_close(const Tensor& ours, const Tensor& theirs, const std::string& what) {
  ASSERT_TRUE(ours.defined() && theirs.defined()) << what;
  EXPECT_TRUE(at::allclose(ours.to(at::kDouble), theirs.to(at::kDouble), 1e-4, 1e-4)) << what;
}
// float32 against torch in float64. These tests look at memory and threads; tests in Python check the
// accuracy.
inline void compare(const char* name, const Function& ours, const Function& theirs, const Tensors& inputs) {
  Tensors wide;
  for (const Tensor& input : inputs)
    wide.push_back(input.is_floating_point() ? input.to(at::kDouble) : input);
  const Tensor gradient = at::randn_like(outcome(ours, inputs, {}).result.detach());
  const Outcome got = outcome(ours, inputs, gradient),
                expected = outcome(theirs, wide, gradient.to(at::kDouble));
  expect_close(got.result, expected.result, name);
  ASSERT_EQ(got.gradients.size(), expected.gradients.size());
  for (size_t i = 0; i < got.gradients.size(); ++i)
    expect_close(got.gradients[i], expected.gradients[i],
                 std::string(name) + ", gradient " + std::to_string(i));
}

}  // namespace tile::test
