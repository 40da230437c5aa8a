// Tests the functions for elements at index tiles: offsets, moves and atomic changes.
#include "cpu/interpreter/element_tables.h"
#include "lanes.h"

namespace tile::cpu::testing {
namespace {

class Elements : public ::testing::TestWithParam<Isa> {};
INSTANTIATE_TEST_SUITE_P(, Elements, ::testing::ValuesIn(machine_isas()),
                         [](const auto& info) { return std::string(name(info.param)); });

template <class T>
void test_locate(const ElementsTable& table, Lane lane) {
  Arena arenas[2];
  for (int64_t n : column_counts)
    for (int64_t stride : {4, 12, -8})
      for (bool first : {true, false}) {
        const IndexedAxis axis{2, 60, stride};
        Rows<T> index(arenas[0], 1, n, 0);
        Rows<int64_t> offsets(arenas[1], 1, n, 0);
        Values<T> values(-10, 70, true);
        std::vector<int64_t> want;
        bool all = true;
        for (int64_t i = 0; i < n; ++i) {
          index.set(0, i, values.next());
          offsets.set(0, i, i % 5 == 3 ? no_element : 1000 * i);
          const auto at = static_cast<int64_t>(index.get(0, i));
          const int64_t before = first ? 0 : offsets.get(0, i);
          const bool there = at >= 2 && at < 60 && before != no_element;
          want.push_back(there ? before + at * stride : no_element);
          all = all && there;
        }
        auto* out = reinterpret_cast<int64_t*>(offsets.data);
        EXPECT_EQ(table.locate[static_cast<int>(lane)](index.data, axis, first, out, n), all);
        ASSERT_EQ(std::vector<int64_t>(out, out + n), want) << n << " indices, stride " << stride;
      }
}
TEST_P(Elements, AreFoundWithinTheirAxis) {
  const ElementsTable& table = elements_table(GetParam());
  for (Lane lane : {Lane::u8, Lane::i8, Lane::i16, Lane::i32, Lane::i64, Lane::u16, Lane::u32, Lane::u64})
    visit(lane, [&](auto t) { test_locate<decltype(t)>(table, lane); });
}

template <class Word>
void test_moves(const ElementsTable& table, int by_bytes) {
  const int64_t bytes = sizeof(Word);
  Arena arena;
  for (int64_t n : column_counts)
    for (bool all : {true, false}) {
      std::vector<Word> memory(200), lanes(static_cast<size_t>(n), Word(7));
      for (size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<Word>(i * 37 + 1);
      std::vector<int64_t> offsets;
      for (int64_t i = 0; i < n; ++i)
        offsets.push_back(!all && i % 3 == 1 ? no_element : (i * 53 % 200) * bytes);
      Rows<Word> out(arena, 1, n, 0);
      auto* data = reinterpret_cast<char*>(memory.data());
      table.read[by_bytes](data, offsets.data(), all, out.data, n);
      const auto wanted = [&](int64_t i, Word otherwise) {
        const int64_t at = offsets[static_cast<size_t>(i)];
        return at == no_element ? otherwise : memory[static_cast<size_t>(at / bytes)];
      };
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(out.get(0, i), wanted(i, 0));
      const Word pad(9);
      table.pad[by_bytes](offsets.data(), reinterpret_cast<const char*>(&pad), out.data, n);
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(out.get(0, i), wanted(i, pad));
      std::vector<Word> left = memory;
      for (int64_t i = 0; i < n; ++i) {
        out.set(0, i, static_cast<Word>(i + 100));
        if (const int64_t at = offsets[static_cast<size_t>(i)]; at != no_element)
          left[static_cast<size_t>(at / bytes)] = static_cast<Word>(i + 100);
      }
      table.write[by_bytes](data, offsets.data(), all, out.data, n);
      ASSERT_EQ(memory, left);
    }
}
TEST_P(Elements, MoveInOrder) {
  const ElementsTable& table = elements_table(GetParam());
  test_moves<uint8_t>(table, 0);
  test_moves<uint16_t>(table, 1);
  test_moves<uint32_t>(table, 2);
  test_moves<uint64_t>(table, 3);
}

// Returns true if the bits are equal, or both are NaN: additions of two NaNs give either.
template <class T>
bool same(T got, T want) {
  return (got != got && want != want) || std::memcmp(&got, &want, sizeof got) == 0;
}

// Each change is that of the elementwise row.
template <class T>
void test_change(std::string_view name, ChangeFunction function, const ElementwiseRow& row) {
  Values<T> values(-4, 4, true);
  T memory[5], left[5], x[40], before[40], old[40];
  int64_t offsets[40];
  for (int i = 0; i < 5; ++i) memory[i] = left[i] = values.next();
  for (int i = 0; i < 40; ++i) {
    x[i] = values.next(), old[i] = 0;
    const int at = i * 7 % 11 % 6;
    offsets[i] = at < 5 ? at * static_cast<int64_t>(sizeof(T)) : no_element;
    if (at == 5) continue;
    old[i] = left[at];
    row.variants[0]({1,
                     1,
                     reinterpret_cast<char*>(left + at),
                     0,
                     {reinterpret_cast<const char*>(old + i), reinterpret_cast<const char*>(x + i)},
                     {}});
  }
  auto* data = reinterpret_cast<char*>(memory);
  function(data, offsets, reinterpret_cast<const char*>(x), reinterpret_cast<char*>(before), 40);
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(same(memory[i], left[i])) << name << " of element " << i;
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(same(before[i], old[i])) << name << " before step " << i;
  const T kept = memory[0];
  function(data, offsets, reinterpret_cast<const char*>(x), nullptr, 0);
  ASSERT_TRUE(same(memory[0], kept));
}
template <class T>
void test_changes(Isa isa, Lane lane) {
  const AtomicRow& row = atomic_rows(isa).data[static_cast<int>(dtype_of(lane))];
  const std::pair<const char*, ChangeFunctions> all[] = {{"add", row.add},
                                                         {"maximum", row.maximum},
                                                         {"minimum", row.minimum},
                                                         {"bitwise_or", row.bitwise_or},
                                                         {"bitwise_and", row.bitwise_and},
                                                         {"bitwise_xor", row.bitwise_xor}};
  for (const auto& [name, functions] : all) {
    const ElementwiseRow* elementwise = find_elementwise(name, lane, tables(isa));
    ASSERT_EQ(functions.atomic == nullptr, elementwise == nullptr) << name;
    if (!elementwise) continue;
    test_change<T>(name, functions.atomic, *elementwise);
    test_change<T>(name, functions.plain, *elementwise);
  }
}
TEST_P(Elements, ChangeAsTheElementwisePrimitive) {
  for (int lane = 0; lane < lane_count; ++lane)
    visit(static_cast<Lane>(lane),
          [&](auto t) { test_changes<decltype(t)>(GetParam(), static_cast<Lane>(lane)); });
}

}  // namespace
}  // namespace tile::cpu::testing
