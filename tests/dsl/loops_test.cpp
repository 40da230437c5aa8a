// Tests the traces of while_loop, break_loop and continue_loop.
#include <gtest/gtest.h>

#include "dsl/tracer.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "tile.h"

namespace tile {
namespace {

// Returns the text of a kernel with one array, i32[n].
std::string traced(const std::function<void(Array)>& body) {
  Tracer tracer("k");
  Function& function = tracer.function();
  Array x(function.add_argument(function.body(), Type::array(i32, 1), {}));
  body(x);
  Function done = tracer.finish();
  verify(done, "tracing");
  return print(done, false);
}
Tile at(Array x, Tile i) { return gather(x, {i}); }

TEST(Loops, WhileCarriesWhatItsBodyAssigns) {
  EXPECT_EQ(traced([](Array x) {
              Tile i = 7, unchanged = 3;
              while_loop([&] { return i > 0; }, [&] { i -= unchanged; });
              scatter(x, {unchanged}, i);
            }),
            R"(kernel k(%0: array<i32,1>) {
  %1: i32 = constant {dtype=i32, value=7}
  %2: i32 = constant {dtype=i32, value=3}
  %3: i32 = loop %1 (%4: i32) {
    %5: i32 = constant {dtype=i32, value=0}
    %6: bool = gt %4, %5
    if %6 () {
      yield
    } () {
      break %4
    }
    %7: i32 = sub %4, %2
    continue %7
  }
  scatter %0, %3, %2
}
)");
}

TEST(Loops, AJumpTakesTheValuesOfItsPlace) {
  EXPECT_EQ(traced([](Array x) {
              Tile found = -1, sum = 0;
              for (Tile i : range(x.dim(0))) {
                Tile value = at(x, i);
                when(value < 0, [&] { continue_loop(); });
                when(value == 5, [&] {
                  found = i;
                  break_loop();
                });
                sum += value;
              }
              scatter(x, {found}, sum);
            }),
            R"(kernel k(%0: array<i32,1>) {
  %1: i32 = constant {dtype=i32, value=-1}
  %2: i32 = constant {dtype=i32, value=0}
  %3: i32 = dim %0 {axis=0}
  %4: i32 = constant {dtype=i32, value=0}
  %5: i32 = constant {dtype=i32, value=1}
  %6: i32, %7: i32, %8: i32 = loop %4, %1, %2 (%9: i32, %10: i32, %11: i32) {
    %12: bool = lt %9, %3
    if %12 () {
      yield
    } () {
      break %9, %10, %11
    }
    %13: i32 = gather %0, %9 {pad=0}
    %14: i32 = constant {dtype=i32, value=0}
    %15: bool = lt %13, %14
    if %15 () {
      %16: i32 = sub %3, %9
      %17: u32 = bitcast %16 {dtype=u32}
      %18: u32 = bitcast %5 {dtype=u32}
      %19: bool = gt %17, %18
      %20: i32 = add %9, %5
      %21: i32 = where %19, %20, %3
      continue %21, %10, %11
    } () {
      yield
    }
    %22: i32 = constant {dtype=i32, value=5}
    %23: bool = eq %13, %22
    if %23 () {
      break %9, %9, %11
    } () {
      yield
    }
    %24: i32 = add %11, %13
    %25: i32 = sub %3, %9
    %26: u32 = bitcast %25 {dtype=u32}
    %27: u32 = bitcast %5 {dtype=u32}
    %28: bool = gt %26, %27
    %29: i32 = add %9, %5
    %30: i32 = where %28, %29, %3
    continue %30, %10, %24
  }
  scatter %0, %8, %7
}
)");
}

TEST(Loops, OfOneIterationAndNested) {
  const std::string text = traced([](Array x) {
    Tile count = 0;
    while_loop([&] { return count < 10; },
               [&] {
                 for (Tile k : range(3)) {
                   when(k == count, [&] { break_loop(); });
                   count += 1;
                 }
                 when(
                     count > 5, [&] { break_loop(); }, [&] { count += 2; });
               });
    for (Tile k : range(4)) {
      count += k;
      break_loop();
    }
    scatter(x, {count}, count);
  });
  EXPECT_NE(text.find("loop"), std::string::npos);
  EXPECT_EQ(text.find("for"), std::string::npos);
}

}  // namespace
}  // namespace tile
