// Tests that assertions keep their position: among writes, in their loop, in their branch.
#include "pass_text.h"

namespace tile {
namespace {

TEST(Effects, StayBetweenTheWritesAroundThemAndAreNeverMerged) {
  EXPECT_EQ(optimised(R"(kernel k(%x: array<f32,1>) {
  %i: i32 = bid {axis=0}
  %a: f32[4] = load %x, %i {pad=0.0, shape=[4], steps=[4]}
  store %x, %a, %i {steps=[4]}
  %ok: bool[4] = eq %a, %a
  assert %ok {message="a"}
  assert %ok {message="a"}
  %b: f32[4] = exp %a
  store %x, %b, %i {steps=[4]}
})"),
            R"(kernel k(%0: array<f32,1>) {
  %1: i32 = bid {axis=0}
  %2: f32[4] = load %0, %1 {pad=0.0, shape=[4], steps=[4]}
  store %0, %2, %1 {steps=[4]}
  %3: bool[4] = eq %2, %2
  assert %3 {message="a"}
  assert %3 {message="a"}
  %4: f32[4] = exp %2
  store %0, %4, %1 {steps=[4]}
}
)");
}

// The condition leaves the loop, but the effects in its body do not, nor do they leave the branch.
TEST(Effects, StayInLoopsAndBranches) {
  EXPECT_EQ(optimised(R"(kernel k(%x: array<f32,1>, %n: i32) {
  %zero: i32 = constant {dtype=i32, value=0}
  %one: i32 = constant {dtype=i32, value=1}
  for %zero, %n, %one (%i: i32) {
    %a: f32[4] = load %x, %n {pad=0.0, shape=[4], steps=[4]}
    %ok: bool[4] = eq %a, %a
    assert %ok {message="in a loop"}
    %odd: bool = lt %n, %one
    if %odd () {
      assert %ok {message="in a branch"}
      yield
    } () {
      yield
    }
    yield
  }
})"),
            R"(kernel k(%0: array<f32,1>, %1: i32) {
  %2: i32 = constant {dtype=i32, value=0}
  %3: i32 = constant {dtype=i32, value=1}
  %4: f32[4] = load %0, %1 {pad=0.0, shape=[4], steps=[4]}
  %5: bool[4] = eq %4, %4
  %6: bool = lt %1, %3
  for %2, %1, %3 (%7: i32) {
    assert %5 {message="in a loop"}
    if %6 () {
      assert %5 {message="in a branch"}
      yield
    } () {
      yield
    }
    yield
  }
}
)");
}

TEST(Effects, OfWhatIsKnownGo) {
  EXPECT_EQ(after("simplify", R"(kernel k(%x: array<f32,1>) {
  %yes: bool = constant {dtype=bool, value=1}
  %no: bool = constant {dtype=bool, value=0}
  %all: bool[4] = broadcast %yes {shape=[4]}
  assert %yes {message="a"}
  assert %all {message="b"}
  assert %no {message="c"}
})"),
            R"(kernel k(%0: array<f32,1>) {
  %1: bool = constant {dtype=bool, value=1}
  %2: bool = constant {dtype=bool, value=0}
  %3: bool[4] = broadcast %1 {shape=[4]}
  assert %2 {message="c"}
}
)");
}

TEST(Effects, ALoopThatDoesNothingElseIsKept) {
  constexpr const char* text = R"(kernel k(%0: i32) {
  %1: i32 = constant {dtype=i32, value=0}
  %2: i32 = constant {dtype=i32, value=1}
  for %1, %0, %2 (%3: i32) {
    %4: bool = lt %3, %2
    assert %4 {message="one turn"}
    yield
  }
}
)";
  EXPECT_EQ(after("dce", text), text);
  EXPECT_EQ(after("licm", text), text);
}

}  // namespace
}  // namespace tile
