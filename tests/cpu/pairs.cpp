// Tests that two steps in one pass give the same results as the two steps in sequence.
#include <set>

#include "lanes.h"
#include "machine_isas.h"

namespace tile::cpu::testing {
namespace {

class Pairs : public ::testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(, Pairs, ::testing::ValuesIn(machine_isas()),
                         [](const auto& info) { return std::string(name(info.param)); });

constexpr int64_t count = 77;
using Line = std::vector<float>;

Line apply(const Tables& from, std::string_view name, std::initializer_list<const Line*> operands) {
  const ElementwiseRow* row = find_elementwise(name, Lane::f32, from);
  Line out(count, -12345.f);
  Chunk chunk{1, count, reinterpret_cast<char*>(out.data()), 0, {}, {}};
  int k = 0;
  for (const Line* operand : operands) chunk.in[k++] = reinterpret_cast<const char*>(operand->data());
  row->variants[0](chunk);
  return out;
}

TEST_P(Pairs, AreTheirTwoSteps) {
  const Tables& from = tables(GetParam());
  std::mt19937 random(7);
  std::uniform_real_distribution<float> uniform(-2, 2);
  int found = 0;
  for (const ElementwiseRow& row : from.elementwise) {
    const size_t open = row.name.find('(');
    if (open == row.name.npos) continue;
    ++found;
    Line x(count), y(count), z(count), w(count);
    for (Line* line : {&x, &y, &z, &w})
      for (float& value : *line) value = uniform(random);
    const std::string_view inner = row.name.substr(open + 1, row.name.find(')') - open - 1);
    std::string outer(row.name.substr(0, open));
    const Line first = inner == "fma" ? apply(from, inner, {&x, &y, &z}) : apply(from, inner, {&x, &y});
    Line want, got;
    if (outer == "fma.0") {
      want = apply(from, "fma", {&first, &z, &w});
      got = apply(from, row.name, {&x, &y, &z, &w});
    } else if (outer == "fma.2") {
      want = apply(from, "fma", {&z, &w, &first});
      got = apply(from, row.name, {&x, &y, &z, &w});
    } else if (outer == "add" || outer == "mul" || outer == "sub") {
      want = apply(from, outer, {&first, &z});
      got = apply(from, row.name, {&x, &y, &z});
    } else if (outer == "rsub") {
      want = apply(from, "sub", {&z, &first});
      got = apply(from, row.name, {&x, &y, &z});
    } else if (outer == "one_plus") {
      const Line ones(count, 1.f);
      want = apply(from, "add", {&ones, &first});
      got = apply(from, row.name, {&x});
    } else {
      want = apply(from, outer, {&first});
      got = inner == "fma" ? apply(from, row.name, {&x, &y, &z}) : apply(from, row.name, {&x, &y});
    }
    const bool rounds_once = row.name == "sub(mul)" || row.name == "rsub(mul)" || outer == "one_plus";
    const double near = row.name.ends_with(".approximate") ? 2e-5 : 1e-6;
    for (int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<size_t>(i);
      if (rounds_once)
        ASSERT_NEAR(got[at], want[at], near) << row.name;
      else
        ASSERT_TRUE(got[at] == want[at] || (got[at] != got[at] && want[at] != want[at]))
            << row.name << ": " << got[at] << ", not " << want[at];
    }
  }
  EXPECT_GT(found, 40);
}

}  // namespace
}  // namespace tile::cpu::testing
