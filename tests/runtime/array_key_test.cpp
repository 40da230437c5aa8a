// Tests the facts of an array that GPU code is specialised for, and their absence from the CPU's key.
#include "runtime/array_key.h"

#include <gtest/gtest.h>

#include <set>

#include "runtime/kernel.h"
#include "tile.h"

namespace tile {
namespace {

ArrayArgument array(DType dtype, std::vector<int64_t> sizes, std::vector<int64_t> strides,
                    uint64_t data = 256) {
  ArrayArgument argument;
  argument.data = reinterpret_cast<void*>(data);
  argument.dtype = dtype;
  argument.rank = static_cast<int>(sizes.size());
  argument.device = DeviceKind::cuda;
  std::copy(sizes.begin(), sizes.end(), argument.sizes.begin());
  std::copy(strides.begin(), strides.end(), argument.strides.begin());
  return argument;
}
constexpr const char *small = "array.2.small", *forward = "array.2.forward";
// Returns all facts but `small` and `forward`.
std::string facts(const ArrayArgument& argument) {
  Function function("f");
  set_facts(function, 2, argument);
  std::string text;
  for (const auto& [name, value] : function.attributes())
    if (name != small && name != forward) text += str(text.empty() ? "" : " ", name, "=", value);
  return text;
}
bool has(const char* fact, const ArrayArgument& argument) {
  Function function("f");
  set_facts(function, 2, argument);
  return function.attributes().find(fact) != nullptr;
}
bool is_small(const ArrayArgument& argument) { return has(small, argument); }
bool is_forward(const ArrayArgument& argument) { return has(forward, argument); }

TEST(ArrayKey, AreTheUnitAxisAlignmentAndWholeVectors) {
  const auto f32 = DType::f32;
  const std::string aligned = "array.2.aligned=1", whole = " array.2.whole=1";
  const auto unit = [](int axis) { return str(" array.2.unit=", axis); };
  EXPECT_EQ(facts(array(f32, {8, 4}, {4, 1})), aligned + unit(1) + whole);
  EXPECT_EQ(facts(array(f32, {8, 5}, {8, 1})), aligned + unit(1));
  EXPECT_EQ(facts(array(f32, {8, 4}, {5, 1})), "array.2.unit=1" + whole);
  EXPECT_EQ(facts(array(f32, {8, 4}, {4, 1}, 260)), "array.2.unit=1" + whole);
  EXPECT_EQ(facts(array(f32, {8, 4}, {1, 8})), aligned + unit(0) + whole);  // transposed
  EXPECT_EQ(facts(array(f32, {8, 4}, {16, 2})), "");
  EXPECT_EQ(facts(array(f32, {8, 4}, {16, 4})), aligned);
  EXPECT_EQ(facts(array(f32, {8, 4}, {0, 1})), aligned + unit(1) + whole);  // expanded
  EXPECT_EQ(facts(array(f32, {8, 4}, {-4, 1})), aligned + unit(1) + whole);
  EXPECT_EQ(facts(array(f32, {4, 4}, {1, 1})), "array.2.unit=1" + whole);  // overlapping: one unit axis
  EXPECT_EQ(facts(array(DType::boolean, {16}, {1})), aligned + unit(0) + whole);
  EXPECT_EQ(facts(array(DType::f64, {3}, {1})), aligned + unit(0));
}

TEST(ArrayKey, SmallElementsAreAlignedToWordsAtLeast) {
  const auto bf16 = DType::bf16;
  const std::string unit = "array.2.unit=1", words = " array.2.words=1";
  EXPECT_EQ(facts(array(bf16, {8, 6}, {6, 1})), unit + words);
  EXPECT_EQ(facts(array(bf16, {8, 6}, {8, 1}, 260)), unit + words);
  EXPECT_EQ(facts(array(bf16, {8, 6}, {8, 1}, 258)), unit);
  EXPECT_EQ(facts(array(bf16, {8, 5}, {5, 1})), unit);
  EXPECT_EQ(facts(array(bf16, {8, 6}, {8, 1})), "array.2.aligned=1 " + unit);
  EXPECT_EQ(facts(array(bf16, {8, 6}, {16, 2}, 260)), "");
  EXPECT_EQ(facts(array(DType::u8, {8, 4}, {4, 1})), unit + words);
  EXPECT_EQ(facts(array(DType::f32, {8, 5}, {5, 1})), unit);
}

// Tile IR text may come from a trace with other arguments.
TEST(ArrayKey, ReplacesFactsThatNoLongerHold) {
  Function function("f");
  set_facts(function, 0, array(DType::f32, {8, 4}, {4, 1}));
  EXPECT_NE(function.attributes().find("array.0.aligned"), nullptr);
  EXPECT_NE(function.attributes().find("array.0.whole"), nullptr);
  set_facts(function, 0, array(DType::f32, {8, 3}, {3, 1}, 260));
  EXPECT_EQ(function.attributes().find("array.0.aligned"), nullptr);
  EXPECT_EQ(function.attributes().find("array.0.whole"), nullptr);
  EXPECT_EQ(*function.attributes().find("array.0.unit"), Attribute(int64_t{1}));
}

TEST(ArrayKey, OfScalarsTheLastAxisOfStrideOne) {
  const auto facts_of_scalars = [](std::vector<int64_t> sizes, std::vector<int64_t> strides, uint64_t data) {
    ArrayArgument argument = array(DType::f32, std::move(sizes), std::move(strides), data);
    argument.scalars = true;
    return facts(argument);
  };
  // For arrays of statistics, the number and position of rows do not matter.
  for (const int64_t rows : {1, 3, 4, 64})
    for (const uint64_t data : {256, 260})
      EXPECT_EQ(facts_of_scalars({2, rows, 1}, {rows, 1, 0}, data), "array.2.unit=1");
  for (const int64_t groups : {1, 3, 32})
    EXPECT_EQ(facts_of_scalars({2, groups}, {groups, 1}, 256), "array.2.unit=1");
  EXPECT_EQ(facts_of_scalars({2, 4}, {4, 2}, 256), "");
}

TEST(ArrayKey, OfOneElementNoneAndNoAxis) {
  const auto f32 = DType::f32;
  const std::string aligned = "array.2.aligned=1", whole = " array.2.whole=1";
  EXPECT_EQ(facts(array(f32, {}, {})), aligned);
  EXPECT_EQ(facts(array(f32, {}, {}, 4)), "");
  // The stride of an axis of extent 1 does not matter.
  EXPECT_EQ(facts(array(f32, {8, 1}, {4, 1})), aligned + " array.2.unit=1");
  EXPECT_EQ(facts(array(f32, {8, 1}, {4, 7})), aligned + " array.2.unit=1");
  EXPECT_EQ(facts(array(f32, {8, 1}, {1, 1})), aligned + " array.2.unit=0" + whole);
  EXPECT_EQ(facts(array(f32, {1, 8}, {3, 1})), aligned + " array.2.unit=1" + whole);
  EXPECT_EQ(facts(array(f32, {1, 8}, {1, 4})), aligned);
  EXPECT_EQ(facts(array(f32, {1, 1}, {3, 5})), aligned + " array.2.unit=1");
  EXPECT_EQ(facts(array(f32, {0}, {1}, 0)), aligned + " array.2.unit=0" + whole);
}

TEST(ArrayKey, IsSmallWhereBytesBetweenElementsFit32Bits) {
  const auto f32 = DType::f32;
  EXPECT_TRUE(is_small(array(f32, {}, {})));
  EXPECT_TRUE(is_small(array(f32, {8, 4}, {4, 1})));
  EXPECT_TRUE(is_small(array(f32, {2, 2}, {(1 << 29) - 1, 1})));
  EXPECT_FALSE(is_small(array(f32, {2, 2}, {1 << 29, 1})));
  EXPECT_TRUE(is_small(array(f32, {2, 2}, {1 - (1 << 29), 1})));
  EXPECT_FALSE(is_small(array(f32, {2, 2}, {-(1 << 29), 1})));
  EXPECT_FALSE(is_small(array(f32, {1, 2}, {int64_t{1} << 40, 1})));  // a kernel may read this stride
  EXPECT_TRUE(is_small(array(f32, {(1 << 29) - 1}, {1})));
  EXPECT_FALSE(is_small(array(f32, {1 << 29}, {1})));
  EXPECT_FALSE(is_small(array(f32, {1 << 29}, {0})));
}

TEST(ArrayKey, IsForwardWhereStridesOfLongerAxesArePositive) {
  const auto f32 = DType::f32;
  EXPECT_TRUE(is_forward(array(f32, {}, {})));
  EXPECT_FALSE(is_forward(array(f32, {0}, {1}, 0)));  // no tensor map has it
  EXPECT_TRUE(is_forward(array(f32, {8, 4}, {4, 1})));
  EXPECT_TRUE(is_forward(array(f32, {8, 4}, {1, 8})));
  EXPECT_TRUE(is_forward(array(f32, {8, 4}, {16, 2})));
  EXPECT_FALSE(is_forward(array(f32, {8, 4}, {0, 1})));   // expanded
  EXPECT_FALSE(is_forward(array(f32, {8, 4}, {-4, 1})));  // flipped
  EXPECT_FALSE(is_forward(array(f32, {8, 4}, {4, -1})));
  EXPECT_TRUE(is_forward(array(f32, {1, 4}, {0, 1})));
  EXPECT_TRUE(is_forward(array(f32, {8, 1}, {4, -7})));
  // An array of scalars has one key, whether its statistics are expanded or not.
  ArrayArgument scalars = array(f32, {8, 4}, {4, 1}), expanded = array(f32, {8, 4}, {0, 1});
  scalars.scalars = expanded.scalars = true;
  EXPECT_FALSE(is_forward(scalars));
  EXPECT_EQ(key_word(scalars), key_word(expanded));
}

TEST(ArrayKey, AreTheKey) {
  const ArrayArgument arrays[] = {
      array(DType::f32, {8, 4}, {4, 1}),       array(DType::f32, {8, 5}, {8, 1}),
      array(DType::f32, {8, 4}, {5, 1}),       array(DType::f32, {8, 4}, {1, 8}),
      array(DType::f32, {8, 4}, {16, 4}),      array(DType::i32, {8, 4}, {4, 1}),
      array(DType::f32, {8, 4, 1}, {4, 1, 1}), array(DType::f32, {8, 4}, {5, 1}, 4),
  };
  std::set<uint64_t> words, on_cpu;
  for (ArrayArgument argument : arrays) {
    words.insert(key_word(argument));
    argument.device = DeviceKind::cpu;
    on_cpu.insert(key_word(argument));
    EXPECT_EQ(facts(argument), "");
  }
  EXPECT_EQ(words.size(), 7u);   // the last key equals the third: neither is aligned
  EXPECT_EQ(on_cpu.size(), 3u);  // one for each dtype and rank
  EXPECT_EQ(key_word(array(DType::f32, {64, 400}, {400, 1})), key_word(arrays[0]));
}

// An array with the layout of the preceding one reuses its key word.
TEST(ArrayKey, IsTheSameBehindAnyOtherArray) {
  std::vector<ArrayArgument> arrays = {
      array(DType::f32, {8, 4}, {4, 1}), array(DType::f32, {8, 4}, {4, 1}, 4),
      array(DType::f32, {8, 5}, {8, 1}), array(DType::f32, {8, 4}, {1, 8}),
      array(DType::f16, {8, 4}, {4, 1}), array(DType::f32, {8, 4, 1}, {4, 1, 1}),
      array(DType::f32, {}, {}),         array(DType::f32, {8, 4}, {4, 1})};
  arrays.back().scalars = true;
  arrays.push_back(arrays[0]);
  arrays.back().device = DeviceKind::cpu;
  for (const ArrayArgument& a : arrays)
    for (const ArrayArgument& b : arrays)
      for (const ArrayArgument& c : arrays) {
        LaunchKey key, expected;
        for (const ArrayArgument* each : {&a, &b, &c}) {
          detail::key_of_array(key, *each);
          expected.add(key_word(*each));
        }
        EXPECT_TRUE(key == expected);
      }
}

void copy_kernel(Array x, std::optional<Array>, Tile, Array y) {
  y.tiled_view({4}).store({0}, x.tiled_view({4}).load({0}));
}
Kernel copy("copy", copy_kernel);

TEST(ArrayKey, StandOnTheTracedFunctionByParameter) {
  const ArrayArgument x = array(DType::f32, {8}, {1}), y = array(DType::f32, {5}, {2});
  const Function function = copy.trace(x, std::nullopt, 1.0, y);
  std::string text;
  for (const auto& [name, value] : function.attributes()) text += str(name, "=", value, " ");
  EXPECT_EQ(text,
            "array.0.aligned=1 array.0.forward=1 array.0.small=1 array.0.unit=0 array.0.whole=1 "
            "array.2.forward=1 array.2.small=1 ");
  const Function more = copy.trace(y, x, 1.0, x);
  EXPECT_NE(more.attributes().find("array.1.unit"), nullptr);
  EXPECT_NE(more.attributes().find("array.3.unit"), nullptr);
  EXPECT_EQ(more.attributes().find("array.0.unit"), nullptr);
}

}  // namespace
}  // namespace tile
