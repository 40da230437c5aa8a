// Tests properties of compiled programs: the names of their configurations, and the thread hints of their
// authors.
#include "cuda/program.h"

#include <gtest/gtest.h>

#include <optional>

#include "dsl/tracer.h"
#include "passes/pipeline.h"
#include "support/text.h"
#include "tile.h"

namespace tile::cuda {
namespace {

TEST(Configurations, HaveNames) {
  EXPECT_EQ(join(configurations, "; ", [](const Configuration& each) { return text_of(each); }),
            "usual; rematerialize; single CTA; rematerialize, single CTA; single CTA, no prefetch; 2x warps, "
            "single CTA; "
            "1/2x warps, single CTA; "
            "2x blocks; 4x warps, single CTA");
  EXPECT_EQ(text_of({.warps = -2, .blocks = -1}), "1/4x warps, 1/2x blocks");
  EXPECT_EQ(text_of(group_configurations[1]), "panels in turn");
  EXPECT_EQ(text_of(group_configurations[3]), "nothing held");
  EXPECT_EQ(text_of(group_configurations[4]), "no queue");
  EXPECT_EQ(text_of({.single_cta = true, .wgmma = false}), "without wgmma, single CTA");
}

// A kernel that doubles a row of so many columns, or multiplies two matrices.
Program program(std::optional<int> hint, int columns, bool multiplies = false, const Target& target = {}) {
  Tracer tracer("kernel");
  Function& function = tracer.function();
  Array x(function.add_argument(function.body(), Type::array(f16, 2), {}));
  if (hint) hint_threads(*hint);
  Tile t = x.tiled_view({multiplies ? columns : 1, columns}).load({bid(0), 0});
  x.tiled_view(t.shape()).store({bid(0), 1},
                                multiplies ? mma(t, t, zeros(t.shape(), f32)).astype(f16) : t + t);
  Function traced = tracer.finish();
  run_passes(traced);
  return Program(traced, target);
}
int threads(std::optional<int> hint, int columns, bool multiplies = false, const Target& target = {}) {
  return program(hint, columns, multiplies, target).threads;
}

TEST(Names, HaveAPrefix) {
  const auto entry = [](const char* name) {
    Tracer tracer(name);
    Array x(tracer.function().add_argument(tracer.function().body(), Type::array(f16, 2), {}));
    x.tiled_view({1, 8}).store({0, 1}, x.tiled_view({1, 8}).load({0, 0}));
    Function traced = tracer.finish();
    run_passes(traced);
    return Program(traced, Target{}).entry;
  };
  for (const char* name : {"row_max", "max", "fmaxf", "int", "memory", "u8", "Window"})
    EXPECT_EQ(entry(name), std::string("kernel_") + name);
}

TEST(HintThreads, ScalesTheThreadsOfABlock) {
  const int usual = threads({}, 4096);
  ASSERT_EQ(usual, 128);
  EXPECT_EQ(threads(0, 4096), usual);
  EXPECT_EQ(threads(-1, 4096), usual / 2);
  EXPECT_EQ(threads(-2, 4096), usual / 4);
  EXPECT_EQ(threads(2, 4096), usual * 4);
  EXPECT_EQ(program(0, 4096).source, program({}, 4096).source);
}

TEST(HintThreads, StaysBetweenAWarpAndABlock) {
  EXPECT_EQ(threads(-5, 4096), 32);
  EXPECT_EQ(threads(5, 4096), 1024);
  EXPECT_EQ(threads(5, 4096, false, {.max_threads = 512}), 512);
  EXPECT_EQ(threads(-1, 8), 32);
}

TEST(HintThreads, OfProductsOnlyMore) {
  const int usual = threads({}, 64, true);
  ASSERT_EQ(usual, 128);
  EXPECT_EQ(threads(-1, 64, true), usual);
  EXPECT_EQ(threads(1, 64, true), 2 * usual);
  EXPECT_EQ(threads(5, 64, true), 256);
}

TEST(HintThreads, JoinsTheConfigurations) {
  Tracer tracer("kernel");
  Function& function = tracer.function();
  Array x(function.add_argument(function.body(), Type::array(f16, 1), {}));
  hint_threads(-1);
  hint_threads(1);  // the last hint counts
  x.tiled_view({4096}).store({0}, x.tiled_view({4096}).load({1}) * 2.0);
  const Function traced = tracer.finish();
  EXPECT_EQ(Program(traced, {}, {.warps = -1}).threads, 128);
  EXPECT_EQ(Program(traced, {}, {.warps = 1}).threads, 512);
}

}  // namespace
}  // namespace tile::cuda
