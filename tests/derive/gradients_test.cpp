// Tests derived kernels against finite differences.
#include "gradients.h"

namespace tile {
namespace {

TEST(Gradients, SoftmaxOfRowsWithAnEdge) {
  check_gradients(R"(kernel softmax(%0: array<f64,2>, %1: array<f64,2>) {
  %2: i32 = bid {axis=0}
  %3: i32 = constant {dtype=i32, value=0}
  %4: f64[2,8] = load %0, %2, %3 {pad=-inf, shape=[2,8], steps=[2,8]}
  %5: f64[2] = reduce_max %4 {axes=[1]}
  %6: f64[2,1] = reshape %5 {shape=[2,1]}
  %7: f64[2,8] = broadcast %6 {shape=[2,8]}
  %8: f64[2,8] = sub %4, %7
  %9: f64[2,8] = exp %8
  %10: f64[2] = reduce_sum %9 {axes=[1]}
  %11: f64[2,1] = reshape %10 {shape=[2,1]}
  %12: f64[2,8] = broadcast %11 {shape=[2,8]}
  %13: f64[2,8] = div %9, %12
  store %1, %13, %2, %3 {steps=[2,8]}
}
)",
                  {2, 1, 1}, {random_array({4, 5}, 1), TestArray::of({4, 5})});
}

TEST(Gradients, WeightsThatAllBlocksRead) {
  check_gradients(R"(kernel scaled(%0: array<f64,2>, %1: array<f64,1>, %2: array<f64,2>) {
  %3: i32 = bid {axis=0}
  %4: i32 = constant {dtype=i32, value=0}
  %5: f64[1,8] = load %0, %3, %4 {pad=0.0, shape=[1,8], steps=[1,8]}
  %6: f64[8] = load %1, %4 {pad=0.0, shape=[8], steps=[8]}
  %7: f64[1,8] = reshape %6 {shape=[1,8]}
  %8: f64[1,8] = mul %5, %7
  %9: f64[1,8] = tanh %8
  store %2, %9, %3, %4 {steps=[1,8]}
}
)",
                  {3, 1, 1}, {random_array({3, 7}, 1), random_array({7}, 2), TestArray::of({3, 7})});
}

constexpr std::string_view product = R"(kernel product(%0: array<f64,2>, %1: array<f64,2>, %2: array<f64,2>) {
  %3: i32 = bid {axis=0}
  %4: i32 = bid {axis=1}
  %5: i32 = constant {dtype=i32, value=0}
  %6: i32 = constant {dtype=i32, value=1}
  %7: i32 = dim %0 {axis=1}
  %8: i32 = constant {dtype=i32, value=4}
  %9: i32 = cdiv %7, %8
  %10: f64 = constant {dtype=f64, value=0.0}
  %11: f64[4,4] = broadcast %10 {shape=[4,4]}
  %12: f64[4,4] = for %5, %9, %6, %11 (%13: i32, %14: f64[4,4]) {
    %15: f64[4,4] = load %0, %3, %13 {pad=0.0, shape=[4,4], steps=[4,4]}
    %16: f64[4,4] = load %1, %13, %4 {pad=0.0, shape=[4,4], steps=[4,4]}
    %17: f64[4,4] = mma %15, %16, %14
    yield %17
  }
  %18: f64[4,4] = tanh %12
  store %2, %18, %3, %4 {steps=[4,4]}
}
)";
TEST(Gradients, ProductsThatOnlyAccumulateNeedNoTrajectory) {
  const Function kernel = parse(product);
  EXPECT_TRUE(reverse(kernel, {{0}, {1}}, {2}).scratch.empty());
  check_gradients(product, {2, 2, 1},
                  {random_array({6, 9}, 1), random_array({9, 5}, 2), TestArray::of({6, 5})});
}

// y = y * tanh(x_i) + x_i, whose iterations need the earlier values.
constexpr std::string_view recurrence = R"(kernel recurrence(%0: array<f64,2>, %1: array<f64,1>) {
  %2: i32 = bid {axis=0}
  %3: i32 = constant {dtype=i32, value=0}
  %4: i32 = constant {dtype=i32, value=1}
  %5: i32 = dim %0 {axis=0}
  %6: f64 = constant {dtype=f64, value=0.5}
  %7: f64[4] = broadcast %6 {shape=[4]}
  %8: i32, %9: f64[4] = for %3, %5, %4, %3, %7 (%10: i32, %20: i32, %11: f64[4]) {
    %12: f64[1,4] = load %0, %20, %2 {pad=0.0, shape=[1,4], steps=[1,4]}
    %13: f64[4] = reshape %12 {shape=[4]}
    %14: f64[4] = tanh %13
    %15: f64[4] = mul %11, %14
    %16: f64[4] = add %15, %13
    %21: i32 = add %20, %4
    yield %21, %16
  }
  store %1, %9, %2 {steps=[4]}
}
)";
TEST(Gradients, LoopsWhoseValuesChange) {
  check_gradients(recurrence, {2, 1, 1}, {random_array({5, 6}, 1), TestArray::of({6})});
  check_gradients(recurrence, {2, 1, 1}, {random_array({1, 6}, 1), TestArray::of({6})});
}

// The result depends on the maximum only by rounding.
TEST(Gradients, ADetachedMaximumInALoop) {
  constexpr std::string_view logsumexp = R"(kernel logsumexp(%0: array<f64,2>, %1: array<f64,1>) {
  %2: i32 = bid {axis=0}
  %3: i32 = constant {dtype=i32, value=0}
  %4: i32 = constant {dtype=i32, value=1}
  %5: i32 = dim %0 {axis=0}
  %6: f64 = constant {dtype=f64, value=-100.0}
  %7: f64[4] = broadcast %6 {shape=[4]}
  %8: f64 = constant {dtype=f64, value=0.0}
  %9: f64[4] = broadcast %8 {shape=[4]}
  %10: f64[4], %11: f64[4] = for %3, %5, %4, %7, %9 (%12: i32, %13: f64[4], %14: f64[4]) {
    %15: f64[1,4] = load %0, %12, %2 {pad=0.0, shape=[1,4], steps=[1,4]}
    %16: f64[4] = reshape %15 {shape=[4]}
    %17: f64[4] = maximum %13, %16
    %18: f64[4] = detach %17
    %19: f64[4] = sub %13, %18
    %20: f64[4] = exp %19
    %21: f64[4] = mul %14, %20
    %22: f64[4] = sub %16, %18
    %23: f64[4] = exp %22
    %24: f64[4] = add %21, %23
    yield %18, %24
  }
  %25: f64[4] = log %11
  %26: f64[4] = add %25, %10
  store %1, %26, %2 {steps=[4]}
}
)";
  check_gradients(logsumexp, {2, 1, 1}, {random_array({5, 6}, 1), TestArray::of({6})});
  EXPECT_EQ(derived_kernel(logsumexp).scratch.size(), 1u);  // the maximum, but not the sum
}

TEST(Gradients, NestedLoopsAndBranches) {
  check_gradients(R"(kernel nested(%0: array<f64,2>, %1: array<f64,1>, %2: array<f64,1>) {
  %3: i32 = bid {axis=0}
  %4: i32 = constant {dtype=i32, value=0}
  %5: i32 = constant {dtype=i32, value=1}
  %6: i32 = constant {dtype=i32, value=3}
  %7: f64[4] = load %1, %3 {pad=0.0, shape=[4], steps=[4]}
  %8: f64[4] = for %4, %6, %5, %7 (%9: i32, %10: f64[4]) {
    %11: f64[4] = for %9, %6, %5, %10 (%12: i32, %13: f64[4]) {
      %14: f64[1,4] = load %0, %12, %3 {pad=0.0, shape=[1,4], steps=[1,4]}
      %15: f64[4] = reshape %14 {shape=[4]}
      %16: bool = eq %12, %5
      %17: f64[4] = if %16 () {
        %18: f64[4] = mul %13, %15
        yield %18
      } () {
        %19: f64[4] = sin %15
        %20: f64[4] = mul %19, %7
        %21: f64[4] = add %13, %20
        yield %21
      }
      %22: f64[4] = tanh %17
      yield %22
    }
    %23: f64[4] = mul %11, %7
    yield %23
  }
  store %2, %8, %3 {steps=[4]}
}
)",
                  {2, 1, 1}, {random_array({3, 7}, 1), random_array({7}, 2), TestArray::of({7})});
}

TEST(Gradients, OverlappingTilesOfAStencil) {
  check_gradients(R"(kernel stencil(%0: array<f64,1>, %1: array<f64,1>) {
  %2: i32 = bid {axis=0}
  %3: f64[8] = load %0, %2 {pad=0.0, shape=[8], steps=[4]}
  %4: i32 = constant {dtype=i32, value=0}
  %5: i32 = constant {dtype=i32, value=1}
  %6: f64[4] = extract %3, %4 {shape=[4]}
  %7: f64[4] = extract %3, %5 {shape=[4]}
  %8: f64[4] = mul %6, %7
  store %1, %8, %2 {steps=[4]}
}
)",
                  {3, 1, 1}, {random_array({11}, 1), TestArray::of({11})});
}

TEST(Gradients, ViewsShapesAndScans) {
  check_gradients(R"(kernel shapes(%0: array<f64,3>, %1: array<f64,2>) {
  %2: i32 = bid {axis=0}
  %3: i32 = constant {dtype=i32, value=0}
  %4: i32 = constant {dtype=i32, value=1}
  %5: i32 = constant {dtype=i32, value=5}
  %6: array<f64,2> = index %0, %2
  %7: array<f64,2> = permute_array %6 {axes=[1,0]}
  %8: array<f64,2> = slice %7, %4, %5 {axis=0}
  %9: f64[4,4] = load %8, %3, %3 {pad=1.0, shape=[4,4], steps=[4,4]}
  %10: f64[4,4] = permute %9 {axes=[1,0]}
  %11: f64[4,4] = scan %10 {axis=1} (%12: f64, %13: f64) {
    %14: f64 = add %12, %13
    yield %14
  }
  %15: f64[4] = reduce_prod %9 {axes=[0]}
  %16: f64[4] = reduce_min %11 {axes=[1]}
  %17: f64[8] = cat %15, %16 {axis=0}
  %18: f64[1,8] = reshape %17 {shape=[1,8]}
  store %1, %18, %2, %3 {steps=[1,8]}
}
)",
                  {2, 1, 1}, {random_array({2, 3, 6}, 1, 0.5, 2), TestArray::of({2, 8})});
}

TEST(Gradients, GatherAndScatter) {
  TestArray indices{{6}, {}, {3, 0, 3, 5, -1, 9}};
  TestArray places{{6}, {}, {5, 4, 3, 2, 1, 0}};
  check_gradients(R"(kernel picked(%0: array<f64,1>, %1: array<i32,1>, %2: array<i32,1>, %3: array<f64,1>) {
  %4: i32 = bid {axis=0}
  %5: i32[2] = load %1, %4 {pad=0, shape=[2], steps=[2]}
  %6: i32[2] = load %2, %4 {pad=0, shape=[2], steps=[2]}
  %7: f64[2] = gather %0, %5 {pad=2.0}
  %8: f64[2] = mul %7, %7
  scatter %3, %8, %6
}
)",
                  {3, 1, 1}, {random_array({6}, 1), indices, places, TestArray::of({6})});
}

TEST(Gradients, AdditionsToMemory) {
  check_gradients(R"(kernel column_sums(%0: array<f64,2>, %1: array<f64,1>) {
  %2: i32 = bid {axis=0}
  %3: i32 = constant {dtype=i32, value=0}
  %4: f64[2,4] = load %0, %2, %3 {pad=0.0, shape=[2,4], steps=[2,4]}
  %5: f64[2,4] = exp %4
  %6: f64[4] = reduce_sum %5 {axes=[0]}
  add_tile %1, %6, %3 {steps=[4]}
}
)",
                  {2, 1, 1}, {random_array({4, 4}, 1), TestArray::of({4})});
}

TEST(Gradients, EveryElementwiseRow) {
  for (const char* name :
       {"exp",  "log",   "sqrt",  "rsqrt", "sin",  "cos",  "tan",  "tanh", "sigmoid", "silu", "erf",
        "atan", "log1p", "expm1", "exp2",  "log2", "sinh", "cosh", "asin", "acos",    "abs",  "neg"})
    check_gradients(str(R"(kernel unary(%0: array<f64,1>, %1: array<f64,1>) {
  %2: i32 = bid {axis=0}
  %3: f64[4] = load %0, %2 {pad=0.5, shape=[4], steps=[4]}
  %4: f64[4] = )",
                        name, R"( %3
  store %1, %4, %2 {steps=[4]}
}
)"),
                    {2, 1, 1}, {random_array({7}, 1, 0.1, 0.9), TestArray::of({7})});
  for (const char* name : {"add", "sub", "mul", "div", "pow", "atan2", "minimum", "maximum", "mod"})
    check_gradients(str(R"(kernel binary(%0: array<f64,1>, %9: array<f64,1>, %1: array<f64,1>) {
  %2: i32 = bid {axis=0}
  %3: f64[4] = load %0, %2 {pad=0.5, shape=[4], steps=[4]}
  %5: f64[4] = load %9, %2 {pad=0.5, shape=[4], steps=[4]}
  %4: f64[4] = )",
                        name, R"( %3, %5
  store %1, %4, %2 {steps=[4]}
}
)"),
                    {2, 1, 1},
                    {random_array({7}, 1, 0.1, 0.9), random_array({7}, 2, 0.1, 0.9), TestArray::of({7})});
}

}  // namespace
}  // namespace tile
