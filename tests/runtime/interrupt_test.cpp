// Tests that endless launches can be interrupted, on one thread and on several.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "cpu/interpreter/watch.h"
#include "runtime/kernel.h"
#include "thread_pool.h"
#include "tile.h"

namespace tile {
namespace {

struct Stopped {};
std::atomic<bool> wanted{false};
void stop_if_wanted() {
  if (wanted) throw Stopped();
}

// Requests a stop some time after its construction.
class Later {
 public:
  explicit Later(int milliseconds = 120)
      : thread_([milliseconds] {
          std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
          wanted = true;
        }) {
    cpu::set_interruption(stop_if_wanted);
  }
  ~Later() {
    thread_.join();
    wanted = false;
    cpu::set_interruption(nullptr);
  }

 private:
  std::thread thread_;
};

ArrayArgument array(std::vector<int32_t>& values) {
  ArrayArgument argument;
  argument.data = values.data();
  argument.dtype = DType::i32;
  argument.rank = 1;
  argument.sizes[0] = static_cast<int64_t>(values.size());
  argument.strides[0] = 1;
  return argument;
}

// From block `first` on, waits for a flag that nothing sets.
void spin_kernel(Array flag, Array out, int first) {
  Tile i = bid(0);
  out.tiled_view({16384}).store({i}, out.tiled_view({16384}).load({i}) + 1);
  when(i >= first, [&] { while_loop([&] { return atomic_load(flag, {Tile(0)}) == 0; }, [] {}); });
}
Kernel spin("spin", spin_kernel);

void count_kernel(Array out, Tile low, Tile high) {
  Tile total = 0;
  for (Tile i : range(low, high))
    for (Tile j : range(low, high)) total = total * 3 + i * j;
  out.tiled_view({1}).store({bid(0)}, total);
}
Kernel count("count", count_kernel);

void expect_a_stop(const std::function<void()>& launch) {
  const Later later;
  EXPECT_THROW(launch(), Stopped);
}

TEST(Interrupt, EndsLoops) {
  std::vector<int32_t> flag(1), out(16384 * 8);
  expect_a_stop([&] { spin.launch({8}, array(flag), array(out), 0); });
  expect_a_stop([&] { count.launch({1}, array(out), 0, 2147483647); });
}

TEST(Interrupt, EndsManyBlocks) {
  std::vector<int32_t> out(1);
  expect_a_stop([&] { count.launch({2147483647}, array(out), 0, 1); });
}

// Lets all threads spin, all but the launching one, which waits for them, or only one that did not launch.
TEST(Interrupt, EndsOtherThreads) {
  const ThreadPool pool;
  std::vector<int32_t> flag(1), out(16384 * 8);
  for (const int first : {0, 1, 2, 7})
    expect_a_stop([&] { spin.launch({8}, array(flag), array(out), first); });
}

TEST(Interrupt, TheNextLaunchIsWell) {
  std::vector<int32_t> flag(1), out(16384 * 8);
  {
    const ThreadPool pool;
    expect_a_stop([&] { spin.launch({8}, array(flag), array(out), 0); });
    flag[0] = 1;
    std::fill(out.begin(), out.end(), 5);
    spin.launch({8}, array(flag), array(out), 0);
  }
  EXPECT_EQ(out, std::vector<int32_t>(out.size(), 6));
}

}  // namespace
}  // namespace tile
