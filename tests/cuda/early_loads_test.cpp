// Tests where loads of rows and columns of an epilogue begin.
#include "cuda/async/early_loads.h"

#include <gtest/gtest.h>

#include "cuda/async/epilogue.h"
#include "cuda/async_cases.h"
#include "ir/print.h"
#include "ir/verify.h"

namespace tile::cuda {
namespace {

// An epilogue of a bias of each column and a scale of each row, whose number behind the loop is computed
// there.
const std::string epilogue = product_and(R"(  %at: i32 = add %t, %1
  %scale: f32[8,1] = load %a, %i, %at {pad=0.0, shape=[8,1], steps=[8,1]}
  %scales: f32[8,192] = broadcast %scale {shape=[8,192]}
  %p: f32[8,192] = mul %s, %scales
  store %c, %p, %i, %j {steps=[8,192]}
)",
                                         192);

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
  const auto changed = [](const std::string& from, const std::string& to) {
    EXPECT_NE(epilogue.find(from), std::string::npos) << from;
    return order_of(divided(with(epilogue, from, to)));
  };
  EXPECT_EQ(
      changed("  %zs:",
              "  %ones: f32[1,8] = broadcast %z {shape=[1,8]}\n"
              "  store %bias, %ones, %0, %0 {steps=[1,8]}\n  %zs:"),
      "store, load, for, extract 0, load 0, store 0, extract 1, load 1, store 1, extract 2, load 2, store 2");
  EXPECT_EQ(
      changed("%at: i32 = add %t, %1",
              "%n: f32[2,2] = load %a, %0, %0 {pad=0.0, shape=[2,2], steps=[2,2]}\n"
              "  %ns: f32 = reduce_max %n {axes=[0,1], keep=0}\n"
              "  %at: i32 = astype %ns {dtype=i32}"),
      "load 0, for, load, load, load 1, extract 0, store 0, load 2, extract 1, store 1, extract 2, store 2");
}

TEST(EarlyLoads, ComputesTheSame) {
  EXPECT_EQ(run_product(print(divided(epilogue), false)), run_product(epilogue));
}

}  // namespace
}  // namespace tile::cuda
