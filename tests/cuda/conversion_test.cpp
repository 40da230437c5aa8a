// Tests moves between layouts: every way delivers every element, bank conflicts are as planned, and the
// cheapest way is chosen.
#include "cuda/conversion.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "cuda/access_cost.h"
#include "cuda/mma_plan.h"
#include "cuda/register_map.h"
#include "cuda/shared_layout.h"

namespace tile::cuda {
namespace {

constexpr int lanes = 32;

std::string text(const MoveEnd& from, const MoveEnd& to) {
  return describe(from.layout) + " -> " + describe(to.layout);
}

// Register r of a thread gets the element with its index.
void expect_shuffled(const ShufflePlan& plan, const MoveEnd& from, const MoveEnd& to, int threads) {
  for (int thread = 0; thread < threads; ++thread)
    for (int r = 0; r < to.layout.registers(); ++r) {
      if (!holds(to.layout, 0, thread, r)) continue;
      const auto [giver, given] = plan.source(thread, r);
      ASSERT_EQ(giver / lanes, thread / lanes);
      ASSERT_TRUE(holds(from.layout, 0, giver, given)) << text(from, to);
      ASSERT_EQ(linear_index(from.layout, from.weights, 0, giver, given),
                linear_index(to.layout, to.weights, 0, thread, r))
          << text(from, to);
    }
  // A lane sends one word at a time: in each round all receivers of a lane get the same word.
  for (int w = 0; w < plan.words; ++w) {
    std::map<int, int> given;
    for (int thread = 0; thread < threads; ++thread) {
      int word = w;
      for (size_t i = 0; i < plan.exchanges.size(); ++i) word ^= (thread >> plan.exchanges[i].taken & 1) << i;
      for (int r = 0; r < to.layout.registers(); ++r) {
        if (plan.to[static_cast<size_t>(r)] != word * plan.together) continue;
        const auto [giver, reg] = plan.source(thread, r);
        ASSERT_EQ(given.emplace(giver, reg).first->second, reg) << text(from, to);
      }
    }
  }
}

void expect_through_shared(const SharedMove& move, const MoveEnd& from, const MoveEnd& to, int bytes,
                           int threads) {
  std::map<int64_t, int64_t> memory;  // offset -> index
  const int copies = from.layout.replicas(threads);
  const auto count = [&](const SharedMove::Side& side, bool writes) {
    int passes = 0;
    for (int i = 0; i < static_cast<int>(side.at.size()); ++i) {
      std::vector<int64_t> offsets;
      for (int lane = 0; lane < lanes; ++lane)
        offsets.push_back(writes && (lane & copies) ? -1 : move.offset(side, 0, lane, i) * bytes);
      passes += shared_passes(offsets, side.together * bytes);
    }
    EXPECT_EQ(passes, side.passes) << text(from, to);
  };
  count(move.write, true), count(move.read, false);
  for (int thread = 0; thread < threads; ++thread) {
    if (thread & copies) continue;
    for (int i = 0; i < static_cast<int>(move.write.at.size()); ++i) {
      const int64_t offset = move.offset(move.write, 0, thread, i);
      ASSERT_EQ(offset % move.write.together, 0);
      ASSERT_LE(offset + move.write.together, move.elements);
      for (int e = 0; e < move.write.together; ++e) {
        const int r = move.given[static_cast<size_t>(i * move.write.together + e)];
        ASSERT_TRUE(memory.emplace(offset + e, linear_index(from.layout, from.weights, 0, thread, r)).second)
            << text(from, to);
      }
    }
  }
  for (int thread = 0; thread < threads; ++thread)
    for (int r = 0; r < to.layout.registers(); ++r) {
      const int element = move.taken[static_cast<size_t>(r)], i = element / move.read.together;
      const int64_t offset = move.offset(move.read, 0, thread, i) + element % move.read.together;
      ASSERT_EQ(offset / move.read.together * move.read.together, move.offset(move.read, 0, thread, i));
      const auto found = memory.find(offset);
      ASSERT_NE(found, memory.end()) << text(from, to);
      if (holds(to.layout, 0, thread, r))
        ASSERT_EQ(found->second, linear_index(to.layout, to.weights, 0, thread, r)) << text(from, to);
    }
}

struct Ways {
  bool shuffles = false, shared = false;
};
Ways expect_moved(const MoveEnd& from, const MoveEnd& to, int bytes, int warps) {
  const int threads = warps * lanes;
  const char* why_not = "";
  const auto shuffles =
      shuffle_plan(from.layout, from.weights, to.layout, to.weights, bytes, threads, 1, why_not);
  const auto shared = shared_move(from.layout, from.weights, to.layout, to.weights, bytes, threads);
  if (shuffles) expect_shuffled(*shuffles, from, to, threads);
  if (shared) expect_through_shared(*shared, from, to, bytes, threads);
  return {shuffles.has_value(), shared.has_value()};
}

// A layout of the shape with modes of extent 2 distributed at random, and odd modes in registers.
Layout random_layout(const Shape& shape, int warps, std::mt19937& random) {
  std::vector<Mode> modes;
  std::vector<std::pair<Level, int>> free;
  for (int bit = 1; bit < lanes; bit *= 2) free.push_back({Level::lane, bit});
  for (int bit = 1; bit < warps; bit *= 2) free.push_back({Level::warp, bit});
  std::shuffle(free.begin(), free.end(), random);
  std::vector<Mode> parts;
  for (size_t axis = 0; axis < shape.size(); ++axis)
    for (int64_t weight = 1; weight < shape[axis];) {
      const int64_t left = shape[axis] / weight;
      const int extent = left % 2 == 0 ? 2 : static_cast<int>(left);
      parts.push_back({Level::reg, 0, extent, static_cast<int>(axis), weight});
      weight *= extent;
    }
  std::shuffle(parts.begin(), parts.end(), random);
  int registers = 0;
  for (Mode mode : parts) {
    const bool thread = mode.extent == 2 && !free.empty() && random() % 4 != 0;
    if (thread)
      mode.level = free.back().first, mode.stride = free.back().second, free.pop_back();
    else
      mode.stride = registers++;
    modes.push_back(mode);
  }
  return Layout(shape, modes);
}

TEST(Conversion, RandomModesArriveByShufflesAndThroughSharedMemory) {
  std::mt19937 random(1);
  int shuffled = 0;
  for (int round = 0; round < 300; ++round) {
    const Shape shapes[] = {{8, 16}, {32, 32}, {16, 48}, {64}, {4, 8, 16}, {2, 5, 32}};
    const Shape& shape = shapes[random() % std::size(shapes)];
    const int warps = 1 << random() % 3, bytes = 1 << random() % 4;
    const Layout from = random_layout(shape, warps, random), to = random_layout(shape, warps, random);
    const Weights places = row_major(shape);
    const Ways ways = expect_moved({from, places}, {to, places}, bytes, warps);
    shuffled += ways.shuffles;
    EXPECT_TRUE(ways.shared) << describe(from) << " -> " << describe(to);
  }
  EXPECT_GT(shuffled, 20);
}

TEST(Conversion, BlockedLayoutsOfAnyShapeArrive) {
  const Shape shapes[] = {{1},     {7},      {100},    {1000},    {3, 5},     {32, 1024}, {64, 33},
                          {64, 1}, {5, 320}, {8, 176}, {2, 3, 5}, {4, 8, 64}, {16, 1, 80}};
  for (const Shape& shape : shapes)
    for (int warps : {1, 4})
      for (int axis = 0; axis < static_cast<int>(shape.size()); ++axis)
        for (int other = 0; other < static_cast<int>(shape.size()); ++other)
          for (int vector : {1, 4})
            if (shape[static_cast<size_t>(axis)] % vector == 0) {
              const Layout from = blocked(shape, axis, vector, warps), to = blocked(shape, other, 1, warps);
              const Weights places = row_major(shape);
              expect_moved({from, places}, {to, places}, 4, warps);
              expect_moved({to, places}, {from, places}, 2, warps);
            }
}

TEST(Conversion, BroadcastsAndReshapesArrive) {
  for (int warps : {1, 2, 8}) {
    const Layout row = blocked({1, 256}, 1, 2, warps), tile = blocked({64, 256}, 1, 4, warps);
    const Weights across = {0, 1};
    expect_moved({row, row_major({1, 256})}, {tile, across}, 4, warps);
    const Layout column = blocked({64, 1}, 0, 1, warps);
    expect_moved({column, row_major({64, 1})}, {tile, {1, 0}}, 2, warps);
    const Layout flat = blocked({16384}, 0, 8, warps);
    expect_moved({tile, row_major({64, 256})}, {flat, {1}}, 2, warps);
    expect_moved({flat, {1}}, {tile.permuted({1, 0}), {1, 256}}, 1, warps);
  }
}

TEST(Conversion, FragmentsArrive) {
  for (const Shape& shape : {Shape{16, 16}, Shape{64, 96}, Shape{128, 176}})
    for (int warps : {1, 4}) {
      const Layout sums = accumulator_layout(shape, mma_plan(shape, warps, false));
      for (int vector : {1, 4, 8}) {
        const Layout rows = blocked(shape, 1, vector, warps);
        const Weights places = row_major(shape);
        expect_moved({sums, places}, {rows, places}, 4, warps);
        expect_moved({rows, places}, {sums, places}, 2, warps);
      }
    }
}

// Transposes 8 x 4 in a warp: adjacent registers become adjacent lanes.
TEST(ShufflePlan, NeighboursChangePlacesInAWarp) {
  const Layout from({4, 32}, {{Level::reg, 1, 4, 0, 1}, {Level::lane, 1, 32, 1, 1}});
  const Layout to({4, 32}, {{Level::reg, 1, 4, 1, 1}, {Level::lane, 1, 4, 0, 1}, {Level::lane, 4, 8, 1, 4}});
  const Weights places = row_major({4, 32});
  const char* why_not = "";
  const auto plan = shuffle_plan(from, places, to, places, 4, 32, 1, why_not);
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->own_lane);
  EXPECT_EQ(plan->shuffles(), 3);  // one word of four stays
  EXPECT_EQ(plan->picks(), 16);
  expect_shuffled(*plan, {from, places}, {to, places}, 32);
}

TEST(ShufflePlan, LanesThatHoldTheSameGiveAnyOfIt) {
  const Layout from({32}, {{Level::reg, 1, 32, 0, 1}}), to({32}, {{Level::lane, 1, 32, 0, 1}});
  const char* why_not = "";
  const auto plan = shuffle_plan(from, {1}, to, {1}, 4, 32, 1, why_not);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->shuffles(), 0);
  EXPECT_EQ(plan->picks(), 31);
  expect_shuffled(*plan, {from, {1}}, {to, {1}}, 32);
}

TEST(ShufflePlan, SmallElementsShareWords) {
  const Layout from({8, 32}, {{Level::reg, 1, 8, 0, 1}, {Level::lane, 1, 32, 1, 1}});
  const Layout to({8, 32},
                  {{Level::reg, 1, 8, 0, 1}, {Level::lane, 1, 16, 1, 2}, {Level::lane, 16, 2, 1, 1}});
  const Weights places = row_major({8, 32});
  const char* why_not = "";
  for (const auto& [bytes, shuffles] : {std::pair(1, 2), std::pair(2, 4), std::pair(4, 8), std::pair(8, 8)}) {
    const auto plan = shuffle_plan(from, places, to, places, bytes, 32, 1, why_not);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->shuffles(), shuffles) << bytes;
    expect_shuffled(*plan, {from, places}, {to, places}, 32);
  }
}

TEST(ShufflePlan, SaysWhyThereIsNone) {
  const Weights places = row_major({32, 32});
  const char* why_not = "";
  EXPECT_FALSE(shuffle_plan(blocked({32, 32}, 1, 1, 4), places, blocked({32, 32}, 0, 1, 4), places, 4, 128, 1,
                            why_not));
  EXPECT_STREQ(why_not, "elements go to other warps");
  const Layout threes({6}, {{Level::reg, 1, 3, 0, 1}, {Level::lane, 1, 2, 0, 3}});
  const Layout twos({6}, {{Level::lane, 1, 2, 0, 1}, {Level::reg, 1, 3, 0, 2}});
  EXPECT_FALSE(shuffle_plan(threes, {1}, twos, {1}, 4, 32, 1, why_not));
  EXPECT_STREQ(why_not, "the modes of the two layouts have no common split");
  EXPECT_FALSE(shared_move(threes, {1}, twos, {1}, 4, 32));
}

TEST(SharedMove, RowsBecomeColumnsWithoutBankConflicts) {
  for (int bytes : {1, 2, 4, 8})
    for (int vector : {1, 2, 4, 8}) {
      const Layout rows = blocked({64, 128}, 1, vector, 4), columns = blocked({64, 128}, 0, vector, 4);
      const Weights places = row_major({64, 128});
      const auto move = shared_move(rows, places, columns, places, bytes, 128);
      ASSERT_TRUE(move);
      EXPECT_EQ(move->write.passes, move->write.least) << bytes << " bytes, " << vector << " together";
      EXPECT_EQ(move->read.passes, move->read.least) << bytes << " bytes, " << vector << " together";
    }
}

TEST(SharedMove, NeighboursOfBothSidesAreOneAccess) {
  const Layout sums = accumulator_layout({64, 64}, mma_plan({64, 64}, 4, true));
  const Layout rows = blocked({64, 64}, 1, 8, 4);
  const Weights places = row_major({64, 64});
  const auto move = shared_move(sums, places, rows, places, 2, 128);
  ASSERT_TRUE(move);
  EXPECT_EQ(move->write.together, 8);  // two of them are adjacent for the reader too
  EXPECT_EQ(move->read.together, 2);
  EXPECT_EQ(move->write.passes, move->write.least);
  EXPECT_EQ(move->read.passes, move->read.least);
}

TEST(Cost, CountsLanesAndBarriers) {
  EXPECT_EQ(cost_of({}, 4), 0);
  EXPECT_EQ(cost_of({.shuffles = 3, .picks = 16}, 1), 3 * 2 + 16);
  EXPECT_EQ(cost_of({.shuffles = 3, .picks = 16}, 4), 4 * (3 * 2 + 16));
  EXPECT_EQ(cost_of({.accesses = 8, .passes = 8, .barriers = 2, .shared_bytes = 4096}, 4),
            4 * (8 + 16) + 128);
}

// Four warps, rows of 256 bytes: accesses along the rows fill their sectors; across them each element takes a
// sector.
TEST(Cost, AccessesCountSectors) {
  const Layout along = blocked({64, 64}, 1, 4, 4), across = blocked({64, 64}, 0, 4, 4);
  EXPECT_EQ(access_cost(along, 1, 4, 4, 4), 4 * 8 * (16 + 1));
  EXPECT_EQ(access_cost(across, 1, 1, 4, 4), 4 * 32 * (16 + 1));
  EXPECT_EQ(access_cost(along, -1, 1, 4, 4), 4 * 32 * (32 + 1));
}

TEST(Cost, TheCheapestWayIsTaken) {
  const Shape shape{64, 64};
  const Weights places = row_major(shape);
  const Layout rows = blocked(shape, 1, 4, 4), columns = blocked(shape, 0, 4, 4);
  const auto way = [&](const Layout& from, const Layout& to, int64_t room = 1 << 16) {
    return plan_move({from, places}, {to, places}, 4, 128, 1, room);
  };
  EXPECT_EQ(way(rows, rows).way, Way::registers);
  EXPECT_EQ(way(rows, rows).reason, "each element is in its thread");
  const MovePlan shared = way(rows, columns);
  EXPECT_EQ(shared.way, Way::shared);
  EXPECT_EQ(shared.work.shared_bytes, 64 * 64 * 4);
  EXPECT_EQ(
      shared.reason,
      "elements go to other warps; written 16 bytes at once, read 4 bytes at once, without bank conflicts");
  // Two lane bits are exchanged with two register bits.
  const Layout pairs(shape, {{Level::reg, 1, 2, 1, 1},
                             {Level::reg, 2, 16, 0, 4},
                             {Level::lane, 1, 32, 1, 2},
                             {Level::warp, 1, 4, 0, 1}});
  const Layout apart(shape, {{Level::reg, 1, 2, 1, 32},
                             {Level::reg, 2, 16, 0, 4},
                             {Level::lane, 1, 32, 1, 1},
                             {Level::warp, 1, 4, 0, 1}});
  const MovePlan shuffled = way(pairs, apart);
  EXPECT_EQ(shuffled.way, Way::shuffles);
  EXPECT_EQ(shuffled.reason, "32 shuffles and 64 selects a thread cost 512, through shared memory it is 704");
  const MovePlan full = way(rows, columns, 1024);
  EXPECT_FALSE(full.shared);
  EXPECT_EQ(way(pairs, apart, 1024).reason,
            "32 shuffles and 64 selects a thread cost 512, and shared memory has no room");
}

}  // namespace
}  // namespace tile::cuda
