// Tests the state that workers keep between launches: it is taken once, replaced by the state returned last,
// and freed with the cache.
#include "cpu/interpreter/node_state_cache.h"

#include <gtest/gtest.h>

#include <thread>

namespace tile::cpu {
namespace {

// Counts live objects.
struct Counted final : NodeState {
  explicit Counted(std::atomic<int>& alive) : alive(alive) { ++alive; }
  ~Counted() override { --alive; }
  bool lasts() const override { return true; }
  std::atomic<int>& alive;
};
std::unique_ptr<NodeStateCache::Slots> one(std::atomic<int>& alive) {
  auto slots = std::make_unique<NodeStateCache::Slots>(1);
  slots->front().states[0] = std::make_unique<Counted>(alive);
  return slots;
}

TEST(NodeStateCache, EachWorkerFindsItsOwnOnce) {
  std::atomic<int> alive = 0;
  {
    NodeStateCache cache;
    EXPECT_EQ(cache.take(0), nullptr);
    auto first = one(alive), second = one(alive);
    const auto* const of_second = second.get();
    cache.give_back(0, std::move(first));
    cache.give_back(1, std::move(second));
    EXPECT_EQ(cache.take(1).get(), of_second);
    EXPECT_EQ(alive, 1);
    EXPECT_EQ(cache.take(1), nullptr);
    cache.give_back(0, one(alive));  // by a concurrent launch
    EXPECT_EQ(alive, 1);
    cache.give_back(1000, one(alive));  // more workers than shards
    EXPECT_LE(alive, 2);
  }
  EXPECT_EQ(alive, 0);
}

TEST(NodeStateCache, LaunchesAtOnce) {
  std::atomic<int> alive = 0;
  {
    NodeStateCache cache;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int iteration = 0; iteration < 2000; ++iteration) {
          auto slots = cache.take(iteration % 2);
          cache.give_back(iteration % 2, slots ? std::move(slots) : one(alive));
        }
      });
    for (auto& thread : threads) thread.join();
    EXPECT_LE(alive, 2);
  }
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace tile::cpu
