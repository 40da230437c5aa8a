// Tests the pass that finds gathers and scatters of adjacent elements.
#include "pass_text.h"

namespace tile {
namespace {

// Copies 16 elements from place `shift` on to the front. A mask hides all but the first `bound`.
std::string text(std::string_view facts, int shift, int bound) {
  return str("kernel k(%x: array<f32,1>, %o: array<f32,1>)", facts, R"( {
  %i: i32[16] = arange {dtype=i32, size=16}
  %s: i32 = constant {dtype=i32, value=)",
             shift, R"(}
  %t: i32[16] = broadcast %s {shape=[16]}
  %j: i32[16] = add %i, %t
  %b: i32 = constant {dtype=i32, value=)",
             bound, R"(}
  %c: i32[16] = broadcast %b {shape=[16]}
  %m: bool[16] = lt %i, %c
  %v: f32[16] = gather %x, %j, %m {pad=0.0}
  scatter %o, %v, %i, %m
})");
}
std::string runs_of(std::string_view facts, int shift, int bound) {
  const std::string result = after("find_runs", text(facts, shift, bound));
  std::string found;
  for (size_t at = result.find("run=["); at != std::string::npos; at = result.find("run=[", at + 1))
    found += result.substr(at, result.find(']', at) + 1 - at) + " ";
  return found;
}
constexpr std::string_view gpu = " {array.0.unit=0, array.1.unit=0}";

TEST(Runs, TakeVectorsThatNoMaskDivides) {
  EXPECT_EQ(runs_of(gpu, 4, 8), "run=[0,0,4] run=[0,0,4] ");
  EXPECT_EQ(runs_of(gpu, 2, 8), "run=[0,0,2] run=[0,0,4] ");
  EXPECT_EQ(runs_of(gpu, -4, 6), "run=[0,0,2] run=[0,0,2] ");
  EXPECT_EQ(runs_of(gpu, 0, 7), "");
  EXPECT_EQ(runs_of(gpu, 1, 8), "run=[0,0,4] ");
}

TEST(Runs, AreAGpusAlone) { EXPECT_EQ(runs_of("", 4, 8), ""); }

}  // namespace
}  // namespace tile
