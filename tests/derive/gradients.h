// Compares derived gradients with finite differences, in f64 on the CPU.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <variant>

#include "derive/kept_values.h"
#include "derive/reverse.h"
#include "ir/print.h"
#include "runtime/text_kernel.h"

namespace tile {

// An array of a test: doubles that may be differentiated, or indices.
struct TestArray {
  std::vector<int64_t> sizes;
  std::vector<double> values;
  std::vector<int32_t> indices;

  static TestArray of(std::vector<int64_t> sizes, double value = 0) {
    TestArray made{std::move(sizes), {}, {}};
    made.values.assign(made.count(), value);
    return made;
  }
  size_t count() const {
    size_t count = 1;
    for (int64_t size : sizes) count *= static_cast<size_t>(size);
    return count;
  }
  ArrayArgument argument() {
    ArrayArgument made;
    made.data = indices.empty() ? static_cast<void*>(values.data()) : indices.data();
    made.dtype = indices.empty() ? DType::f64 : DType::i32;
    made.rank = static_cast<int>(sizes.size());
    int64_t stride = 1;
    for (size_t i = sizes.size(); i-- > 0; stride *= sizes[i])
      made.sizes[i] = sizes[i], made.strides[i] = stride;
    return made;
  }
};

inline void fill(TestArray& array, std::mt19937& random, double low = -1, double high = 1) {
  std::uniform_real_distribution<double> number(low, high);
  for (double& value : array.values) value = number(random);
}

inline TestArray random_array(std::vector<int64_t> sizes, unsigned seed, double low = -1, double high = 1) {
  TestArray made = TestArray::of(std::move(sizes));
  std::mt19937 random(seed);
  fill(made, random, low, high);
  return made;
}

inline void launch(const TextKernel& kernel, Grid grid, std::vector<TestArray>& arrays) {
  std::vector<Argument> arguments;
  for (TestArray& each : arrays) arguments.emplace_back(each.argument());
  kernel.launch(grid, arguments);
}

// Returns the kernel of the gradients of all inputs.
inline Derived derived_kernel(std::string_view text, int folded_axis = -1, Sharing sharing = Sharing::partial,
                              const std::vector<Keeping>& keeping = {}) {
  const Function kernel = parse(text);
  const Differentiable which = differentiable_parameters(kernel);
  std::vector<Wanted> wanted;
  for (size_t each : which.inputs) wanted.push_back({each, sharing});
  return reverse(kernel, wanted, which.results, folded_axis, keeping);
}

// Launches the derived kernel and those that were transposed. The arrays are all of their arguments, but
// those that are kept for the latter.
inline void launch_derived(const Derived& derived, Grid grid, std::vector<TestArray>& arrays,
                           const LaunchSizes& sizes) {
  std::vector<TestArray> kept;
  for (const DerivedScratch& each : derived.kept) {
    std::vector<int64_t> shape{grid.x * grid.y * grid.z};
    shape.insert(shape.end(), each.shape.begin(), each.shape.end());
    kept.push_back(TestArray::of(shape, NAN));
    if (each.dtype != DType::f64) kept.back().indices.assign(kept.back().count(), 0);
  }
  std::vector<Argument> arguments;
  for (TestArray& each : arrays) arguments.emplace_back(each.argument());
  if (!derived.transposed.empty())
    for (const int64_t count : {grid.x, grid.y, grid.z})
      arguments.emplace_back(scalar_argument(static_cast<int>(count)));
  for (TestArray& each : kept) arguments.emplace_back(each.argument());
  if (has_effects(derived.function)) TextKernel(print(derived.function)).launch(grid, arguments);
  if (derived.remainder) TextKernel(print(*derived.remainder)).launch(grid, arguments);
  for (const TransposedKernel& each : derived.transposed) {
    Grid blocks = grid;
    int64_t& along = each.axis == 0 ? blocks.x : each.axis == 1 ? blocks.y : blocks.z;
    along = most_iterations(*derived.whole, *each.loop, sizes).value();
    const bool wide = may_be_wide(derived, each, along, [&](size_t gradient, size_t axis) {
      return sizes.extent(derived.gradients[gradient].parameter, static_cast<int64_t>(axis));
    });
    if (wide) along = (along + each.width - 1) / each.width;
    TextKernel(print(wide ? *each.wide : each.function)).launch(blocks, arguments);
  }
}

// Launches the derived kernel, and returns the gradient of each input: the sum of partial arrays is taken.
// keeping: of loops with a bound; others have two places.
inline std::vector<TestArray> derived_gradients(std::string_view text, Grid grid,
                                                std::vector<TestArray> arrays,
                                                const std::vector<TestArray>& incoming, Sharing sharing,
                                                Keeping keeping = Keeping::all) {
  LaunchSizes sizes{
      {grid.x, grid.y, grid.z},
      [&](size_t parameter, int64_t axis) { return arrays[parameter].sizes[static_cast<size_t>(axis)]; },
      [](size_t) { return int64_t{0}; }};
  std::vector<Keeping> ways = choose_keeping(derived_kernel(text, -1, sharing), sizes);
  for (Keeping& each : ways)
    if (each != Keeping::places) each = keeping;
  const Derived derived = derived_kernel(text, -1, sharing, ways);
  EXPECT_EQ(incoming.size(), derived.results.size());
  for (const TestArray& each : incoming) arrays.push_back(each);
  for (const DerivedGradient& each : derived.gradients) {
    std::vector<int64_t> shape = arrays[each.parameter].sizes;
    if (each.how == DerivedGradient::summed)
      for (size_t i = each.axes.size(); i-- > 0;) shape.insert(shape.begin(), sizes.blocks[each.axes[i]]);
    arrays.push_back(TestArray::of(shape));
  }
  const size_t first = arrays.size() - derived.gradients.size();
  for (const DerivedScratch& each : derived.scratch) {
    const int64_t places = each.keeping == Keeping::places ? 2 : places_of(derived, each, sizes);
    std::vector<int64_t> shape{grid.x * grid.y * grid.z, places};
    shape.insert(shape.end(), each.shape.begin(), each.shape.end());
    arrays.push_back(TestArray::of(shape, NAN));
    if (each.dtype != DType::f64) arrays.back().indices.assign(arrays.back().count(), 0);
  }
  launch_derived(derived, grid, arrays, sizes);
  std::vector<TestArray> gradients;
  for (size_t i = 0; i < derived.gradients.size(); ++i) {
    const TestArray& made = arrays[first + i];
    TestArray sum = TestArray::of(arrays[derived.gradients[i].parameter].sizes);
    for (size_t k = 0; k < made.values.size(); ++k) sum.values[k % sum.values.size()] += made.values[k];
    gradients.push_back(sum);
  }
  return gradients;
}

// Checks the gradients of all inputs of f64, of a random combination of the results' elements.
inline void check_gradients(std::string_view text, Grid grid, std::vector<TestArray> arrays,
                            double tolerance = 2e-7) {
  const Function kernel = parse(text);
  const Differentiable which = differentiable_parameters(kernel);
  std::mt19937 random(7);
  std::vector<TestArray> incoming;
  for (size_t each : which.results) {
    incoming.push_back(arrays[each]);
    fill(incoming.back(), random);
  }
  const TextKernel forward(text);
  const auto loss = [&](std::vector<TestArray> at) {
    for (size_t each : which.results) std::fill(at[each].values.begin(), at[each].values.end(), 0.0);
    launch(forward, grid, at);
    double sum = 0;
    for (size_t i = 0; i < which.results.size(); ++i)
      for (size_t k = 0; k < incoming[i].values.size(); ++k)
        sum += incoming[i].values[k] * at[which.results[i]].values[k];
    return sum;
  };
  using Way = std::pair<Sharing, Keeping>;
  for (const auto& [sharing, keeping] :
       {Way{Sharing::partial, Keeping::all}, Way{Sharing::atomic, Keeping::all},
        Way{Sharing::owner, Keeping::all}, Way{Sharing::partial, Keeping::segments},
        Way{Sharing::owner, Keeping::segments}, Way{Sharing::partial, Keeping::places}}) {
    const std::vector<TestArray> gradients =
        derived_gradients(text, grid, arrays, incoming, sharing, keeping);
    ASSERT_EQ(gradients.size(), which.inputs.size());
    for (size_t i = 0; i < gradients.size(); ++i)
      for (size_t k = 0; k < gradients[i].values.size(); ++k) {
        const double step = 1e-5;
        std::vector<TestArray> moved = arrays;
        double& x = moved[which.inputs[i]].values[k];
        const double before = x;
        x = before + step;
        const double up = loss(moved);
        x = before - step;
        const double down = loss(moved);
        const double expected = (up - down) / (2 * step);
        ASSERT_NEAR(gradients[i].values[k], expected, tolerance * (1 + std::abs(expected)))
            << "element " << k << " of the gradient of parameter " << which.inputs[i];
      }
  }
}

}  // namespace tile
