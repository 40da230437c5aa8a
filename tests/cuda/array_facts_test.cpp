// Tests the facts that views have of their arrays.
#include "cuda/array_facts.h"

#include <gtest/gtest.h>

#include "dsl/tracer.h"
#include "tile.h"

namespace tile::cuda {
namespace {

TEST(ArrayFacts, StridesOfViewsHaveTheirDirection) {
  for (const int64_t forward : {0, 1}) {
    Tracer tracer("kernel");
    Function& function = tracer.function();
    const Array x(function.add_argument(function.body(), Type::array(f16, 3), {}));
    if (forward) function.attributes().set("array.0.forward", forward);
    function.attributes().set("array.0.unit", int64_t{0});
    const Array views[] = {x, x[{1}], x.permute({2, 0, 1}), x.slice(0, 1, 4), x[{1}].slice(1, 2, 3)};
    const KernelArrays arrays(function);
    for (const Array& view : views) EXPECT_EQ(arrays.facts(view.value()).forward, forward != 0);
  }
}

TEST(ArrayFacts, AWordHoldsSeveralSmallElements) {
  const ArrayFacts words{.unit = 1, .words = true}, aligned{.unit = 1, .aligned = true}, neither{.unit = 1};
  const Shape shape{4, 64}, steps{4, 64};
  EXPECT_EQ(vector_width(words, DType::bf16, shape, steps), 2);
  EXPECT_EQ(vector_width(words, DType::u8, shape, steps), 4);
  EXPECT_EQ(vector_width(words, DType::u8, {4, 6}, {4, 6}), 2);
  EXPECT_EQ(vector_width(aligned, DType::bf16, shape, steps), 8);
  EXPECT_EQ(vector_width(neither, DType::bf16, shape, steps), 1);
}

}  // namespace
}  // namespace tile::cuda
