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
