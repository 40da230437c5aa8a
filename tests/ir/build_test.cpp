// Tests where the builder inserts ops, and that their results belong there.
#include "ir/build.h"

#include <gtest/gtest.h>

#include "ir/print.h"
#include "ir/verify.h"
#include "ir/walk.h"

namespace tile {
namespace {

TEST(Builder, InsertsOpsThatAreMadeOrMoved) {
  Function function = parse(R"(kernel k(%0: i32, %1: i32[8]) {
  %2: i32[8] = for %0, %0, %0, %1 (%3: i32, %4: i32[8]) {
    %5: i32 = add %0, %0
    yield %4
  }
}
)");
  Block& body = function.body();
  Block& inside = body.ops[0]->region();
  std::unique_ptr<Op> moved = std::move(inside.ops[0]);
  inside.ops.erase(inside.ops.begin());
  ValueMap map;
  std::unique_ptr<Op> copy = clone(*moved, function, map);
  Builder build(function, body);
  build.at(body, 0);
  build.insert(std::move(moved));
  build.to_end(body);
  build.insert(std::move(copy));
  verify(function, "a pass");
  EXPECT_EQ(print(function, false), R"(kernel k(%0: i32, %1: i32[8]) {
  %2: i32 = add %0, %0
  %3: i32[8] = for %0, %0, %0, %1 (%4: i32, %5: i32[8]) {
    yield %5
  }
  %6: i32 = add %0, %0
}
)");
}

}  // namespace
}  // namespace tile
