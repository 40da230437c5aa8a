// Calls tile::matmul with epilogues from C++, and looks at what a parsed text says of itself.
#include <ATen/ATen.h>

#include "dsl/tracer.h"
#include "error_text.h"
#include "expr/expression_text.h"
#include "ir/print.h"
#include "tile/matmul.h"
#include "tile_ops/dispatch.h"

namespace tile::test {
namespace {

TEST(MatmulEpilogue, ResultsAndGradients) {
  at::manual_seed(0);
  const Tensors inputs = {at::randn({3, 37, 70}), at::randn({70, 45}), at::randn({45}),
                          at::randn({3, 37, 1})};
  const std::string text = "silu(acc * scale + bias) * gate - where(acc > 0, acc, 0.1 * acc)";
  compare(
      "matmul_epilogue",
      [&](const Tensors& x) {
        return tile::matmul(
            x[0], x[1],
            ProductEpilogue{
                .text = text, .operands = {{"bias", x[2]}, {"gate", x[3]}}, .numbers = {{"scale", 0.5}}});
      },
      [](const Tensors& x) {
        const Tensor acc = at::matmul(x[0], x[1]);
        return at::silu(acc * 0.5 + x[2]) * x[3] - at::where(acc > 0, acc, 0.1 * acc);
      },
      inputs);
}

TEST(MatmulEpilogue, TextAlone) {
  const Tensor x = at::ones({2, 3}), y = at::ones({3, 4});
  EXPECT_TRUE(at::equal(tile::matmul(x, y, {"acc ** 2 - 1"}), at::full({2, 4}, 8.0)));
}

std::string refused(const ProductEpilogue& epilogue) {
  try {
    tile::matmul(at::ones({2, 3}), at::ones({3, 4}), epilogue);
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

TEST(MatmulEpilogue, Errors) {
  const Tensor b = at::ones({4});
  EXPECT_EQ(refused({"acc + bais", {{"bias", b}}}),
            "tile::matmul_epilogue: epilogue 'acc + bais', column 7: there is no 'bais'; the names are acc, "
            "bias");
  EXPECT_EQ(refused({"acc", {{"bias", b}}}),
            "tile::matmul_epilogue: epilogue 'acc' does not use the operand 'bias'; use it, or do not give "
            "it");
  EXPECT_EQ(refused({"acc", {{"a", b}, {"b", b}, {"c", b}, {"d", b}, {"e", b}, {"f", b}, {"g", b}}}),
            "tile::matmul: 7 operands are tensors, and the most is 6; combine some of them before the call");
  EXPECT_EQ(refused({"acc * a", {}, {{"a,b", 1.0}}}),
            "tile::matmul: an operand is named 'a,b'; a name is a letter or _, then letters, digits and _");
}

TEST(ExpressionText, SaysWhatItUses) {
  const ExpressionText text("scores", "where(a > 0, a * b, 2 * c) + 0 * d", {"a", "b", "c", "d", "e"});
  for (size_t k = 0; k < 5; ++k) EXPECT_EQ(text.uses(k), k != 4) << k;
  EXPECT_TRUE(text.derivatives_read(0));   // the comparison, and the derivative of b
  EXPECT_TRUE(text.derivatives_read(1));   // the derivative of a
  EXPECT_FALSE(text.derivatives_read(2));  // that of c is a constant
  EXPECT_FALSE(text.derivatives_read(4));
  const ExpressionText sum("sum", "silu(a + b) * c + d", {"a", "b", "c", "d"});
  EXPECT_TRUE(sum.one_derivative(0, 1));
  EXPECT_FALSE(sum.one_derivative(0, 2) || sum.one_derivative(0, 3) || sum.one_derivative(2, 3));
}

TEST(ExpressionText, SaysWhatStaysFinite) {
  const auto parsed = [](const std::string& text) {
    return ExpressionText("epilogue", text, {"a", "b", "c"},
                          {.dtypes = {DType::f32, DType::f32, DType::boolean}});
  };
  for (const char* text :
       {"a", "3 * tanh(a / 3) - b * abs(a)", "where(c & (a > b), a, -1)", "bfloat16(a) + 1"})
    EXPECT_TRUE(parsed(text).stays_finite() && parsed(text).has_derivatives()) << text;
  for (const char* text : {"a / b", "a / 0", "log(a)", "where(c, a, -inf)", "a * exp(b)", "a ** b"})
    EXPECT_FALSE(parsed(text).stays_finite()) << text;
  EXPECT_TRUE(parsed("h = log(a); b").stays_finite());  // which is not computed
  // Conditions and integers are finite whatever they are computed from.
  EXPECT_TRUE(parsed("where(log(a) > 1 / b, a, b) + float(int32(exp(a)))").stays_finite());
}

// Traces a text over numbers and, as "c", a condition.
std::string traced(const std::string& text, std::vector<std::string> names) {
  ExpressionKinds kinds{.several = true};
  for (const std::string& name : names) kinds.dtypes.push_back(name == "c" ? DType::boolean : DType::f32);
  Tracer tracer("text");
  auto& function = tracer.function();
  const auto value = [&](size_t name) {
    return Tile(function.add_argument(function.body(), Type::tile(kinds.dtypes[name]), {}));
  };
  ExpressionText("text", text, names, kinds).all(DType::f32, value);
  return print(function, false);
}

TEST(ExpressionText, HasSeveralResults) {
  const ExpressionText text("text", "h = a + b; unused = d; ~c | (h > 0); h * h", {"a", "b", "c", "d"},
                            {.dtypes = {DType::f32, DType::f32, DType::boolean}, .several = true});
  EXPECT_EQ(text.results(), 2u);
  EXPECT_TRUE(text.is_condition(0));
  EXPECT_FALSE(text.is_condition(1));
  for (size_t k = 0; k < 4; ++k) EXPECT_EQ(text.uses(k), k != 3) << k;
}

TEST(ExpressionText, ComputesNamedPartsOnceAndUnusedOnesNever) {
  EXPECT_EQ(traced("h = a + b; unused = exp(a); where(c, h, bfloat16(h)); h", {"a", "b", "c"}),
            R"(kernel text(%0: f32, %1: f32, %2: bool) {
  %3: f32 = add %0, %1
  %4: bf16 = astype %3 {dtype=bf16}
  %5: f32 = astype %4 {dtype=f32}
  %6: f32 = where %2, %3, %5
}
)");
}

TEST(ExpressionText, ErrorsNameTheText) {
  EXPECT_EQ(error_of([] { ExpressionText("scores", "s +\n\t t", {"s"}); }),
            "scores 's +\n\t t', column 7: there is no 't'; the names are s");
}

// Parses a text over numbers "a" and "b", integers "i" and "l", a condition "c" and tables "x" and "y".
ExpressionText with_integers(const std::string& text) {
  using enum DType;
  return {"text",
          text,
          {"a", "b", "i", "l", "c", "x", "y"},
          {.dtypes = {f32, f32, i32, i64, boolean}, .first_table = 5}};
}

TEST(ExpressionText, Integers) {
  for (const char* text :
       {"a * float(i + 1)", "float(-i)", "where(i > 3, a, b)", "float(mod(i - l, 4) * 2)",
        "float(where(c, i, 0))", "float(int64(a) + floordiv(i, 3))", "float(max(i, -2))",
        "float(i & 3) + float(i | l)", "float(int32(c))", "where(i == l, 1, 0)", "float(i * -int32(3))"})
    EXPECT_TRUE(with_integers(text).stays_finite() && with_integers(text).has_derivatives()) << text;
  const std::pair<const char*, const char*> wrong[] = {
      {"a + i",
       "text 'a + i', column 3: '+' takes (number, number), and is given (number, integer); float(i) makes "
       "an integer a "
       "number"},
      {"i + 1", "text 'i + 1', column 1: the value is an integer; write float(i) for a number"},
      {"gelu(i)",
       "text 'gelu(i)', column 1: 'gelu' takes numbers, and is given an integer; float(i) makes it one"},
      {"float(i + 0.5)",
       "text 'float(i + 0.5)', column 9: '+' takes (number, number), and is given (integer, number); "
       "float(i) makes an "
       "integer a number"}};
  for (const auto& [text, error] : wrong) EXPECT_EQ(error_of([&] { with_integers(text); }), error) << text;
  // A constant keeps its kind after a sign.
  EXPECT_EQ(error_of([] { with_integers("a * -int64(3)"); }),
            "text 'a * -int64(3)', column 3: '*' takes (number, number), and is given (number, integer); "
            "float(i) makes an integer a number");
}

TEST(ExpressionText, ElementsOfTables) {
  const ExpressionText text = with_integers("h = x[i, l + 1]; a * h + x[0, -1] + y");
  EXPECT_EQ(text.indices(5), 2u);
  EXPECT_EQ(text.indices(6), 0u);
  EXPECT_TRUE(text.uses(5) && text.uses(6) && text.has_derivatives());
  const std::pair<const char*, const char*> wrong[] = {
      {"x[a]",
       "text 'x[a]', column 3: an index of 'x' is a number; int32(x) makes a number an integer, without its "
       "fraction"},
      {"x[i] + x[i, i]",
       "text 'x[i] + x[i, i]', column 8: 'x' is read with 2 indices here, and with 1 before; give the other "
       "one as an "
       "operand of its own"},
      {"x + x[i]",
       "text 'x + x[i]', column 5: 'x' is read with 1 index here, and without any before; give the other "
       "one as an "
       "operand of its own"},
      {"x[i] + x",
       "text 'x[i] + x', column 8: 'x' is a value here, and was read with indices before; give the other one "
       "as an "
       "operand of its own"},
      {"x[i", "text 'x[i', column 4: the end is where ',' or ']' must follow; the '[' is in column 2"},
      {"a[i]",
       "text 'a[i]', column 2: '[' is where an operator must follow; the operators are + - * / ** < <= > >= "
       "== != & | ^"}};
  for (const auto& [source, error] : wrong)
    EXPECT_EQ(error_of([&] { with_integers(source); }), error) << source;
}

TEST(ExpressionText, ManyNestedFunctionsAreParsedOnce) {
  std::string text = "a";
  for (int i = 0; i < 90; ++i) text = "gelu(" + text + ")";
  const ExpressionText nested("text", text, {"a"});  // a copy for each use would never end
  EXPECT_TRUE(nested.uses(0) && nested.derivatives_read(0));
}

TEST(ExpressionText, Names) {
  for (const char* name : {"a", "_", "A1_b"}) EXPECT_TRUE(is_expression_name(name)) << name;
  for (const char* name : {"", "1", "a b", "a-b", "a,b", "ä"}) EXPECT_FALSE(is_expression_name(name)) << name;
}

}  // namespace
}  // namespace tile::test
