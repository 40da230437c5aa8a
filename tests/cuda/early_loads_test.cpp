// Tests where loads of rows and columns of an epilogue begin.
#include "cuda/async/early_loads.h"

#include <gtest/gtest.h>

#include "cuda/async/epilogue.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "runtime/text_kernel.h"

namespace tile::cuda {
namespace {

// An epilogue of a bias of each column and a scale of each row, whose number behind the loop is computed
// there.
constexpr const char* epilogue =
    R"(kernel k(%a: array<f32,2>, %b: array<f32,2>, %bias: array<f32,2>, %c: array<f32,2>) {
  %i: i32 = bid {axis=0}
  %j: i32 = bid {axis=1}
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %t: i32 = constant {dtype=i32, value=3}
  %z: f32 = constant {dtype=f32, value=0.0}
  %zs: f32[8,192] = broadcast %z {shape=[8,192]}
  %r: f32[8,192] = for %0, %t, %1, %zs (%k: i32, %acc: f32[8,192]) {
    %x: f32[8,16] = load %a, %i, %k {pad=0.0, shape=[8,16], steps=[8,16]}
    %y: f32[16,192] = load %b, %k, %j {pad=0.0, shape=[16,192], steps=[16,192]}
    %m: f32[8,192] = mma %x, %y, %acc
    yield %m
  }
  %row: f32[1,192] = load %bias, %0, %j {pad=0.0, shape=[1,192], steps=[1,192]}
  %rows: f32[8,192] = broadcast %row {shape=[8,192]}
  %s: f32[8,192] = add %r, %rows
  %at: i32 = add %t, %1
  %scale: f32[8,1] = load %a, %i, %at {pad=0.0, shape=[8,1], steps=[8,1]}
  %scales: f32[8,192] = broadcast %scale {shape=[8,192]}
  %p: f32[8,192] = mul %s, %scales
  store %c, %p, %i, %j {steps=[8,192]}
}
)";

// The names of the ops from the first load or loop on, with their panels.
std::string order_of(const Function& function) {
  std::string text;
  for (const auto& op : function.body().ops) {
    const bool counts = op->is("load") || op->is("for") || op->is("extract") || op->is("store");
    if (!counts) continue;
    text += text.empty() ? "" : ", ";
    text += std::string(op->name());
    if (op->has("panel")) text += " " + std::to_string(op->integer("panel"));
  }
  return text;
}
Function divided(const std::string& text) {
  Function function = parse(text);
  divide_epilogues(function);
  begin_loads_early(function);
  verify(function, "begin_loads_early");
  return function;
}

TEST(EarlyLoads, RowsBeginAPanelAhead) {
  EXPECT_EQ(order_of(divided(epilogue)),
            "load, load 0, for, load 1, extract 0, store 0, load 2, extract 1, store 1, extract 2, store 2");
}

// A row of an array that the kernel stores, and a column whose number is loaded.
TEST(EarlyLoads, OthersStay) {
  const auto with = [](const std::string& from, const std::string& to) {
    std::string text = epilogue;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return order_of(divided(text.replace(at, from.size(), to)));
  };
  EXPECT_EQ(
      with("  %zs:",
           "  %ones: f32[1,8] = broadcast %z {shape=[1,8]}\n"
           "  store %bias, %ones, %0, %0 {steps=[1,8]}\n  %zs:"),
      "store, load, for, extract 0, load 0, store 0, extract 1, load 1, store 1, extract 2, load 2, store 2");
  EXPECT_EQ(
      with("%at: i32 = add %t, %1",
           "%n: f32[2,2] = load %a, %0, %0 {pad=0.0, shape=[2,2], steps=[2,2]}\n"
           "  %ns: f32 = reduce_max %n {axes=[0,1], keep=0}\n"
           "  %at: i32 = astype %ns {dtype=i32}"),
      "load 0, for, load, load, load 1, extract 0, store 0, load 2, extract 1, store 1, extract 2, store 2");
}

TEST(EarlyLoads, ComputesTheSame) {
  const auto run = [](const std::string& kernel) {
    const int64_t sizes[][2] = {{20, 40}, {40, 200}, {1, 200}, {20, 200}};
    std::vector<std::vector<float>> data;
    std::vector<Argument> arguments;
    for (const auto& size : sizes) {
      std::vector<float>& each = data.emplace_back(static_cast<size_t>(size[0] * size[1]));
      for (size_t at = 0; at < each.size(); ++at)
        each[at] = static_cast<float>((at * 37 + data.size() * 11) % 101) / 64 - 0.7f;
      ArrayArgument array;
      array.data = each.data(), array.dtype = DType::f32, array.rank = 2;
      array.sizes[0] = static_cast<int32_t>(size[0]), array.sizes[1] = static_cast<int32_t>(size[1]);
      array.strides[0] = size[1], array.strides[1] = 1;
      arguments.emplace_back(array);
    }
    TextKernel(kernel).launch({3, 2, 1}, arguments);
    return data[3];
  };
  EXPECT_EQ(run(print(divided(epilogue), false)), run(epilogue));
}

}  // namespace
}  // namespace tile::cuda
