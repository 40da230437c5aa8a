// Tests that fused loops as machine code compute the same bits as the interpreter's functions.
#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "built_fused_loop.h"
#include "error_text.h"

namespace tile::cpu::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(, Assembler, ::testing::ValuesIn(assembled()),
                         [](const auto& info) { return std::string(name(info.param)); });

template <class T>
void compare_with_row(const ElementwiseRow& row, bool specials, int64_t cols) {
  constexpr int64_t rows = 3;
  constexpr DType dtype = std::is_same_v<T, float> ? DType::f32 : DType::i32;
  const int arity = arity_of(row);
  const bool selects = row.name == "where",
             predicate = row.name == "isnan" || row.name == "isinf" || row.name == "isfinite" ||
                         row.name == "to_bool" || row.name == "eq" || row.name == "ne" || row.name == "lt" ||
                         row.name == "le" || row.name == "gt" || row.name == "ge";
  if (cols % 8 && (selects || predicate) && vectors() == jit::Vectors::avx2)
    return;  // bytes are loaded and stored by whole vectors
  Built built;
  std::vector<int> operands;
  for (int k = 0; k < arity; ++k) operands.push_back(built.input(selects && k == 0 ? DType::boolean : dtype));
  const int result = built.step(row.name, operands, predicate ? Lane::u8 : lane_of(dtype));
  built.output(result, predicate ? DType::boolean : dtype);
  ASSERT_TRUE(built.assemble()) << row.name;
  Values<T> values(-100, 100, specials);
  Array<uint8_t> mask(rows, cols), flags(rows, cols, 8), want_flags(rows, cols, 8);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) mask.set(r, c, (r + c) % 3 == 0);
  Array<T> out(rows, cols, 5), want(rows, cols, 5);
  std::vector<std::unique_ptr<Array<T>>> inputs;
  std::vector<std::pair<char*, int64_t>> arrays;
  Chunk chunk{
      rows, cols, predicate ? want_flags.data : want.data, predicate ? want_flags.stride : want.stride,
      {},   {}};
  for (int k = 0; k < arity; ++k) {
    inputs.push_back(std::make_unique<Array<T>>(rows, cols, k));
    inputs.back()->fill(values, rows);
    arrays.push_back(selects && k == 0 ? mask.place() : inputs.back()->place());
    chunk.in[k] = arrays.back().first;
    chunk.in_row[k] = arrays.back().second;
  }
  row.variants[0](chunk);
  arrays.push_back(predicate ? flags.place() : out.place());
  built.run(rows, cols, arrays);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      ASSERT_TRUE(predicate ? flags.get(r, c) == want_flags.get(r, c) : same(out.get(r, c), want.get(r, c)))
          << row.name << " of " << inputs[0]->get(r, c) << ": " << out.get(r, c) << ", not "
          << want.get(r, c);
    }
  ASSERT_TRUE(out.padding_untouched(rows) && flags.padding_untouched(rows)) << row.name;
}

TEST_P(Assembler, EveryRowHasTheInterpretersBits) {
  int floats = 0, integers = 0;
  for (const ElementwiseRow& row : interpreter().elementwise) {
    if (!jit::find_traced(row.name, row.lane)) continue;
    for (bool specials : {false, true})
      for (int64_t cols : {1, 7, 8, 24, 61}) {
        if (row.lane == Lane::f32) compare_with_row<float>(row, specials, cols);
        if (row.lane == Lane::i32) compare_with_row<int32_t>(row, specials, cols);
      }
    floats += row.lane == Lane::f32;
    integers += row.lane == Lane::i32;
  }
  EXPECT_GT(floats, 80);
  EXPECT_GT(integers, 15);
}

// Compares a constant operand that the code knows with the same number read from memory.
TEST_P(Assembler, KnownNumbersHaveTheBitsOfThoseRead) {
  constexpr int64_t cols = 40;
  int count = 0;
  for (const ElementwiseRow& row : interpreter().elementwise) {
    if (row.lane != Lane::f32 || !jit::find_traced(row.name, row.lane) || row.name == "where") continue;
    const int arity = arity_of(row);
    for (int known = 0; known < arity && arity > 1; ++known)
      for (const float number : {0.f, -0.f, 1.f, -0.25f, 3.5f, INFINITY, -INFINITY})
        for (const DType from : {DType::f32, DType::bf16}) {
          ++count;
          alignas(64) char inputs[most_operands][4 * cols], results[2][6 * cols] = {};
          Values<float> values(-4, 4, true);
          const MoveRow& move = interpreter().move.data[static_cast<int>(from)];
          for (auto& input : inputs)
            for (int64_t c = 0; c < cols; ++c) {
              float x = values.next();
              move.store(input + c * info(from).bytes, 0, info(from).bytes, reinterpret_cast<char*>(&x), 0, 1,
                         1);
            }
          for (const bool knows : {false, true}) {
            Built built;
            std::vector<int> operands;
            std::vector<std::pair<char*, int64_t>> arrays;
            float read = number;
            for (int k = 0; k < arity; ++k) {
              operands.push_back(k != known ? built.input(from)
                                 : knows    ? built.input(DType::f32, false, number)
                                            : built.input(DType::f32, false));
              arrays.emplace_back(k == known ? reinterpret_cast<char*>(&read) : inputs[k], 0);
            }
            const int value = built.step(row.name, operands);
            built.store(value);
            built.store(value, DType::bf16);
            arrays.emplace_back(results[knows], 0);
            arrays.emplace_back(results[knows] + 4 * cols, 0);
            ASSERT_TRUE(built.assemble());
            built.run(1, cols, arrays);
          }
          ASSERT_EQ(std::string(results[1], sizeof results[1]), std::string(results[0], sizeof results[0]))
              << row.name << ", operand " << known << " is " << number;
        }
  }
  EXPECT_GT(count, 200);
}

TEST_P(Assembler, NarrowFloatsAreReadAndWritten) {
  for (DType from : {DType::f32, DType::bf16, DType::f16})
    for (DType to : {DType::f32, DType::bf16, DType::f16})
      for (std::string_view rounding : {"", "round.bf16", "round.f16"}) {
        const int64_t cols = vectors() == jit::Vectors::avx512 ? 77 : 72;
        Built built;
        int value = built.input(from);
        if (!rounding.empty()) value = built.step(rounding, {value});
        built.store(value, to);
        ASSERT_TRUE(built.assemble());
        const MoveRow &load = interpreter().move.data[static_cast<int>(from)],
                      &store = interpreter().move.data[static_cast<int>(to)];
        Values<float> values(-4, 4, true);
        std::vector<float> numbers(cols), lanes(cols);
        for (float& x : numbers) x = values.next();
        std::vector<char> in(cols * 4), out(cols * 4, 1), want(cols * 4, 1);
        load.store(in.data(), 0, info(from).bytes, reinterpret_cast<char*>(numbers.data()), 0, 1, cols);
        built.run(1, cols, {{in.data(), 0}, {out.data(), 0}});
        load.load(in.data(), 0, info(from).bytes, reinterpret_cast<char*>(lanes.data()), 0, 1, cols);
        char* line = reinterpret_cast<char*>(lanes.data());
        if (!rounding.empty())
          interpreter()
              .move.data[static_cast<int>(rounding == "round.bf16" ? DType::bf16 : DType::f16)]
              .round({1, cols, line, 0, {line}, {0}});
        store.store(want.data(), 0, info(to).bytes, line, 0, 1, cols);
        EXPECT_EQ(out, want) << from << " to " << to << " through '" << rounding << "'";
      }
}

TEST_P(Assembler, StreamsWriteWhatStoresDo) {
  constexpr int64_t rows = 2, line = 320;
  for (DType to : {DType::f32, DType::i32, DType::bf16, DType::f16})
    for (int64_t cols : {80, 77}) {
      if (cols % 8 && info(to).bytes == 2 && vectors() == jit::Vectors::avx2) continue;
      alignas(64) char results[2][rows * line] = {};
      Values<float> values(-4, 4, true);
      Floats in(rows, cols);
      in.fill(values, rows);
      for (bool streams : {false, true}) {
        Built built;
        built.store(built.input(lane_of(to) == Lane::i32 ? DType::i32 : DType::f32), to, streams);
        ASSERT_TRUE(built.assemble());
        built.run(rows, cols, {in.place(), {results[streams], line}});
      }
      EXPECT_EQ(std::string(results[0], sizeof results[0]), std::string(results[1], sizeof results[1])) << to;
    }
}

// A reduction of one input, or of the product of both.
struct BuiltReduction : Built {
  BuiltReduction(std::string_view name, bool columns, bool product) {
    const int x = input(), y = input();
    reduce(name, columns, x, product ? y : -1);
  }
};

TEST_P(Assembler, ReductionsKeepTheInterpretersOrder) {
  constexpr int64_t rows = 4;
  for (std::string_view name : {"reduce_sum", "reduce_max", "reduce_min"})
    for (bool columns : {true, false})
      for (bool product : {false, true})
        for (bool specials : {false, true})
          for (int64_t cols : {1, 5, 8, 31, 32, 64, 100, 251}) {
            if (product && name != "reduce_sum") continue;
            BuiltReduction built(name, columns, product);
            ASSERT_TRUE(built.assemble());
            Values<float> values(-4, 4, specials);
            Floats a(rows, cols), b(rows, cols), got(rows, columns ? cols : 1),
                want(rows, columns ? cols : 1);
            a.fill(values, rows);
            b.fill(values, rows);
            const ReduceRow& row = *find_reduce(name, Lane::f32, interpreter());
            for (Floats* out : {&got, &want})
              for (int64_t r = 0; r < rows; ++r) row.identity(out->at(r, 0), columns ? cols : 1);
            const Chunk chunk{rows, cols, want.data, want.stride, {a.data, b.data}, {a.stride, b.stride}};
            (columns   ? product ? row.product_rows : row.rows
             : product ? row.product_columns
                       : row.columns)(chunk);
            built.run(rows, cols, {a.place(), b.place(), got.place()});
            for (int64_t r = 0; r < rows; ++r)
              for (int64_t c = 0; c < (columns ? cols : 1); ++c)
                ASSERT_TRUE(same(got.get(r, c), want.get(r, c)) ||
                            (got.get(r, c) == 0 && want.get(r, c) == 0))
                    << name << columns << product << " of " << cols << ": " << got.get(r, c) << ", not "
                    << want.get(r, c);
          }
}

// With AVX-512 it is one instruction, plus one if a number may be a signaling NaN, which the first would not
// ignore.
TEST_P(Assembler, ExtremesAreShortWithAvx512) {
  for (const bool computed : {false, true}) {
    Built built;
    const int x = built.input();
    built.reduce("reduce_max", false, computed ? built.step("add", {x, x}) : x);
    ASSERT_TRUE(built.assemble());
    const std::string text = built.disassembled();
    const bool wide = vectors() == jit::Vectors::avx512;
    EXPECT_EQ(text.find("vrangeps") != text.npos, wide);
    EXPECT_EQ(text.find("vcmp") == text.npos, wide);
    constexpr int64_t cols = 37;
    Values<float> values(-4, 4, false);
    Floats in(1, cols), out(1, 1);
    in.fill(values, 1);
    in.set(0, 5, std::bit_cast<float>(0x7f800001));
    in.set(0, 6, std::numeric_limits<float>::quiet_NaN());
    out.set(0, 0, std::numeric_limits<float>::quiet_NaN());
    built.run(1, cols, {in.place(), out.place()});
    float want = -std::numeric_limits<float>::infinity();
    for (int64_t c = 0; c < cols; ++c) want = std::fmax(want, c == 5 ? want : in.get(0, c));
    EXPECT_EQ(out.get(0, 0), computed ? 2 * want : want);
  }
}

// With equal numbers every addition to one sum rounds in the same direction.
TEST_P(Assembler, LongRowsAreSummedUpInParts) {
  constexpr int64_t rows = 2;
  for (std::string_view name : {"reduce_sum", "reduce_max"})
    for (bool product : {false, true})
      for (int64_t cols : {1, 40, 2047, 2048, 2049, 4096, 4101, 16001}) {
        if (product && name != "reduce_sum") continue;
        BuiltReduction built(name, false, product);
        built.form.long_rows = true;
        ASSERT_TRUE(built.assemble());
        Floats a(rows, cols), b(rows, cols), got(rows, 1);
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < cols; ++c) a.set(r, c, 0.3f), b.set(r, c, 0.7f);
        for (int64_t r = 0; r < rows; ++r)
          find_reduce(name, Lane::f32, interpreter())->identity(got.at(r, 0), 1);
        built.run(rows, cols, {a.place(), b.place(), got.place()});
        const double one = product ? double{0.3f} * double{0.7f} : double{0.3f},
                     want = name == "reduce_max" ? one : one * static_cast<double>(cols);
        for (int64_t r = 0; r < rows; ++r)
          EXPECT_NEAR(got.get(r, 0), want, 1e-6 * want) << name << product << " of " << cols;
      }
}

// Uses more values than registers, more arrays than pointers, and values of rows among them.
TEST_P(Assembler, ValuesBeyondTheRegistersGoToMemory) {
  constexpr int64_t rows = 2, cols = 45;
  constexpr int count = 22;
  Built built;
  std::vector<int> values;
  for (int i = 0; i < count; ++i) values.push_back(built.input(DType::f32, i % 4 != 3));
  std::vector<int> functions;
  for (int value : values) functions.push_back(built.step("exp", {value}));
  int sum = functions.back();  // the first ones are used last
  for (int i = count - 2; i >= 0; --i)
    sum = built.step("fma", {functions[static_cast<size_t>(i)], values[0], sum});
  built.store(sum);
  built.store(functions[0]);
  ASSERT_TRUE(built.assemble());
  std::vector<std::unique_ptr<Floats>> inputs;
  std::vector<std::pair<char*, int64_t>> arrays;
  Values<float> random(-2, 2, false);
  for (int i = 0; i < count; ++i) {
    inputs.push_back(std::make_unique<Floats>(rows, cols));
    inputs.back()->fill(random, rows);
    arrays.push_back(inputs.back()->place());
  }
  Floats out(rows, cols), first(rows, cols);
  arrays.push_back(out.place());
  arrays.push_back(first.place());
  built.run(rows, cols, arrays);
  const auto apply = [](std::string_view name, std::vector<float> x) {
    float result;
    Chunk chunk{1, 1, reinterpret_cast<char*>(&result), 0, {}, {}};
    for (size_t k = 0; k < x.size(); ++k) chunk.in[k] = reinterpret_cast<char*>(&x[k]);
    find_elementwise(name, Lane::f32, interpreter())->variants[0](chunk);
    return result;
  };
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      const auto at = [&](int i) { return inputs[static_cast<size_t>(i)]->get(r, i % 4 != 3 ? c : 0); };
      float want = apply("exp", {at(count - 1)});
      for (int i = count - 2; i >= 0; --i) want = apply("fma", {apply("exp", {at(i)}), at(0), want});
      ASSERT_EQ(out.get(r, c), want);
      ASSERT_EQ(first.get(r, c), apply("exp", {at(0)}));
    }
}

TEST_P(Assembler, MasksCombineAndSelect) {
  const int64_t rows = 3, cols = vectors() == jit::Vectors::avx512 ? 29 : 24;
  Built built;
  const int flag = built.input(DType::boolean), of_row = built.input(DType::boolean, false),
            x = built.input();
  const int y = built.input(DType::f32, false);
  const int less = built.step("lt", {x, y}, Lane::u8);
  const int either = built.step("bitwise_or", {flag, less}, Lane::u8);
  const int both =
      built.step("bitwise_and", {either, built.step("logical_not", {of_row}, Lane::u8)}, Lane::u8);
  built.store(built.step("where", {built.step("bitwise_xor", {both, flag}, Lane::u8), x, y}));
  ASSERT_TRUE(built.assemble());
  Values<float> values(-2, 2, false);
  Array<uint8_t> flags(rows, cols), row_flags(rows, 1);
  Floats xs(rows, cols), ys(rows, 1), out(rows, cols);
  xs.fill(values, rows);
  ys.fill(values, rows);
  for (int64_t r = 0; r < rows; ++r) {
    row_flags.set(r, 0, r == 1 ? 255 : 0);  // any nonzero byte is true
    for (int64_t c = 0; c < cols; ++c) flags.set(r, c, values.next() > 0);
  }
  built.run(rows, cols, {flags.place(), row_flags.place(), xs.place(), ys.place(), out.place()});
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      const bool f = flags.get(r, c), m = ((f || xs.get(r, c) < ys.get(r, 0)) && !row_flags.get(r, 0)) != f;
      ASSERT_EQ(out.get(r, c), m ? xs.get(r, c) : ys.get(r, 0));
    }
}

TEST_P(Assembler, WhatCannotBeRecordedIsRefused) {
  Built sine, integers, mask;
  sine.store(sine.step("sin", {sine.input()}));
  EXPECT_FALSE(sine.assemble());
  for (std::string_view row : {"sqrt_rz", "sqrt_rm", "sqrt_rp", "bf16_rz"}) {
    Built directed;
    directed.output(directed.step(row, {directed.input(DType::f32)}), DType::f32);
    EXPECT_FALSE(directed.assemble()) << row;
  }
  integers.store(integers.input(DType::i64), DType::i64);
  EXPECT_FALSE(integers.assemble());
  mask.store(mask.input(), DType::boolean);
  EXPECT_FALSE(mask.assemble());
  for (const int sums : {8, 9}) {
    Built many;
    const int x = many.input();
    for (int i = 0; i < sums; ++i) many.reduce("reduce_max", false, x);
    EXPECT_EQ(many.assemble(), sums == 8);
  }
}

TEST(AssemblerChoice, ObeysItsVariable) {
  using jit::choose_vectors;
  using jit::Vectors;
  EXPECT_EQ(choose_vectors(Isa::avx512, ""), Vectors::avx512);
  EXPECT_EQ(choose_vectors(Isa::avx512, "avx2"), Vectors::avx2);
  EXPECT_EQ(choose_vectors(Isa::avx2, ""), Vectors::avx2);
  EXPECT_EQ(choose_vectors(Isa::avx512, "off"), std::nullopt);
  EXPECT_EQ(choose_vectors(Isa::baseline, "avx2"), std::nullopt);
  EXPECT_EQ(error_of([] { choose_vectors(Isa::avx512, "on"); }),
            "TILE_ASSEMBLER=on: unknown value; unset TILE_ASSEMBLER or set it to off or avx2");
}

// A disassembler recognises every instruction, and the code ends at its stated size.
TEST_P(Assembler, CodeDisassembles) {
  for (const ElementwiseRow& row : interpreter().elementwise)
    for (bool of_bf16 : {false, true}) {
      if (row.lane != Lane::f32 || !jit::find_traced(row.name, row.lane) || row.name == "where") continue;
      Built built;
      std::vector<int> operands;
      for (int k = 0; k < arity_of(row); ++k)
        operands.push_back(built.input(k && !of_bf16 ? DType::f32 : DType::bf16));
      const int value = built.step(row.name, operands);
      built.store(of_bf16 && row.variants[0] ? value : operands[0], of_bf16 ? DType::bf16 : DType::f16);
      if (!of_bf16) {
        built.reduce("reduce_max", false, operands.back());
        built.reduce("reduce_sum", true, operands[0], operands.back());
      }
      ASSERT_TRUE(built.assemble());
      const std::string text = built.disassembled();
      ASSERT_EQ(text.find("(bad)"), text.npos) << row.name << text;
      ASSERT_NE(text.find("vzeroupper"), text.npos);
      ASSERT_NE(text.find("ret"), text.npos);
    }
}

}  // namespace
}  // namespace tile::cpu::testing
