// Orders the parameters of compiled kernels and the dimensions of tensor maps.
#include "cuda/parameters.h"

namespace tile::cuda {

std::vector<int> axes_of(const TensorMapSpec& map) {
  std::vector<int> axes = {map.unit};
  for (int axis = static_cast<int>(map.box.size()) - 1; axis >= 0; --axis)
    if (axis != map.unit && map.box[static_cast<size_t>(axis)]) axes.push_back(axis);
  return axes;
}

const char* name_of(ParameterKind kind) {
  constexpr const char* names[] = {"argument",      "grid",     "tensor_map",
                                   "block_counter", "failures", "starts_early"};
  return names[static_cast<size_t>(kind)];
}

std::vector<Parameter> parameters_of(size_t arguments, bool persistent, size_t tensor_maps, bool draws,
                                     bool asserts, bool starts_early) {
  std::vector<Parameter> parameters;
  const auto add = [&](ParameterKind kind, size_t count) {
    for (size_t i = 0; i < count; ++i) parameters.push_back({kind, static_cast<int>(i)});
  };
  add(ParameterKind::argument, arguments);
  if (persistent) add(ParameterKind::grid, 3);
  add(ParameterKind::tensor_map, tensor_maps);
  add(ParameterKind::block_counter, draws);
  add(ParameterKind::failures, asserts);
  add(ParameterKind::starts_early, starts_early);
  return parameters;
}

}  // namespace tile::cuda
