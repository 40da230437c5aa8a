// Tests fused loops that only have bf16 arrays, as machine code: the bits of their float32 results.
#include <cmath>
#include <cstring>
#include <limits>

#include "built_fused_loop.h"

namespace tile::cpu::testing {
namespace {

// Their columns are processed as the even and the odd ones, two vectors at a time.
TEST_P(Assembler, FusedLoopsOfBf16AloneHaveTheBitsOfOthers) {
  constexpr int64_t rows = 2, line = 320;
  int count = 0;
  for (const ElementwiseRow& row : interpreter().elementwise) {
    if (row.lane != Lane::f32 || !jit::find_traced(row.name, row.lane) || row.name == "where" ||
        !row.variants[0])
      continue;
    const int arity = arity_of(row);
    ++count;
    for (bool specials : {false, true})
      for (int64_t cols : {8, 16, 40, 64}) {
        Values<float> values(-4, 4, specials);
        alignas(64) char inputs[most_operands][rows * line] = {}, results[2][rows * line] = {};
        char numbers[rows * 2 * line] = {};
        const MoveRow& narrow = interpreter().move.data[static_cast<int>(DType::bf16)];
        for (int k = 0; k < arity; ++k)
          for (int64_t c = 0; c < rows * line / 2; ++c) {
            float x = values.next();
            narrow.store(inputs[k] + 2 * c, 0, 2, reinterpret_cast<char*>(&x), 0, 1, 1);
            const uint16_t signalling = (c & 8 ? 0xff81 : 0x7fbf);
            if (specials && (c + k) % 7 == 0) std::memcpy(inputs[k] + 2 * c, &signalling, 2);
          }
        const auto run = [&](DType to, bool streams, char* at, int64_t stride) {
          Built built;
          std::vector<int> operands;
          std::vector<std::pair<char*, int64_t>> arrays;
          for (int k = 0; k < arity; ++k) {
            operands.push_back(built.input(DType::bf16));
            arrays.emplace_back(inputs[k], line);
          }
          const int value = built.step(row.name, operands);
          for (const int stored : {value, operands[0]}) {
            built.store(stored, to, streams);
            arrays.emplace_back(at, stride);
            at += stride / 2;
          }
          ASSERT_TRUE(built.assemble());
          built.run(rows, cols, arrays);
        };
        run(DType::f32, false, numbers, 2 * line);
        for (int64_t half = 0; half < 2 * rows; ++half)
          narrow.store(results[0] + half * line / 2, 0, 2, numbers + half * line, 0, 1, cols);
        for (bool streams : {false, true}) {
          std::fill_n(results[1], sizeof results[1], char{});
          run(DType::bf16, streams, results[1], line);
          ASSERT_EQ(std::string(results[1], sizeof results[1]), std::string(results[0], sizeof results[0]))
              << row.name << ", " << cols << (streams ? " streamed" : "");
        }
      }
  }
  EXPECT_GT(count, 50);
}

// Elements that only products read are rounded, but subnormals may become 0.
TEST_P(Assembler, ElementsForProductsAreRounded) {
  for (int64_t cols : {1, 8, 15, 16, 17, 40, 77}) {
    if (cols % 8 && vectors() == jit::Vectors::avx2) continue;
    constexpr int64_t rows = 3;
    Built built;
    const int x = built.input();
    built.output(built.step("mul", {x, x}), DType::bf16);
    ASSERT_TRUE(built.assemble());
    Values<float> values(-4, 4, true);
    Floats in(rows, cols);
    in.fill(values, rows);
    Array<uint16_t> out(rows, cols, 5);
    built.run(rows, cols, {in.place(), out.place()});
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c) {
        float square = in.get(r, c) * in.get(r, c);
        uint16_t want;
        interpreter().move.data[static_cast<int>(DType::bf16)].store(
            reinterpret_cast<char*>(&want), 0, 2, reinterpret_cast<char*>(&square), 0, 1, 1);
        constexpr float least = std::numeric_limits<float>::min();
        const bool flushed = std::abs(square) < least && out.get(r, c) == 0;
        EXPECT_TRUE(out.get(r, c) == want || flushed || square != square)
            << square << ": " << out.get(r, c) << ", not " << want;
        if (square != square) EXPECT_EQ(out.get(r, c) & 0x7fc0, 0x7fc0) << "a quiet NaN";
      }
    EXPECT_TRUE(out.padding_untouched(rows));
  }
}

}  // namespace
}  // namespace tile::cpu::testing
