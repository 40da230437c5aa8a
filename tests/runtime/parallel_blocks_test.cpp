// Tests launches whose blocks run on several threads, and launches from several threads: results equal those
// of one thread.
#include <gtest/gtest.h>

#include <barrier>
#include <functional>
#include <numeric>
#include <regex>
#include <thread>
#include <vector>

#include "error_text.h"
#include "runtime/kernel.h"
#include "thread_pool.h"
#include "tile.h"

namespace tile {
namespace {

template <class T>
ArrayArgument array(std::vector<T>& values, std::vector<int64_t> sizes = {}) {
  ArrayArgument argument;
  argument.data = values.data();
  argument.dtype = std::is_same_v<T, float> ? DType::f32 : DType::i32;
  if (sizes.empty()) sizes = {static_cast<int64_t>(values.size())};
  argument.rank = static_cast<int>(sizes.size());
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0; step *= sizes[i]) {
    argument.sizes[i] = sizes[i];
    argument.strides[i] = step;
  }
  return argument;
}
std::vector<float> numbers(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i * 37 % 101) / 32 - 1;
  return values;
}
// Checks that a launch writes the same on four threads and on one.
void expect_the_same(size_t count, const std::function<void(ArrayArgument)>& launch) {
  std::vector<float> alone(count, -7), together(count, -7);
  launch(array(alone));
  const ThreadPool pool;
  launch(array(together));
  EXPECT_EQ(together, alone);
}

constexpr int rows = 50, columns = 1000;

void softmax_kernel(Array x, Array out) {
  Tile at = bid(0) * columns + arange(1024), inside = arange(1024) < columns;
  Tile row = gather(x, {at}, inside, -inf);
  Tile e = exp(row - row.max(0, true));
  scatter(out, {at}, e / e.sum(0, true), inside);
}
Kernel softmax("softmax_rows", softmax_kernel);

void scaled_kernel(Array x, Array out, float by) {
  Tile i = bid(0);
  Tile tile = x.tiled_view({columns}).load({i});
  out.tiled_view({columns}).store({i}, where(tile > 0, tile * by, sqrt(abs(tile)) + tile.sum(0, true)));
}
Kernel scaled("scaled_rows", scaled_kernel);

TEST(ParallelBlocks, WriteRows) {
  std::vector<float> x = numbers(rows * columns);
  expect_the_same(x.size(), [&](const ArrayArgument& out) { softmax.launch({rows}, array(x), out); });
  expect_the_same(x.size(), [&](const ArrayArgument& out) { scaled.launch({rows}, array(x), out, 3.0f); });
}

// Threads cache the operands that they have packed.
constexpr int size = 192, part = 32;
void product_kernel(Array x, Array y, Array out) {
  Tile sum = zeros({part, part}, f32);
  for (Tile k : range(size / part))
    sum =
        mma(x.tiled_view({part, part}).load({bid(1), k}), y.tiled_view({part, part}).load({k, bid(0)}), sum);
  Tile row = (bid(1) * part + arange(part)).expand_dims(1);
  scatter(out, {row * size + bid(0) * part + arange(part)}, sum);
}
Kernel product("product", product_kernel);

TEST(ParallelBlocks, Multiply) {
  std::vector<float> x = numbers(size * size), y = numbers(size * size);
  expect_the_same(x.size(), [&](const ArrayArgument& out) {
    product.launch({size / part, size / part}, array(x, {size, size}), array(y, {size, size}), out);
  });
}

void histogram_kernel(Array x, Array counts, Array sum) {
  Tile tile = x.tiled_view({columns}).load({bid(0)});
  atomic_add(counts, {tile}, 1);
  sum.tiled_view({1}).atomic_add({0}, ones({1}, f32));
}
Kernel histogram("histogram", histogram_kernel);

TEST(ParallelBlocks, ChangeTheSameElements) {
  std::vector<int32_t> x(rows * columns), counts(10);
  std::vector<float> sum(1);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int32_t>(i % 10);
  const ThreadPool pool;
  histogram.launch({rows}, array(x), array(counts), array(sum));
  EXPECT_EQ(counts, std::vector<int32_t>(10, rows * columns / 10));
  EXPECT_EQ(sum[0], rows);
}

// A block reads without an atomic operation what another block wrote before a release.
void running_sum_kernel(Array x, Array out, Array ticket, Array state, Array all) {
  Tile mine = atomic_add(ticket, {0}, 1, {.order = MemoryOrder::relaxed});
  Tile tile = x.tiled_view({columns}).load({mine});
  Tile before = full({}, 0, i32);
  when(mine > 0, [&] {
    while_loop([&] { return atomic_load(state, {mine - 1}) == 0; }, [] {});
    before = gather(all, {mine - 1});
  });
  scatter(all, {mine}, before + tile.sum(0));
  atomic_store(state, {mine}, 1);
  out.tiled_view({columns}).store({mine}, scan(
                                              tile, 0, [](Tile a, Tile b) { return a + b; }, false) +
                                              before);
}
Kernel running_sum("running_sum_of_blocks", running_sum_kernel);

TEST(ParallelBlocks, WaitForEarlierOnes) {
  std::vector<int32_t> x(rows * columns), out(x.size()), ticket(1), state(rows), all(rows),
      expected(x.size());
  std::iota(x.begin(), x.end(), -20);
  std::partial_sum(x.begin(), x.end(), expected.begin());
  const ThreadPool pool;
  running_sum.launch({rows}, array(x), array(out), array(ticket), array(state), array(all));
  EXPECT_EQ(out, expected);
}

void root_kernel(Array x, Array out) {
  Tile tile = x.tiled_view({columns}).load({bid(0)});
  assert_(tile >= 0, "no root of a negative number");
  out.tiled_view({columns}).store({bid(0)}, sqrt(tile));
}
Kernel root("root_of_rows", root_kernel);

TEST(ParallelBlocks, TellAFailedAssertion) {
  std::vector<float> x(rows * columns, 4), out(x.size());
  const ThreadPool pool;
  x[7 * columns + 5] = -1;
  const std::string text = error_of([&] { root.launch({rows}, array(x), array(out)); });
  EXPECT_EQ(
      std::regex_replace(text, std::regex(R"(\S*parallel_blocks_test\.cpp:\d+)"), "here"),
      "here: assertion failed: no root of a negative number; element [5] of bool[1000] in block (7, 0, 0) "
      "of kernel root_of_rows");
  x[7 * columns + 5] = 9;
  root.launch({rows}, array(x), array(out));  // as if nothing had failed
  EXPECT_EQ(out[7 * columns + 5], 3);
  EXPECT_EQ(out.back(), 2);
}

void twice_kernel(Array x, Array out, int length) {
  out.tiled_view({length}).store({bid(0)}, x.tiled_view({length}).load({bid(0)}) * 2.0);
}
Kernel twice("twice_of_threads", twice_kernel);

TEST(ParallelBlocks, OfSeveralThreadsLaunches) {
  const ThreadPool pool;
  std::vector<float> x = numbers(rows * columns);
  std::vector<std::vector<float>> results(4, std::vector<float>(x.size()));
  std::barrier start(4);
  std::vector<std::thread> threads;
  for (std::vector<float>& out : results)
    threads.emplace_back([&] {
      start.arrive_and_wait();
      for (int length : {100, 200, 500, 1000})
        twice.launch({ceil_div(rows * columns, length)}, array(x), array(out), length);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(twice.compiled_count(), 4u);
  for (float& value : x) value *= 2;
  for (const std::vector<float>& out : results) EXPECT_EQ(out, x);
}

}  // namespace
}  // namespace tile
