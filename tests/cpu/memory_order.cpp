// Tests that reads and writes of memory are not moved across a block's atomic operations.
#include <gtest/gtest.h>

#include <typeinfo>

#include "cpu/exec/fused_loop_node.h"
#include "cpu/interpreter/lowering_context.h"
#include "ir/print.h"
#include "passes/pipeline.h"

namespace tile::cpu::testing {
namespace {

// Lists the nodes of a kernel: fused loops as [steps, number of stores], copies of loads, atomics and
// regions.
std::string plan(const std::string& body, bool passes = false) {
  Function function = parse(
      "kernel k(%x: array<f32,1>, %o: array<f32,1>, %d: array<f32,1>, %e: array<f32,2>, %f: array<i32,1>) {\n"
      "  %z: i32 = constant {dtype=i32, value=0}\n"
      "  %one: i32 = constant {dtype=i32, value=1}\n"
      "  %b: i32 = bid {axis=0}\n" +
      body + "}\n");
  if (passes) run_passes(function);
  LoweringContext lower(function);
  std::string text;
  for (const auto& node : lower.body()) {
    const OpNode& each = *node;
    const std::string_view type = typeid(each).name();
    if (const auto* node_of_loop = dynamic_cast<const FusedLoopNode*>(&each)) {
      text += "[";
      for (const FusedLoopStep& step : node_of_loop->fused_loop.steps) text += std::string(step.name) + " ";
      text += std::to_string(node_of_loop->fused_loop.stores.size()) + "] ";
    } else if (type.find("LoadCopyNode") != type.npos) {
      text += "copy ";
    } else if (type.find("AtomicNode") != type.npos) {
      text += "atomic ";
    } else if (type.find("LoopNode") != type.npos || type.find("IfNode") != type.npos) {
      text += "region ";
    }
  }
  return text;
}

const std::string tile = " {pad=0.0, shape=[512], steps=[512]}\n";
const std::string copied = "  %p: f32[512] = load %x, %b" + tile + "  store %o, %p, %b {steps=[512]}\n";
const std::string loaded = "  %n: f32[512] = load %d, %z" + tile;
const std::string summed = "  %s: f32[512] = add %p, %n\n";
const std::string stored = "  store %d, %s, %z {steps=[512]}\n";

std::string exchange(const std::string& order) {
  return "  %was: i32 = atomic_xchg %f, %one, %z" + (order.empty() ? "" : " {order=\"" + order + "\"}") +
         "\n";
}
const std::string waits =
    "  loop () {\n"
    "    %now: i32 = atomic_load %f, %z {order=\"acquire\"}\n"
    "    %there: bool = eq %now, %one\n"
    "    if %there () {\n      break\n    } () {\n      yield\n    }\n"
    "    continue\n  }\n";

TEST(MemoryOrder, WhatIsReadInPlaceStaysBehindAnAtomicOperation) {
  for (bool passes : {false, true}) {
    for (const char* order : {"", "acquire", "release", "acq_rel"})
      EXPECT_EQ(plan(copied + exchange(order) + loaded + summed + stored, passes), "[1] atomic [add 1] ")
          << order;
    EXPECT_EQ(plan(copied + waits + loaded + summed + stored, passes), "[1] region [add 1] ");
    EXPECT_EQ(plan(copied + waits + loaded + summed + stored + exchange("release"), passes),
              "[1] region [add 1] atomic ");
  }
}

TEST(MemoryOrder, WithoutOneEarlierFusedLoopsTakeItIn) {
  EXPECT_EQ(plan(copied + loaded + summed + stored), "[add 2] ");
  EXPECT_EQ(plan(exchange("acq_rel") + copied + loaded + summed + stored), "atomic [add 2] ");
}

TEST(MemoryOrder, WhatIsReadBeforeAnAtomicOperationIsCopiedBefore) {
  for (const std::string& between : {exchange("release"), exchange(""), waits}) {
    const std::string shown = between == waits ? "region " : "atomic ";
    EXPECT_EQ(plan(loaded + between + copied + summed + stored, true), "copy " + shown + "[add 2] ");
    EXPECT_EQ(plan(loaded + between + copied + summed + stored), "copy " + shown + "[add 2] ");
  }
  // The add also stays before the exchange if no pass has moved it to the store that uses it.
  EXPECT_EQ(plan(copied + loaded + summed + exchange("release") + stored), "[add 1] atomic [1] ");
}

TEST(MemoryOrder, SoDoPartsThatAreApart) {
  const std::string parts =
      "  %p0: array<f32,1> = index %e, %z\n"
      "  %p1: array<f32,1> = index %e, %one\n";
  const std::string loads = "  %l0: f32[512] = load %p0, %b" + tile + "  %l1: f32[512] = load %p1, %b" + tile;
  const std::string steps = "  %m: f32[512] = mul %l0, %l1\n  %a: f32[512] = add %l0, %l1\n";
  const std::string stores = "  store %p0, %m, %b {steps=[512]}\n  store %p1, %a, %b {steps=[512]}\n";
  EXPECT_EQ(plan(copied + parts + loads + steps + stores), "[mul add 3] ");
  EXPECT_EQ(plan(copied + exchange("acquire") + parts + loads + steps + stores), "[1] atomic [mul add 2] ");
  EXPECT_EQ(plan(copied + parts + loads + exchange("release") + steps + stores),
            "[1] copy copy atomic [mul add 2] ");
}

TEST(MemoryOrder, ScalarsAndElementsKeepTheirSide) {
  const std::string gathered =
      "  %i: i32[512] = arange {dtype=i32, size=512}\n"
      "  %g: f32[512] = gather %d, %i {pad=0.0}\n"
      "  %s: f32[512] = add %p, %g\n";
  EXPECT_EQ(plan(copied + exchange("acquire") + gathered + stored), "[1] atomic [add 1] ");
}

}  // namespace
}  // namespace tile::cpu::testing
