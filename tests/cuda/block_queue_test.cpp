// Tests the pass that lets CTAs draw blocks: its text, and which kernels have it.
#include "cuda/async/block_queue.h"

#include "cuda/async/persist.h"
#include "cuda/async_cases.h"

namespace tile::cuda {
namespace {

// The product of a lower triangle: the blocks of row i have i + 1 iterations.
constexpr const char* triangle = R"(kernel k(%a: array<bf16,2>, %b: array<bf16,2>, %c: array<bf16,2>) {
  %i: i32 = bid {axis=0}
  %j: i32 = bid {axis=1}
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %t: i32 = add %i, %1
  %z: f32 = constant {dtype=f32, value=0.0}
  %zs: f32[128,128] = broadcast %z {shape=[128,128]}
  %r: f32[128,128] = for %0, %t, %1, %zs (%k: i32, %acc: f32[128,128]) {
    %x: bf16[128,64] = load %a, %i, %k {pad=0.0, shape=[128,64], steps=[128,64]}
    %y: bf16[64,128] = load %b, %k, %j {pad=0.0, shape=[64,128], steps=[64,128]}
    %m: f32[128,128] = mma %x, %y, %acc
    yield %m
  }
  %o: bf16[128,128] = astype %r {dtype=bf16}
  store %c, %o, %i, %j {steps=[128,128]}
}
)";
// The same, and a tile that is added, which the second producer copies.
std::string with_bias() {
  return with(with(triangle, "%c: array<bf16,2>)", "%c: array<bf16,2>, %d: array<bf16,2>)"),
              "%o: bf16[128,128] = astype %r {dtype=bf16}",
              R"(%p: bf16[128,128] = load %d, %i, %j {pad=0.0, shape=[128,128], steps=[128,128]}
  %q: f32[128,128] = astype %p {dtype=f32}
  %s: f32[128,128] = add %r, %q
  %o: bf16[128,128] = astype %s {dtype=bf16})");
}
Function dense(const std::string& text) {
  Function function = parse(text);
  make_dense(function, 4);
  return function;
}

// Returns the text of the roles.
std::string roles_of(const std::string& text) {
  Function function = dense(text);
  make_persistent(function);
  const KernelArrays arrays(function);
  const AsyncPlan plan(function, arrays, hopper, true, true);
  divided_among_roles(function, plan);
  draw_blocks(function);
  verify(function, "draw_blocks");
  const std::string after = print(function, false);
  EXPECT_EQ(print(parse(after), false), after);
  return after.substr(after.find("  roles"));
}
// Returns the lines that contain one of the words.
std::string lines_with(const std::string& text, std::initializer_list<std::string_view> words) {
  std::string found;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at + 1);
    const auto has = [&](std::string_view word) { return line.find(word) != std::string::npos; };
    if (std::any_of(words.begin(), words.end(), has)) found += line.substr(line.find_first_not_of(' '));
    at = end + 1;
  }
  return found;
}

TEST(BlockQueue, ReplacesTheLoopsOverBlocks) {
  EXPECT_EQ(roles_of(triangle), R"(  roles () {
    block_loop %9, %12 (%13: i32) {
      %14: i32 = queue_draw %10
      %15: i32 = mod %13, %3
      %16: i32 = floordiv %13, %3
      %17: i32 = mod %16, %4
      %18: i32 = add %15, %7
      for %6, %18, %7 (%19: i32) {
        ring_fill {ring=0}
        ring_load %0, %15, %19 {ring=0, steps=[128,64], tile=0}
        ring_load %1, %19, %17 {ring=0, steps=[64,128], tile=1}
        ring_next {ring=0}
        yield
      }
      queue_put %14
      yield %14
    }
    queue_close
    yield
  } () {
    yield
  } () {
    block_loop %9, %12 (%20: i32) {
      %21: i32 = mod %20, %3
      %22: i32 = floordiv %20, %3
      %23: i32 = mod %22, %4
      %24: i32 = add %21, %7
      %25: f32[128,128] = undefined {dtype=f32, shape=[128,128]}
      %26: f32[128,128] = for %6, %24, %7, %25 (%27: i32, %28: f32[128,128]) {
        ring_wait {ring=0}
        %29: bool = ne %27, %6
        %30: bf16[128,64] = ring_tile {dtype=bf16, ring=0, shape=[128,64], tile=0}
        %31: bf16[64,128] = ring_tile {dtype=bf16, ring=0, shape=[64,128], tile=1}
        %32: f32[128,128] = mma_issue %30, %31, %28, %29 {left_transposed=0, right_transposed=0}
        mma_retire {pending=1}
        ring_free {ring=0}
        ring_next {ring=0}
        yield %32
      }
      %33: f32[128,128] = mma_await %26 {pending=0}
      ring_drain {ring=0}
      %34: bool = lt %6, %24
      %35: f32[128,128] = zero_unless %34, %33
      %36: bf16[128,128] = astype %35 {dtype=bf16}
      store_async %2, %36, %21, %23 {steps=[128,128], tile=0}
      %37: i32 = queue_take {by_thread=0}
      yield %37
    }
    store_wait
    yield
  }
}
)");
}

TEST(BlockQueue, TellsASecondProducer) {
  EXPECT_EQ(lines_with(roles_of(with_bias()), {"block_loop", "queue_", "} ("}),
            R"(block_loop %10, %13 (%14: i32) {
%15: i32 = queue_draw %11
queue_put %15
queue_close
} () {
block_loop %10, %13 (%21: i32) {
%25: i32 = queue_take {by_thread=1}
} () {
block_loop %10, %13 (%26: i32) {
%46: i32 = queue_take {by_thread=0}
)");
}

TEST(BlockQueue, IsNotForKernelsThatMayEndEarly) {
  const Program program(dense(with(triangle, "%t: i32 = add %i, %1",
                                   "%t: i32 = add %i, %1\n  %ok: bool = lt %i, %t\n"
                                   "  assert %ok {message=\"rows\"}")),
                        hopper);
  EXPECT_FALSE(program.draws);
  EXPECT_FALSE(program.persistent);
}

TEST(BlockQueue, IsForKernelsWhoseWorkVaries) {
  const Program varies(dense(triangle), hopper),
      even(dense(with(triangle, "add %i, %1", "dim %a {axis=1}")), hopper);
  for (const Program& program : {varies, even}) {
    EXPECT_EQ(program.path, "wgmma");
    EXPECT_TRUE(program.persistent);
  }
  EXPECT_TRUE(varies.draws);
  EXPECT_FALSE(even.draws);
  EXPECT_NE(varies.source.find("u32 block_counter"), std::string::npos);
  EXPECT_EQ(even.source.find("block_counter"), std::string::npos);
}

// Two products in a loop: with 256 columns each, their sums take 256 registers, more than a thread has.
TEST(BlockQueue, IsNotForKernelsWhoseSumsFillTheRegisters) {
  const std::string text = R"(kernel k(%a: array<bf16,2>, %b: array<bf16,2>, %c: array<bf16,2>) {
  %i: i32 = bid {axis=0}
  %0: i32 = constant {dtype=i32, value=0}
  %1: i32 = constant {dtype=i32, value=1}
  %t: i32 = add %i, %1
  %z: f32 = constant {dtype=f32, value=0.0}
  %zs: f32[128,N] = broadcast %z {shape=[128,N]}
  %r: f32[128,N], %s: f32[128,N] = for %0, %t, %1, %zs, %zs (%k: i32, %acc: f32[128,N], %acc2: f32[128,N]) {
    %x: bf16[128,64] = load %a, %i, %k {pad=0.0, shape=[128,64], steps=[128,64]}
    %y: bf16[64,N] = load %b, %k, %0 {pad=0.0, shape=[64,N], steps=[64,N]}
    %m: f32[128,N] = mma %x, %y, %acc
    %w: bf16[64,N] = load %b, %k, %1 {pad=0.0, shape=[64,N], steps=[64,N]}
    %m2: f32[128,N] = mma %x, %w, %acc2
    yield %m, %m2
  }
  %e: f32[128,N] = add %r, %s
  %o: bf16[128,N] = astype %e {dtype=bf16}
  store %c, %o, %i, %0 {steps=[128,N]}
}
)";
  for (const int columns : {64, 256}) {
    const Program program(dense(with(text, "N]", str(columns, "]"))), hopper);
    EXPECT_EQ(program.path, "wgmma");
    EXPECT_EQ(program.draws, columns == 64);
    EXPECT_EQ(program.persistent, columns == 64);
  }
}

}  // namespace
}  // namespace tile::cuda
