// The dispatcher, autograd and functorch headers of torch, and all code that depends on its version. It is
// precompiled.
#pragma once
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <ATen/functorch/PlumbingHelper.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/dynamo/compiled_autograd.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>
#include <torch/library.h>
#include <torch/version.h>

#include <memory>
#include <utility>

namespace tile {

// The owner of a Node: shared_ptr before torch 2.13, intrusive_ptr from then on.
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 13
template <class N>
using NodePtr = c10::intrusive_ptr<N>;
template <class N, class... A>
NodePtr<N> make_node(A&&... arguments) {
  return c10::make_intrusive<N>(std::forward<A>(arguments)...);
}
#else
template <class N>
using NodePtr = std::shared_ptr<N>;
template <class N, class... A>
NodePtr<N> make_node(A&&... arguments) {
  return NodePtr<N>(new N(std::forward<A>(arguments)...), torch::autograd::deleteNode);
}
#endif

}  // namespace tile
