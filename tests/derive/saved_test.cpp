// Tests which tiles a kernel saves for its gradient, by the sizes of a launch.
#include "derive/saved.h"

#include <gtest/gtest.h>

#include "ir/print.h"
#include "runtime/reverse_kernel.h"

namespace tile {
namespace {

std::string product(const std::string& dtype) {
  return "kernel product(%0: array<" + dtype + ",2>, %1: array<" + dtype + ",2>, %2: array<" + dtype +
         R"(,2>) {
  %3: i32 = bid {axis=0}
  %4: i32 = bid {axis=1}
  %5: f32 = constant {dtype=f32, value=0.0}
  %6: f32[32,32] = broadcast %5 {shape=[32,32]}
  %7: i32 = dim %0 {axis=1}
  %8: i32 = constant {dtype=i32, value=16}
  %9: i32 = cdiv %7, %8
  %10: i32 = constant {dtype=i32, value=0}
  %11: i32 = constant {dtype=i32, value=1}
  %12: f32[32,32] = for %10, %9, %11, %6 (%13: i32, %14: f32[32,32]) {
    %15: )" +
         dtype + R"([32,16] = load %0, %3, %13 {pad=0.0, shape=[32,16], steps=[32,16]}
    %16: )" +
         dtype + R"([16,32] = load %1, %13, %4 {pad=0.0, shape=[16,32], steps=[16,32]}
    %17: f32[32,32] = mma %15, %16, %14
    yield %17
  }
  %18: f32[32,32] = exp %12
  %19: )" +
         dtype + R"([32,32] = astype %18 {dtype=)" + dtype + R"(}
  store %2, %19, %3, %4 {steps=[32,32]}
}
)";
}

std::string row_of(int64_t width) {
  const std::string shape = str("[1,", width, "]"), tile = str("f32", shape);
  return str(R"(kernel row(%0: array<f32,2>, %1: array<f32,2>) {
  %2: i32 = bid {axis=0}
  %3: i32 = constant {dtype=i32, value=0}
  %4: )",
             tile, " = load %0, %2, %3 {pad=0.0, shape=", shape, ", steps=", shape, R"(}
  %5: )",
             tile, R"( = mul %4, %4
  %6: f32[1] = reduce_sum %5 {axes=[1]}
  %7: f32[1] = rsqrt %6
  %8: f32[1,1] = reshape %7 {shape=[1,1]}
  %9: )",
             tile, " = broadcast %8 {shape=", shape, R"(}
  %10: )",
             tile, R"( = mul %4, %9
  store %1, %10, %2, %3 {steps=)",
             shape, R"(}
}
)");
}

// The tiles that are saved for arrays of such an inner extent and 64 rows and columns.
std::string saved(const std::string& text, std::vector<size_t> inputs, size_t result, int64_t inner,
                  int64_t blocks, bool cpu = false) {
  const Function function = parse(text);
  SavingKernels kernels(function, std::move(inputs), {result});
  LaunchSizes sizes{{blocks, blocks, 1},
                    [&](size_t parameter, int64_t axis) {
                      const bool is_inner = parameter == 0 ? axis == 1 : parameter == 1 && axis == 0;
                      return is_inner ? inner : int64_t{64};
                    },
                    [](size_t) { return int64_t{0}; }};
  const auto& arrays = function.body().arguments;
  for (size_t i = 0; i < arrays.size(); ++i)
    sizes.bytes += sizes.extent(i, 0) * sizes.extent(i, 1) * info(arrays[i]->type.dtype).bytes;
  const SavingKernel* kernel = kernels.choose(sizes, cpu);
  std::string list;
  if (kernel)
    for (const SavedTile& each : kernel->tiles) list += str(each.dtype, "[", join(each.shape), "]");
  return list;
}

TEST(Saved, SumsOfLongProductsAre) {
  EXPECT_EQ(saved(product("f32"), {0, 1}, 2, 1024, 2), "f32[32, 32]");
  EXPECT_EQ(saved(product("bf16"), {0, 1}, 2, 1024, 2), "bf16[32, 32]");
  EXPECT_EQ(saved(product("f16"), {0, 1}, 2, 1024, 2), "f32[32, 32]");  // rounded, it may overflow
  EXPECT_EQ(saved(product("f32"), {0, 1}, 2, 1024, 2, true), "f32[32, 32]");
}
TEST(Saved, SumsOfShortProductsAreNot) { EXPECT_EQ(saved(product("bf16"), {0, 1}, 2, 16, 2), ""); }
TEST(Saved, TilesTakeNoMoreMemoryThanTheArrays) { EXPECT_EQ(saved(product("f32"), {0, 1}, 2, 1024, 32), ""); }
TEST(Saved, SumsOfLongRowsAre) {
  EXPECT_EQ(saved(row_of(4096), {0}, 1, 4096, 8), "f32[1]");
  EXPECT_EQ(saved(row_of(64), {0}, 1, 64, 8), "");
}

TEST(Saved, TheDerivedKernelLoadsInThePlaceOfTheLoop) {
  SavingKernels kernels(parse(product("f32")), {0, 1}, {2});
  const SavingKernel* kernel = kernels.all();
  ASSERT_TRUE(kernel);
  EXPECT_EQ(positions_of(kernel->tiles), (std::vector<size_t>{3}));
  EXPECT_EQ(kernel->function.name(), "product_saving");
  const Derived derived = reverse(kernel->function, {{0}, {1}}, {2}, -1, {}, positions_of(kernel->tiles));
  int loops = 0, loads = 0, stores = 0;
  walk(derived.function.body(), [&](const Op& op) {
    const bool of_saved = (op.traits().reads || op.traits().writes) &&
                          root_array(op.operands[0]) == derived.function.body().arguments[3];
    loops += op.is("for");
    loads += of_saved && op.traits().reads;
    stores += of_saved && op.traits().writes;
  });
  EXPECT_EQ(loops, 1);  // that of the gradients
  EXPECT_EQ(loads, 1);
  EXPECT_EQ(stores, 0);
}

TEST(Saved, TouchedParametersAreTheKernelsOwn) {
  const LaunchSizes sizes{{2, 2, 1}, [](size_t, int64_t) { return 64; }, nullptr};
  ReverseKernel plain(parse(product("f32")));
  const std::shared_ptr<ReverseKernel> saving = plain.saving({0, 1}, {2}, sizes, true, true);
  ASSERT_TRUE(saving);
  EXPECT_EQ(saving->saved().size(), 1u);
  EXPECT_EQ(saving->touched().read, 0b011u);
  EXPECT_EQ(saving->touched().written, 0b100u);
}
TEST(Saved, OnlyTheFirst64ParametersAreNotedAsTouched) {
  std::string text = "kernel many(";
  for (int i = 0; i < 66; ++i) text += str(i ? ", " : "", "%", i, ": array<f32,1>");
  text += R"() {
  %66: i32 = bid {axis=0}
  %67: f32[4] = load %0, %66 {pad=0.0, shape=[4], steps=[4]}
  store %63, %67, %66 {steps=[4]}
  store %65, %67, %66 {steps=[4]}
}
)";
  const ReverseKernel kernel(parse(text));
  EXPECT_EQ(kernel.touched().read, 1u);
  EXPECT_EQ(kernel.touched().written, uint64_t{1} << 63);
}

// Errors of the compiler itself are raised in each call; others mean that nothing is saved.
TEST(Saved, ErrorsOfTheCompilerAreRaised) {
  ReverseKernel kernel(parse(product("f32")));
  int asked = 0;
  LaunchSizes sizes{{2, 2, 1}, {}, [](size_t) { return int64_t{0}; }, int64_t{1} << 20};
  ErrorKind kind = ErrorKind::runtime;
  sizes.extent = [&](size_t, int64_t) -> int64_t {
    if (++asked > 6) fail(kind, "an error");  // behind those of the key
    return 64;
  };
  for (int i = 0; i < 2; ++i, asked = 0) EXPECT_THROW(kernel.saving({0, 1}, {2}, sizes, true), Error);
  kind = ErrorKind::unsupported;
  EXPECT_EQ(kernel.saving({0, 1}, {2}, sizes, true), nullptr);
}

}  // namespace
}  // namespace tile
